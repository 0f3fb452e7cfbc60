// SPDX-License-Identifier: MIT
#include "bitmma/analysis/describe_simulation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "bitmma/analysis/describe.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/instruction/statement.hpp"

namespace bitmma {
namespace {

/// The meaning of a result's rows and columns: of a matrix, or of the words that a move writes to registers or Tensor
/// Memory.
struct AxisNames {
  std::string_view row = "row", col = "col";
};

AxisNames axis_names(const Case& this_case) {
  if (is_mma(this_case.instruction)) return {};
  const Place first = PlaceMap(this_case.instruction, this_case.target, this_case.before, Role::d).place_of(0, 0);
  if (std::holds_alternative<RegisterPlace>(first)) return {.row = "thread", .col = "register"};
  return {.row = "lane", .col = "column"};
}

/// D as a table, or all its codes as data. With `is_words` the words of a move; the last column may be redval.
void add_d(Report& report, const ShownD& shown, const Matrix& d, const AxisNames& names = {}, bool is_words = false,
           bool has_redval = false) {
  if (shown.as_codes) {  // all of it, regardless of the limits for text
    Report codes = Report::list();
    for (int row = 0; row < d.rows(); ++row) {
      Report line = Report::list();
      for (int col = 0; col < d.cols(); ++col) line.append(d.code(row, col));
      codes.append(std::move(line));
    }
    report.add("d", {{"format", info(d.format()).name}, {"codes", std::move(codes)}});
    return;
  }
  const int rows = std::min(shown.rows, d.rows()), cols = std::min(shown.cols, d.cols());
  std::vector<std::vector<std::string>> table(1, {is_words ? "" : "D"});
  for (int col = 0; col < cols; ++col) {
    const bool is_redval = has_redval && col == d.cols() - 1;
    table[0].push_back(is_redval ? "redval" : fmt::format("{} {}", names.col, col));
  }
  for (int row = 0; row < rows; ++row) {
    std::vector<std::string>& line = table.emplace_back(1, fmt::format("{} {}", names.row, row));
    for (int col = 0; col < cols; ++col) {
      const uint64_t code = d.code(row, col);
      line.push_back(shown.as_bits || is_words ? print_bits(d.format(), code) : print_value(d.format(), code));
    }
  }
  report.add_text(table);
  if (rows < d.rows() || cols < d.cols()) {
    report.add_text(
        fmt::format("({} x {} of {} x {}; --rows, --cols and --hex show more)", rows, cols, d.rows(), d.cols()));
  }
}

/// The numeric operands of a case: descriptors, addresses, and immediates that may differ between cases.
std::string print_operands(const Case& this_case) {
  std::string text;
  const auto add = [&](std::string_view name, ElementType type, uint64_t number) {
    const std::string digits =
        type == ElementType::u8 ? fmt::format("{}", number) : fmt::format("{:#0{}x}", number, 2 * bytes_of(type) + 2);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, digits);
  };
  if (!this_case.has_state()) return text;
  for (const FieldRule& rule : fields_of(this_case.instruction)) {
    const FieldInfo& row = info(rule.field);
    if (row.is_number && this_case.before.has(rule.field)) add(row.name, row.type, this_case.before.number(rule.field));
  }
  for (const ImmediateInfo& row : immediates_of(this_case.instruction)) {
    if (!row.by_case) continue;
    add(row.name, row.type, static_cast<uint64_t>(immediate_of(this_case.instruction, row.name)));
  }
  return text;
}

/// Shape and types, if the mnemonic does not have them, and scales.
std::string print_shape_and_types(const Instruction& instruction) {
  if (!is_mma(instruction)) return "";
  const Mma mma = mma_of(instruction);
  std::string text;
  if (has_instruction_descriptor(instruction)) {
    text = fmt::format("M = {}, N = {}, K = {}; D {}, A {}, B {}\n", mma.m, mma.n, mma.k, info(mma.d).name,
                       info(mma.a).name, info(mma.b).name);
  }
  if (mma.scale_count > 0) {
    text +=
        fmt::format("scales: {} {} for each row of A and column of B\n", mma.scale_count, info(mma.scale_type).name);
  }
  return text;
}

/// "1 of 8 outputs differs".
std::string print_differing(const Comparison& comparison) {
  return fmt::format("{} of {} {}", comparison.mismatches, counted(comparison.outputs, "output"),
                     comparison.mismatches == 1 ? "differs" : "differ");
}

/// The head of a report, down to the target.
Report head_of(const VectorFile& vectors, int64_t index) {
  const std::string name = vectors.name();
  Report report{{"file", vectors.file.path},
                {"instruction", name},
                {"case", index},
                {"cases", vectors.cases},
                {"target", print(vectors.target)},
                {"arithmetic", print_arithmetic(vectors.instruction, vectors.target)}};
  return report.add_text(
      fmt::format("{}, case {} of {}\ntarget: {}", name, index, vectors.cases, print(vectors.target)));
}

void add_shape_and_types(Report& report, const Mma& mma, int m, int n, int k) {
  report.update({{"m", m},
                 {"n", n},
                 {"k", k},
                 {"a_type", info(mma.a).name},
                 {"b_type", info(mma.b).name},
                 {"d_type", info(mma.d).name}});
}

/// Adds the choices, and to the text the arithmetic before them.
void add_choices(Report& report, const VectorFile& vectors) {
  const std::vector<Choice> choices = choices_of(vectors);
  report.add_text("arithmetic: " + print_arithmetic(vectors.instruction, vectors.target));
  report.add("chosen", describe(choices));
  for (const Choice choice : choices) report.add_text(fmt::format("chosen: {}", print(choice)));
}

/// D of a case that several instructions compute.
Report describe_tile(const VectorFile& vectors, int64_t index, const ShownD& shown, int threads) {
  const Case whole = case_at(vectors, index);
  const Matrix d = computed_tile(whole, threads);
  const Mma mma = mma_of(vectors.instruction);
  const Tiling& tiling = vectors.tiling;
  const int k = tiling.k * mma.k;
  Report report = head_of(vectors, index);
  add_shape_and_types(report, mma, d.rows(), d.cols(), k);
  report.add("steps", tiling.k);
  report.add_text(fmt::format(
      "whole tile: {} x {} x {} in {} x {} blocks of {} x {}, {} of K = {} each; C of each is D of the previous one",
      d.rows(), d.cols(), k, tiling.m, tiling.n, mma.m, mma.n, counted(tiling.k, "instruction"), mma.k));
  add_choices(report, vectors);
  add_d(report, shown, d);
  return report;
}

}  // namespace

Report describe(const VectorFile& vectors, int64_t index, const ShownD& shown, int threads) {
  if (!vectors.tiling.is_one_instruction()) return describe_tile(vectors, index, shown, threads);
  const Case this_case = case_at(vectors, index);
  Report report = head_of(vectors, index);
  if (const int64_t steps = unrolled_steps(vectors); steps > 0) {
    report.add("k_loop", steps);
    report.add_text(fmt::format("K loop: {} instructions per tile; C of each is D of the previous one", steps));
  }
  if (is_mma(this_case.instruction)) {
    const Mma mma = mma_of(this_case.instruction);
    add_shape_and_types(report, mma, mma.m, mma.n, mma.k);
  }
  for (const std::string& line : {print_shape_and_types(this_case.instruction), print_operands(this_case)}) {
    if (!line.empty()) report.add_text(line);
  }
  add_choices(report, vectors);
  report.add("warnings", warnings_of(this_case));
  add_d(report, shown, computed_d(this_case), axis_names(this_case), !is_mma(this_case.instruction),
        ends_with_redval(this_case.instruction));
  return report;
}

Report describe_recorded(const Comparison& comparison, std::string_view source, std::string_view of) {
  Report report{
      {"recorded", {{"outputs", comparison.outputs}, {"mismatches", comparison.mismatches}, {"source", source}}}};
  if (comparison.mismatches == 0) {
    return report.add_text(
        fmt::format("all {} of {} match the recorded D (source: {}{})", counted(comparison.outputs, "output"),
                    counted(comparison.cases, "case"), source, of),
        Tone::good);
  }
  report.add_text(fmt::format("{} from the recorded D (source: {}{})", print_differing(comparison), source, of),
                  Tone::bad);
  return report.add_text(print(*comparison.first), Tone::bad);
}

Report describe_two_targets(Report own, Report other, const Comparison& comparison, Target target,
                            Target other_target) {
  own.add_text("");
  std::ranges::move(other.lines, std::back_inserter(own.lines));
  other.lines.clear();
  own.add("on_target", std::move(other));
  own.add("between_targets", {{"outputs", comparison.outputs}, {"mismatches", comparison.mismatches}});
  own.add_text(fmt::format("\n{} between {} and {}", print_differing(comparison), print(target), print(other_target)));
  if (comparison.first) own.add_text("first: " + print(*comparison.first), Tone::bad);
  return own;
}

}  // namespace bitmma
