// SPDX-License-Identifier: MIT
// Whole random cases: operands placed in a state, and states for the instructions that move data.
#pragma once

#include <cstdint>

#include "bitmma/instruction/case.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/stimulus/random_operands.hpp"

namespace bitmma {

/// Case `case_index` of a seed: the same on every machine. A matrix instruction gets random operands, placed in a
/// state, with its logical matrices; a move gets random Tensor Memory, registers and addresses. The case has no state
/// after it. Throws Error if the instruction or a layout is illegal.
Case random_case(const Instruction& instruction, Target target, const Placement& placement, Distribution distribution,
                 uint64_t seed, uint64_t case_index);

/// A random state for a move, over all legal warps, lane bases and columns; cp reads its source with `swizzle`.
/// `numbers` replace drawn values. If they contain only a warp or only an address, the other follows, and there are as
/// many columns as the address needs.
State random_state(const TmemMove& move, Swizzle swizzle, RandomStream random, const StateNumbers& numbers = {});

}  // namespace bitmma
