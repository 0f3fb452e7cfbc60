// SPDX-License-Identifier: MIT
// Operands that show one fact of a rule each, whatever the rule is: random_operands knows the target's row and aims at
// it; these know formats alone. Most terms of an output are zero, so that few facts matter to it at a time.
//
//   distances   a large term, C that cancels it, and small terms at every distance: fraction bits, rounding of terms
//   steps       +x and -x in two places of K and something small in a third: terms a step, order, chaining
//   C           C at every distance from the products, on both sides: its alignment, and whether it comes last
#pragma once

#include <cstdint>

#include "bitmma/arithmetic/operands.hpp"
#include "bitmma/instruction/instruction.hpp"

namespace bitmma {

/// Kinds of probes; case i is of kind i % probe_kinds.
inline constexpr uint64_t probe_kinds = 10;
/// The kinds that tell most of what is hard to tell: floors; half of D's last place, and something far below it.
inline constexpr uint64_t floor_probe = 3, ties_probe = 8;

Operands probe_operands(const Instruction& instruction, Target target, uint64_t seed, uint64_t case_index);

}  // namespace bitmma
