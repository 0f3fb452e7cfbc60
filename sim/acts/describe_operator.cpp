// SPDX-License-Identifier: MIT
#include "bitmma/acts/describe_operator.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bitmma/core/text.hpp"

namespace bitmma {
namespace {

constexpr std::string_view compared_with = "compared with PyTorch 2.11 on an H100 and an H200 (docs/operators.md)";

/// The value; of many the first two and the last: "32: 1.5, 0.25, ..., 3".
std::string print_values(const OperatorStep& step) {
  const auto value = [&](size_t i) { return print_value(step.format, step.words[i]); };
  const size_t count = step.words.size();
  if (count == 1) return value(0);
  if (count > 4) return fmt::format("{}: {}, {}, ..., {}", count, value(0), value(1), value(count - 1));
  std::vector<std::string> values;
  for (size_t i = 0; i < count; ++i) values.push_back(value(i));
  return fmt::format("{}: {}", count, fmt::join(values, ", "));
}

Report report_of(const OperatorStep& step) {
  Report words = Report::list(), values = Report::list();
  for (const uint32_t word : step.words) {
    words.append(print_bits(step.format, word));
    values.append(print_value(step.format, word));
  }
  return {{"part", step.part},
          {"step", step.what},
          {"operation", step.operation},
          {"rounding", step.rounding},
          {"type", info(step.format).name},
          {"words", std::move(words)},
          {"values", std::move(values)}};
}

/// Steps that follow each other and are of one part.
std::vector<std::span<const OperatorStep>> parts_of(std::span<const OperatorStep> steps) {
  std::vector<std::span<const OperatorStep>> parts;
  for (size_t first = 0, next = 0; first < steps.size(); first = next) {
    while (next < steps.size() && steps[next].part == steps[first].part) ++next;
    parts.push_back(steps.subspan(first, next - first));
  }
  return parts;
}

}  // namespace

Report describe(const OperatorTrace& trace, int most_parts) {
  const OperatorStep& last = trace.steps.back();
  Report steps = Report::list(), plan = Report::object();
  for (const OperatorStep& step : trace.steps) steps.append(report_of(step));
  std::vector<std::vector<std::string>> about{
      {"output",
       fmt::format("({}) of {}, {} {} = {}", fmt::join(trace.output, ", "), trace.name, info(last.format).name,
                   print_bits(last.format, last.words[0]), print_value(last.format, last.words[0]))}};
  for (const auto& [what, value] : trace.plan) {
    plan.add(what, value);
    about.push_back({what, value});
  }
  about.push_back({"evidence", std::string(compared_with)});
  Report report{{"operator", trace.name},
                {"output", trace.output},
                {"type", info(last.format).name},
                {"word", print_bits(last.format, last.words[0])},
                {"value", print_value(last.format, last.words[0])},
                {"evidence", compared_with},
                {"plan", std::move(plan)},
                {"steps", std::move(steps)}};
  report.add_text(about);
  const auto parts = parts_of(trace.steps);
  const size_t shown = std::min(parts.size(), static_cast<size_t>(std::max(most_parts, 2)));
  for (size_t i = 0; i < parts.size(); ++i) {
    if (shown < parts.size() && i == shown / 2) {
      const size_t skipped = parts.size() - shown;
      report.add_text(fmt::format("\n... {}: --json has all", counted(static_cast<int64_t>(skipped), "more part")));
      i += skipped;
    }
    report.add_text(fmt::format("\n{}", parts[i][0].part.empty() ? "steps" : parts[i][0].part));
    std::vector<std::vector<std::string>> table;
    for (const OperatorStep& step : parts[i])
      table.push_back({"  " + step.what, print_values(step), step.operation, step.rounding});
    report.add_text(table);
  }
  return report;
}

Report describe(std::string_view name, const std::vector<OperatorTensor>& operands,
                const std::vector<OperatorTensor>& results, const std::vector<OperatorComparison>& compared,
                std::string_view plan) {
  std::vector<std::vector<std::string>> table{{"operator", std::string(name)}};
  if (!plan.empty()) table.push_back({"plan", std::string(plan)});
  const auto report_of_tensors = [&](const std::vector<OperatorTensor>& tensors) {
    Report by_name = Report::object();
    for (const OperatorTensor& tensor : tensors) {
      const std::string_view type = info(tensor.rows.format()).name;
      by_name.add(tensor.name, {{"type", type}, {"shape", tensor.shape}});
      table.push_back({tensor.name, fmt::format("{} {}", type, print_shape(tensor.shape))});
    }
    return by_name;
  };
  Report report{{"operator", name},
                {"operands", report_of_tensors(operands)},
                {"results", report_of_tensors(results)},
                {"evidence", compared_with}};
  table.push_back({"evidence", std::string(compared_with)});
  Report list = Report::list();
  for (const OperatorComparison& comparison : compared) {
    Report row{{"result", comparison.name}, {"outputs", comparison.outputs}, {"differing", comparison.differing}};
    std::string text = fmt::format("all {} the same", counted(comparison.outputs, "output"));
    if (comparison.differing > 0) {
      const auto code = [&](uint64_t word) {
        return fmt::format("{} = {}", print_bits(comparison.format, word), print_value(comparison.format, word));
      };
      row.update({{"first", comparison.first},
                  {"recorded", print_bits(comparison.format, comparison.recorded)},
                  {"computed", print_bits(comparison.format, comparison.computed)}});
      text = fmt::format("{} of {} {}, the first at ({}): recorded {}, computed {}", comparison.differing,
                         counted(comparison.outputs, "output"), comparison.differing == 1 ? "differs" : "differ",
                         fmt::join(comparison.first, ", "), code(comparison.recorded), code(comparison.computed));
    }
    list.append(std::move(row));
    table.push_back({fmt::format("recorded {}", comparison.name), text});
  }
  if (!plan.empty()) report.add("plan", plan);
  if (!compared.empty()) report.add("compared", std::move(list));
  report.add_text(table);
  const Matrix& out = results.front().rows;
  constexpr int most = 4;
  Report first = Report::list();
  std::vector<std::vector<std::string>> corner(1, {results.front().name});
  for (int col = 0; col < std::min(out.cols(), most); ++col) corner[0].push_back(fmt::format("col {}", col));
  for (int row = 0; row < std::min(out.rows(), most); ++row) {
    std::vector<std::string>& line = corner.emplace_back(1, fmt::format("row {}", row));
    for (int col = 0; col < std::min(out.cols(), most); ++col)
      line.push_back(print_value(out.format(), out.code(row, col)));
    first.append(std::vector<std::string>(line.begin() + 1, line.end()));
  }
  report.add("first", std::move(first));
  report.add_text(corner);
  return report;
}

}  // namespace bitmma
