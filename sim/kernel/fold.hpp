// SPDX-License-Identifier: MIT
// Constant folding as ptxas does it before a kernel runs: instructions with constant operands, and the branches that
// they decide. The results equal those of the instructions, except for approximate f32 functions: there ptxas rounds
// the exact value, while a GPU's unit approximates. A folded product cannot join a sum, and a decided branch merges two
// basic blocks.
//
//   mov.f32 %f1, 0f40246F69;      rsqrt.approx.f32 %f2, %f1      becomes     mov.b32 %f2, 0x3F1FB5CD
#pragma once

#include "bitmma/core/target.hpp"
#include "ptx_module.hpp"

namespace bitmma::kernel {

/// Returns the entry after folding: moves replace folded instructions, products replace quotients by a constant,
/// decided branches are taken, unreachable code is dropped, and reciprocals of powers and of reciprocals are simplified
/// (.ftz only). Each instruction keeps its line and text.
Entry folded(const Entry& entry, Target target);

}  // namespace bitmma::kernel
