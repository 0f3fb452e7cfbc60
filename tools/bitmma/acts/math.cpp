// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <bit>
#include <optional>

#include "bitmma/acts/describe_math.hpp"
#include "bitmma/core/numbers.hpp"
#include "flags.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct MathFlags {
  TargetFlag target;
  Flag<std::string> instruction;
  Flag<std::vector<std::string>> words;
  Flag<bool> explain = false, list = false, json = false;
};

/// A number as a code of the type; nothing if the text is not a number, or an integer that does not fit.
std::optional<uint64_t> code_of(const MathWord& type, const std::string& text) {
  if (type.lanes > 1) return std::nullopt;
  if (!type.format) return parse_integer(text, type.bits, type.is_signed);
  const std::optional<double> number = parse_decimal(text);
  if (!number) return std::nullopt;
  return convert(Format::f64, std::bit_cast<uint64_t>(*number), *type.format, Rounding::nearest_even,
                 Overflow::infinity);
}

/// An operand: a word in hex, or a number, which is rounded to the nearest code.
uint64_t operand_of(const MathWord& type, std::string text) {
  if (text.starts_with(" ")) text.erase(0, 1);  // added by with_negative_operands
  const bool is_hex = text.starts_with("0x") || text.starts_with("0X");
  // An f16 word given for an f32 operand would read as a tiny number.
  if (const size_t digits = static_cast<size_t>(type.bits / 4);
      is_hex && text.size() < 2 + digits && parse_word(text)) {
    throw Error({.field = "operand",
                 .seen = text,
                 .expected = fmt::format("{} digits, but a code of {} has {} bits", digits, type.name, type.bits),
                 .fix = fmt::format("use {:#0{}x} if that is intended", *parse_word(text), 2 + digits)});
  }
  if (const std::optional<uint64_t> word = is_hex ? parse_word(text) : code_of(type, text)) return *word;
  const std::string zeros = fmt::format("{:#0{}x}", 0, 2 + type.bits / 4);
  throw Error({.field = "operand",
               .seen = text,
               .expected = type.lanes > 1
                               ? fmt::format("a word of {} in hex, such as {}", type.name, zeros)
                               : fmt::format("a code of {} in hex, such as {}, or a number{}", type.name, zeros,
                                             type.format ? " such as 0.3" : " in its range, such as 3")});
}

void show_list(Context& context, const MathFlags& flags) {
  Report names = Report::list();
  const auto add = [&](const auto& all) {
    for (const auto& function : all) {
      names.append(print(function));
      names.add_text(print(function));
    }
  };
  add(math_instructions());
  add(cvt_instructions());
  add(c_functions());
  show(context, names, flags.json);
}

void run_math(Context& context, const MathFlags& flags) {
  if (flags.list) return show_list(context, flags);
  const std::string name = flags.instruction;
  if (name.empty()) {
    throw Error({.code = ViolationCode::missing_input,
                 .field = "instruction",
                 .seen = "(missing)",
                 .expected = "an instruction, such as ex2.approx.f32, cvt.rn.f16.f32 or expf@cuda_13",
                 .fix = "--list shows all"});
  }
  const MathFunction function = parse_math_function(name);
  const std::vector<MathWord> types = operand_types(function);
  const std::vector<std::string>& texts = flags.words;
  const size_t count = types.size();
  if (texts.empty() || texts.size() % count != 0) {
    throw Error({.field = "operands",
                 .seen = counted(std::ssize(texts), "word"),
                 .expected = count == 1 ? "one or more" : fmt::format("{}, or a multiple of it", count),
                 .fix = fmt::format("{} takes {}", name, counted(static_cast<int64_t>(count), "operand"))});
  }
  std::vector<uint64_t> words;
  for (size_t i = 0; i < texts.size(); ++i) words.push_back(operand_of(types[i % count], texts[i]));
  const std::optional<Target> target = flags.target.requested();
  Report results = Report::list();
  for (size_t i = 0; i < words.size(); i += count) {
    Report row = describe(function, std::span(words).subspan(i, count), flags.explain, target);
    if (i + count == words.size()) row.add_text("  " + origin_of(function, target));
    results.append(std::move(row));
  }
  show(context, results, flags.json);
}

}  // namespace

void add_math(Command& app, Context& context) {
  Command* command = app.add_command(
      "math", "compute ex2, rcp, sin, fma, cvt, ... of PTX and C's expf, ... as a GPU does, bit for bit");
  const auto flags = std::make_shared<MathFlags>();
  command->add_option("instruction", flags->instruction, "such as ex2.approx.ftz.f32, cvt.rn.f16.f32 or expf@cuda_13");
  command->add_option("operands", flags->words,
                      "codes in hex, or numbers, which are rounded to the nearest code; a multiple of the "
                      "instruction's operands gives several results");
  flags->target.add(
      *command,
      "the GPU whose evidence is shown, by its PTX name; default: sm_90a, or the first GPU that has the instruction");
  command->add_flag("--explain", flags->explain,
                    "show how the result is computed: the special function unit, roundings, steps");
  command->add_flag("--list", flags->list, "list every instruction, conversion and function of C");
  command->add_flag("--json", flags->json, "print the results as JSON");
  command->footer(
      "Examples:\n"
      "  bitmma math ex2.approx.f32 0x3e99999a 0.3\n"
      "  bitmma math rcp.approx.ftz.f32 3 --explain\n"
      "  bitmma math fma.rn.f32 0x3f800001 0x3f800001 -1\n"
      "  bitmma math cvt.rn.satfinite.e4m3x2.f32 456 1\n"
      "  bitmma math expf@cuda_13_fast_math 10 --explain\n"
      "  bitmma math tanh.approx.f32 -.5 -inf --target sm_100a\n"
      "  bitmma math --list");
  command->callback([flags, &context] { run_math(context, *flags); });
}

}  // namespace bitmma::cli
