// Products on CUDA cores: chains of fma.rn.f32, one a lane, and their join.
#pragma once

#include "bitmma/formats/matrix.hpp"
#include "bitmma/gemm/plan.hpp"

namespace bitmma {

/// Sums over K in [first, last) as f32 words. A and B are f16, bf16, or f32 words as they are.
Matrix cuda_core_sums(const Lanes& lanes, const Matrix& a, const Matrix& b, int64_t first, int64_t last);

}  // namespace bitmma
