// SPDX-License-Identifier: MIT
// Finds the rule of addition from results: the accumulator model that reproduces a device's answers. It trusts no row
// of the table: bits of D eliminate hypotheses, and facts that no output determines are reported as undetermined.
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

/// Names the operands of a case; the same name gives the same operands on every machine.
struct RuleCase {
  std::optional<Distribution> distribution = {};  // of random_operands; nothing: a probe, a few terms far apart
  uint64_t seed = 0, case_index = 0;

  bool operator==(const RuleCase&) const = default;
};

/// "ties, seed 3, case 2", "probe, seed 3, case 17".
std::string print(const RuleCase& rule_case);

/// The operands of the case, including C. Throws Error if the instruction moves data.
Operands operands_of(const Instruction& instruction, Target target, const RuleCase& rule_case);

/// `rows` rows of a case with all of its columns as a separate case, different rows in each case: for callers that
/// keep only a part of D. At most the rows of A; 0 means all.
struct RuleRows {
  int first = 0, count = 0;
};
RuleRows rows_of(const Instruction& instruction, const RuleCase& rule_case, int rows);

/// Operands and the D that a device computed, M x N.
struct RuleObservation {
  Operands operands = {};
  Matrix d = {};
};

/// A fact about a rule, and the other values that give the same bits in all observations.
struct RuleFact {
  std::string name = {};               // "fraction bits"
  std::string value = {};              // "25"
  std::vector<std::string> open = {};  // "20..24"

  bool operator==(const RuleFact&) const = default;
};

struct [[nodiscard]] FoundRule {
  /// A rule that reproduces every bit: the target's row if it does, else the rule nearest to it. Nothing if none does.
  std::optional<AccumulatorModel> rule = {};
  /// All rules that reproduce every bit, those nearest to the target's row first; at most max_survivors.
  std::vector<AccumulatorModel> survivors = {};
  std::vector<RuleFact> facts = {};  // of `rule`, else of `nearest`
  int64_t outputs = 0;               // number of observed outputs
  /// If no rule gives every bit: the rule with the fewest wrong outputs, and their number.
  std::optional<AccumulatorModel> nearest = {};
  int64_t nearest_mismatches = 0;
  int terms = 0;  // terms of one output: the stored columns of A
  /// Behaviour of all results that contradicts the instruction and that no model can express: "sums beyond 32 bits: the
  /// row says are clamped once, the results say wrap". Then `rule` is empty, although the behaviour is known.
  std::vector<std::string> contradictions = {};

  static constexpr int max_survivors = 512;
};

/// Eliminates hypotheses, and requests cases that distinguish the remaining ones. The cases and the result depend only
/// on the seed and the answers, not on the number of threads.
class RuleSearch {
 public:
  /// Throws Error if the instruction moves data, or if no row of arithmetic has its types on the target. With `rows`,
  /// the search chooses cases by what rows_of them shows, and expects observations of only those rows.
  RuleSearch(const Instruction& instruction, Target target, uint64_t seed, int threads = 2, int rows = 0);
  ~RuleSearch();
  RuleSearch(RuleSearch&&) noexcept;
  RuleSearch& operator=(RuleSearch&&) noexcept;

  /// Cases to run next, at most `count`, none once the search has settled.
  std::vector<RuleCase> next_cases(int count);
  /// Eliminates the hypotheses that these observations contradict. Throws Error if operands or D do not fit.
  void observe(std::span<const RuleObservation> observations);
  /// True if no hypothesis is left, or if the cases of several rounds could not distinguish the remaining ones.
  bool settled() const;
  /// For searches that replay the cases of another one: true if new cases would rarely separate the remaining
  /// hypotheses, whatever the other search recorded.
  bool is_exhausted() const;
  /// The cases with which every search for this instruction and seed starts.
  const std::vector<RuleCase>& first_cases() const;
  FoundRule result() const;

 private:
  class Search;
  std::unique_ptr<Search> search_;
};

/// Every fact of `row` that the results contradict, compared with the surviving rule nearest to the row: "fraction
/// bits: the row says 24, the results say 25". Empty if the row reproduces every observed bit.
std::vector<std::string> differences(const AccumulatorModel& row, const FoundRule& result);

}  // namespace bitmma
