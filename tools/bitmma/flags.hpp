// SPDX-License-Identifier: MIT
// Flags of several verbs, and the values that they take. The library does not know flag names, so this file converts
// errors to them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bitmma/descriptor/instruction_descriptor.hpp"
#include "commands.hpp"
#include "field_flags.hpp"
#include "file_flags.hpp"
#include "target_flag.hpp"

namespace bitmma::cli {

/// A field of the library, and the flag that sets it.
using FlagOfField = std::pair<std::string_view, std::string_view>;

/// The violations with flags in place of fields of the library: as `field`, and in sentences, which have fields in
/// backticks: "raise `memory_bytes`".
std::vector<Violation> in_flags(std::vector<Violation> violations, std::span<const FlagOfField> flags);

/// Calls `body`. If the library refuses one of the fields, the message names the flag instead.
template <typename Body>
auto naming_flags(std::span<const FlagOfField> flags, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw Error(in_flags(error.violations(), flags));
  }
}
template <typename Body>
auto naming_flag(std::string_view field, std::string_view flag, const Body& body) {
  const FlagOfField name[]{{field, flag}};
  return naming_flags(name, body);
}

/// The violations with the flags of the called command in place of fields of these names: --element-bits for "element
/// bits", "--rows, --cols" for "rows, cols".
std::vector<Violation> in_flags(const Context& context, std::vector<Violation> violations);
/// Calls `body`. If the library refuses fields, the message names these flags.
template <typename Body>
auto naming_flags(const Context& context, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw Error(in_flags(context, error.violations()));
  }
}
/// "--element-bits" for "element bits" and "element_bits".
std::string dashed(std::string_view name);

/// Calls `add`, and puts the options that it adds to the command below a heading of the help.
template <typename Add>
void add_group(Command& command, const std::string& heading, const Add& add) {
  const size_t before = command.get_options().size();
  add();
  const std::vector<CLI::Option*> options = command.get_options();
  for (size_t i = before; i < options.size(); ++i) options[i]->group(heading);
}

/// --threads, all cores by default.
void add_threads(Command& command, Flag<int>& threads);

/// The format with this name, one of `legal`. Throws Error, which names the flag.
Format require_format(std::string_view flag, const std::string& name, const FormatSet& legal = all_formats);

/// The kind with this name. Throws Error, which names --kind.
MmaKind require_kind(const std::string& name);

/// Throws Error, with `fix`, for an instruction that moves data.
void require_mma(const Instruction& instruction, std::string fix);

/// Throws Error, which names --case, unless the file has such a case.
void require_case(int64_t cases, int64_t index);

/// A 64-bit number, 0x... or decimal; nothing if `text` is not one.
std::optional<uint64_t> parse_word(const std::string& text);
/// The same for a descriptor. Throws Error, which names the field.
uint64_t require_word(std::string_view field, const std::string& text);

}  // namespace bitmma::cli
