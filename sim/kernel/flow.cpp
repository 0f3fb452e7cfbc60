// SPDX-License-Identifier: MIT
#include "flow.hpp"

#include <algorithm>

namespace bitmma::kernel {
namespace {

/// Immediate post-dominators by the iteration of Cooper, Harvey and Kennedy (2001) on the reversed graph. The virtual
/// exit is block n.
std::vector<int> post_dominators(const std::vector<Block>& blocks) {
  const int n = static_cast<int>(blocks.size());
  std::vector<std::vector<int>> before(static_cast<size_t>(n) + 1);  // in the reversed graph: successors
  std::vector<std::vector<int>> after(static_cast<size_t>(n) + 1);   // predecessors, where the walk goes
  for (int block = 0; block < n; ++block) {
    std::vector<int> next = blocks[static_cast<size_t>(block)].successors;
    if (next.empty()) next.push_back(n);
    for (const int successor : next) {
      before[static_cast<size_t>(block)].push_back(successor);
      after[static_cast<size_t>(successor)].push_back(block);
    }
  }
  // Post-order traversal from the exit, without recursion.
  std::vector<int> order, number(static_cast<size_t>(n) + 1, -1);
  std::vector<std::pair<int, size_t>> stack{{n, 0}};
  std::vector<bool> reached(static_cast<size_t>(n) + 1);
  reached[static_cast<size_t>(n)] = true;
  while (!stack.empty()) {
    auto& [block, next] = stack.back();
    const auto& ways = after[static_cast<size_t>(block)];
    if (next < ways.size()) {
      const int predecessor = ways[next++];
      if (!reached[static_cast<size_t>(predecessor)]) {
        reached[static_cast<size_t>(predecessor)] = true;
        stack.push_back({predecessor, 0});
      }
    } else {
      number[static_cast<size_t>(block)] = static_cast<int>(order.size());
      order.push_back(block);
      stack.pop_back();
    }
  }
  std::vector<int> dominator(static_cast<size_t>(n) + 1, -1);
  dominator[static_cast<size_t>(n)] = n;
  const auto meet = [&](int a, int b) {
    while (a != b) {
      while (number[static_cast<size_t>(a)] < number[static_cast<size_t>(b)]) a = dominator[static_cast<size_t>(a)];
      while (number[static_cast<size_t>(b)] < number[static_cast<size_t>(a)]) b = dominator[static_cast<size_t>(b)];
    }
    return a;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (auto at = order.rbegin(); at != order.rend(); ++at) {
      if (*at == n) continue;
      int nearest = -1;
      for (const int next : before[static_cast<size_t>(*at)]) {
        if (dominator[static_cast<size_t>(next)] < 0) continue;
        nearest = nearest < 0 ? next : meet(nearest, next);
      }
      if (nearest >= 0 && dominator[static_cast<size_t>(*at)] != nearest) {
        dominator[static_cast<size_t>(*at)] = nearest;
        changed = true;
      }
    }
  }
  for (int& parent : dominator) parent = parent == n ? -1 : parent;
  return dominator;
}

}  // namespace

Effects effects_of(const PtxInstruction& instruction) {
  Effects effects;
  if (instruction.guard >= 0) effects.reads.push_back(instruction.guard);
  for_each_register(instruction.operands, [&](const Operand& operand) {
    if (operand.role != Operand::Role::in) effects.writes.push_back(operand.reg);
    // A guarded instruction may keep the old value.
    if (operand.role != Operand::Role::out || instruction.guard >= 0) effects.reads.push_back(operand.reg);
  });
  return effects;
}

std::vector<std::vector<int>> writers_of(const Entry& entry) {
  std::vector<std::vector<int>> writers(entry.registers.size());
  for (int i = 0; i < std::ssize(entry.instructions); ++i) {
    for_each_register(entry.instructions[static_cast<size_t>(i)].operands, [&](const Operand& operand) {
      if (operand.role != Operand::Role::in) writers[static_cast<size_t>(operand.reg)].push_back(i);
    });
  }
  return writers;
}

bool is_branch(const PtxInstruction& instruction) { return instruction.row->jump == Jump::branch; }
bool leaves(const PtxInstruction& instruction) {
  return instruction.row->jump == Jump::ret || instruction.row->jump == Jump::exit;
}

Flow flow_of(const Entry& entry, bool (*ends_block)(const PtxInstruction&)) {
  const int count = static_cast<int>(entry.instructions.size());
  std::vector<bool> begins(static_cast<size_t>(count) + 1);
  begins[0] = true;
  for (int i = 0; i < count; ++i) {
    const PtxInstruction& instruction = entry.instructions[static_cast<size_t>(i)];
    // Labels that no branch targets, such as those of debug information, start no block.
    if (is_branch(instruction) && !instruction.operands.empty() && instruction.operands.back().target >= 0)
      begins[static_cast<size_t>(instruction.operands.back().target)] = true;
    if (is_branch(instruction) || leaves(instruction) || (ends_block && ends_block(instruction)))
      begins[static_cast<size_t>(i) + 1] = true;
  }
  Flow flow;
  flow.block_of.resize(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    if (begins[static_cast<size_t>(i)]) flow.blocks.push_back({.begin = i, .end = i});
    flow.blocks.back().end = i + 1;
    flow.block_of[static_cast<size_t>(i)] = static_cast<int>(flow.blocks.size()) - 1;
  }
  for (size_t b = 0; b < flow.blocks.size(); ++b) {
    Block& block = flow.blocks[b];
    const PtxInstruction& last = entry.instructions[static_cast<size_t>(block.end) - 1];
    const bool always = last.guard < 0;
    if (is_branch(last)) {
      const int target = last.operands.empty() ? -1 : last.operands.back().target;
      if (target >= 0 && target < count) block.successors.push_back(flow.block_of[static_cast<size_t>(target)]);
    }
    const bool goes_on = !((is_branch(last) || leaves(last)) && always);
    if (goes_on && b + 1 < flow.blocks.size()) block.successors.push_back(static_cast<int>(b) + 1);
  }
  const std::vector<int> dominators = post_dominators(flow.blocks);
  for (size_t b = 0; b < flow.blocks.size(); ++b) flow.blocks[b].post_dominator = dominators[b];
  return flow;
}

int Flow::meeting_of(int instruction) const {
  const Block& block = blocks[static_cast<size_t>(block_of[static_cast<size_t>(instruction)])];
  return block.post_dominator < 0 ? static_cast<int>(block_of.size())
                                  : blocks[static_cast<size_t>(block.post_dominator)].begin;
}

}  // namespace bitmma::kernel
