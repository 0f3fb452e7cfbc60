// SPDX-License-Identifier: MIT
// The requirements of multiply_accumulate on its arguments.
#pragma once

#include "bitmma/arithmetic/accumulator_model.hpp"
#include "bitmma/arithmetic/operands.hpp"

namespace bitmma {

/// The legal formats of A and B: those of the model's row, or all formats that its arithmetic supports.
enum class Inputs : uint8_t { of_model, of_arithmetic };

/// Throws Error with all violations.
void require_agreement(const AccumulatorModel& model, const Operands& operands, Inputs inputs);

}  // namespace bitmma
