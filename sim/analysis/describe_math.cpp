// SPDX-License-Identifier: MIT
#include "bitmma/analysis/describe_math.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/target_names.hpp"
#include "bitmma/core/text.hpp"

namespace bitmma {
namespace {

std::string hex(const MathWord& type, uint64_t word) { return fmt::format("{:#0{}x}", word, 2 + type.bits / 4); }

std::string lane_value(const MathWord& type, uint64_t code) {
  if (type.format) return print_value(*type.format, code & low_mask(bits_of(*type.format)));
  const int bits = type.bits / type.lanes;
  const bool negative = type.is_signed && (code >> (bits - 1) & 1) != 0;
  return negative ? fmt::format("-{}", (0 - code) & low_mask(bits)) : fmt::format("{}", code);
}

/// The value, or of several lanes all, that of the lowest bits first.
std::string value(const MathWord& type, uint64_t word) {
  const int bits = type.bits / type.lanes;
  std::vector<std::string> lanes;
  for (int lane = 0; lane < type.lanes; ++lane)
    lanes.push_back(lane_value(type, word >> (bits * lane) & low_mask(bits)));
  return type.lanes == 1 ? lanes[0] : fmt::format("({})", fmt::join(lanes, ", "));
}

MathWord type_of(CvtType type, int lanes) {
  const CvtTypeInfo& row = info(type);
  return {.name = fmt::format("{}{}", row.name, lanes == 1 ? "" : fmt::format("x{}", lanes)),
          .bits = row.bits * lanes,
          .lanes = lanes,
          .format = row.format,
          .is_signed = row.is_signed};
}

std::vector<MathWord> types_of(const MathInstruction& instruction) {
  const MathWord type{.name = fmt::format("{}{}", info(instruction.format).name, instruction.x2 ? "x2" : ""),
                      .bits = result_bits(instruction),
                      .lanes = instruction.x2 ? 2 : 1,
                      .format = instruction.format};
  return {static_cast<size_t>(operand_count(instruction.operation)), type};
}

/// Of two results that one word holds the operands: there is no operand b.
bool is_packed(const CvtInstruction& instruction) {
  const std::vector<CvtOperand> operands = operands_of(instruction);
  return instruction.lanes == 2 && (operands.size() == 1 || operands[1].name != "b");
}

std::vector<MathWord> types_of(const CvtInstruction& instruction) {
  std::vector<MathWord> types;
  for (const CvtOperand& operand : operands_of(instruction)) {
    if (operand.name == "random_bits") types.push_back({.name = "b32", .bits = operand.bits});
    else if (operand.name == "scale") types.push_back(type_of(CvtType::ue8m0, operand.bits / 8));
    else types.push_back(type_of(instruction.from, is_packed(instruction) ? 2 : 1));
  }
  return types;
}

std::vector<MathWord> types_of(const CFunction& function) {
  return {static_cast<size_t>(function.operands), MathWord{.name = "f32", .format = Format::f32}};
}

MathWord result_type(const MathInstruction& instruction) { return types_of(instruction)[0]; }
MathWord result_type(const CvtInstruction& instruction) { return type_of(instruction.to, instruction.lanes); }
MathWord result_type(const CFunction& function) { return types_of(function)[0]; }

using Words = std::array<uint64_t, 6>;  // as many as a function has at most, 0 behind them

uint64_t result_of(const MathInstruction& instruction, const Words& words, size_t) {
  return compute(instruction, words[0], words[1], words[2]);
}
uint64_t result_of(const CFunction& function, const Words& words, size_t) {
  return compute(function, static_cast<uint32_t>(words[0]), static_cast<uint32_t>(words[1]));
}
uint64_t result_of(const CvtInstruction& instruction, const Words& words, size_t count) {
  std::vector<std::span<const uint64_t>> operands;
  for (size_t i = 0; i < count; ++i) operands.emplace_back(&words[i], 1);
  uint64_t result = 0;
  compute(instruction, std::span(std::as_const(operands)), std::span(&result, 1));
  return result;
}

std::string print_targets(TargetSet set) {
  if (set == TargetSet::from(set.first())) return fmt::format("{} or higher", print(set.first()));
  return fmt::format("{}", fmt::join(names_of(set), ", "));
}

std::string print(PtxVersion version) { return fmt::format("{}.{}", version.major, version.minor); }

Report unit_report(const MathInstruction& instruction, const MufuSteps& steps) {
  const auto word = static_cast<uint32_t>(steps.argument);
  Report unit{{"argument", fmt::format("{:#010x}", steps.argument)},
              {"table", steps.table},
              {"index", steps.index},
              {"x", steps.x},
              {"c0", steps.c0},
              {"c1", steps.c1},
              {"c2", steps.c2},
              {"square", steps.square},
              {"value", steps.value},
              {"unit", -steps.unit},
              {"unit_result", fmt::format("{:#010x}", steps.unit_result)}};
  unit.add_text(fmt::format("  the unit reads   {:#010x} = {}{}", word, print_value(Format::f32, word),
                            instruction.operation == MathOperation::sin || instruction.operation == MathOperation::cos
                                ? ", in turns: the product with 1 / (2 pi), toward zero"
                                : ""));
  unit.add_text(fmt::format("  quadratic        {} of {}: c0 = {:#x}, c1 = {}, c2 = {}, at x = {:#x} of 2^17",
                            steps.index, steps.table, steps.c0, steps.c1, steps.c2, steps.x));
  const uint64_t square = uint64_t{steps.x} * steps.x, kept = steps.square << 19;
  unit.add_text(fmt::format("  truncated square {:#x}: {} less than x^2, partial products below 2^19 are missing", kept,
                            square - kept));
  const bool of_rcp = steps.table == "rcp";
  unit.add_text(fmt::format("  c0 + c1 x 2^{} + c2 S(x){} = {:#x}, in units of 2^-{}", of_rcp ? 17 : 18,
                            of_rcp ? " / 4" : "", steps.value, steps.unit));
  unit.add_text(fmt::format("  cut off          the unit gives {:#010x} = {}", steps.unit_result,
                            print_value(Format::f32, steps.unit_result)));
  return unit;
}

void add_steps(Report& found, const MathInstruction& instruction, const Words& words) {
  if (const std::optional<MufuSteps> unit = mufu_steps(instruction, words[0], words[1])) {
    Report made = unit_report(instruction, *unit);
    for (const Report::Line& line : made.lines) found.add_text(line.text);
    made.lines.clear();
    found.add("unit", std::move(made));
    return;
  }
  const bool has_steps = !instruction.x2 && instruction.format != Format::f64;
  found.add_text(instruction.accuracy == MathAccuracy::rounded ? "  the exact result, rounded once"
                 : has_steps ? "  no quadratic: the result is that of a special argument"
                             : "  the steps of one code, of f32, f16 or bf16, can be shown: not those of f64 or x2");
}

}  // namespace

MathFunction parse_math_function(std::string_view text) {
  if (text.starts_with("cvt.")) return parse_cvt(text);
  const auto is_named = [text](const CFunction& one) { return text == one.name; };
  if (text.find('@') != std::string_view::npos || std::ranges::any_of(c_functions(), is_named))
    return parse_c_function(text);
  return parse_math_instruction(text);
}

std::vector<MathWord> operand_types(const MathFunction& function) {
  return std::visit([](const auto& one) { return types_of(one); }, function);
}

Report describe(const MathFunction& function, std::span<const uint64_t> operands, bool steps) {
  const auto* instruction = std::get_if<MathInstruction>(&function);
  const std::string name = std::visit([](const auto& one) { return print(one); }, function);
  const std::vector<MathWord> types = operand_types(function);
  if (operands.size() != types.size()) {
    throw Error({.field = fmt::format("operands of {}", name),
                 .seen = counted(std::ssize(operands), "word"),
                 .expected = counted(std::ssize(types), "word")});
  }
  if (steps && !instruction) {
    throw Error(
        {.code = ViolationCode::no_effect,
         .field = "explain",
         .seen = name,
         .expected = "an instruction, such as ex2.approx.f32: its steps are those of the special function unit"});
  }
  Words words{};
  Report list = Report::list();
  std::vector<std::string> texts;
  for (size_t i = 0; i < types.size(); ++i) {
    words[i] = operands[i];
    if ((words[i] & ~low_mask(types[i].bits)) != 0) {
      throw Error({.field = "operand",
                   .seen = fmt::format("{:#x}", words[i]),
                   .expected = fmt::format("{} bits", types[i].bits)});
    }
    list.append(hex(types[i], words[i]));
    texts.push_back(fmt::format("{} = {}", hex(types[i], words[i]), value(types[i], words[i])));
  }
  const uint64_t result = std::visit([&](const auto& one) { return result_of(one, words, types.size()); }, function);
  const MathWord type = std::visit([](const auto& one) { return result_type(one); }, function);
  Report found{{std::holds_alternative<CFunction>(function) ? "function" : "instruction", name},
               {"operands", std::move(list)},
               {"result", hex(type, result)},
               {"value", value(type, result)}};
  found.add_text(fmt::format("{} ({}): {} = {}", name, fmt::join(texts, ", "), hex(type, result), value(type, result)));
  if (const auto* c = std::get_if<CFunction>(&function))
    return found.add("evidence", print(c->evidence)).add("source", c->source);
  if (const auto* cvt = std::get_if<CvtInstruction>(&function)) {
    Report names = Report::list();
    for (const std::string& target : names_of(targets_of(*cvt))) names.append(target);
    return found.add("targets", std::move(names))
        .add("ptx", print(ptx_version_of(*cvt)))
        .add("source", source_of(*cvt));
  }
  if (steps) add_steps(found, *instruction, words);
  return found;
}

std::string origin_of(const MathFunction& function) {
  if (const auto* c = std::get_if<CFunction>(&function))
    return fmt::format("sm_90a, {}: {}", print(c->evidence), c->source);
  if (const auto* cvt = std::get_if<CvtInstruction>(&function)) {
    return fmt::format("{}, PTX {} or later: {}", print_targets(targets_of(*cvt)), print(ptx_version_of(*cvt)),
                       source_of(*cvt));
  }
  return "";
}

}  // namespace bitmma
