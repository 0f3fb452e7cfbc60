// SPDX-License-Identifier: MIT
// The slow path: computes outputs one by one, by the rule in plain steps (fused_sum.hpp). It computes whole products of
// rows without a hot loop, and single outputs with NaN, infinity or mixed terms.
#pragma once

#include "bitmma/arithmetic/accumulator_model.hpp"
#include "bitmma/arithmetic/operands.hpp"

namespace bitmma {

/// D of a floating-point row.
Matrix slow_product(const AccumulatorModel& model, const Operands& operands);

/// Recomputes the outputs of `d` that a hot loop cannot compute.
void replace_special_outputs(const AccumulatorModel& model, const Operands& operands, Matrix& d);
/// The same for outputs whose C is subnormal in a narrower format than D's.
void replace_outputs_of_subnormal_c(const AccumulatorModel& model, const Operands& operands, Matrix& d);

}  // namespace bitmma
