// SPDX-License-Identifier: MIT
// Products on CUDA cores: one chain of fma.rn.f32 per lane, and the reduction over lanes.
#pragma once

#include "bitmma/formats/matrix.hpp"
#include "bitmma/gemm/plan.hpp"

namespace bitmma {

/// Widens a factor of A or B to an f32 word.
uint32_t cuda_core_factor(Format format, uint32_t code);

/// Sums over all of K, as f32 words. A and B are f16 or bf16 codes, or f32 words.
Matrix cuda_core_sums(const CudaCoreChain& lanes, const Matrix& a, const Matrix& b);

}  // namespace bitmma
