// SPDX-License-Identifier: MIT
// Finds the rule of addition from results: the accumulator model that computes what a device answered. No row of the
// table is trusted: D bits eliminate hypotheses, and facts that no output determines are reported as undetermined.
//
//   RuleSearch search(instruction, target, seed);
//   while (!search.settled()) {
//     observations = what the device answers to operands_of(instruction, target, one) of search.next_cases(16);
//     search.observe(observations);
//   }
//   search.result().facts          {"fraction bits", "25"}, {"floor", "none", open: "-160..-104"}, ...
//   differences(row, search.result())         {"fraction bits: the row says 24, the results say 25"}
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bitmma/arithmetic/accumulator_model.hpp"
#include "bitmma/arithmetic/operands.hpp"
#include "bitmma/instruction/instruction.hpp"
#include "bitmma/stimulus/random_operands.hpp"

namespace bitmma {

/// The operands of a case, by name: the same on every machine.
struct RuleCase {
  std::optional<Distribution> distribution = {};  // of random_operands; without one a probe: a few terms far apart
  uint64_t seed = 0, case_index = 0;

  bool operator==(const RuleCase&) const = default;
};

/// "ties, seed 3, case 2", "probe, seed 3, case 17".
std::string print(const RuleCase& one);

/// The operands that a case stands for, C included. Throws Error when the instruction moves data.
Operands operands_of(const Instruction& instruction, Target target, const RuleCase& one);

/// `rows` rows of a case and all of its columns as a case of their own, other rows in every case: for callers that keep
/// only a part of D. No more rows than A has; 0 stands for all.
struct RuleRows {
  int first = 0, count = 0;
};
RuleRows rows_of(const Instruction& instruction, const RuleCase& one, int rows);

/// Operands and the D that a device computed, M x N.
struct RuleObservation {
  Operands operands = {};
  Matrix d = {};
};

/// One fact about a rule, and the other values that give the same bits in all that was observed.
struct RuleFact {
  std::string name = {};               // "fraction bits"
  std::string value = {};              // "25"
  std::vector<std::string> open = {};  // "20..24"

  bool operator==(const RuleFact&) const = default;
};

struct FoundRule {
  /// A rule that gives every bit: the target's row if it does, else the rule nearest to it. Nothing if none does.
  std::optional<AccumulatorModel> rule = {};
  /// All rules that do, those nearest to the target's row first; no more than max_survivors of them.
  std::vector<AccumulatorModel> survivors = {};
  std::vector<RuleFact> facts = {};  // of `rule`, or else of `nearest`
  int64_t outputs = 0;               // that were observed
  /// If no rule gives every bit: the rule with the fewest wrong outputs, and their number.
  std::optional<AccumulatorModel> nearest = {};
  int64_t nearest_mismatches = 0;
  int terms = 0;  // of one output: the stored columns of A
  /// What no model can say and all results do, against the instruction: "sums beyond 32 bits: the row says are clamped
  /// once, the results say wrap". Then no rule is found, and yet nothing is unknown.
  std::vector<std::string> contradictions = {};

  static constexpr int max_survivors = 512;
};

/// Eliminates hypotheses, and requests the cases that distinguish the remaining ones. The same cases and the same
/// result for the same seed and answers, with any number of threads.
class RuleSearch {
 public:
  /// Throws Error when the instruction moves data, or no row of arithmetic has its types on the target.
  /// With `rows`, cases are chosen for what can be seen in rows_of them, and only those are to be observed.
  RuleSearch(const Instruction& instruction, Target target, uint64_t seed, int threads = 2, int rows = 0);
  ~RuleSearch();
  RuleSearch(RuleSearch&&) noexcept;
  RuleSearch& operator=(RuleSearch&&) noexcept;

  /// Cases to run next, at most `count`, none once the search has settled.
  std::vector<RuleCase> next_cases(int count);
  /// Eliminates what these contradict. Throws Error when operands or D are not the instruction's.
  void observe(std::span<const RuleObservation> observations);
  /// True if no hypothesis is left, or if the cases of several rounds could not distinguish the remaining ones.
  bool settled() const;
  /// For searches that replay the cases of another one: true if new cases would rarely separate the remaining
  /// hypotheses, whatever the other search recorded.
  bool is_exhausted() const;
  /// The cases that every search of the instruction and seed begins with.
  const std::vector<RuleCase>& first_cases() const;
  FoundRule result() const;

 private:
  class Search;
  std::unique_ptr<Search> search_;
};

/// Every fact of `row` that the results contradict, compared with the rule that comes nearest to the row: "fraction
/// bits: the row says 24, the results say 25". Empty when the row gives every bit that was observed.
std::vector<std::string> differences(const AccumulatorModel& row, const FoundRule& found);

}  // namespace bitmma
