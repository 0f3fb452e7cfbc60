// SPDX-License-Identifier: MIT
// Operands that each expose one fact of a rule, whatever the rule is. random_operands targets the known row; probes
// know only the formats. Most terms of an output are zero, so that few facts affect it at a time.
//
//   distances   a large term, C that cancels it, and small terms at every distance: fraction bits, rounding of terms
// +x and -x in two places of K and a small term in a third: terms per step, order, chaining
//   C           C at every distance from the products, on both sides: its alignment, and whether it comes last
#pragma once

#include <cstdint>

#include "bitmma/arithmetic/operands.hpp"
#include "bitmma/instruction/instruction.hpp"

namespace bitmma {

/// Kinds of probes; case i is of kind i % probe_kinds.
inline constexpr uint64_t probe_kinds = 10;
/// The kinds that separate the hardest rules: floors; half an ulp of D with a much smaller term.
inline constexpr uint64_t floor_probe = 3, ties_probe = 8;

Operands probe_operands(const Instruction& instruction, Target target, uint64_t seed, uint64_t case_index);

}  // namespace bitmma
