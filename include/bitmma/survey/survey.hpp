// SPDX-License-Identifier: MIT
// A survey measures one GPU, form by form: the units it runs, their results, and what the results say about the rules
// of this project.
//
//   for (const SurveyUnit& unit : survey_units(Target::sm_90a))
//     report.records.push_back(survey_unit(unit, seed, gpu.executor()));
//   findings_of(report)      "confirmed", "refuted: fraction bits: the row says 24, the results say 25", ...
//
// Cases are named, not kept: the same name makes the same case on every machine. A report holds names and results:
// readers recompute all findings and do not trust recorded verdicts.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bitmma/analysis/find_rule.hpp"
#include "bitmma/analysis/report.hpp"
#include "bitmma/files/tensor_file.hpp"
#include "bitmma/hardware/device.hpp"
#include "bitmma/instruction/confirmed.hpp"
#include "bitmma/instruction/evidence.hpp"

namespace bitmma {

enum class SurveyAsk : uint8_t {
  rule,      // by which rule an instruction adds: found from its results alone, then random cases against it
  question,  // a point that no source settles, or that Hopper settled: which of its answers the results have
  bits,      // whether all bits of random cases are the model's: moves, and where operands lie
};

/// "rule", "question", "bits".
std::string_view print(SurveyAsk ask);

/// One rule, question or kind of move that a survey measures.
struct SurveyUnit {
  std::string name = {};  // "rule: wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", unique on its target
  SurveyAsk ask = SurveyAsk::rule;
  Instruction instruction = Wgmma{};
  Target target = Target::sm_90a;
  std::string question = {};  // its name
};

/// Everything that a GPU of `target` can be asked: rules first, then questions, then bits.
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

/// The results of one unit. The cases of a rule are RuleCases, those of a question are counted.
struct SurveyRecord {
  std::string unit = {};
  std::string instruction = {};  // as text with its immediates, at the time of the survey
  SurveyEnd end = SurveyEnd::answered;
  std::string message = {};  // of a unit without an answer: what happened
  double seconds = 0;
  std::vector<RuleCase> cases = {};
  std::vector<RuleFact> facts = {};  // found by the search during the survey
  bool settled = true;               // of a rule: false if the search ran out of cases
  int64_t question_cases = 0;
  std::vector<uint8_t> results = {};  // case after case: D of a rule, every word that is written of a question
  uint64_t inputs_hash = 0;           // of every state before, to check that the reader made the same cases
  // Random cases of campaign_unit_of(instruction, target, seed, random_unit, random_outputs).
  int64_t random_unit = 0, random_outputs = 0;                           // 0: none were run
  int64_t random_cases = 0, random_compared = 0, random_mismatches = 0;  // outputs, against the model of then
  uint64_t random_hash = 0;                                              // of all results
  std::optional<uint64_t> random_inputs_hash = {};  // of every state before; surveys of 0.1.0 before 2026-11-23 lack it
  std::optional<int64_t> first_mismatch = {};       // a case
  std::vector<uint8_t> first_mismatch_results = {};
};

/// The survey of one GPU.
struct SurveyReport {
  std::string gpu = {};  // "NVIDIA H200", or rehearsal_gpu
  Target target = Target::sm_90a;
  std::string driver = {}, cuda = {}, date = {};  // of its start: "2026-11-23"
  std::string version = {};                       // of bitmma
  uint64_t seed = 0;
  double seconds = 0;  // that were spent on it
  int64_t units = 0;   // units of the target; with fewer records the survey is unfinished
  std::vector<SurveyRecord> records = {};

  bool is_rehearsal() const;
  const SurveyRecord* find(std::string_view unit) const;
};

/// The mark of a report in which the model answered in place of a GPU: a rehearsal proves nothing.
inline constexpr std::string_view rehearsal_gpu = "rehearsal by the model";

/// The report as a file and back. Throws Error naming the file and what is wrong with it: fields of the header or of a
/// record that contradict each other, such as the name of a GPU over the records of a rehearsal, among it.
TensorFile to_file(const SurveyReport& report);
SurveyReport read_survey(const TensorFile& file);

/// How much of a unit is run.
struct SurveyEffort {
  int64_t most_result_bytes = 16'000;  // of the cases that find a rule
  int64_t random_outputs = 200'000;    // about
};

/// Runs the unit. Errors of the device are in the record.
SurveyRecord survey_unit(const SurveyUnit& unit, uint64_t seed, const Executor& execute,
                         const SurveyEffort& effort = {});

/// The verdict of a record about this version's rows and choices.
enum class SurveyVerdict : uint8_t {
  confirmed,  // every bit is the model's, and the search found its rule; what it could not tell apart is in the details
  refuted,    // results contradict the row, or are another answer than the model's
  unknown,    // no rule of the search, and none of the answers, gives the results: something new
  undecided,  // answered, but by no bit that decides
  not_run,    // no answer
  unreadable,  // cases of another version, a record that contradicts itself, or a unit that the target does not have
};

/// "confirmed", "refuted", ...
std::string_view print(SurveyVerdict verdict);

struct SurveyFinding {
  std::string unit = {};
  SurveyAsk ask = SurveyAsk::rule;
  SurveyVerdict verdict = SurveyVerdict::not_run;
  std::string found = {};                      // "F = 25, RZ-23, floor -133", the answer, or what happened
  std::vector<std::string> details = {};       // facts that are wrong, facts that stay open, answers that are left
  int64_t outputs = 0, mismatches = 0;         // compared with the model
  Evidence evidence = Evidence::model_choice;  // of this version, before the report
  std::optional<AccumulatorModel> row = {};    // of this version, for a rule
  std::optional<Choice> choice = {};           // of a question: that it settles
  bool compared_random_cases = false;          // their results were computed again; a row needs it to become measured
  bool searched = false;                       // of a rule: found again from the results, and not only compared
};

/// Computes everything again, the search for the rule included where `search` asks for it or the row does not give
/// every bit; else the facts are what the record says, and called so. `row` replaces this version's row of arithmetic
/// in all comparisons; tests pass a wrong row, which must be found.
SurveyFinding finding_of(const SurveyReport& report, const SurveyUnit& unit, bool search = true,
                         const AccumulatorModel* row = nullptr);
/// What would become measured: rows of which every unit was run, searched again and confirmed, with random cases, and
/// choices that were settled in the model's favour. Nothing of a rehearsal, nor of a report with a record of a unit
/// that its target does not have.
Confirmed confirmed_by(const SurveyReport& report, const std::vector<SurveyFinding>& findings);

/// A report and its findings.
struct ReadSurvey {
  std::string path = {};
  SurveyReport report = {};
  std::vector<SurveyFinding> findings = {};

  int64_t count(SurveyVerdict verdict) const;
};

/// What some report confirms and no report of a GPU with the same arithmetic contradicts.
Confirmed confirmed_by_all(const std::vector<ReadSurvey>& surveys);
/// All units of the report's target, those without a record as not run; then records of units that the target
/// does not have, as unreadable.
std::vector<SurveyFinding> findings_of(const SurveyReport& report, bool search, int threads,
                                       const std::function<void(int64_t)>& progress = {});

/// {"gpu", "rehearsal", "target", "driver", "cuda", "date", "bitmma", "seed", "seconds", "units", "asked", "answered",
/// "mismatches"}: the progress, and the mismatches of random cases with the surveying version.
Report describe(const SurveyReport& report);
/// A list with an object for each report: {"file", "gpu", "rehearsal", "target", "driver", "cuda", "date", "bitmma",
/// "seed", "seconds", "findings"}; a finding is {"unit", "asked", "verdict", "found", "details", "outputs",
/// "mismatches", "evidence_before"}, and "choice" where it settles one. The text leaves out units that were not asked
/// and, without `all`, rules and bits that are confirmed; it tells where GPUs of one target differ.
Report describe(const std::vector<ReadSurvey>& surveys, bool all = false);

/// A whole survey: every unit in a process of its own, so that a hang, a fault or an illegal instruction costs one
/// unit.
struct SurveyOptions {
  std::string path = {};            // of the report; an existing report is resumed
  double seconds = 480;             // begin no unit after this time; 0: no limit
  double unit_seconds = 60;         // a unit that takes longer is stopped
  int jobs = 4;                     // processes at a time
  std::string only = {};            // units whose name contains this text
  bool retry = false;               // ask units again that have a record without an answer
  std::function<bool()> stop = {};  // asked before each unit: begin no more?
  /// The program that runs one unit, and its first arguments; the unit's name, "-o" and a path follow. It
  /// calls run_survey_unit with these two and writes a report there. For an empty name it reports only the GPU.
  std::vector<std::string> command = {};
};

/// What run_survey_unit is told apart from the name of the unit.
struct SurveyDevice {
  int ordinal = 0;
  std::optional<Target> rehearse = {};  // the model of this target in place of a GPU
  uint64_t seed = 0;
};

/// What the process of a unit calls first: it is killed when the survey that made it ends, however that ends.
void end_with_survey();

/// The report of one unit, or of none if the name is empty. Throws Error if there is no GPU or no such unit.
SurveyReport run_survey_unit(std::string_view unit, const SurveyDevice& device, const SurveyEffort& effort = {});

struct SurveyProgress {
  int64_t units = 0, done = 0;  // that are wanted, and that have a record
  int64_t unanswered = 0;
  int64_t mismatches = 0;
  std::string_view last = {};  // the unit that ended last
};

/// Runs what is missing and writes the report, now and then and at the end. Throws Error when the report that is there
/// is another GPU's or another seed's, when no unit's name contains `only`, when no process can be started, and when
/// several units in a row had to be stopped: then the GPU hangs, and the report holds what was asked before. If the GPU
/// still responds, the kind of instruction is at fault: its units run last, and if they hang again the survey ends.
SurveyReport run_survey(const SurveyOptions& options, uint64_t seed,
                        const std::function<void(const SurveyProgress&)>& progress = {});

}  // namespace bitmma
