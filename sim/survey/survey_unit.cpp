// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "../core/seconds.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/compare.hpp"
#include "bitmma/instruction/case.hpp"
#include "cases.hpp"

namespace bitmma {
namespace {

using namespace survey;

constexpr int cases_at_once = 8;

/// Runs the instruction on each state; returns one state for each.
std::vector<State> run(const SurveyUnit& unit, const Instruction& instruction, const Executor& execute,
                       std::span<const State> before) {
  std::vector<State> after = execute(instruction, unit.target, before);
  if (after.size() == before.size()) return after;
  throw Error({.code = ViolationCode::wrong_shape,
               .field = "states after the instruction",
               .seen = std::to_string(after.size()),
               .expected = fmt::format("{}, the number of states before it", before.size())});
}

Matrix d_of(const SurveyUnit& unit, State before, State after) {
  return recorded_d(
      {.instruction = unit.instruction, .target = unit.target, .before = std::move(before), .after = std::move(after)});
}

/// Runs cases until one rule is left, or until the remaining rules agree on every bit.
void find_rule(const SurveyUnit& unit, uint64_t seed, const Executor& execute, const SurveyEffort& effort,
               SurveyRecord& record) {
  const int kept = rows_kept(mma_of(unit.instruction));
  RuleSearch search(unit.instruction, unit.target, seed, 1, kept);
  Hash inputs;
  while (!search.settled() && static_cast<int64_t>(record.results.size()) < effort.most_result_bytes) {
    const std::vector<RuleCase> cases = search.next_cases(cases_at_once);
    if (cases.empty()) break;
    std::vector<Operands> operands;
    std::vector<State> before;
    for (const RuleCase& rule_case : cases) {
      operands.push_back(operands_of(unit.instruction, unit.target, rule_case));
      before.push_back(rule_state(unit, operands.back(), seed, record.cases.size() + before.size()));
      inputs.add(before.back());
    }
    std::vector<State> after = run(unit, unit.instruction, execute, before);
    std::vector<RuleObservation> observations;
    for (size_t i = 0; i < cases.size(); ++i) {
      const Matrix d = d_of(unit, std::move(before[i]), std::move(after[i]));
      observations.push_back(seen_in(rows_of(unit.instruction, cases[i], kept), operands[i], d));
      const std::vector<uint8_t> bytes = bytes_of(observations.back().d);
      record.results.insert(record.results.end(), bytes.begin(), bytes.end());
    }
    record.cases.insert(record.cases.end(), cases.begin(), cases.end());
    search.observe(observations);
  }
  record.inputs_hash = inputs.value();
  record.settled = search.settled();
  record.facts = search.result().facts;
}

void ask_question(const SurveyUnit& unit, uint64_t seed, const Executor& execute, SurveyRecord& record) {
  Hash inputs;
  for (const Trial& trial : trials_of(unit, question_of(unit), seed)) {
    inputs.add(trial.before);
    const std::vector<State> before{trial.before};
    const std::vector<State> after = run(unit, trial.instruction, execute, before);
    const std::vector<uint8_t> bytes = written_bytes(trial.instruction, after[0]);
    record.results.insert(record.results.end(), bytes.begin(), bytes.end());
    ++record.question_cases;
  }
  record.inputs_hash = inputs.value();
}

void run_random(const SurveyUnit& unit, uint64_t seed, const Executor& execute, const SurveyEffort& effort,
                SurveyRecord& record) {
  record.random_unit = random_unit_of(unit);
  record.random_outputs = effort.random_outputs;
  const CampaignUnit random =
      campaign_unit_of(unit.instruction, unit.target, seed, record.random_unit, record.random_outputs);
  std::vector<State> before;
  for (const CampaignCase& campaign_case : random.cases) before.push_back(campaign_case.state);
  record.random_inputs_hash = inputs_hash_of(random);
  std::vector<State> after = run(unit, unit.instruction, execute, before);
  Hash results;
  for (size_t i = 0; i < before.size(); ++i) {
    const Matrix d = d_of(unit, before[i], std::move(after[i]));
    const std::vector<uint8_t> bytes = bytes_of(d);
    results.add(bytes);
    const auto index = static_cast<int64_t>(i);
    const Comparison comparison =
        compare_case(unit.instruction, index, result_of(unit.instruction, unit.target, before[i]), d);
    ++record.random_cases;
    record.random_compared += comparison.outputs;
    record.random_mismatches += comparison.mismatches;
    if (comparison.mismatches == 0 || record.first_mismatch) continue;
    record.first_mismatch = index;
    record.first_mismatch_results = bytes;
  }
  record.random_hash = results.value();
}

}  // namespace

SurveyRecord survey_unit(const SurveyUnit& unit, uint64_t seed, const Executor& execute, const SurveyEffort& effort) {
  SurveyRecord record{.unit = unit.name, .instruction = instruction_text(unit)};
  const auto start = std::chrono::steady_clock::now();
  try {
    if (unit.ask == SurveyAsk::rule) find_rule(unit, seed, execute, effort, record);
    if (unit.ask == SurveyAsk::question) ask_question(unit, seed, execute, record);
    else run_random(unit, seed, execute, effort, record);
  } catch (const std::exception& error) {
    record.end = SurveyEnd::failed;
    constexpr size_t most_message = 2000;  // a driver's log may be longer
    record.message = shortened(printable(error.what()), most_message);
  }
  record.seconds = seconds_since(start);
  return record;
}

}  // namespace bitmma
