// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "../core/ieee_environment.hpp"
#include "bitmma/analysis/describe.hpp"
#include "bitmma/core/text.hpp"

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

/// "0.02 %" for 1 in 4096: one decimal, or as many as needed so that a non-zero share does not read as 0 and an
/// incomplete one does not read as 100.
std::string print_share(int64_t part, int64_t whole) {
  return in_ieee_environment([&]() -> std::string {
    const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(std::max<int64_t>(whole, 1));
    constexpr int most_digits = 17;
    for (int digits = 1;; ++digits) {
      const std::string text = fmt::format("{:.{}f}", percent, digits);
      const double read = std::stod(text);
      const bool reads_wrong = (read == 0 && part != 0) || (read == 100 && part != whole);
      if (!reads_wrong || digits == most_digits) return text + " %";
    }
  });
}

/// The number of leading findings that explain the outputs equally well.
int64_t alike(const Diagnosis& diagnosis) {
  const Finding& best = diagnosis.findings.front();
  return std::ranges::count_if(diagnosis.findings, [&](const Finding& finding) {
    return finding.wrong_explained == best.wrong_explained && finding.right_broken == best.right_broken;
  });
}

/// A line for each fault, of at most 120 columns. The first `joined` findings share the figures of the first of them.
void add_explanations(Report& report, const Diagnosis& diagnosis, int64_t joined) {
  constexpr size_t columns = 120, of_figures = 36;
  report.add_text("explains  of wrong outputs  breaks  what the wrong program does");
  for (size_t i = 0; i < diagnosis.findings.size(); ++i) {
    const Finding& finding = diagnosis.findings[i];
    const bool is_joined = i > 0 && static_cast<int64_t>(i) < joined;
    std::string before = fmt::format("{:<10}{:<18}{:>6}  ", finding.explains_all ? "all" : "a part",
                                     print_share(finding.wrong_explained, diagnosis.searched_wrong),
                                     finding.right_broken);
    if (is_joined) before = std::string(of_figures, ' ');
    for (const Fault& fault : finding.faults) {
      const bool is_first = &fault == &finding.faults.front();
      const std::string what = fmt::format("{}{}", !is_first ? "and " : is_joined ? "or " : "", fault.what);
      report.add_text((is_first ? before : std::string(of_figures, ' ')) +
                      wrapped(what, columns - of_figures - 4, of_figures + 4));
    }
  }
}

void add_findings(Report& report, const Diagnosis& diagnosis) {
  if (diagnosis.findings.empty()) {
    report.add_text(
        fmt::format("none of the {} faults and pairs of faults that were tried explains the wrong bits; bitmma explain "
                    "shows one output term by term",
                    diagnosis.tried));
    return;
  }
  const int64_t count = alike(diagnosis);
  add_explanations(report, diagnosis, count);
  if (count > 1) report.add_text(fmt::format("these {} give the same bits in these cases", count));
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
