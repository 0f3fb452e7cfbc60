// SPDX-License-Identifier: MIT
// A survey measures one GPU, form by form: the units that it runs, their results, and the conclusions about the rules
// of this project.
//
//   for (const SurveyUnit& unit : survey_units(Target::sm_90a))
//     report.records.push_back(survey_unit(unit, seed, gpu.executor()));
//   findings_of(report)      "confirmed", "refuted: fraction bits: the row says 24, the results say 25", ...
//
// Cases are named, not stored: the same name generates the same case on every machine. A report has names and results:
// readers recompute all findings and do not trust recorded verdicts.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bitmma/analysis/report.hpp"
#include "bitmma/files/tensor_file.hpp"
#include "bitmma/hardware/device.hpp"
#include "bitmma/instruction/confirmed.hpp"
#include "bitmma/instruction/evidence.hpp"
#include "bitmma/survey/find_rule.hpp"

namespace bitmma {

enum class SurveyAsk : uint8_t {
  rule,      // the rule by which an instruction adds: found from its results alone, then checked on random cases
  question,  // a point that no source settles, or that Hopper settled: which of its answers matches the results
  bits,      // whether random cases match the model bit for bit: moves, and places of operands
};

/// "rule", "question", "bits".
std::string_view print(SurveyAsk ask);

/// One rule, question or kind of move that a survey measures.
struct SurveyUnit {
  std::string name = {};  // "rule: wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", unique on its target
  SurveyAsk ask = SurveyAsk::rule;
  Instruction instruction = Wgmma{};
  Target target = Target::sm_90a;
  std::string question = {};  // name of the question
};

/// All units for a GPU of `target`: rules first, then questions, then bits.
std::vector<SurveyUnit> survey_units(Target target);

/// How a unit ended.
enum class SurveyEnd : uint8_t {
  answered,
  failed,     // an Error: an illegal instruction, a fault of the GPU, a rejection by the driver
  timed_out,  // stopped at its time limit
  crashed,    // its process ended by a signal
};

/// "answered", "failed", "timed out", "crashed".
std::string_view print(SurveyEnd end);

/// The results of one unit. The cases of a rule are RuleCases; the cases of a question are numbered.
struct SurveyRecord {
  std::string unit = {};
  std::string instruction = {};  // as text with its immediates, in the surveying version
  SurveyEnd end = SurveyEnd::answered;
  std::string message = {};  // if there is no answer: the reason
  double seconds = 0;
  std::vector<RuleCase> cases = {};
  std::vector<RuleFact> facts = {};  // found by the search during the survey
  bool settled = true;               // for a rule: false if the search ran out of cases
  int64_t question_cases = 0;
  std::vector<uint8_t> results = {};  // case after case: D for a rule, every written word for a question
  uint64_t inputs_hash = 0;           // of every initial state, to check that the reader generated the same cases
  // Random cases of campaign_unit_of(instruction, target, seed, random_unit, random_outputs).
  int64_t random_unit = 0, random_outputs = 0;                           // 0: none were run
  int64_t random_cases = 0, random_compared = 0, random_mismatches = 0;  // outputs, against the surveying version
  uint64_t random_hash = 0;                                              // of all results
  std::optional<uint64_t> random_inputs_hash = {};  // of every initial state; 0.1.0 before 2026-11-23 lacks it
  std::optional<int64_t> first_mismatch = {};       // case index
  std::vector<uint8_t> first_mismatch_results = {};
};

/// The survey of one GPU.
struct [[nodiscard]] SurveyReport {
  std::string gpu = {};  // "NVIDIA H200", or rehearsal_gpu
  Target target = Target::sm_90a;
  std::string driver = {}, cuda = {}, date = {};  // of its start: "2026-11-23"
  std::string version = {};                       // of bitmma
  uint64_t seed = 0;
  double seconds = 0;  // total time spent
  int64_t units = 0;   // units of the target; with fewer records the survey is unfinished
  std::vector<SurveyRecord> records = {};

  bool is_rehearsal() const;
  const SurveyRecord* find(std::string_view unit) const;
};

/// The GPU name in a report of a rehearsal, where the model answered in place of a GPU: it proves nothing.
inline constexpr std::string_view rehearsal_gpu = "rehearsal by the model";

/// Converts a report to a file and back. Throws Error, which names the file and the mistake, for instance fields of the
/// header or of a record that contradict each other, such as a GPU's name over the records of a rehearsal.
TensorFile to_file(const SurveyReport& report);
SurveyReport read_survey(const TensorFile& file);

/// How much of a unit to run.
struct SurveyEffort {
  int64_t most_result_bytes = 16'000;  // for the cases that find a rule
  int64_t random_outputs = 200'000;    // approximate
};

/// Runs the unit. The record holds errors of the device.
SurveyRecord survey_unit(const SurveyUnit& unit, uint64_t seed, const Executor& execute,
                         const SurveyEffort& effort = {});

/// The verdict of a record on this version's rows and choices.
enum class SurveyVerdict : uint8_t {
  confirmed,   // every bit is the model's, and the search found its rule; `details` has what remains undistinguished
  refuted,     // the results contradict the row, or match another answer than the model's
  unknown,     // no rule of the search, and no known answer, gives the results: something new
  undecided,   // there are answers, but none of their bits decides
  not_run,     // no answer
  unreadable,  // cases of another version, a contradictory record, or a unit that the target does not have
};

/// "confirmed", "refuted", ...
std::string_view print(SurveyVerdict verdict);

struct [[nodiscard]] SurveyFinding {
  std::string unit = {};
  SurveyAsk ask = SurveyAsk::rule;
  SurveyVerdict verdict = SurveyVerdict::not_run;
  std::string answer = {};                     // "F = 25, RZ-23, floor -133", the answer, or what happened
  std::vector<std::string> details = {};       // wrong facts, open facts, remaining answers
  int64_t outputs = 0, mismatches = 0;         // in comparison with the model
  Evidence evidence = Evidence::model_choice;  // in this version, before the report
  std::optional<AccumulatorModel> row = {};    // in this version, for a rule
  std::optional<Choice> choice = {};           // for a question: the choice that it settles
  bool compared_random_cases = false;          // their results were recomputed; a row must have this to become measured
  bool searched = false;                       // for a rule: found again from the results, not only compared
};

/// Recomputes everything. It searches the rule again if `search` is set or the row does not give every bit; otherwise
/// the facts come from the record and are marked as such. `row` replaces this version's row of arithmetic in all
/// comparisons; tests pass a wrong row, which must be detected.
SurveyFinding finding_of(const SurveyReport& report, const SurveyUnit& unit, bool search = true,
                         const AccumulatorModel* row = nullptr);
/// What would become measured: rows whose units were all run, searched again and confirmed, with random cases, and
/// choices settled in the model's favour. Empty for a rehearsal, and for a report with a record of a unit that its
/// target does not have.
Confirmed confirmed_by(const SurveyReport& report, const std::vector<SurveyFinding>& findings);

/// A report and its findings.
struct ReadSurvey {
  std::string path = {};
  SurveyReport report = {};
  std::vector<SurveyFinding> findings = {};

  int64_t count(SurveyVerdict verdict) const;
};

/// What some report confirms and no report from a GPU with the same arithmetic contradicts.
Confirmed confirmed_by_all(const std::vector<ReadSurvey>& surveys);
/// All units of the report's target, those without a record as not run; then records of units that the target does not
/// have, as unreadable.
std::vector<SurveyFinding> findings_of(const SurveyReport& report, bool search, int threads,
                                       const std::function<void(int64_t)>& progress = {});

/// {"gpu", "rehearsal", "target", "driver", "cuda", "date", "bitmma", "seed", "seconds", "units", "asked", "answered",
/// "mismatches"}: the progress, and the mismatches of random cases with the surveying version.
Report describe(const SurveyReport& report);
/// A list with an object for each report: {"file", "gpu", "rehearsal", "target", "driver", "cuda", "date", "bitmma",
/// "seed", "seconds", "findings"}; a finding is {"unit", "asked", "verdict", "found", "details", "outputs",
/// "mismatches", "evidence_before"}, and "choice" if it settles one. The text omits units that were not run and,
/// without `all`, confirmed rules and bits; it lists differences between GPUs of one target.
Report describe(const std::vector<ReadSurvey>& surveys, bool all = false);

/// A whole survey: every unit in its own process, so that a hang, a fault or an illegal instruction costs one
/// unit.
struct SurveyOptions {
  std::string path = {};            // of the report; an existing report is resumed
  double seconds = 480;             // start no unit after this time; 0: no limit
  double unit_seconds = 60;         // a unit that takes longer is stopped
  int jobs = 4;                     // processes at a time
  std::string only = {};            // units whose name contains this text
  bool retry = false;               // run units again whose record has no answer
  std::function<bool()> stop = {};  // called before each unit; true: start no more
  /// The program that runs one unit, with its first arguments; it is called with the unit's name, "-o" and a path. It
  /// calls run_survey_unit with the first and the last and writes a report there. An empty name reports only the GPU.
  std::vector<std::string> command = {};
};

/// The arguments of run_survey_unit other than the unit's name.
struct SurveyDevice {
  int ordinal = 0;
  std::optional<Target> rehearse = {};  // use the model of this target in place of a GPU
  uint64_t seed = 0;
};

/// Called first in the process of a unit: makes the system kill it when the survey that started it ends in any way.
void end_with_survey();

/// The report of one unit, or of none if the name is empty. Throws Error if there is no GPU or no such unit.
SurveyReport run_survey_unit(std::string_view unit, const SurveyDevice& device, const SurveyEffort& effort = {});

struct SurveyProgress {
  int64_t units = 0, done = 0;  // requested units, and units with a record
  int64_t unanswered = 0;
  int64_t mismatches = 0;
  std::string_view last = {};  // the unit that ended last
};

/// Runs the missing units and writes the report, periodically and at the end. Throws Error if the existing report is
/// for another GPU or seed, if no unit's name contains `only`, if no process can be started, and if several units in a
/// row had to be stopped: then the GPU hangs, and the report has what was measured before. If the GPU still responds,
/// the kind of instruction is at fault: its units run last, and if they hang again the survey ends.
SurveyReport run_survey(const SurveyOptions& options, uint64_t seed,
                        const std::function<void(const SurveyProgress&)>& progress = {});

}  // namespace bitmma
