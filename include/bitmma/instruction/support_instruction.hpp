// SPDX-License-Identifier: MIT
// The instructions that stand around matrix instructions: they allocate, order, wait and move, and compute nothing.
// Rows say how each is written, what it does and what it orders; nothing here is simulated. The forms of tcgen05.mma
// that bitmma does not execute have rows here, too, and so have mbarriers and the copies that they wait for.
//
//   wgmma.fence.sync.aligned;   wgmma.commit_group.sync.aligned;   wgmma.wait_group.sync.aligned 0;
//   tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [dst], 32;
//
// Source: PTX ISA, in the section that each row names; which targets take them is checked with ptxas.
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
  std::string_view word = {};  // that follows in this row, if other names begin alike
  /// What may follow, in any order: groups between spaces, of each one alternative; '?' after a group that may
  /// be left out.
  std::string_view qualifiers = {};
  std::string_view operands = {};             // as PTX names them: "[dst], nCols"
  int least_operands = 0, most_operands = 0;  // without those that a qualifier brings: ctaMask of .multicast
  /// The legal values of a number as the last operand.
  enum class Last : uint8_t { any, columns, exclusive_columns, count } last = Last::any;
  TargetSet targets = {};
  PtxVersion ptx = {};           // that introduced it, if later than its targets
  std::string_view does = {};    // what it does
  std::string_view orders = {};  // what it orders, or what must come before and after
  std::string_view source = {};
  std::string_view example = {};  // a statement that ptxas takes
};

/// Every row. No mnemonic fits two.
std::span<const SupportInstructionInfo> support_instructions();

/// The row whose name the mnemonic begins with, and whose word it has, or nullptr.
const SupportInstructionInfo* find_support_instruction(std::string_view mnemonic);

/// A statement of a row, or only its mnemonic.
struct SupportInstruction {
  std::string guard = {};  // "@p", "@!p" or empty
  const SupportInstructionInfo* info = nullptr;
  std::string mnemonic = {};
  std::vector<std::string> operands = {};
};

/// Reads a statement, or a mnemonic without operands; the semicolon may be left out. Throws Error, with every
/// violation, when it begins as no row does, or for qualifiers and operands that the row does not have.
SupportInstruction parse_support_instruction(std::string_view text);

/// Violations on the target: it lacks the instruction, or has fewer columns.
std::vector<Violation> violations_of(const SupportInstruction& instruction, Target target);

/// What this statement does, with its numbers: "4 matrices of 8 x 8 elements of 16 bits ..."; `does` where no qualifier
/// matters.
std::string meaning_of(const SupportInstruction& instruction);

/// An operand of a statement: what the row calls it, what stands there, and what it is; empty where the name says it.
struct NamedOperand {
  std::string_view name = {};
  std::string text = {};
  std::string_view meaning = {};
};
std::vector<NamedOperand> named_operands(const SupportInstruction& instruction);

}  // namespace bitmma
