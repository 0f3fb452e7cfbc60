// SPDX-License-Identifier: MIT
// Instructions from named fields, for Python keywords, C arrays and other programs. For each family, one table gives
// the names, legal values and meanings of its struct's fields (instruction.hpp).
//
//   make_instruction(Family::tcgen05, {{{"kind", "mxf8f6f4"}, {"m", 128}, {"n", 64}, {"a", "e2m1"}}})
//
// Omitted fields follow from the others, K from the types.
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
  bool in_descriptor = false;           // part of tcgen05.mma's instruction descriptor, not of the mnemonic
  ImmediateInfo immediate = {};         // as a separate number in PTX and files; without a name there is none
  std::string_view also = {};           // an alternative name for flags: scale_a_id for byte_id_a

  /// True if the mnemonic does not contain it.
  bool is_apart() const { return in_descriptor || !immediate.name.empty(); }
};

/// The fields of the family's struct, in its order.
const std::vector<InstructionField>& instruction_fields(Family family);

/// The instruction with these fields. Throws Error for each field that the family lacks, that is given twice, or whose
/// type or word is invalid; then, like wgmma() and the other factories, for every violation.
Instruction make_instruction(Family family, std::span<const NamedValue> fields);

/// The same for an instruction that may be illegal.
Instruction instruction_of(Family family, std::span<const NamedValue> fields);

/// Every field with its value: instruction_of() on them returns the same instruction.
std::vector<NamedValue> named_fields(const Instruction& instruction);

/// The instruction with other values for these fields. Fields at their default follow: K follows the types, B's type
/// follows A's. Throws Error for the same fields as make_instruction. violations_of tells whether the result is legal.
Instruction with_fields(const Instruction& instruction, std::span<const NamedValue> fields);

/// The same, but also throws Error for a field that has no effect on the instruction, even with its default value.
Instruction with_used_fields(const Instruction& instruction, std::span<const NamedValue> fields);

}  // namespace bitmma
