// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "bitmma/analysis/describe.hpp"
#include "bitmma/core/text.hpp"
#include "explained_share.hpp"

namespace bitmma {
namespace {

/// True if the correct outputs are in the lines that a swizzle does not move: in every 8 lines the XOR is 0 for the
/// first line of swizzle 128, for the first two of swizzle 64 and for the first four of swizzle 32.
bool looks_like_a_swizzle(const MismatchMap& map) {
  const auto is_right = [&](bool by_row, bool by_col, int lines) {
    for (int row = 0; row < map.rows; ++row) {
      for (int col = 0; col < map.cols; ++col) {
        const bool in_place = (!by_row || row % 8 < lines) && (!by_col || col % 8 < lines);
        if (in_place != (map.count(row, col) == 0)) return false;
      }
    }
    return !map.empty();
  };
  return std::ranges::any_of(std::array{1, 2, 4}, [&](int lines) {
    return is_right(true, false, lines) || is_right(false, true, lines) || is_right(true, true, lines);
  });
}

void add_findings(Report& report, const Diagnosis& diagnosis) {
  if (diagnosis.findings.empty()) {
    report.add_text(
        fmt::format("none of the {} faults and pairs of faults that were tried explains the wrong bits; bitmma explain "
                    "shows one output term by term",
                    diagnosis.tried));
    return;
  }
  std::vector<ExplainedShare> rows;
  for (const Finding& finding : diagnosis.findings) {
    ExplainedShare& row = rows.emplace_back(ExplainedShare{.explains_all = finding.explains_all,
                                                           .wrong_explained = finding.wrong_explained,
                                                           .right_broken = finding.right_broken});
    for (const Fault& fault : finding.faults) row.what.push_back(fault.what);
  }
  add_explanations(report, rows, diagnosis.searched_wrong);
  std::vector<std::string_view> fixes;
  for (const Fault& fault : diagnosis.findings.front().faults) {
    if (std::ranges::find(fixes, fault.fix) != fixes.end()) continue;  // faults of A and B may share a fix
    report.add_text("look at: " + fault.fix);
    fixes.push_back(fault.fix);
  }
  report.add_text(fmt::format("{} faults and pairs tried", diagnosis.tried));
}

}  // namespace

Report describe(const std::vector<Choice>& choices) {
  Report list = Report::list();
  for (const Choice choice : choices) list.append(print(choice));
  return list;
}

Report describe(const Comparison& comparison, const Instruction& instruction) {
  Report report{{"cases", comparison.cases},
                {"outputs", comparison.outputs},
                {"mismatches", comparison.mismatches},
                {"cases_with_mismatches", comparison.cases_with_mismatches},
                {"outside_d", comparison.outside_d}};
  if (comparison.outside_d > 0) {
    report.add_text(
        fmt::format("{} of Tensor Memory outside D {} not what {} before", counted(comparison.outside_d, "cell"),
                    comparison.outside_d == 1 ? "is" : "are", comparison.outside_d == 1 ? "it was" : "they were"),
        Tone::bad);
  }
  if (comparison.first) {
    const Mismatch& first = *comparison.first;
    Report mismatch{{"case", first.case_index}};
    if (first.row >= 0) mismatch.update({{"row", first.row}, {"col", first.col}});
    mismatch.update(describe(first.place));
    mismatch.add("expected", print_bits(first.format, first.expected));
    mismatch.add("actual", print_bits(first.format, first.actual));
    report.add("first_mismatch", std::move(mismatch));
  }
  const MismatchMap& map = comparison.map;
  if (map.empty()) return report;
  const DrawnMap drawn = draw(map);
  const std::vector<std::string> patterns = patterns_of(map, instruction);
  report.update({{"where", patterns},
                 {"mismatches_by_row", counts_by_row(map)},
                 {"mismatches_by_col", counts_by_col(map)},
                 {"map",
                  {{"rows_per_line", drawn.rows_per_line},
                   {"cols_per_character", drawn.cols_per_character},
                   {"lines", drawn.lines}}}});
  report.add_text(fmt::format("where: {}", fmt::join(patterns, "; ")));
  if (comparison.mismatches < 2 || !has_pattern(map, instruction)) return report;
  report.add_text(fmt::format("map: {} a line, {} a character; . same, + some differ, # all differ",
                              counted(drawn.rows_per_line, "row"), counted(drawn.cols_per_character, "column")));
  for (const std::string& line : drawn.lines) report.add_text("  " + line);
  return report;
}

Report describe(const std::vector<InputDifference>& inputs, int64_t cases) {
  Report list = Report::list();
  for (const auto& [name, count] : inputs) list.append({{"name", name}, {"cases", count}});
  Report report{{"different_inputs", std::move(list)}};
  if (!inputs.empty()) report.add_text("inputs differ: " + print(inputs, cases), Tone::bad);
  return report;
}

Report describe(const Fault& fault) {
  return {{"id", fault.id}, {"stage", print(fault.stage)}, {"what", fault.what}, {"fix", fault.fix}};
}

Report describe(const Diagnosis& diagnosis, const Comparison& comparison, const Instruction& instruction) {
  Report findings = Report::list();
  for (const Finding& finding : diagnosis.findings) {
    Report faults = Report::list();
    for (const Fault& fault : finding.faults) faults.append(describe(fault));
    findings.append({{"faults", std::move(faults)},
                     {"explains_all", finding.explains_all},
                     {"wrong_explained", finding.wrong_explained},
                     {"right_broken", finding.right_broken}});
  }
  Report compared = describe(comparison, instruction);
  const Report* const where = compared.find("where");
  Report report{{"cases", diagnosis.cases},
                {"outputs", diagnosis.outputs},
                {"wrong", diagnosis.wrong},
                {"wrong_cases", diagnosis.wrong_cases},
                {"searched_cases", diagnosis.searched_cases},
                {"searched_wrong", diagnosis.searched_wrong},
                {"tried", diagnosis.tried},
                {"where", where ? *where : Report::list()},
                {"findings", std::move(findings)}};
  const std::string outputs = counted(diagnosis.outputs, "output"), cases = counted(diagnosis.cases, "case");
  if (diagnosis.wrong == 0 && comparison.outside_d == 0) {
    return report.add_text(fmt::format("nothing is wrong: all {} of {} are correct", outputs, cases), Tone::good);
  }
  if (diagnosis.wrong == 0) {
    report.add_text(fmt::format("all {} of {} are correct, but", outputs, cases), Tone::bad);
    std::ranges::move(compared.lines, std::back_inserter(report.lines));
    if (comparison.first) report.add_text(print(*comparison.first));
    return report;
  }
  report.add_text(fmt::format("{} of {} of {} {} wrong ({})", diagnosis.wrong, outputs, cases,
                              diagnosis.wrong == 1 ? "is" : "are", print_share(diagnosis.wrong, diagnosis.outputs)),
                  Tone::bad);
  if (diagnosis.cases > 1) {
    report.add_text(fmt::format(
        "{} of {} {} wrong; {} searched", diagnosis.wrong_cases, cases, diagnosis.wrong_cases == 1 ? "is" : "are",
        diagnosis.searched_cases == 1 ? "1 was" : fmt::format("{} were", diagnosis.searched_cases)));
  }
  std::ranges::move(compared.lines, std::back_inserter(report.lines));
  if (looks_like_a_swizzle(comparison.map)) {
    report.add_text(
        "the first line of every 8 is right. A swizzle leaves these lines in place, so one side may swizzle and the "
        "other\nnot, or both by different modes: compare the swizzle of the TMA map with that of the descriptor");
  }
  add_findings(report, diagnosis);
  return report;
}

}  // namespace bitmma
