// SPDX-License-Identifier: MIT
#include "bitmma/analysis/describe_math.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/text.hpp"

namespace bitmma {
namespace {

/// "0x3e99999a", or of x2 the word of both.
std::string hex(const MathInstruction& instruction, uint64_t word) {
  return fmt::format("{:#0{}x}", word, 2 + result_bits(instruction) / 4);
}

/// The value, or of x2 both, the lower half first.
std::string value(const MathInstruction& instruction, uint64_t word) {
  const int bits = bits_of(instruction.format);
  const std::string low = print_value(instruction.format, word & low_mask(bits));
  return instruction.x2 ? fmt::format("({}, {})", low, print_value(instruction.format, word >> bits)) : low;
}

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

}  // namespace

Report describe(const MathInstruction& instruction, std::span<const uint64_t> operands, bool steps) {
  const int count = operand_count(instruction.operation), bits = result_bits(instruction);
  if (std::ssize(operands) != count) {
    throw Error({.field = fmt::format("operands of {}", print(instruction)),
                 .seen = counted(std::ssize(operands), "word"),
                 .expected = counted(count, "word")});
  }
  for (const uint64_t operand : operands) {
    if ((operand & ~low_mask(bits)) != 0)
      throw Error(
          {.field = "operand", .seen = fmt::format("{:#x}", operand), .expected = fmt::format("{} bits", bits)});
  }
  const uint64_t a = operands[0], b = count > 1 ? operands[1] : 0, c = count > 2 ? operands[2] : 0;
  const uint64_t result = compute(instruction, a, b, c);
  Report list = Report::list();
  std::vector<std::string> texts;
  for (const uint64_t operand : operands) {
    list.append(hex(instruction, operand));
    texts.push_back(fmt::format("{} = {}", hex(instruction, operand), value(instruction, operand)));
  }
  Report found{{"instruction", print(instruction)},
               {"operands", std::move(list)},
               {"result", hex(instruction, result)},
               {"value", value(instruction, result)}};
  found.add_text(fmt::format("{} ({}): {} = {}", print(instruction), fmt::join(texts, ", "), hex(instruction, result),
                             value(instruction, result)));
  if (!steps) return found;
  if (const std::optional<MufuSteps> unit = mufu_steps(instruction, a, b)) {
    Report made = unit_report(instruction, *unit);
    for (const Report::Line& line : made.lines) found.add_text(line.text);
    made.lines.clear();
    return found.add("unit", std::move(made));
  }
  const bool has_steps = !instruction.x2 && instruction.format != Format::f64;
  found.add_text(instruction.accuracy == MathAccuracy::rounded ? "  the exact result, rounded once"
                 : has_steps ? "  no quadratic: the result is that of a special argument"
                             : "  the steps of one code, of f32, f16 or bf16, can be shown: not those of f64 or x2");
  return found;
}

}  // namespace bitmma
