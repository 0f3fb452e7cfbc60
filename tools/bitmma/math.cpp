// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <bit>
#include <charconv>

#include "bitmma/analysis/describe_math.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "flags.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct MathFlags {
  Flag<std::string> instruction;
  Flag<std::vector<std::string>> words;
  Flag<bool> explain = false, list = false, json = false;
};

/// An operand: a word in hex, or a number that is rounded to the nearest code.
uint64_t operand_of(const MathInstruction& instruction, const std::string& text) {
  const Format format = instruction.format;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    if (const auto word = parse_word(text)) return *word;
  } else if (!instruction.x2) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size())
      return convert(Format::f64, std::bit_cast<uint64_t>(number), format, Rounding::nearest_even, Overflow::infinity);
  }
  throw Error({.field = "operand",
               .seen = text,
               .expected = instruction.x2 ? "a word in hex, such as 0x3c004000"
                                          : fmt::format("a code of {} in hex, such as {}, or a number such as 0.3",
                                                        info(format).name, print_bits(format, 0))});
}

void show_list(Context& context, const MathFlags& flags) {
  Report names = Report::list();
  for (const MathInstruction& one : math_instructions()) {
    names.append(print(one));
    names.add_text(print(one));
  }
  show(context, names, flags.json);
}

void run_math(Context& context, const MathFlags& flags) {
  if (flags.list) return show_list(context, flags);
  const std::string name = flags.instruction;
  if (name.empty()) {
    throw Error({.field = "instruction",
                 .seen = "(missing)",
                 .expected = "one, such as ex2.approx.f32",
                 .fix = "--list shows all"});
  }
  const MathInstruction instruction = parse_math_instruction(name);
  const std::vector<std::string>& texts = flags.words;
  const auto count = static_cast<size_t>(operand_count(instruction.operation));
  if (texts.empty() || texts.size() % count != 0) {
    throw Error(
        {.field = "operands",
         .seen = counted(std::ssize(texts), "word"),
         .expected = count == 1 ? "one or more" : fmt::format("{}, or a multiple of it", count),
         .fix = fmt::format("{} takes {}", print(instruction), counted(static_cast<int64_t>(count), "operand"))});
  }
  std::vector<uint64_t> words;
  for (const std::string& text : texts) words.push_back(operand_of(instruction, text));
  Report results = Report::list();
  for (size_t i = 0; i < words.size(); i += count)
    results.append(describe(instruction, std::span(words).subspan(i, count), flags.explain));
  show(context, results, flags.json);
}

}  // namespace

void add_math(Command& app, Context& context) {
  Command* command =
      app.add_command("math", "compute ex2, rcp, rsqrt, sin, tanh, fma, ... of PTX as a GPU does, bit for bit");
  const auto flags = std::make_shared<MathFlags>();
  command->add_option("instruction", flags->instruction, "such as ex2.approx.ftz.f32");
  command->add_option("operands", flags->words,
                      "codes in hex, or numbers, which are rounded to the nearest code; a multiple of the "
                      "instruction's operands gives several results");
  command->add_flag("--explain", flags->explain, "show how the special function unit computes the result");
  command->add_flag("--list", flags->list, "every instruction");
  command->add_flag("--json", flags->json, "the results as JSON");
  command->footer(
      "Examples:\n"
      "  bitmma math ex2.approx.f32 0x3e99999a 0.3\n"
      "  bitmma math rcp.approx.ftz.f32 3 --explain\n"
      "  bitmma math fma.rn.f32 0x3f800001 0x3f800001 -1\n"
      "  bitmma math --list");
  command->callback([flags, &context] { run_math(context, *flags); });
}

}  // namespace bitmma::cli
