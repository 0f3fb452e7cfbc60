// SPDX-License-Identifier: MIT
// The control flow of an entry: basic blocks, and the points where diverged lanes reconverge.
#pragma once

#include <vector>

#include "ptx_module.hpp"

namespace bitmma::kernel {

struct Block {
  int begin = 0, end = 0;  // instructions [begin, end)
  std::vector<int> successors = {};
  int post_dominator = -1;  // the immediate post-dominator; -1: the end of the kernel
};

struct Flow {
  std::vector<Block> blocks = {};
  std::vector<int> block_of = {};  // block of each instruction

  /// The instruction where the paths of a branch reconverge: the first one of the block's immediate post-dominator, or
  /// the number of instructions if there is none.
  int meeting_of(int instruction) const;
};

/// Registers that an instruction writes and reads, by the roles of its operands. A guard counts as read.
struct Effects {
  std::vector<int> writes = {}, reads = {};
};

Effects effects_of(const PtxInstruction& instruction);

/// For each register: the instructions that write it, in ascending order.
std::vector<std::vector<int>> writers_of(const Entry& entry);

bool is_branch(const PtxInstruction& instruction);
bool leaves(const PtxInstruction& instruction);

/// `ends_block`: further instructions that end a block.
Flow flow_of(const Entry& entry, bool (*ends_block)(const PtxInstruction&) = nullptr);

}  // namespace bitmma::kernel
