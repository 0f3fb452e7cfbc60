// SPDX-License-Identifier: MIT
// The slow path: outputs one by one, by the rule spelled out (fused_sum.hpp). It takes whole products of rows that the
// hot loops do not know, and single outputs that NaN, infinity or mixed terms reach.
#pragma once

#include "bitmma/arithmetic/accumulator_model.hpp"
#include "bitmma/arithmetic/operands.hpp"

namespace bitmma {

/// D of a floating-point row.
Matrix slow_product(const AccumulatorModel& model, const Operands& operands);

/// Computes those outputs of `d` again that a hot loop may not compute.
void replace_special_outputs(const AccumulatorModel& model, const Operands& operands, Matrix& d);
/// The same of outputs whose C is subnormal in a narrower format than that of D.
void replace_outputs_of_subnormal_c(const AccumulatorModel& model, const Operands& operands, Matrix& d);

}  // namespace bitmma
