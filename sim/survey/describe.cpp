// SPDX-License-Identifier: MIT
// Prints the findings of surveys as reports.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "../core/seconds.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/survey/survey.hpp"

namespace bitmma {
namespace {

constexpr std::array verdicts{SurveyVerdict::confirmed, SurveyVerdict::refuted,    SurveyVerdict::unknown,
                              SurveyVerdict::undecided, SurveyVerdict::unreadable, SurveyVerdict::not_run};
Tone tone_of(SurveyVerdict verdict) {
  return verdict == SurveyVerdict::confirmed ? Tone::good
         : verdict == SurveyVerdict::refuted ? Tone::bad
                                             : Tone::warning;
}

/// The GPU and the date of a survey.
Report origin_of(const SurveyReport& answers) {
  return {{"gpu", answers.gpu},
          {"rehearsal", answers.gpu == rehearsal_gpu},
          {"target", print(answers.target)},
          {"driver", answers.driver},
          {"cuda", answers.cuda},
          {"date", answers.date}};
}

std::string print_origin(const SurveyReport& answers) {
  return fmt::format("{} ({}), driver {}, CUDA {}, {}", answers.gpu, print(answers.target), answers.driver,
                     answers.cuda, answers.date);
}

Report describe(const SurveyFinding& finding, Target target) {
  Report report{{"unit", finding.unit},
                {"asked", print(finding.ask)},
                {"verdict", print(finding.verdict)},
                {"found", finding.answer},
                {"details", finding.details},
                {"outputs", finding.outputs},
                {"mismatches", finding.mismatches},
                {"evidence_before", print(finding.evidence, target)}};
  if (finding.choice) report.add("choice", print(*finding.choice));
  return report;
}

void add_finding(Report& report, const SurveyFinding& finding) {
  report.add_text("");
  report.add_text(fmt::format("{}  {}", print(finding.verdict), finding.unit), tone_of(finding.verdict));
  report.add_text("    " + finding.answer);
  if (finding.outputs > 0) {
    report.add_text(
        fmt::format("    {}, {} differ from the model", counted(finding.outputs, "output"), finding.mismatches));
  }
  for (const std::string& detail : finding.details) report.add_text("    " + detail);
}

/// The number of units of each kind by verdict.
std::vector<std::vector<std::string>> table_of(const std::vector<SurveyFinding>& findings) {
  std::vector<std::vector<std::string>> table{{"asked", "units"}};
  for (const SurveyVerdict verdict : verdicts) table[0].emplace_back(print(verdict));
  for (const SurveyAsk ask : {SurveyAsk::rule, SurveyAsk::question, SurveyAsk::bits}) {
    std::vector<std::string>& row = table.emplace_back();
    row = {std::string(print(ask)), std::to_string(std::ranges::count(findings, ask, &SurveyFinding::ask))};
    for (const SurveyVerdict verdict : verdicts) {
      row.push_back(std::to_string(std::ranges::count_if(
          findings, [&](const SurveyFinding& finding) { return finding.ask == ask && finding.verdict == verdict; })));
    }
  }
  return table;
}

Report describe(const ReadSurvey& survey, bool all) {
  const SurveyReport& report = survey.report;
  Report description{{"file", survey.path}};
  description.update(origin_of(report))
      .update({{"bitmma", report.version}, {"seed", report.seed}, {"seconds", report.seconds}});
  description.add_text(fmt::format("{}: {}; {}, seed {}, {} s", survey.path, print_origin(report), report.version,
                                   report.seed, print_seconds(report.seconds)));
  if (report.is_rehearsal())
    description.add_text("a rehearsal: the model answered in place of a GPU, which proves nothing", Tone::warning);
  description.add_text("").add_text(table_of(survey.findings));
  Report findings = Report::list();
  for (const SurveyFinding& finding : survey.findings) {
    findings.append(describe(finding, report.target));
    // Count units that were not run; show units that were run without an answer.
    const bool is_news = finding.ask == SurveyAsk::question || finding.verdict != SurveyVerdict::confirmed;
    if (report.find(finding.unit) && (all || is_news)) add_finding(description, finding);
  }
  const Confirmed news = confirmed_by(report, survey.findings);
  if (!news.empty()) {
    description.add_text("");
    description.add_text(
        fmt::format("{} and {} would become measured; to write them, run bitmma survey read --confirmed {}",
                    counted(static_cast<int64_t>(news.rules.size()), "row"),
                    counted(static_cast<int64_t>(news.choices.size()), "choice"), survey.path));
  }
  return description.add("findings", std::move(findings));
}

/// Lists units with different answers from GPUs of one target.
void add_contradictions(Report& report, const std::vector<ReadSurvey>& surveys) {
  std::map<std::pair<Target, std::string>, std::map<std::string, std::string>> by_unit;
  for (const ReadSurvey& survey : surveys) {
    if (survey.report.is_rehearsal()) continue;
    for (const SurveyFinding& finding : survey.findings) {
      if (finding.verdict == SurveyVerdict::confirmed || finding.verdict == SurveyVerdict::refuted)
        by_unit[{survey.report.target, finding.unit}][finding.answer].append(fmt::format(" {}", survey.report.gpu));
    }
  }
  for (const auto& [unit, answers] : by_unit) {
    if (answers.size() < 2) continue;
    report.add_text("");
    report.add_text(fmt::format("GPUs differ: {}", unit.second), Tone::warning);
    for (const auto& [answer, gpus] : answers) report.add_text(fmt::format("   {}: {}", gpus, answer));
  }
}

}  // namespace

Report describe(const SurveyReport& report) {
  int64_t answered = 0, mismatches = 0;
  for (const SurveyRecord& record : report.records) {
    answered += record.end == SurveyEnd::answered ? 1 : 0;
    mismatches += record.random_mismatches;
  }
  const size_t recorded = report.records.size();
  Report description = origin_of(report);
  description.update({{"bitmma", report.version},
                      {"seed", report.seed},
                      {"seconds", report.seconds},
                      {"units", report.units},
                      {"asked", recorded},
                      {"answered", answered},
                      {"mismatches", mismatches}});
  return description.add_text(fmt::format(
      "{}: {} of {} asked, {} answered, {} of random cases differ from the model; {} s", print_origin(report), recorded,
      counted(report.units, "unit"), answered, counted(mismatches, "output"), print_seconds(report.seconds)));
}

Report describe(const std::vector<ReadSurvey>& surveys, bool all) {
  Report list = Report::list();
  for (const ReadSurvey& survey : surveys) {
    Report row = describe(survey, all);
    if (&survey != surveys.data()) row.lines.insert(row.lines.begin(), Report::Line());
    if (&survey == &surveys.back()) add_contradictions(row, surveys);
    list.append(std::move(row));
  }
  return list;
}

}  // namespace bitmma
