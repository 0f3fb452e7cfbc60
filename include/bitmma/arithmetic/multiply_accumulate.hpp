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

/// D, M x N codes of model.output; D^T, N x M, when the operands are swapped. Zero results are +0, and NaN results are
/// 0x7FFFFFFF or 0x7FFF. Throws Error with everything that is wrong when shapes do not agree, a format is not one of
/// the model's, or scales are there that the model lacks, or the other way round. Source: model.source.
Matrix multiply_accumulate(const AccumulatorModel& model, const Operands& operands);

/// True when D^T = B^T A^T + C^T takes less time: the loops run along columns of D, so that few of them are slow.
/// multiply_accumulate swaps dense operands by itself. Gathering them swapped (Operands::swapped) saves it the work.
bool prefers_swapped(const AccumulatorModel& model, int m, int n);

}  // namespace bitmma
