// SPDX-License-Identifier: MIT
// What multiply_accumulate asks of its arguments.
#pragma once

#include "bitmma/arithmetic/accumulator_model.hpp"
#include "bitmma/arithmetic/operands.hpp"

namespace bitmma {

/// Which formats A and B may have: those of the model's row, or all that its arithmetic can take.
enum class Inputs : uint8_t { of_model, of_arithmetic };

/// Throws Error with everything that is wrong.
void require_agreement(const AccumulatorModel& model, const Operands& operands, Inputs inputs);

}  // namespace bitmma
