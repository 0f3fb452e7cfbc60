// SPDX-License-Identifier: MIT
// Loops over the lanes of a warp for frequent floating-point instructions. Each gives the words of layer math, which
// computes all instructions one word at a time.
#pragma once

#include "bitmma/math/cvt.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "machine.hpp"

namespace bitmma::kernel {

/// d = a / b of f32 div.approx and div.full; nullptr for other instructions.
Run quotient_run(const MathInstruction& instruction);
/// d = 1 / b and d2 = a, both scaled, as these two divide (math::quotient_factors).
Run quotient_factors_run(const MathInstruction& instruction);

/// d = the conversion of a, and for two lanes of b; nullptr for conversions without a loop.
Run cvt_run(const CvtInstruction& instruction);

}  // namespace bitmma::kernel
