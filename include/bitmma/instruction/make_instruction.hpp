// SPDX-License-Identifier: MIT
// Instructions from named fields, as Python's keywords, C's arrays and other programs give them. One table a family
// says what the fields of its struct (instruction.hpp) are called, what they may be and what they mean.
//
//   make_instruction(Family::tcgen05, {{{"kind", "mxf8f6f4"}, {"m", 128}, {"n", 64}, {"a", "e2m1"}}})
//
// Fields that are left out follow from the others, K from the types.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/instruction.hpp"

namespace bitmma {

/// A flag, a number or a word: true, 64, "e4m3".
using FieldValue = std::variant<bool, int64_t, std::string>;

/// "true", "64", "e4m3".
std::string print(const FieldValue& value);

struct NamedValue {
  std::string name = {};
  FieldValue value = {};

  bool operator==(const NamedValue&) const = default;
};

/// A field of a family.
struct InstructionField {
  std::string_view name = {};
  std::string_view meaning = {};
  FieldValue default_value = {};        // if no field is given
  std::vector<std::string> words = {};  // that a word may be; "": it is not written. Empty of numbers and flags
  bool is_format = false;               // the words are names of number formats
  bool in_descriptor = false;           // the instruction descriptor of tcgen05.mma says it, the mnemonic does not
  ImmediateInfo immediate = {};         // its separate number in PTX and files; no name: none
  std::string_view also = {};           // another name that flags give it: scale_a_id where byte_id_a is meant

  /// True if the mnemonic does not contain it.
  bool is_apart() const { return in_descriptor || !immediate.name.empty(); }
};

/// The fields of the family's struct, in its order.
const std::vector<InstructionField>& instruction_fields(Family family);

/// The instruction with these fields. Throws Error naming each field that the family lacks, that is given twice, has
/// another type or a word that it may not be; then, as wgmma() and the like do, everything that is illegal about it.
Instruction make_instruction(Family family, std::span<const NamedValue> fields);

/// The same for an instruction that need not be legal.
Instruction instruction_of(Family family, std::span<const NamedValue> fields);

/// Every field with its value: instruction_of them is the same instruction.
std::vector<NamedValue> named_fields(const Instruction& instruction);

/// The instruction with other values of these fields. Fields that have their default follow: K the types, B's type A's.
/// Throws Error for fields as make_instruction does. violations_of says whether the result is legal.
Instruction with_fields(const Instruction& instruction, std::span<const NamedValue> fields);

/// The same. Throws Error also for a field that the instruction has no use for, its default included.
Instruction with_used_fields(const Instruction& instruction, std::span<const NamedValue> fields);

}  // namespace bitmma
