// SPDX-License-Identifier: MIT
// The instructions around matrix instructions: they allocate, order, wait and move, and compute nothing. Rows give
// their syntax, effect and ordering; bitmma does not simulate them here. Forms of tcgen05.mma that bitmma does not
// execute also have rows, and so do mbarriers and the copies that signal them.
//
//   wgmma.fence.sync.aligned;   wgmma.commit_group.sync.aligned;   wgmma.wait_group.sync.aligned 0;
//   tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [dst], 32;
//
// Source: PTX ISA, in the section that each row names; ptxas shows which targets accept them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/core/target.hpp"

namespace bitmma {

struct SupportInstructionInfo {
  std::string_view name = {};  // the first words: "tcgen05.alloc"
  std::string_view word = {};  // the next word in this row, if several names begin alike
  /// The qualifiers that may follow, in any order: groups separated by spaces, one alternative of each; '?' after a
  /// group that may be omitted.
  std::string_view qualifiers = {};
  std::string_view operands = {};             // as PTX names them: "[dst], nCols"
  int least_operands = 0, most_operands = 0;  // without those that a qualifier adds: ctaMask of .multicast
  /// The legal values of a number as last operand.
  enum class Last : uint8_t { any, columns, exclusive_columns, count } last = Last::any;
  TargetSet targets = {};
  PtxVersion ptx = {};           // that introduced it, if later than its targets
  std::string_view does = {};    // its effect
  std::string_view orders = {};  // what it orders, or what must precede and follow it
  std::string_view source = {};
  std::string_view example = {};  // a statement that ptxas accepts
};

/// Every row. No mnemonic fits two.
std::span<const SupportInstructionInfo> support_instructions();

/// The row with the mnemonic's name and word; nullptr if there is none.
const SupportInstructionInfo* find_support_instruction(std::string_view mnemonic);

/// A statement of a row, or its mnemonic alone.
struct [[nodiscard]] SupportInstruction {
  std::string guard = {};  // "@p", "@!p" or empty
  const SupportInstructionInfo* info = nullptr;
  std::string mnemonic = {};
  std::vector<std::string> operands = {};
};

/// Parses a statement, or a mnemonic without operands; the semicolon is optional. Throws Error with every violation: a
/// name that no row has, and qualifiers and operands that the row does not allow.
SupportInstruction parse_support_instruction(std::string_view text);

/// Violations on the target: it lacks the instruction, or has fewer columns.
std::vector<Violation> violations_of(const SupportInstruction& instruction, Target target);

/// The effect of this statement, with its numbers: "4 matrices of 8 x 8 elements of 16 bits ..."; equal to `does` if no
/// qualifier matters.
std::string meaning_of(const SupportInstruction& instruction);

/// An operand of a statement: its name in the row, its text, and its meaning; empty if the name suffices.
struct NamedOperand {
  std::string_view name = {};
  std::string text = {};
  std::string_view meaning = {};
};
std::vector<NamedOperand> named_operands(const SupportInstruction& instruction);

}  // namespace bitmma
