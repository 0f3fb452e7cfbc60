// SPDX-License-Identifier: MIT
#include "bitmma/acts/describe_math.hpp"

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

/// The value; for several lanes all values, lowest bits first.
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

/// True if one result word packs two operands: then there is no operand b.
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

using Words = std::array<uint64_t, 6>;  // the most words of any function; unused ones are 0

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

/// "#2", "a", "the unit's result" or a number.
std::string print(const WordStep::Operand& operand, Format format) {
  const std::string number = print_value(format, operand.word);
  switch (operand.from) {
    case WordStep::constant: return number;
    case WordStep::first_argument: return fmt::format("a = {}", number);
    case WordStep::second_argument: return fmt::format("b = {}", number);
    case WordStep::unit_result: return fmt::format("MUFU = {}", number);
    default: return fmt::format("#{} = {}", operand.from + 1, number);
  }
}

/// "mul(a = 3, 0.25) = 0x3f400000 = 0.75", with its members; `in` and `out` are the formats of operands and result.
std::pair<std::string, Report> described(const WordStep& step, Format in = Format::f32, Format out = Format::f32) {
  const auto word_of = [](Format format, uint32_t word) {
    return fmt::format("{:#0{}x}", word, 2 + bits_of(format) / 4);
  };
  std::vector<std::string> texts;
  Report operands = Report::list();
  for (const WordStep::Operand& source : step.operands) {
    texts.push_back(print(source, in));
    Report operand{{"word", word_of(in, source.word)}};
    if (source.from >= 0) operand.add("step", source.from + 1);
    if (source.from == WordStep::first_argument) operand.add("argument", "a");
    if (source.from == WordStep::second_argument) operand.add("argument", "b");
    operands.append(std::move(operand));
  }
  const std::string word = word_of(out, step.result), number = print_value(out, step.result);
  return {fmt::format("{}({}) = {} = {}", step.operation, fmt::join(texts, ", "), word, number),
          {{"operation", step.operation}, {"operands", std::move(operands)}, {"result", word}, {"value", number}}};
}

Report unit_report(const MathInstruction& instruction, const MufuSteps& steps) {
  const auto word = static_cast<uint32_t>(steps.argument);
  const bool of_16_bits = instruction.format != Format::f32;
  Report before = Report::list(), behind = Report::list();
  std::vector<std::string> texts_before, texts_behind;
  for (const WordStep& step : steps.before) {
    auto [text, report] = described(step, of_16_bits ? instruction.format : Format::f32);
    before.append(std::move(report));
    texts_before.push_back(std::move(text));
  }
  for (const WordStep& step : steps.behind) {
    auto [text, report] = described(step, Format::f32, of_16_bits ? instruction.format : Format::f32);
    behind.append(std::move(report));
    texts_behind.push_back(std::move(text));
  }
  Report unit{{"before", std::move(before)},
              {"argument", fmt::format("{:#010x}", steps.argument)},
              {"table", steps.table},
              {"index", steps.index},
              {"x", steps.x},
              {"c0", steps.c0},
              {"c1", steps.c1},
              {"c2", steps.c2},
              {"square", steps.square},
              {"value", steps.value},
              {"unit", -steps.unit},
              {"unit_result", fmt::format("{:#010x}", steps.unit_result)},
              {"behind", std::move(behind)}};
  for (const std::string& text : texts_before) unit.add_text("  before the unit  " + text);
  unit.add_text(fmt::format("  the unit reads   {:#010x} = {}{}", word, print_value(Format::f32, word),
                            instruction.operation == MathOperation::sin || instruction.operation == MathOperation::cos
                                ? ", in turns: the argument times 1 / (2 pi), rounded toward zero"
                                : ""));
  unit.add_text(fmt::format("  quadratic        {} of {}: c0 = {:#x}, c1 = {}, c2 = {}, at x = {:#x} of 2^17",
                            steps.index, steps.table, steps.c0, steps.c1, steps.c2, steps.x));
  const uint64_t square = uint64_t{steps.x} * steps.x, kept = steps.square << 19;
  unit.add_text(
      fmt::format("  truncated square {:#x}: {} less than x^2, because partial products below 2^19 are omitted", kept,
                  square - kept));
  const bool of_rcp = steps.table == "rcp";
  unit.add_text(fmt::format("  c0 + c1 x 2^{} + c2 S(x){} = {:#x}, in units of 2^-{}", of_rcp ? 17 : 18,
                            of_rcp ? " / 4" : "", steps.value, steps.unit));
  unit.add_text(fmt::format("  cut off          the unit gives {:#010x} = {}", steps.unit_result,
                            print_value(Format::f32, steps.unit_result)));
  for (const std::string& text : texts_behind) unit.add_text("  after the unit   " + text);
  return unit;
}

/// Appends the lines of a part to the whole report.
void add_part(Report& report, std::string key, Report part) {
  for (const Report::Line& line : part.lines) report.add_text(line.text, line.tone);
  part.lines.clear();
  report.add(std::move(key), std::move(part));
}

void add_steps(Report& report, const MathInstruction& instruction, const Words& words) {
  if (const std::optional<MufuSteps> unit = mufu_steps(instruction, words[0], words[1]))
    return add_part(report, "unit", unit_report(instruction, *unit));
  if (const auto neighbours = neighbours_of(instruction, words[0], words[1], words[2])) {
    const auto [below, above] = *neighbours;
    const MathWord type = result_type(instruction);
    const auto code = [&](uint64_t word) { return fmt::format("{} = {}", hex(type, word), value(type, word)); };
    report.add_text(below == above ? fmt::format("  the exact result is {}", code(below))
                                   : fmt::format("  the exact result lies between {} and {}, and is rounded once",
                                                 code(below), code(above)));
    report.add("below", hex(type, below)).add("above", hex(type, above));
    return;
  }
  const bool has_steps = !instruction.x2 && instruction.format != Format::f64;
  report.add_text(instruction.accuracy == MathAccuracy::rounded || !has_steps
                      ? "  the steps can be shown for a single code of f32, f16 or bf16, but not for f64 or x2"
                      : "  no quadratic: the argument is a special case");
}

void add_steps(Report& report, const CFunction& function, const Words& words) {
  Report steps = Report::list();
  int number = 0;
  for (const WordStep& step : steps_of(function, static_cast<uint32_t>(words[0]), static_cast<uint32_t>(words[1]))) {
    auto [text, report] = described(step);
    steps.append(std::move(report));
    steps.add_text(fmt::format("  {:>3}  {}", fmt::format("#{}", ++number), text));
  }
  add_part(report, "steps", std::move(steps));
}

std::string_view meaning_of(CvtRounding rounding) {
  switch (rounding) {
    case CvtRounding::rz:
    case CvtRounding::rzi: return "toward zero";
    case CvtRounding::rm:
    case CvtRounding::rmi: return "down";
    case CvtRounding::rp:
    case CvtRounding::rpi: return "up";
    case CvtRounding::rna: return "to nearest, ties away from zero";
    case CvtRounding::rs: return "by random bits";
    default: return "to nearest, ties to even";
  }
}

/// How the value of one lane is rounded, before .sat and .relu.
std::string print_rounding(const CvtInstruction& instruction, const CvtLane& lane, const MathWord& to) {
  const auto code = [&](uint64_t word) { return fmt::format("{} = {}", hex(to, word), value(to, word)); };
  if (!to.format && !info(instruction.from).format) {
    return fmt::format("{}: the lower {} bits{}", code(lane.rounded), to.bits,
                       lane.rounded == lane.result ? "" : ", but .sat clamps it to the nearest number");
  }
  if (!lane.is_number) return fmt::format("no finite number: {}", code(lane.rounded));
  if (lane.is_exact) return fmt::format("exact: {}", code(lane.rounded));
  if (lane.below == lane.above) return fmt::format("beyond all codes: {}", code(lane.rounded));
  return fmt::format("between {} and {}, rounded {}: {}", code(lane.below), code(lane.above),
                     meaning_of(instruction.rounding), code(lane.rounded));
}

void add_steps(Report& report, const CvtInstruction& instruction, const Words& words) {
  const std::span<const uint64_t> operand_words(words.data(), operands_of(instruction).size());
  const MathWord from = type_of(instruction.from, 1), to = type_of(instruction.to, 1);
  Report lanes = Report::list();
  for (const CvtLane& lane : lanes_of(instruction, operand_words)) {
    Report row{{"operand", lane.operand},       {"source", hex(from, lane.source)}, {"exact", lane.is_exact},
               {"below", hex(to, lane.below)},  {"above", hex(to, lane.above)},     {"rounded", hex(to, lane.rounded)},
               {"result", hex(to, lane.result)}};
    std::string text = fmt::format("  {} = {}", lane.operand, value(from, lane.source));
    if (lane.scale_exponent != 0) {
      row.add("scale_exponent", lane.scale_exponent);
      text += fmt::format(" * 2^{}", lane.scale_exponent);
    }
    if (lane.random_width != 0) {
      row.add("random_bits", lane.random_bits).add("random_width", lane.random_width);
      text += fmt::format(", {} random bits {:#x} added below the last bit that is kept", lane.random_width,
                          lane.random_bits);
    }
    text += "  " + print_rounding(instruction, lane, to);
    if (lane.result != lane.rounded && to.format)
      text += fmt::format("; {} makes it {}", instruction.sat ? ".sat" : ".relu", value(to, lane.result));
    lanes.append(std::move(row));
    lanes.add_text(text);
  }
  add_part(report, "lanes", std::move(lanes));
}

EvidenceOfWords evidence_on(const MathFunction& function, Target target) {
  return std::visit([&](const auto& alternative) { return evidence_of(alternative, target); }, function);
}

/// sm_90a, for which bitmma was compared with GPUs, or the first target that has the function.
Target usual_target(const MathFunction& function) {
  const TargetSet targets = targets_of(function);
  return targets.contains(Target::sm_90a) ? Target::sm_90a : targets.first();
}

}  // namespace

MathFunction parse_math_function(std::string_view text) {
  if (text.starts_with("cvt.")) return parse_cvt(text);
  const auto is_named = [text](const CFunction& function) { return text == function.name; };
  if (text.find('@') != std::string_view::npos || std::ranges::any_of(c_functions(), is_named))
    return parse_c_function(text);
  // A name without dots is not PTX, unless it starts an instruction: then the error lists the words that may follow it.
  const auto has_operation = [text](const MathInstruction& instruction) {
    const std::string name = print(instruction);
    return name.substr(0, name.find('.')) == text;
  };
  if (text.find('.') == std::string_view::npos && std::ranges::none_of(math_instructions(), has_operation))
    return parse_c_function(text);
  return parse_math_instruction(text);
}

TargetSet targets_of(const MathFunction& function) {
  if (const auto* instruction = std::get_if<MathInstruction>(&function)) return targets_of(*instruction);
  if (const auto* cvt = std::get_if<CvtInstruction>(&function)) return targets_of(*cvt);
  return TargetSet::from(Target::sm_70);
}

std::vector<MathWord> operand_types(const MathFunction& function) {
  return std::visit([](const auto& alternative) { return types_of(alternative); }, function);
}

Report describe(const MathFunction& function, std::span<const uint64_t> operands, bool steps,
                std::optional<Target> target) {
  const std::string name = std::visit([](const auto& alternative) { return print(alternative); }, function);
  const std::vector<MathWord> types = operand_types(function);
  if (operands.size() != types.size()) {
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = fmt::format("operands of {}", name),
                 .seen = counted(std::ssize(operands), "word"),
                 .expected = counted(std::ssize(types), "word")});
  }
  Words words{};
  Report list = Report::list();
  std::vector<std::string> texts;
  for (size_t i = 0; i < types.size(); ++i) {
    words[i] = operands[i];
    if ((words[i] & ~low_mask(types[i].bits)) != 0) {
      throw Error({.code = ViolationCode::too_large,
                   .field = "operand",
                   .seen = fmt::format("{:#x}", words[i]),
                   .expected = fmt::format("{} bits", types[i].bits)});
    }
    list.append(hex(types[i], words[i]));
    texts.push_back(fmt::format("{} = {}", hex(types[i], words[i]), value(types[i], words[i])));
  }
  const uint64_t result =
      std::visit([&](const auto& alternative) { return result_of(alternative, words, types.size()); }, function);
  const MathWord type = std::visit([](const auto& alternative) { return result_type(alternative); }, function);
  Report report{{std::holds_alternative<CFunction>(function) ? "function" : "instruction", name},
                {"operands", std::move(list)},
                {"result", hex(type, result)},
                {"value", value(type, result)}};
  report.add_text(
      fmt::format("{} ({}): {} = {}", name, fmt::join(texts, ", "), hex(type, result), value(type, result)));
  report.update(evidence_report(function, target));
  if (const auto* cvt = std::get_if<CvtInstruction>(&function)) {
    Report names = Report::list();
    for (const std::string& target_name : names_of(targets_of(*cvt))) names.append(target_name);
    report.add("targets", std::move(names)).add("ptx", print(ptx_version_of(*cvt))).add("source", source_of(*cvt));
  }
  if (const auto* c = std::get_if<CFunction>(&function)) report.add("source", c->source);
  if (steps) std::visit([&](const auto& alternative) { add_steps(report, alternative, words); }, function);
  return report;
}

Report evidence_report(const MathFunction& function, std::optional<Target> target) {
  const Target on = target.value_or(usual_target(function));
  const EvidenceOfWords evidence = evidence_on(function, on);
  return {{"target", print(on)}, {"evidence", print(evidence.level)}, {"evidence_source", evidence.source}};
}

std::string origin_of(const MathFunction& function, std::optional<Target> target) {
  const Target on = target.value_or(usual_target(function));
  const EvidenceOfWords evidence = evidence_on(function, on);
  std::string text = fmt::format("{}, {}: {}", print(on), print(evidence.level), evidence.source);
  if (const auto* c = std::get_if<CFunction>(&function)) {
    if (evidence.source != c->source) text += fmt::format("; {}", c->source);
  } else if (const auto* cvt = std::get_if<CvtInstruction>(&function)) {
    text += fmt::format("; {}, PTX {} or later", print_targets(targets_of(*cvt)), print(ptx_version_of(*cvt)));
    if (evidence.source != source_of(*cvt)) text += fmt::format(": {}", source_of(*cvt));
  }
  return text;
}

}  // namespace bitmma
