// SPDX-License-Identifier: MIT
#include "flags.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "arguments.hpp"
#include "bitmma/core/numbers.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/core/word.hpp"
#include "bitmma/instruction/statement.hpp"

namespace bitmma::cli {

std::string dashed(std::string_view name) {
  std::string text(name);
  std::ranges::replace_if(
      text, [](char c) { return c == '_' || c == ' '; }, '-');
  return "--" + text;
}

namespace {

/// "--rows, --cols" for "rows, cols"; empty if the command lacks one of the flags.
std::string flags_named(const CLI::App& command, const std::string& fields) {
  std::string flags;
  for (const std::string& field : split_list(fields)) {
    const std::string flag = dashed(field.substr(std::min(field.find_first_not_of(' '), field.size())));
    if (!command.get_option_no_throw(flag)) return "";
    flags += (flags.empty() ? "" : ", ") + flag;
  }
  return flags;
}

}  // namespace

std::vector<Violation> in_flags(std::vector<Violation> violations, std::span<const FlagOfField> flags) {
  for (Violation& violation : violations) {
    for (const auto& [field, flag] : flags) {
      if (violation.field == field) violation.field = flag;
      if (violation.code == ViolationCode::not_together && violation.seen == field) violation.seen = flag;
      const std::string quoted = fmt::format("`{}`", field);
      for (std::string* const sentence : {&violation.seen, &violation.expected, &violation.fix}) {
        for (size_t at = sentence->find(quoted); at != std::string::npos; at = sentence->find(quoted, at + flag.size()))
          sentence->replace(at, quoted.size(), flag);
      }
    }
  }
  return violations;
}

std::vector<Violation> in_flags(const Context& context, std::vector<Violation> violations) {
  const CLI::App* command = context.program;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  for (Violation& violation : violations) {
    if (std::string flags = flags_named(*command, violation.field); !flags.empty()) violation.field = std::move(flags);
  }
  return violations;
}

void add_threads(Command& command, Flag<int>& threads) {
  threads = hardware_threads();
  command.add_speed_option("--threads", threads, "number of threads, 0 for all cores; it does not affect the bits")
      ->transform([](const std::string& text) { return text == "0" ? std::to_string(hardware_threads()) : text; })
      ->capture_default_str();
  between(command.get_option("--threads"), 1, 4096);
}

Format require_format(std::string_view flag, const std::string& name, const FormatSet& legal) {
  if (const auto format = format_named(name); format && legal.contains(*format)) return *format;
  throw Error({.code = ViolationCode::unknown_name,
               .field = std::string(flag),
               .seen = name,
               .legal = row_names(rows_of(legal))});
}

MmaKind require_kind(const std::string& name) {
  const size_t prefix = name.starts_with(".kind::") ? 7 : name.starts_with("kind::") ? 6 : 0;  // as in mnemonics
  if (const auto kind = mma_kind_named(name.substr(prefix))) return *kind;
  throw Error({.code = ViolationCode::unknown_name, .field = "--kind", .seen = name, .legal = row_names(mma_kinds)});
}

void require_mma(const Instruction& instruction, std::string fix) {
  if (is_mma(instruction)) return;
  throw Error(
      {.field = "instruction", .seen = print(instruction), .expected = "a matrix instruction", .fix = std::move(fix)});
}

void require_case(int64_t cases, int64_t index) {
  if (index >= 0 && index < cases) return;
  throw Error({.field = "--case", .seen = std::to_string(index), .expected = fmt::format("0..{}", cases - 1)});
}

std::optional<uint64_t> parse_word(const std::string& text) {
  const auto word = read_word(text);
  return word && !word->is_negative && !word->is_guess ? std::optional(word->value) : std::nullopt;
}

uint64_t require_word(std::string_view field, const std::string& text) {
  const auto word = read_word(text);
  if (word && word->is_guess) {
    const std::optional<uint64_t> decimal = parse_whole(text);
    throw Error({.field = std::string(field),
                 .seen = text,
                 .expected = "a number of a known base: 8 or 16 digits may be decimal or hexadecimal",
                 .fix = fmt::format("write 0x{}{}", text,
                                    decimal ? fmt::format(", or {:#x} if it is decimal", *decimal) : "")});
  }
  if (word && !word->is_negative) return word->value;
  throw Error({.field = std::string(field), .seen = text, .expected = "a 64-bit number such as 0x4000004000010000"});
}

}  // namespace bitmma::cli
