// SPDX-License-Identifier: MIT
// Where wgmma's operands are: stored_k columns for A, all k for B.
#pragma once

#include "bitmma/instruction/state.hpp"
#include "bitmma/memory/fragment.hpp"
#include "bitmma/memory/smem.hpp"

namespace bitmma::family {

SmemMatrix a_matrix(const Wgmma& instruction, const State& state);
SmemMatrix b_matrix(const Wgmma& instruction, const State& state);
Fragment a_fragment(const Wgmma& instruction);
Fragment d_fragment(const Wgmma& instruction);

}  // namespace bitmma::family
