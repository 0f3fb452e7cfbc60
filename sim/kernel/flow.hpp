// SPDX-License-Identifier: MIT
// The flow of control through an entry: basic blocks, and where lanes that part meet again.
#pragma once

#include <vector>

#include "ptx_module.hpp"

namespace bitmma::kernel {

struct Block {
  int begin = 0, end = 0;  // instructions [begin, end)
  std::vector<int> successors = {};
  int post_dominator = -1;  // the immediate one; -1: the end of the kernel
};

struct Flow {
  std::vector<Block> blocks = {};
  std::vector<int> block_of = {};  // of each instruction

  /// The instruction where the paths behind a branch meet: the first of the block's immediate post-dominator, or the
  /// number of instructions.
  int meeting_of(int instruction) const;
};

/// Registers that an instruction writes and reads. A guard is read.
struct Effects {
  std::vector<int> writes = {}, reads = {};
  bool acts = false;  // beyond its registers
};

Effects effects_of(const Instruction& one);

bool is_branch(const Instruction& instruction);
bool leaves(const Instruction& instruction);

/// `ends_block`: instructions behind which a block begins too.
Flow flow_of(const Entry& entry, bool (*ends_block)(const Instruction&) = nullptr);

}  // namespace bitmma::kernel
