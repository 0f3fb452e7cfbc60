// SPDX-License-Identifier: MIT
// The matrix of bytes in shared memory that tcgen05.cp reads.
#pragma once

#include "bitmma/instruction/instruction.hpp"
#include "bitmma/memory/smem.hpp"

namespace bitmma::family {

SmemMatrix source_matrix(const TmemMove& move, uint64_t s_desc);

}  // namespace bitmma::family
