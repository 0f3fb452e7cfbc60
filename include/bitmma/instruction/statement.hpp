// SPDX-License-Identifier: MIT
// PTX text <-> values. One table a family holds the words of the mnemonic, the operands and the immediates; it reads
// and it prints.
//
//   wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, p, 1, -1, 0, 1;
//   ^ mnemonic                                        ^ d: 4 registers      ^a   ^b     ^  ^  ^  ^  ^ imm-trans-b
//                                                             scale-d, imm-scale-a, imm-scale-b, imm-trans-a
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/instruction/instruction.hpp"

namespace bitmma {

/// The mnemonic with all qualifiers, without operands.
std::string print(const Instruction& instruction);

/// Reads a mnemonic. Qualifiers may stand where ptxas takes them. Throws Error naming every qualifier that is unknown,
/// missing or out of place; numbers and type pairs that are merely illegal are left to require_legal. Immediates, and
/// what tcgen05's instruction descriptor says, keep their defaults.
Instruction parse_instruction(std::string_view mnemonic);

enum class OperandKind : uint8_t { registers, descriptor, address, predicate, immediate };

/// One operand of a statement.
struct StatementOperand {
  std::string_view name = {};  // in PTX's words: "d", "a-desc", "sp-meta", "imm-scale-a"
  OperandKind kind = OperandKind::registers;
  std::string text = {};                    // as it is written: "{%f1, %f2}", "[%r4]", "-1"
  std::vector<std::string> registers = {};  // of kind registers: their names
  std::optional<int64_t> value = {};        // of immediates, and of predicates written as 0 or 1

  bool operator==(const StatementOperand&) const = default;
};

/// A mnemonic with its operands. The immediates are also in `instruction`.
struct Statement {
  std::string guard = {};  // "@p" or "@!p", or empty
  Instruction instruction = Wgmma{};
  std::vector<StatementOperand> operands = {};

  bool operator==(const Statement&) const = default;
};

/// Reads a whole statement; the semicolon may be left out. Throws Error, with every violation, for what
/// parse_instruction refuses, for missing or surplus operands, vectors of the wrong number of registers and immediates
/// that the instruction does not have or that lie outside their range; each by name.
Statement parse_statement(std::string_view text);
/// The statement as PTX, with its semicolon.
std::string print(const Statement& statement);

/// A statement of the instruction whose registers are named after their content: d0, a0, b_desc, scale_d ...
Statement statement_of(const Instruction& instruction);

}  // namespace bitmma
