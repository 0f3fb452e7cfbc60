// SPDX-License-Identifier: MIT
// Compares a report with this version's rows and choices. It regenerates the cases from their names, compares the
// results with the model, and searches the rule again; it does not use the report's own claims.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "bitmma/core/parallel.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/core/version.hpp"
#include "bitmma/files/compare.hpp"
#include "bitmma/instruction/evidence.hpp"
#include "cases.hpp"

namespace bitmma {
namespace {

using namespace survey;

struct Reading {
  const SurveyReport& report;
  const SurveyUnit& unit;
  const SurveyRecord& record;
  bool search;
  const AccumulatorModel* row;
  SurveyFinding& finding;
};

/// For a report whose cases another version generated, or whose file was modified.
void call_unreadable(SurveyFinding& finding, std::string why) {
  finding.verdict = SurveyVerdict::unreadable;
  finding.answer = std::move(why);
}

/// Records that are not units of the report's target.
std::vector<const SurveyRecord*> strangers_of(const SurveyReport& report, const std::vector<SurveyUnit>& units) {
  std::set<std::string_view> names;
  for (const SurveyUnit& unit : units) names.insert(unit.name);
  std::vector<const SurveyRecord*> strangers;
  for (const SurveyRecord& record : report.records) {
    if (!names.contains(record.unit)) strangers.push_back(&record);
  }
  return strangers;
}

std::string print_fact(const RuleFact& fact) {
  return fmt::format("{} {}; {} gave the same bits", printable(fact.name), printable(fact.value),
                     printable(fmt::format("{}", fmt::join(fact.open, ", "))));
}

void add_open_facts(SurveyFinding& finding, std::string_view before, std::span<const RuleFact> facts) {
  for (const RuleFact& fact : facts) {
    if (!fact.open.empty()) finding.details.push_back(fmt::format("{}{}", before, print_fact(fact)));
  }
}

/// Regenerates the recorded cases of a rule. Nothing if they are not the same.
std::optional<std::vector<RuleObservation>> observations_of(const Reading& reading) {
  const SurveyUnit& unit = reading.unit;
  const SurveyRecord& record = reading.record;
  const Mma mma = mma_of(unit.instruction);
  const int kept = rows_kept(mma);
  const size_t bytes = bytes_of(Matrix(mma.d, kept, mma.n)).size();
  if (record.results.size() != record.cases.size() * bytes) return std::nullopt;
  std::vector<RuleObservation> observations;
  Hash inputs;
  for (size_t i = 0; i < record.cases.size(); ++i) {
    const Operands operands = operands_of(unit.instruction, unit.target, record.cases[i]);
    inputs.add(rule_state(unit, operands, reading.report.seed, i));
    const RuleRows rows = rows_of(unit.instruction, record.cases[i], kept);
    RuleObservation& observation = observations.emplace_back();
    observation.operands = block_of(operands, rows.first, rows.count, 0, mma.n);
    observation.d = matrix_of(std::span(record.results).subspan(i * bytes, bytes), mma.d, kept, mma.n);
  }
  if (inputs.value() != record.inputs_hash) return std::nullopt;
  return observations;
}

/// Compares the rule's cases with the row, and searches the rule again.
void read_rule(const Reading& reading) {
  SurveyFinding& finding = reading.finding;
  const AccumulatorModel& row = reading.row ? *reading.row : model_for(reading.unit.instruction, reading.unit.target);
  const auto observations = observations_of(reading);
  if (!observations) return call_unreadable(finding, "the cases differ from those of this version");
  for (size_t i = 0; i < observations->size(); ++i) {
    const Comparison comparison =
        compare_case(reading.unit.instruction, static_cast<int64_t>(i),
                     multiply_accumulate(row, (*observations)[i].operands), (*observations)[i].d);
    finding.outputs += comparison.outputs;
    finding.mismatches += comparison.mismatches;
  }
  if (observations->empty()) {
    finding.verdict = SurveyVerdict::undecided;
    finding.answer = "no cases";
    return;
  }
  finding.answer = print_rule(row);
  finding.verdict = SurveyVerdict::confirmed;
  const auto leave_open = [&](std::string_view why) {
    finding.verdict = SurveyVerdict::undecided;
    finding.details.emplace_back(why);
  };
  if (!reading.record.settled) leave_open("the search ended before it tried to distinguish the remaining rules");
  const int kept = rows_kept(mma_of(reading.unit.instruction));
  RuleSearch search(reading.unit.instruction, reading.unit.target, reading.report.seed, 1, kept);
  const bool begins_as_all = std::ranges::all_of(search.first_cases(), [&](const RuleCase& rule_case) {
    return std::ranges::find(reading.record.cases, rule_case) != reading.record.cases.end();
  });
  if (!begins_as_all) {
    leave_open("some cases with which every search begins are missing");
    if (finding.mismatches > 0) {
      finding.verdict = SurveyVerdict::unknown;
      finding.answer = "not the rule of the row";
    }
  } else if (reading.search || finding.mismatches > 0) {
    finding.searched = true;
    search.observe(*observations);
    const FoundRule result = search.result();
    // The report may lack the cases that separate these rules, by omission or because its writer did not know them.
    if (finding.mismatches == 0 && finding.verdict == SurveyVerdict::confirmed && !search.is_exhausted())
      leave_open("other cases would distinguish the remaining rules");
    if (finding.mismatches == 0 && result.rule != row) {  // the search must find the row if it gives every bit
      finding.verdict = SurveyVerdict::undecided;
      finding.answer = result.rule ? print_rule(*result.rule) : "no rule of the search";
    }
    if (finding.mismatches > 0) {
      const bool is_known = result.rule || !result.contradictions.empty();
      finding.verdict = is_known ? SurveyVerdict::refuted : SurveyVerdict::unknown;
      finding.answer = result.rule ? print_rule(*result.rule)
                       : is_known  ? "another rule for facts that the instruction itself defines"
                       : result.nearest
                           ? fmt::format("no rule of the search; the nearest, {}, misses {} of {} outputs",
                                         print_rule(*result.nearest), result.nearest_mismatches, result.outputs)
                           : "no rule of the search";
      finding.details = differences(row, result);
    }
    add_open_facts(finding, "open: ", result.facts);
  }
  if (!finding.searched) add_open_facts(finding, "open according to the report: ", reading.record.facts);
}

/// Why the counts of the random cases contradict their hash; empty if they do not. The counts refer to the model of the
/// report's version: they are checked only if that is this version, with the row unchanged.
std::string contradiction_of(const Reading& reading, int64_t outputs, int64_t first_differences, bool is_same_hash) {
  const SurveyRecord& record = reading.record;
  if (record.random_compared != outputs) {
    return fmt::format("the record states that {} random outputs were compared, but its cases have {}",
                       record.random_compared, outputs);
  }
  if (record.random_mismatches == 0) return {};
  if (!record.first_mismatch) return "the record states that random outputs differ, but names no such case";
  const int64_t first = *record.first_mismatch;
  if (is_same_hash && first_differences > 0) {
    return fmt::format("the hash matches the model's results, but the results of random case {} do not", first);
  }
  const bool is_model_of_the_day = reading.report.version == version() && !reading.row;
  if (is_model_of_the_day && first_differences == 0) {
    return fmt::format("the record states that random case {} differs, but its results equal the model's", first);
  }
  if (is_model_of_the_day && record.random_mismatches < first_differences) {
    return fmt::format("the record states that {} random outputs differ, but {} of case {} differ",
                       record.random_mismatches, first_differences, first);
  }
  return {};
}

/// Compares the random cases. The report has one hash of their results, and the results of the first mismatch.
void read_random(const Reading& reading) {
  const SurveyRecord& record = reading.record;
  SurveyFinding& finding = reading.finding;
  if (finding.verdict == SurveyVerdict::unreadable) return;
  if (record.random_cases == 0) {
    if (finding.verdict == SurveyVerdict::confirmed && reading.unit.ask == SurveyAsk::bits)
      finding.verdict = SurveyVerdict::undecided;
    finding.details.push_back("no random cases");
    return;
  }
  if (record.random_unit != random_unit_of(reading.unit))
    return call_unreadable(finding, "the random cases belong to another unit");
  const CampaignUnit random = campaign_unit_of(reading.unit.instruction, reading.unit.target, reading.report.seed,
                                               record.random_unit, record.random_outputs);
  if (static_cast<int64_t>(random.cases.size()) != record.random_cases)
    return call_unreadable(finding, "the random cases differ from those of this version");
  if (record.random_inputs_hash && *record.random_inputs_hash != inputs_hash_of(random))
    return call_unreadable(finding, "the random cases differ from those of this version");
  Hash results;
  int64_t outputs = 0, first_differences = 0;
  for (size_t i = 0; i < random.cases.size(); ++i) {
    const Matrix d = result_of(reading.unit.instruction, reading.unit.target, random.cases[i].state, reading.row);
    outputs += int64_t{d.rows()} * d.cols();
    results.add(bytes_of(d));
    if (record.first_mismatch != static_cast<int64_t>(i)) continue;
    if (record.first_mismatch_results.size() != bytes_of(d).size())
      return call_unreadable(finding, "the number of results of the first differing random case is not the size of D");
    const Matrix recorded = matrix_of(record.first_mismatch_results, d.format(), d.rows(), d.cols());
    first_differences = compare_case(reading.unit.instruction, static_cast<int64_t>(i), d, recorded).mismatches;
  }
  const bool is_same_hash = results.value() == record.random_hash;
  std::string contradiction = contradiction_of(reading, outputs, first_differences, is_same_hash);
  if (!contradiction.empty()) return call_unreadable(finding, std::move(contradiction));
  finding.outputs += outputs;
  finding.compared_random_cases = true;
  if (is_same_hash) {
    if (record.random_mismatches > 0) {
      finding.details.push_back(
          fmt::format("outputs of random cases that differed from the model of {}, but not from this version's: {}",
                      printable(reading.report.version), record.random_mismatches));
    }
    return;
  }
  // The record counts mismatches with the model of its version; at least one output differs from this version's.
  finding.mismatches += std::max({record.random_mismatches, first_differences, int64_t{1}});
  finding.details.push_back(
      record.first_mismatch
          ? fmt::format("random cases differ, first case {} of seed {}, unit {}", *record.first_mismatch,
                        reading.report.seed, record.random_unit)
          : "random cases differ from this version's model, but did not differ from the model of the report's version");
  if (finding.verdict == SurveyVerdict::confirmed || finding.verdict == SurveyVerdict::undecided) {
    finding.verdict = SurveyVerdict::unknown;
    if (reading.unit.ask == SurveyAsk::rule) finding.answer += ", but not for random cases";
  }
}

void read_question(const Reading& reading) {
  SurveyFinding& finding = reading.finding;
  const Question& question = question_of(reading.unit);
  finding.choice = question.choice;
  const std::vector<Trial> trials = trials_of(reading.unit, question, reading.report.seed);
  Hash inputs;
  for (const Trial& trial : trials) inputs.add(trial.before);
  if (inputs.value() != reading.record.inputs_hash ||
      reading.record.question_cases != static_cast<int64_t>(trials.size()))
    return call_unreadable(finding, "the cases differ from those of this version");
  std::vector<std::string_view> fitting;
  for (const Answer& answer : question.answers) {
    std::vector<uint8_t> expected;
    try {
      for (const Trial& trial : trials) {
        const std::vector<uint8_t> bytes = written_bytes(trial.instruction, answer.after(trial));
        expected.insert(expected.end(), bytes.begin(), bytes.end());
      }
    } catch (const Error&) {  // the answer would read outside the image
      continue;
    }
    if (expected.size() != reading.record.results.size())
      return call_unreadable(finding, "the number of results is not the number of outputs of the cases");
    const bool fits = expected == reading.record.results;
    if (fits) fitting.push_back(answer.text);
    if (&answer != question.answers.data()) continue;
    finding.outputs = static_cast<int64_t>(expected.size() / 4);
    for (size_t i = 0; i + 4 <= expected.size(); i += 4) {
      const bool same = std::equal(&expected[i], &expected[i] + 4, &reading.record.results[i]);
      finding.mismatches += same ? 0 : 1;
    }
  }
  const bool ours = !fitting.empty() && fitting.front() == question.answers.front().text;
  if (fitting.empty()) {
    finding.verdict = SurveyVerdict::unknown;
    finding.answer = "none of the known answers";
  } else if (fitting.size() > 1) {
    finding.verdict = SurveyVerdict::undecided;
    finding.answer = fmt::format("{}", fmt::join(fitting, "; or "));
  } else {
    finding.verdict = ours ? SurveyVerdict::confirmed : SurveyVerdict::refuted;
    finding.answer = std::string(fitting.front());
    if (!ours) finding.details.push_back(fmt::format("the model says: {}", question.answers.front().text));
  }
}

/// The choices that the finding concerns: its own, and those that the unit's instruction exposes.
std::set<Choice> choices_of_finding(const SurveyFinding& finding, const std::vector<SurveyUnit>& units) {
  std::set<Choice> choices;
  if (finding.choice) choices.insert(*finding.choice);
  const auto unit = std::ranges::find(units, finding.unit, &SurveyUnit::name);
  if (unit == units.end()) return choices;
  for (const Choice shown : choices_of(unit->instruction, unit->target)) choices.insert(shown);
  return choices;
}

}  // namespace

std::string_view print(SurveyVerdict verdict) {
  switch (verdict) {
    case SurveyVerdict::confirmed: return "confirmed";
    case SurveyVerdict::refuted: return "refuted";
    case SurveyVerdict::unknown: return "unknown";
    case SurveyVerdict::undecided: return "undecided";
    case SurveyVerdict::not_run: return "not run";
    default: return "unreadable";
  }
}

SurveyFinding finding_of(const SurveyReport& report, const SurveyUnit& unit, bool search, const AccumulatorModel* row) {
  SurveyFinding finding{.unit = unit.name, .ask = unit.ask};
  if (is_mma(unit.instruction)) finding.evidence = evidence_of(unit.instruction, unit.target);
  if (is_mma(unit.instruction)) finding.row = row ? *row : model_for(unit.instruction, unit.target);
  const SurveyRecord* record = report.find(unit.name);
  if (!record || record->end != SurveyEnd::answered) {
    finding.answer = !record                   ? "no record"
                     : record->message.empty() ? std::string(print(record->end))
                                               : fmt::format("{}: {}", print(record->end), printable(record->message));
    return finding;
  }
  if (record->instruction != instruction_text(unit)) {
    call_unreadable(finding, "this version uses another instruction for the unit");
    return finding;
  }
  const Reading reading{report, unit, *record, search, row, finding};
  finding.verdict = SurveyVerdict::confirmed;
  try {
    if (unit.ask == SurveyAsk::rule) read_rule(reading);
    if (unit.ask == SurveyAsk::question) read_question(reading);
    else read_random(reading);
  } catch (const Error& error) {
    call_unreadable(finding, error.what());
  }
  if (unit.ask == SurveyAsk::bits && finding.answer.empty())
    finding.answer = finding.mismatches == 0 ? "all bits equal the model's" : "bits differ from the model's";
  return finding;
}

int64_t ReadSurvey::count(SurveyVerdict verdict) const {
  return std::ranges::count(findings, verdict, &SurveyFinding::verdict);
}

Confirmed confirmed_by(const SurveyReport& report, const std::vector<SurveyFinding>& findings) {
  Confirmed confirmed;
  if (report.is_rehearsal()) return confirmed;
  const std::string gpu = printable(fmt::format("{}, driver {}, {}", report.gpu, report.driver, report.date));
  const std::vector<SurveyUnit> units = survey_units(report.target);
  if (!strangers_of(report, units).empty()) return confirmed;  // from another GPU or another version
  const auto verdict_of = [&](const SurveyUnit& unit) {
    const auto known = std::ranges::find(findings, unit.name, &SurveyFinding::unit);
    return known == findings.end() ? SurveyVerdict::not_run : known->verdict;
  };
  // True if every question about the choice confirms the model, and no unit that exposes the choice contradicts it.
  const auto is_settled = [&](Choice choice) {
    return std::ranges::all_of(units, [&](const SurveyUnit& unit) {
      const bool asks = unit.ask == SurveyAsk::question && question_of(unit).choice == choice;
      const std::vector<Choice> shown = choices_of(unit.instruction, unit.target);
      const bool shows = std::ranges::find(shown, choice) != shown.end();
      return (!asks && !shows) || verdict_of(unit) == SurveyVerdict::confirmed;
    });
  };
  for (const SurveyFinding& finding : findings) {
    if (finding.choice && !is_confirmed(*finding.choice, report.target) && is_settled(*finding.choice)) {
      confirmed.add({.choices = {{report.target, *finding.choice, gpu}}});
    }
    // To confirm a row, the search must find its rule, and no unit of the row may contradict it.
    if (!finding.row || finding.ask != SurveyAsk::rule || !finding.searched ||
        find_confirmed(*finding.row, report.target) || finding.evidence == Evidence::measured)
      continue;
    const AccumulatorModel& row = *finding.row;
    const bool all_confirmed = std::ranges::all_of(findings, [&](const SurveyFinding& other) {
      const bool is_place = other.ask == SurveyAsk::question;  // a question concerns places, not sums
      return other.row != finding.row || is_place ||
             (other.verdict == SurveyVerdict::confirmed && other.outputs > 0 &&
              (other.searched || other.ask != SurveyAsk::rule) && other.compared_random_cases);
    });
    if (all_confirmed)
      confirmed.add({.rules = {{report.target, row.family, row.inputs, row.output, row.scaling, row.quad_pairs, gpu}}});
  }
  return confirmed;
}

Confirmed confirmed_by_all(const std::vector<ReadSurvey>& surveys) {
  Confirmed all;
  for (const ReadSurvey& survey : surveys) all.add(confirmed_by(survey.report, survey.findings));
  for (const auto& [path, report, findings] : surveys) {
    if (report.is_rehearsal()) continue;
    const auto adds_alike = [&](Target target) { return info(target).adds_as == info(report.target).adds_as; };
    const std::vector<SurveyUnit> units = survey_units(report.target);
    for (const SurveyFinding& finding : findings) {
      if (finding.verdict != SurveyVerdict::refuted && finding.verdict != SurveyVerdict::unknown) continue;
      const std::set<Choice> contradicted = choices_of_finding(finding, units);
      std::erase_if(all.choices, [&](const ConfirmedChoice& row) {
        return adds_alike(row.target) && contradicted.contains(row.choice);
      });
      std::erase_if(all.rules, [&](const ConfirmedRule& row) {
        return finding.row && adds_alike(row.target) && names(row, *finding.row);
      });
    }
  }
  return all;
}

std::vector<SurveyFinding> findings_of(const SurveyReport& report, bool search, int threads,
                                       const std::function<void(int64_t)>& progress) {
  const std::vector<SurveyUnit> units = survey_units(report.target);
  std::vector<SurveyFinding> findings(units.size());
  std::mutex mutex;
  int64_t done = 0;
  parallel_for(units.size(), threads, [&](size_t i) {
    findings[i] = finding_of(report, units[i], search);
    const std::lock_guard lock(mutex);
    if (progress) progress(++done);
  });
  for (const SurveyRecord* record : strangers_of(report, units)) {
    SurveyFinding& finding = findings.emplace_back();
    finding.unit = record->unit;
    finding.ask = ask_named(record->unit).value_or(SurveyAsk::bits);
    call_unreadable(finding,
                    fmt::format("{} has no such unit: the report is for another target, or from another version",
                                print(report.target)));
  }
  return findings;
}

}  // namespace bitmma
