// SPDX-License-Identifier: MIT
// The search for the faults that explain wrong outputs: every fault on the compared cases, then pairs that fit a
// sample.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "catalogue.hpp"
#include "evaluate.hpp"

namespace bitmma {

/// How what a wrong program leaves compares with what is there.
struct Tally {
  int64_t wrong_explained = 0, right_broken = 0, wrong = 0, outputs = 0;

  void add(const Matrix& truth, const Matrix& actual, const Matrix& faulty);
  int64_t score() const { return wrong_explained - right_broken; }
  bool explains_all() const { return wrong > 0 && wrong_explained == wrong && right_broken == 0; }
};

/// A fault, or two, on every case that is compared.
struct Candidate {
  std::vector<const Fault*> faults = {};
  std::vector<Parts> parts = {};  // by case
  Tally tally = {};
};

class Search {
 public:
  /// `searched` are some of the cases, in order. There is a matrix of the right shape for each of them.
  Search(std::span<const Case> cases, std::span<const Matrix> actual, std::vector<int64_t> searched,
         const DiagnoseOptions& options);

  /// Adds what was found.
  void run(Diagnosis& diagnosis);

 private:
  /// Rows and columns of the first of them that have wrong outputs, spread out.
  struct Sample {
    std::vector<int> rows, cols;
  };
  Sample take_sample() const;
  const Matrix& actual_of(size_t searched) const { return actual_[static_cast<size_t>(searched_[searched])]; }
  /// Whether nine tenths of the sample come out as they are, and something wrong among them. Outputs that move are
  /// looked for where they come from.
  bool fits(const Sample& sample, const Parts& parts) const;

  /// The fault on every searched case; nothing where one of them cannot have it.
  std::optional<Candidate> candidate_of(const FaultRow& row) const;
  std::vector<Candidate> single_faults(const Sample& sample) const;
  /// Pairs are first tried on the sample; those that fit it are tried on everything.
  std::vector<Candidate> pairs_of(const std::vector<Candidate>& singles, const Sample& sample, int64_t& tried) const;

  Tally tally_of(const std::vector<Parts>& parts) const;
  /// D of case `index` in the wrong program.
  Matrix faulty(const Parts& parts, int64_t index) const;

  std::span<const Matrix> actual_;
  DiagnoseOptions options_;
  std::vector<int64_t> searched_;
  std::map<int64_t, Subject> subjects_;  // the searched cases and their neighbours
  std::map<int64_t, Matrix> truth_;
  std::vector<std::vector<FaultRow>> catalogues_;  // of the searched cases
};

}  // namespace bitmma
