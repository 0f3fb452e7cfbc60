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
  FieldValue default_value = {};        // where no field is given
  std::vector<std::string> words = {};  // that a word may be; "": it is not written. Empty of numbers and flags
  bool is_format = false;               // the words are names of number formats
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
/// Throws Error for fields as make_instruction does; whether the result is legal is for violations_of to say.
Instruction with_fields(const Instruction& instruction, std::span<const NamedValue> fields);

}  // namespace bitmma
