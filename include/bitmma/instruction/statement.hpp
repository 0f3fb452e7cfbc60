// SPDX-License-Identifier: MIT
// PTX text <-> values. For each family one table of the mnemonic's words, the operands and the immediates serves
// parsing and printing.
//
//   wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, p, 1, -1, 0, 1;
//   ^ mnemonic                                        ^ d: 4 registers      ^a   ^b     ^  ^  ^  ^  ^ imm-trans-b
//                                                             scale-d, imm-scale-a, imm-scale-b, imm-trans-a
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/instruction/instruction.hpp"

namespace bitmma {

/// The mnemonic with all qualifiers and without operands.
std::string print(const Instruction& instruction);
/// "wgmma.mma_async.sp k32 f32.f16.f16": the group of an instruction in reports, which all N share.
std::string instruction_group(const Instruction& instruction);

/// Parses a mnemonic. Qualifiers may be in any place that ptxas accepts. Throws Error for every unknown, missing or
/// misplaced qualifier; require_legal checks numbers and type pairs. Immediates, and the fields of tcgen05's
/// instruction descriptor, keep their defaults.
Instruction parse_instruction(std::string_view mnemonic);

enum class OperandKind : uint8_t { registers, descriptor, address, predicate, immediate };

/// One operand of a statement.
struct StatementOperand {
  std::string_view name = {};  // in PTX's words: "d", "a-desc", "sp-meta", "imm-scale-a"
  OperandKind kind = OperandKind::registers;
  std::string text = {};                    // as it is written: "{%f1, %f2}", "[%r4]", "-1"
  std::vector<std::string> registers = {};  // for kind registers: their names
  std::optional<int64_t> value = {};        // for immediates, and for predicates written as 0 or 1

  bool operator==(const StatementOperand&) const = default;
};

/// A mnemonic with its operands. The immediates are also in `instruction`.
struct [[nodiscard]] Statement {
  std::string guard = {};  // "@p" or "@!p", or empty
  Instruction instruction = Wgmma{};
  std::vector<StatementOperand> operands = {};

  bool operator==(const Statement&) const = default;
};

/// Parses a whole statement; the semicolon is optional. Throws Error with every violation: those of parse_instruction,
/// missing or superfluous operands, vectors with the wrong number of registers, and immediates that the instruction
/// does not have or that are out of range; each by name.
Statement parse_statement(std::string_view text);
/// The same for a statement that is read already: its mnemonic, and the text of each operand. It has no guard.
Statement parse_statement(std::string_view mnemonic, std::span<const std::string> operands);
/// The statement as PTX, with its semicolon.
std::string print(const Statement& statement);

/// A statement of the instruction whose registers are named after their contents: d0, a0, b_desc, scale_d ...
Statement statement_of(const Instruction& instruction);

}  // namespace bitmma
