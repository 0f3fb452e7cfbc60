// SPDX-License-Identifier: MIT
// What ptxas computes of an entry before it runs: instructions whose operands are constants, and branches that they
// decide. The results are those of the instructions, but for the approximate ones of f32: there ptxas rounds the
// function itself, where a GPU takes its unit's approximation. A constant product joins no sum, and a decided branch
// makes two basic blocks one.
//
//   mov.f32 %f1, 0f40246F69;      rsqrt.approx.f32 %f2, %f1      becomes     mov.b32 %f2, 0x3F1FB5CD
#pragma once

#include "bitmma/core/target.hpp"
#include "ptx_module.hpp"

namespace bitmma::kernel {

/// The entry with those instructions replaced by moves, quotients by a constant replaced by products, decided branches
/// taken, what no branch reaches left out, and reciprocals of powers and of reciprocals replaced (.ftz alone). Lines
/// and texts of the instructions stay.
Entry folded(const Entry& entry, Target target);

}  // namespace bitmma::kernel
