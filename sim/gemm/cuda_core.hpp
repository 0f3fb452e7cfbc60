// SPDX-License-Identifier: MIT
// Products on CUDA cores: chains of fma.rn.f32, one a lane, and their join.
#pragma once

#include "bitmma/formats/matrix.hpp"
#include "bitmma/gemm/plan.hpp"

namespace bitmma {

/// The f32 word that a factor of A or B is widened to.
uint32_t cuda_core_factor(Format format, uint32_t code);

/// Sums over all of K as f32 words. A and B are f16, bf16, or f32 words as they are.
Matrix cuda_core_sums(const CudaCoreChain& lanes, const Matrix& a, const Matrix& b);

}  // namespace bitmma
