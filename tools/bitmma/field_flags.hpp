// SPDX-License-Identifier: MIT
// Flags for what an instruction has: its fields, the numbers of its state, and the layouts of its operands.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bitmma/files/golden.hpp"
#include "bitmma/instruction/make_instruction.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "flag.hpp"

namespace bitmma::cli {

/// --layout-a, --layout-b and --padding.
struct LayoutFlags {
  Flag<std::string> a = "k-major:128", b = "k-major:128";
  Flag<int64_t> padding_bytes = 0;
  std::vector<const CLI::Option*> options = {};  // in this order: for A, for B, for both

  void add(Command& command);
  Placement placement() const;
  /// Throws Error, with the reason, for flags that are given but have no effect.
  void require_used(const LayoutUse& use) const;
};

/// Flags for the fields of instructions, made from the tables in field.hpp with names, types and meanings.
class FieldFlags {
 public:
  /// Adds a flag for each field of the families that `is_wanted` selects. An immediate's flag has the immediate's name.
  void add(Command& command, const std::vector<Family>& families, bool (*is_wanted)(const InstructionField&));
  /// True if the field's flag is on the command line.
  bool is_given(std::string_view field) const;
  /// The instruction with the given fields. Throws Error for fields that it lacks, and for illegal values.
  Instruction apply(const Instruction& instruction) const;

 private:
  struct FieldFlag {
    InstructionField row = {};
    std::vector<std::string_view> fields = {};  // the field's names in the families
    std::string families = {};
    std::string flag = {};
    Flag<std::string> text = {};
    Flag<bool> is_set = {};
    CLI::Option* option = nullptr;
  };
  std::deque<FieldFlag> flags_ = {};  // a deque, because the command keeps addresses
};

/// Flags for the numbers of a state: --taddr, --warp, --s-desc.
class StateNumberFlags {
 public:
  void add(Command& command);
  StateNumbers numbers() const;

 private:
  std::deque<std::pair<Field, Flag<std::string>>> flags_ = {};
};

}  // namespace bitmma::cli
