// SPDX-License-Identifier: MIT
#include "bitmma/acts/describe_product.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ranges>

#include "../analysis/explained_share.hpp"
#include "../core/ieee_environment.hpp"
#include "../gemm/plan_json.hpp"
#include "bitmma/arithmetic/cpu_target.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/instruction/evidence.hpp"

namespace bitmma {
namespace {

/// Converts a JSON tree to a report without text.
Report report_of(const Json& json) {
  if (json.is_object()) {
    Report report = Report::object();
    for (const auto& [key, value] : json.items()) report.add(key, report_of(value));
    return report;
  }
  if (json.is_array()) {
    Report report = Report::list();
    for (const Json& value : json) report.append(report_of(value));
    return report;
  }
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned()) return json.get<uint64_t>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number()) return in_ieee_environment([&] { return json.get<double>(); });
  return json.is_string() ? Report(json.get<std::string>()) : Report();
}

Report describe(const GemmPlan& plan) { return report_of(plan_json(plan)); }

/// The evidence of the plan's fields: one statement if all fields have the same evidence.
std::string print_evidence(const GemmPlan& plan) {
  if (plan.evidence.empty()) return "";
  const FieldEvidence& first = plan.evidence.begin()->second;
  if (std::ranges::all_of(plan.evidence, [&](const auto& field) { return field.second == first; }))
    return print(first, plan.target);
  std::vector<std::string> texts;
  for (const auto& [field, evidence] : plan.evidence)
    texts.push_back(fmt::format("{}: {}", field, print(evidence, plan.target)));
  return fmt::format("{}", fmt::join(texts, "; "));
}

bool is_same_type(const ProductResult& result) {
  return result.recorded->format() == result.d.format() && result.recorded->rows() == result.d.rows() &&
         result.recorded->cols() == result.d.cols();
}

std::string print_comparison(const ProductResult& result) {
  const std::string outputs = counted(static_cast<int64_t>(result.d.size()), "output");
  if (!is_same_type(result)) {
    const auto print = [](const Matrix& matrix) {
      return fmt::format("{} x {} {}", matrix.rows(), matrix.cols(), info(matrix.format()).name);
    };
    return fmt::format("differs: recorded d is {}, computed {}", print(*result.recorded), print(result.d));
  }
  const int64_t differing = result.differing();
  return differing == 0 ? fmt::format("all {} the same", outputs)
                        : fmt::format("{} of {} {}: not the order of these additions, or wrong bits; --find searches",
                                      differing, outputs, differing == 1 ? "differs" : "differ");
}

std::vector<std::vector<std::string>> corner_of(const Matrix& d, int rows, int cols) {
  std::vector<std::vector<std::string>> table(1, {"D"});
  for (int col = 0; col < cols; ++col) table[0].push_back(fmt::format("col {}", col));
  for (int row = 0; row < rows; ++row) {
    std::vector<std::string>& line = table.emplace_back(1, fmt::format("row {}", row));
    for (int col = 0; col < cols; ++col) line.push_back(print_value(d.format(), d.code(row, col)));
  }
  return table;
}

std::string_view print(SearchEnd end) {
  switch (end) {
    case SearchEnd::timeout: return "timeout";
    case SearchEnd::max_plans: return "max_plans";
    case SearchEnd::stopped: return "stopped";
    case SearchEnd::complete: break;
  }
  return "complete";
}

std::string print_evidence(const PlanSearch& search, const PlanFamily& family) {
  return family.evidence ? print(*family.evidence, search.all_bits[static_cast<size_t>(family.first)].target) : "";
}

std::string print_family(const PlanSearch& search, const PlanFamily& family) {
  return fmt::format(
      "{}{}: {}", family.name, family.plans == 1 ? "" : fmt::format(", {} plans", family.plans),
      family.evidence ? print_evidence(search, family) : "found by trying; no library is known to add like this");
}

void add_plan_text(Report& report, const GemmPlan& plan, int64_t k) {
  const int64_t added = k_added(plan, k);
  report.add_text(fmt::format("{}{}\n  {}", print_plan(plan),
                              added == k ? "" : fmt::format(", as if K ended at {}", added), print_json(plan)));
}

/// The products that a step adds: "K 0..15", "slice 1".
std::string what_of(const TraceStep& step) {
  if (!step.what.empty()) return step.what;
  if (step.first < step.last)
    return step.last - step.first == 1 ? fmt::format("K {}", step.first)
                                       : fmt::format("K {}..{}", step.first, step.last - 1);
  return step.kind == TraceKind::join_slices ? "a slice" : step.kind == TraceKind::round ? "" : "a sum";
}

/// The name of a kernel without the arguments of its templates.
std::string without_arguments(std::string_view kernel) {
  std::string name;
  int depth = 0;
  for (const char letter : kernel) {
    depth -= letter == '>';
    if (depth == 0 && letter != '>' && letter != '<') name += letter;
    depth += letter == '<';
  }
  return name;
}

std::string print_error(const std::optional<double>& error) {
  return !error ? "" : *error == 0 ? "0" : fmt::format("{:+.4g}", *error);
}

}  // namespace

int64_t ProductResult::differing() const {
  if (!recorded) return 0;
  return is_same_type(*this) ? count_differing(d, *recorded) : static_cast<int64_t>(d.size());
}

std::string evidence_of_sums(const GemmPlan& plan) {
  return plan.cuda_cores() ? "IEEE f32" : print(evidence_of(plan.tensor().instruction, plan.target), plan.target);
}

namespace {

Report described(const ProductResult& result, int rows, int cols) {
  const GemmPlan& plan = result.plan;
  const Matrix& d = result.d;
  const int64_t added = k_added(plan, result.k);
  const std::string evidence = evidence_of_sums(plan);
  Report report{{"m", d.rows()},
                {"n", d.cols()},
                {"k", result.k},
                {"k_added", added},
                {"target", print(plan.target)},
                {"cpu_target", cpu_target()},
                {"plan", describe(plan)},
                {"evidence_of_instruction", evidence}};
  std::vector<std::vector<std::string>> table{
      {"product", fmt::format("{} x {} x {}, D {}", d.rows(), d.cols(), result.k, info(d.format()).name)},
      {"plan", fmt::format("{}{}", print_plan(plan),
                           !result.plan_was_given   ? " (no plan was given)"
                           : result.plan_is_of_file ? " (the key plan of the file)"
                                                    : "")},
      {"instruction", print_instruction(plan)},
      {"target",
       fmt::format("{}{}; {}", print(plan.target), result.target_was_given ? "" : " (no target was given)", evidence)}};
  // What was measured is the plan, and not that the recorded D, or an unnamed kernel, adds so.
  const std::string of_plan =
      result.plan_was_given && result.differing() == 0 ? "" : fmt::format("of plan {}: ", print_plan(plan));
  if (const std::string fields = print_evidence(plan); !fields.empty()) table.push_back({"evidence", of_plan + fields});
  if (added != result.k)
    table.push_back({"K added", fmt::format("{} of {}: the plan's way of splitting loses the rest", added, result.k)});
  if (result.recorded) {
    report.update({{"differ", result.differing()},
                   {"recorded_d", info(result.recorded->format()).name},
                   {"computed_d", info(d.format()).name}});
    table.push_back({"recorded d", print_comparison(result)});
  }
  if (result.accuracy) {
    const Accuracy& accuracy = *result.accuracy;
    report.add("error", {{"outputs", accuracy.outputs},
                         {"not_finite", accuracy.not_finite},
                         {"mean_ulp", accuracy.mean_ulp},
                         {"max_ulp", accuracy.max_ulp},
                         {"bias_ulp", accuracy.bias_ulp},
                         {"max_relative_error", accuracy.max_relative_error}});
    table.push_back(
        {"error", fmt::format("mean {:.4g} ulp, largest {:.4g}, bias {:+.4g} (negative: results are too small)",
                              accuracy.mean_ulp, accuracy.max_ulp, accuracy.bias_ulp)});
    const std::string left_out = accuracy.not_finite == 0 ? ""
                                                          : fmt::format("; {} not finite and not counted",
                                                                        counted(accuracy.not_finite, "output"));
    table.push_back({"relative", fmt::format("largest {:.3g}{}", accuracy.max_relative_error, left_out)});
  }
  if (result.choice) {
    const LibraryChoice& choice = *result.choice;
    const std::string source = choice.exact ? "recorded" : "that of the nearest recorded shape",
                      slices = choice.slices > 1 ? fmt::format(", {} slices", choice.slices) : "";
    report.update({{"kernel", choice.kernel},
                   {"slices", choice.slices},
                   {"choice", source},
                   {"recorded_on", choice.recorded_on},
                   {"right", choice.right},
                   {"drawn", choice.drawn},
                   {"call", fmt::format("{}, {}", choice.kind, choice.layout)}});
    table.insert(
        table.begin(),
        {{"kernel", without_arguments(choice.kernel) + slices},
         {"choice", fmt::format("{} on an {}, {}, {}: {}{}", choice.library, choice.gpu, choice.kind, choice.layout,
                                source, choice.exact ? ", or the recorded M below and above it take the same" : "")}});
  }
  report.add_text(table);
  rows = std::min(rows, d.rows()), cols = std::min(cols, d.cols());
  if (rows > 0 && cols > 0) report.add_text(corner_of(d, rows, cols));
  return report;
}

}  // namespace

Report describe(const ProductResult& result, int rows, int cols) {
  return in_ieee_environment([&] { return described(result, rows, cols); });
}

Report describe(const PlanSearch& search, const GemmInputs& inputs) {
  Report families = Report::list(), all_bits = Report::list(), nearest = Report::list();
  for (const PlanFamily& family : search.families)
    families.append({{"name", family.name},
                     {"plans", family.plans},
                     {"first", family.first},
                     {"evidence", print_evidence(search, family)}});
  for (const GemmPlan& plan : search.all_bits) all_bits.append(describe(plan));
  for (const NearPlan& near : search.nearest)
    nearest.append({{"plan", describe(near.plan)},
                    {"differing", near.differing},
                    {"outputs", near.outputs},
                    {"pattern", near.pattern}});
  const int64_t count = std::ssize(search.all_bits), k = inputs.a.cols();
  Report report{{"cpu_target", cpu_target()},      {"candidates", search.candidates}, {"outputs", search.outputs},
                {"ended", print(search.end)},      {"ambiguous", search.ambiguous()}, {"families", std::move(families)},
                {"all_bits", std::move(all_bits)}, {"nearest", std::move(nearest)}};
  std::vector<int> stages;
  for (const SearchStage stage : search.untried_stages) stages.push_back(static_cast<int>(stage) + 1);
  report.add("untried", search.untried), report.add("untried_stages", stages);
  report.add_text(
      fmt::format("{} tried on {}{}", counted(search.candidates, "plan"), counted(search.outputs, "output"),
                  search.end == SearchEnd::complete ? "" : fmt::format("; ended by {}", print(search.end))));
  if (search.end != SearchEnd::complete) {
    const std::string later =
        stages.empty() ? ""
                       : fmt::format(", and all of stage {} (--help lists the stages)", fmt::join(stages, " and "));
    report.add_text(fmt::format("not tried: {}{}", counted(search.untried, "plan"), later));
  }
  if (count == 0 && !search.nearest.empty() && 2 * search.nearest.front().differing > search.nearest.front().outputs) {
    const NearPlan& best = search.nearest.front();
    return report.add_text(
        fmt::format("no plan gives all bits, and none is near: in the best one {} of {} differ. Operands, scales, C or "
                    "bias that are not those of D are likelier than another order of additions",
                    best.differing, counted(best.outputs, "output")));
  }
  if (count == 0) {
    // A plan that misses most outputs is no nearer than any other.
    const auto is_near = [](const NearPlan& near) { return 2 * near.differing <= near.outputs; };
    const bool any_is_near = std::ranges::any_of(search.nearest, is_near);
    report.add_text(any_is_near ? "no plan gives all bits; the nearest are:"
                                : "no plan gives all bits, or half of them: D is another product, or wrong; "
                                  "bitmma diagnose FILE, or\nbitmma.diagnose_product, looks for a program's mistake");
    for (const NearPlan& near : search.nearest | std::views::filter(is_near))
      report.add_text(
          fmt::format("{}{} differ, {}: {}\n  {}", near.differing,
                      near.outputs == search.outputs ? "" : fmt::format(" of {} sampled outputs", near.outputs),
                      near.pattern, print_plan(near.plan), print_json(near.plan)));
    return report;
  }
  if (count == 1) {
    report.add_text(fmt::format("one plan gives all bits, {}", search.families.front().evidence
                                                                   ? print_evidence(search, search.families.front())
                                                                   : "which no library is known to use") +
                    ":");
    add_plan_text(report, search.all_bits.front(), k);
    return report;
  }
  report.add_text(
      fmt::format("{} plans give all bits; this D cannot distinguish them. {}:", count,
                  search.families.size() == 1
                      ? "They belong to one family"
                      : fmt::format("They belong to {} families, measured ones first", search.families.size())));
  constexpr size_t most_shown = 5;
  for (size_t i = 0; i < std::min(search.families.size(), most_shown); ++i) {
    const PlanFamily& family = search.families[i];
    report.add_text(print_family(search, family));
    add_plan_text(report, search.all_bits[static_cast<size_t>(family.first)], k);
  }
  if (search.families.size() > most_shown)
    report.add_text(fmt::format("and {} more families: --json shows all", search.families.size() - most_shown));
  return report;
}

namespace {

Report described(const ProductTrace& trace, int most_steps) {
  const FormatInfo& format = info(trace.format);
  Report steps = Report::list(), ks = Report::list(), errors = Report::list();
  int64_t k = 0;
  for (const TraceStep& step : trace.steps) {
    steps.append({{"kind", print(step.kind)},
                  {"what", what_of(step)},
                  {"slice", step.slice},
                  {"k", std::vector<int64_t>{step.first, step.last}},
                  {"before", print_bits(step.kind == TraceKind::round ? Format::f32 : step.format, step.before)},
                  {"after", print_bits(step.format, step.after)},
                  {"error", step.error},
                  {"error_so_far", step.error_so_far}});
    k += step.last - step.first;
    ks.append(k), errors.append(step.error_so_far);
  }
  Report report{{"row", trace.row},
                {"col", trace.col},
                {"k", trace.k},
                {"target", print(trace.plan.target)},
                {"plan", describe(trace.plan)},
                {"evidence_of_instruction", evidence_of_sums(trace.plan)},
                {"d", print_bits(trace.format, trace.d)},
                {"value", print_value(trace.format, trace.d)},
                {"exact", trace.exact},
                {"error", trace.error},
                {"worst", trace.worst < 0 ? Report() : Report(trace.worst)},
                {"steps", std::move(steps)},
                {"curve", {{"k", std::move(ks)}, {"error", std::move(errors)}}}};
  report.add_text(std::vector<std::vector<std::string>>{
      {"output", fmt::format("({}, {}) of D, {} {} = {}", trace.row, trace.col, format.name,
                             print_bits(trace.format, trace.d), print_value(trace.format, trace.d))},
      {"plan", print_plan(trace.plan)},
      {"instruction", print_instruction(trace.plan)},
      {"target", fmt::format("{}; {}", print(trace.plan.target), evidence_of_sums(trace.plan))},
      {"exact", trace.exact ? fmt::format("{:.17g}", *trace.exact) : "no finite number"},
      {"error", fmt::format("{:+.6g}, of {}", trace.error, counted(std::ssize(trace.steps), "step"))}});
  // Select the steps with the largest losses, the first and the last; then restore their order.
  std::vector<size_t> order(trace.steps.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto weight = [&](size_t i) {
    if (i == 0 || i + 1 == trace.steps.size() || !trace.steps[i].error) return HUGE_VAL;
    return std::abs(*trace.steps[i].error);
  };
  std::ranges::stable_sort(order, std::greater{}, weight);
  order.resize(std::min(order.size(), static_cast<size_t>(std::max(0, most_steps))));
  std::ranges::sort(order);
  std::vector<std::vector<std::string>> table{{"step", "operation", "adds", "before", "after", "error", "so far"}};
  for (const size_t i : order) {
    const TraceStep& step = trace.steps[i];
    table.push_back({fmt::format("{}{}", i, static_cast<int64_t>(i) == trace.worst ? " *" : ""),
                     std::string(print(step.kind)), what_of(step),
                     print_value(step.kind == TraceKind::round ? Format::f32 : step.format, step.before),
                     print_value(step.format, step.after), print_error(step.error), print_error(step.error_so_far)});
  }
  report.add_text(table);
  if (order.size() < trace.steps.size())
    report.add_text(
        fmt::format("the {} of {} steps that lose most; * marks the largest loss", order.size(), trace.steps.size()));
  return report;
}

}  // namespace

namespace {

std::string print_factor(double factor) {
  return in_ieee_environment([&] { return fmt::format("{:.6g}", factor); });
}

/// "row 0 is 1.5 times the right one, row 1 0.75 times, ...", and the scales that explain it.
void add_factor(Report& report, const ConstantFactor& factor) {
  constexpr size_t most = 4;
  report.add("factor", {{"of", factor.of == FactorOf::product ? "product"
                               : factor.of == FactorOf::rows  ? "rows"
                                                              : "cols"},
                        {"factors", factor.factors},
                        {"scale_from", factor.scale_from}});
  if (factor.of == FactorOf::product) {
    report.add_text(fmt::format("every output is the right one times {}, up to rounding: a scale or alpha",
                                print_factor(factor.factors.front())));
    return;
  }
  const bool of_rows = factor.of == FactorOf::rows;
  const std::string_view line = of_rows ? "row" : "column";
  const size_t shown = std::min(most, factor.factors.size());
  std::vector<std::string> factors, scales;
  for (size_t i = 0; i < shown; ++i) {
    factors.push_back(fmt::format("{} {}: {}", line, i, print_factor(factor.factors[i])));
    if (!factor.scale_from.empty()) scales.push_back(fmt::format("{} {} that of {}", line, i, factor.scale_from[i]));
  }
  const std::string_view rest = factor.factors.size() > shown ? ", ..." : "";
  report.add_text(fmt::format("every {} is the right one times a constant, up to rounding: {}{}", line,
                              fmt::join(factors, ", "), rest));
  if (!scales.empty())
    report.add_text(fmt::format("{} has the scale of another {}: {}{}", of_rows ? "scale_a" : "scale_b", line,
                                fmt::join(scales, ", "), rest));
}

}  // namespace

Report describe(const LibraryCall& call, const std::vector<ChoiceRange>& ranges) {
  Report list = Report::list();
  std::vector<std::vector<std::string>> table{{"M", "slices", "bits", "kernel"}};
  std::vector<int> groups;
  for (const ChoiceRange& range : ranges) {
    list.append({{"first", range.first},
                 {"last", range.last},
                 {"kernel", range.choice.kernel},
                 {"slices", range.choice.slices},
                 {"bits", range.bits},
                 {"why", range.why}});
    std::string bits = range.why.empty() ? "" : "?";
    if (range.bits) {
      auto group = std::ranges::find(groups, *range.bits);
      if (group == groups.end()) group = groups.insert(groups.end(), *range.bits);
      bits = std::to_string(group - groups.begin() + 1);
    }
    table.push_back(
        {range.first == range.last ? std::to_string(range.first) : fmt::format("{}..{}", range.first, range.last),
         std::to_string(std::max(1, range.choice.slices)), bits, without_arguments(range.choice.kernel)});
  }
  const LibraryChoice& first = ranges.front().choice;
  list.add_text(fmt::format("{} on an {}, {}, {}, N {}, K {}", first.library, first.gpu, first.kind, first.layout,
                            call.n, call.k));
  list.add_text(table);
  const bool is_known = std::ranges::all_of(ranges, [](const ChoiceRange& range) { return range.bits.has_value(); });
  if (groups.size() == 1 && is_known) list.add_text("a row of A gets the same bits for all these M");
  else list.add_text("bits: M with one number give a row of A the same bits, and other numbers may give others");
  for (const ChoiceRange& range : ranges)
    if (!range.why.empty()) list.add_text(fmt::format("? from M {}: {}", range.first, range.why));
  return list;
}

Report describe(const ProductDiagnosis& diagnosis) {
  Report findings = Report::list();
  std::vector<ExplainedShare> rows;
  for (const ProductFinding& finding : diagnosis.findings) {
    findings.append({{"id", finding.fault.id},
                     {"what", finding.fault.what},
                     {"fix", finding.fault.fix},
                     {"explains_all", finding.explains_all},
                     {"wrong_explained", finding.wrong_explained},
                     {"right_broken", finding.right_broken}});
    rows.push_back({.explains_all = finding.explains_all,
                    .wrong_explained = finding.wrong_explained,
                    .right_broken = finding.right_broken,
                    .what = {finding.fault.what}});
  }
  Report report{{"outputs", diagnosis.outputs}, {"wrong", diagnosis.wrong},        {"plan", describe(diagnosis.plan)},
                {"tried", diagnosis.tried},     {"findings", std::move(findings)}, {"factor", Report()}};
  const std::string outputs = counted(diagnosis.outputs, "output");
  report.add_text("plan: " + print_plan(diagnosis.plan));
  if (diagnosis.wrong == 0)
    return report.add_text(fmt::format("nothing is wrong: all {} are correct", outputs), Tone::good);
  report.add_text(fmt::format("{} of {} {} wrong ({})", diagnosis.wrong, outputs, diagnosis.wrong == 1 ? "is" : "are",
                              print_share(diagnosis.wrong, diagnosis.outputs)),
                  Tone::bad);
  if (!rows.empty()) {
    add_explanations(report, rows, diagnosis.wrong);
    report.add_text("look at: " + diagnosis.findings.front().fault.fix);
  }
  if (diagnosis.factor) {
    Report factor;
    add_factor(factor, *diagnosis.factor);
    report.update(std::move(factor));
  }
  if (rows.empty() && !diagnosis.factor)
    report.add_text("no fault explains the wrong bits, and D is not the right one times a constant");
  return report.add_text(fmt::format("{} tried", counted(diagnosis.tried, "fault")));
}

Report describe(const ProductTrace& trace, int most_steps) {
  return in_ieee_environment([&] { return described(trace, most_steps); });
}

}  // namespace bitmma
