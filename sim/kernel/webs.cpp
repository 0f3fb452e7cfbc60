// SPDX-License-Identifier: MIT
#include "webs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "bitmma/core/error.hpp"

namespace bitmma::kernel {
namespace {

using Role = Operand::Role;

constexpr size_t most_live = size_t{1} << 23;  // pairs of a block and a register that is live there

[[noreturn]] void refuse(const Entry& entry) {
  throw Error({.code = ViolationCode::unsupported_ptx,
               .field = fmt::format("PTX line {}", entry.line),
               .seen = fmt::format("{} instructions with more than {} values that cross blocks",
                                   entry.instructions.size(), most_live),
               .expected = "a smaller kernel"});
}

/// Reads and writes of registers in the order in which an instruction does them: the guard, sources, results.
template <typename Body>
void for_each_access(PtxInstruction& instruction, const Body& body) {
  if (instruction.guard >= 0) body(instruction.guard, Role::in);
  for_each_register(instruction.operands, [&](Operand& operand) {
    if (operand.role == Role::in) body(operand.reg, Role::in);
  });
  for_each_register(instruction.operands, [&](Operand& operand) {
    // A guarded instruction may keep the old value.
    if (operand.role != Role::in)
      body(operand.reg, operand.role == Role::both || instruction.guard >= 0 ? Role::both : Role::out);
  });
}

std::vector<std::vector<int>> predecessors_of(const Flow& flow) {
  std::vector<std::vector<int>> before(flow.blocks.size());
  for (size_t b = 0; b < flow.blocks.size(); ++b) {
    for (const int next : flow.blocks[b].successors) before[static_cast<size_t>(next)].push_back(static_cast<int>(b));
  }
  return before;
}

/// Sets of values that are one.
class Union {
 public:
  int add() {
    parents_.push_back(static_cast<int>(parents_.size()));
    return parents_.back();
  }
  int find(int value) {
    while (parent(value) != value) value = parent(value) = parent(parent(value));
    return value;
  }
  void join(int a, int b) { parent(find(a)) = find(b); }

 private:
  int& parent(int value) { return parents_[static_cast<size_t>(value)]; }
  std::vector<int> parents_ = {};
};

class Splitter {
 public:
  explicit Splitter(Entry& entry) : entry_(entry), flow_(flow_of(entry)), before_(predecessors_of(flow_)) {}

  void split() {
    find_split_registers();
    if (blocks_of_.empty()) return;
    for (size_t b = 0; b < flow_.blocks.size(); ++b) walk(static_cast<int>(b));
    for (auto& [reg, blocks] : blocks_of_) join_through_blocks(blocks);
    rename();
  }

 private:
  /// What a block does with a register.
  struct InBlock {
    int begin = -1;  // the value at the block's beginning, if the block or a later one reads it
    int end = -1;    // the value of the block's last write; -1: it does not write
    bool is_live = false;
  };
  using Blocks = std::map<int, InBlock>;

  /// A register that is written once has one web, and so has a register that only one instruction names.
  void find_split_registers() {
    std::vector<int> writes(entry_.registers.size());
    for (PtxInstruction& instruction : entry_.instructions)
      for_each_access(instruction, [&](int reg, Role role) { writes[static_cast<size_t>(reg)] += role != Role::in; });
    for (size_t reg = 0; reg < writes.size(); ++reg) {
      if (writes[reg] > 1) blocks_of_.emplace(static_cast<int>(reg), Blocks{});
    }
  }

  void walk(int b) {
    const Block& block = flow_.blocks[static_cast<size_t>(b)];
    for (int i = block.begin; i < block.end; ++i) {
      for_each_access(entry_.instructions[static_cast<size_t>(i)], [&](int& reg, Role role) {
        const auto split = blocks_of_.find(reg);
        if (split == blocks_of_.end()) return;
        InBlock& own = split->second[b];
        int value = own.end;
        if (value < 0 && role != Role::out) {
          if (own.begin < 0) own.begin = values_.add();
          own.is_live = true;
          value = own.begin;
        }
        if (role != Role::in) {
          const int written = values_.add();
          if (role == Role::both) values_.join(value, written);
          own.end = value = written;
        }
        accesses_.push_back({&reg, value});
      });
    }
  }

  /// The value that a block reads before it writes is that of each block before it.
  void join_through_blocks(Blocks& blocks) {
    std::vector<int> work;
    for (const auto& [b, own] : blocks) {
      if (own.is_live) work.push_back(b);
    }
    while (!work.empty()) {
      const int b = work.back();
      work.pop_back();
      const int value = blocks.at(b).begin;
      for (const int previous : before_[static_cast<size_t>(b)]) {
        InBlock& of_previous = blocks[previous];
        if (of_previous.end >= 0) {
          values_.join(value, of_previous.end);
          continue;
        }
        if (of_previous.begin < 0) of_previous.begin = values_.add();
        values_.join(value, of_previous.begin);
        if (of_previous.is_live) continue;
        of_previous.is_live = true;
        if (++live_ > most_live) refuse(entry_);
        work.push_back(previous);
      }
    }
  }

  void rename() {
    std::map<std::pair<int, int>, int> registers;  // of a register's webs
    std::map<int, int> webs;                       // how many webs of a register have a place
    for (const auto& [reg, value] : accesses_) {
      const std::pair<int, int> web(*reg, values_.find(value));
      const auto [place, is_new] = registers.emplace(web, *reg);
      if (is_new && webs[*reg]++ > 0) {
        place->second = static_cast<int>(entry_.registers.size());
        entry_.registers.push_back(entry_.registers[static_cast<size_t>(*reg)]);
      }
      *reg = place->second;
    }
  }

  struct Access {
    int* reg = nullptr;
    int value = -1;
  };

  Entry& entry_;
  Flow flow_;
  std::vector<std::vector<int>> before_;
  std::map<int, Blocks> blocks_of_ = {};  // of registers that are written more than once
  Union values_ = {};
  std::vector<Access> accesses_ = {};
  size_t live_ = 0;
};

}  // namespace

void split_webs(Entry& entry) {
  if (!entry.instructions.empty()) Splitter(entry).split();
}

std::vector<std::vector<int>> live_registers(const Entry& entry, const Flow& flow) {
  const std::vector<std::vector<int>> before = predecessors_of(flow);
  const size_t registers = entry.registers.size();
  // For each register: the blocks that read it before they write it, and those that write it, in ascending order.
  std::vector<std::vector<int>> read_in(registers), written_in(registers);
  const auto add = [](std::vector<int>& blocks, size_t b) {
    if (blocks.empty() || blocks.back() != static_cast<int>(b)) blocks.push_back(static_cast<int>(b));
  };
  for (size_t b = 0; b < flow.blocks.size(); ++b) {
    for (int i = flow.blocks[b].begin; i < flow.blocks[b].end; ++i) {
      const Effects effects = effects_of(entry.instructions[static_cast<size_t>(i)]);
      for (const int reg : effects.reads) {
        const std::vector<int>& written = written_in[static_cast<size_t>(reg)];
        if (written.empty() || written.back() != static_cast<int>(b)) add(read_in[static_cast<size_t>(reg)], b);
      }
      for (const int reg : effects.writes) add(written_in[static_cast<size_t>(reg)], b);
    }
  }
  std::vector<std::vector<int>> live(flow.blocks.size());
  size_t count = 0;
  for (size_t reg = 0; reg < registers; ++reg) {
    const auto enter = [&](int b) {
      std::vector<int>& own = live[static_cast<size_t>(b)];
      if (!own.empty() && own.back() == static_cast<int>(reg)) return false;
      if (++count > most_live) refuse(entry);
      own.push_back(static_cast<int>(reg));
      return true;
    };
    std::vector<int> work;
    for (const int b : read_in[reg]) {
      if (enter(b)) work.push_back(b);
    }
    while (!work.empty()) {
      const int b = work.back();
      work.pop_back();
      for (const int previous : before[static_cast<size_t>(b)]) {
        const bool writes = std::ranges::binary_search(written_in[reg], previous);
        if (!writes && enter(previous)) work.push_back(previous);
      }
    }
  }
  return live;
}

}  // namespace bitmma::kernel
