// SPDX-License-Identifier: MIT
// D = A * B + C, bit for bit as an accumulator model computes it. Integers only; no host floating point.
//
//   const AccumulatorModel& model = *find_accumulator_model(Target::sm_90a, Family::wgmma, f16, f16, f32);
//   Matrix d = multiply_accumulate(model, {.a = a, .b = b});
#pragma once

#include "bitmma/arithmetic/accumulator_model.hpp"
#include "bitmma/arithmetic/operands.hpp"
#include "bitmma/formats/matrix.hpp"

namespace bitmma {

/// D, M x N codes of model.output; D^T, N x M, if the operands are swapped. Zero results are +0, and NaN results are
/// 0x7FFFFFFF or 0x7FFF. Throws Error with all violations if shapes do not agree, a format is not one of the model's,
/// or the operands have scales but the model does not, or vice versa. Source: model.source.
Matrix multiply_accumulate(const AccumulatorModel& model, const Operands& operands);

/// True if D^T = B^T A^T + C^T is faster: the loops run along the columns of D and are slow if D has few.
/// multiply_accumulate swaps dense operands by itself. Gathering them swapped (Operands::swapped) saves that work.
bool prefers_swapped(const AccumulatorModel& model, int m, int n);

}  // namespace bitmma
