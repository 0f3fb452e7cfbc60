// SPDX-License-Identifier: MIT
// Searches for the faults that explain wrong outputs: first every single fault on the compared cases, then pairs of
// faults that fit a sample.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "catalogue.hpp"
#include "evaluate.hpp"

namespace bitmma {

/// Compares the outputs of a simulated wrong program with the actual outputs.
struct Tally {
  int64_t wrong_explained = 0, right_broken = 0, wrong = 0, outputs = 0;

  void add(const Matrix& truth, const Matrix& actual, const Matrix& faulty);
  int64_t score() const { return wrong_explained - right_broken; }
  bool explains_all() const { return wrong > 0 && wrong_explained == wrong && right_broken == 0; }
};

/// One or two faults, applied to every compared case.
struct Candidate {
  std::vector<const Fault*> faults = {};
  std::vector<Parts> parts = {};  // by case
  Tally tally = {};
};

class FaultSearch {
 public:
  /// `searched`: indices of the searched cases, in order. Each of them has a matrix of the right shape in `actual`.
  FaultSearch(std::span<const Case> cases, std::span<const Matrix> actual, std::vector<int64_t> searched,
              const DiagnoseOptions& options);

  /// Adds the findings to `diagnosis`.
  void run(Diagnosis& diagnosis);

 private:
  /// Rows and columns with wrong outputs in the first searched case, spread out.
  struct Sample {
    std::vector<int> rows, cols;
  };
  Sample take_sample() const;
  const Matrix& actual_of(size_t searched) const { return actual_[static_cast<size_t>(searched_[searched])]; }
  /// Whether nine tenths of the sample are explained, among them a wrong output. If outputs move, the sample is looked
  /// up at their origin.
  bool fits(const Sample& sample, const Parts& parts) const;

  /// The fault on every searched case; nothing if it cannot occur in one of them.
  std::optional<Candidate> candidate_of(const FaultRow& row) const;
  std::vector<Candidate> single_faults(const Sample& sample) const;
  /// Tries pairs on the sample first, and those that fit on all outputs.
  std::vector<Candidate> pairs_of(const std::vector<Candidate>& singles, const Sample& sample, int64_t& tried) const;

  Tally tally_of(const std::vector<Parts>& parts) const;
  /// D of case `index` as the wrong program computes it.
  Matrix faulty(const Parts& parts, int64_t index) const;

  std::span<const Matrix> actual_;
  DiagnoseOptions options_;
  std::vector<int64_t> searched_;
  std::map<int64_t, Subject> subjects_;  // the searched cases and their neighbours
  std::map<int64_t, Matrix> truth_;
  std::vector<std::vector<FaultRow>> catalogues_;  // one for each searched case
};

}  // namespace bitmma
