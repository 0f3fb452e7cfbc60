// SPDX-License-Identifier: MIT
#include "search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"

namespace bitmma {
namespace {

/// D does not depend on the operands.
bool is_replaced(const Parts& parts) {
  return std::holds_alternative<Unwritten>(parts.outcome) || std::holds_alternative<OtherCase>(parts.outcome) ||
         std::holds_alternative<Left>(parts.outcome);
}

std::string shape_of(const Matrix& matrix) {
  return fmt::format("{} x {} {}", matrix.rows(), matrix.cols(), info(matrix.format()).name);
}

/// Rows or columns with a wrong output: at most `most` of them, at least `distance` apart.
template <typename Differs>
std::vector<int> spread_out(int extent, size_t most, int distance, const Differs& differs) {
  std::vector<int> picked;
  for (int i = 0; i < extent && picked.size() < most; ++i) {
    if ((picked.empty() || i >= picked.back() + distance) && differs(i)) picked.push_back(i);
  }
  return picked;
}

}  // namespace

void Tally::add(const Matrix& truth, const Matrix& actual, const Matrix& faulty) {
  const std::span<const uint32_t> right = truth.words(), seen = actual.words(), guess = faulty.words();
  for (size_t i = 0; i < right.size(); ++i) {
    const bool was_wrong = right[i] != seen[i], fits = guess[i] == seen[i];
    wrong += was_wrong;
    wrong_explained += was_wrong && fits;
    right_broken += !was_wrong && !fits;
  }
  outputs += static_cast<int64_t>(right.size());
}

FaultSearch::FaultSearch(std::span<const Case> cases, std::span<const Matrix> actual, std::vector<int64_t> searched,
                         const DiagnoseOptions& options)
    : actual_(actual), options_(options), searched_(std::move(searched)) {
  const auto look_at = [&](int64_t index) -> const Subject& {
    const auto [entry, is_new] = subjects_.try_emplace(index, cases, index);
    if (is_new) truth_.emplace(index, evaluate(entry->second, true_parts(entry->second)));
    return entry->second;
  };
  for (const int64_t index : searched_) {
    const Subject& subject = look_at(index);
    catalogues_.push_back(catalogue_of(subject));
    for (const int distance : {1, -1}) look_at(subject.neighbour(distance));
  }
}

Matrix FaultSearch::faulty(const Parts& parts, int64_t index) const {
  const Subject& subject = subjects_.at(index);
  const auto* const other = std::get_if<OtherCase>(&parts.outcome);
  return other ? truth_.at(subject.neighbour(other->distance)) : evaluate(subject, parts);
}

Tally FaultSearch::tally_of(const std::vector<Parts>& parts) const {
  Tally tally;
  for (size_t i = 0; i < searched_.size(); ++i)
    tally.add(truth_.at(searched_[i]), actual_of(i), faulty(parts[i], searched_[i]));
  return tally;
}

std::optional<Candidate> FaultSearch::candidate_of(const FaultRow& row) const {
  Candidate candidate{.faults = {&row.fault}};
  for (size_t i = 0; i < searched_.size(); ++i) {
    const Subject& subject = subjects_.at(searched_[i]);
    const FaultRow* const mine = find_fault(catalogues_[i], row.fault.id);
    Parts parts = true_parts(subject);
    if (!mine || !mine->apply(subject, parts) || !computable(parts)) return std::nullopt;
    candidate.parts.push_back(std::move(parts));
  }
  return candidate;
}

std::vector<Candidate> FaultSearch::single_faults(const Sample& sample) const {
  std::vector<Candidate> candidates;
  for (const FaultRow& row : catalogues_.front()) {
    std::optional<Candidate> candidate = candidate_of(row);
    if (!candidate) continue;
    // An adder without a fast path is computed in full only if a sample of its outputs fits.
    const Parts& first = candidate->parts.front();
    const bool is_slow = first.adder.kind != WhatIf::Kind::model;
    if (!is_slow || fits(sample, first)) candidate->tally = tally_of(candidate->parts);
    candidates.push_back(std::move(*candidate));
  }
  return candidates;
}

FaultSearch::Sample FaultSearch::take_sample() const {
  const Matrix &truth = truth_.at(searched_.front()), &actual = actual_of(0);
  const int rows = truth.rows(), cols = truth.cols();
  const auto row_differs = [&](int row) { return !std::ranges::equal(truth.row(row), actual.row(row)); };
  const auto col_differs = [&](int col) {
    for (int row = 0; row < rows; ++row) {
      if (truth.code(row, col) != actual.code(row, col)) return true;
    }
    return false;
  };
  return {.rows = spread_out(rows, 6, std::max(1, rows / 12), row_differs),
          .cols = spread_out(cols, 8, std::max(1, cols / 16), col_differs)};
}

bool FaultSearch::fits(const Sample& sample, const Parts& parts) const {
  const Matrix &truth = truth_.at(searched_.front()), &actual = actual_of(0);
  size_t fitting = 0, wrong_fitting = 0;
  const auto count = [&](uint64_t code, int row, int col) {
    fitting += code == actual.code(row, col);
    wrong_fitting += code == actual.code(row, col) && code != truth.code(row, col);
  };
  if (const auto* const moved = std::get_if<Moved>(&parts.outcome)) {
    for (const int row : sample.rows) {
      for (const int col : sample.cols) {
        const auto [r, c] = moved->from({row, col});
        count(compute_block(parts, std::array{r}, std::array{c}, truth.format()).code(0, 0), row, col);
      }
    }
  } else if (!sample.rows.empty() && !sample.cols.empty()) {
    const Matrix d = compute_block(parts, sample.rows, sample.cols, truth.format());
    for (size_t i = 0; i < sample.rows.size(); ++i) {
      for (size_t j = 0; j < sample.cols.size(); ++j) {
        count(d.code(static_cast<int>(i), static_cast<int>(j)), sample.rows[i], sample.cols[j]);
      }
    }
  }
  return fitting * 10 >= 9 * sample.rows.size() * sample.cols.size() && wrong_fitting > 0;
}

std::vector<Candidate> FaultSearch::pairs_of(const std::vector<Candidate>& singles, const Sample& sample,
                                             int64_t& tried) const {
  std::vector<Candidate> pairs;
  for (size_t x = 0; x < singles.size(); ++x) {
    for (size_t y = x + 1; y < singles.size(); ++y) {
      const Candidate &first = singles[x], &second = singles[y];
      const FaultStage stage = second.faults.front()->stage;
      if (first.faults.front()->stage == stage) continue;
      if (is_replaced(first.parts.front()) || is_replaced(second.parts.front()))
        continue;  // the earlier stages have no effect
      ++tried;
      Parts both = first.parts.front();
      take_stage(both, second.parts.front(), stage);
      if (!computable(both) || !fits(sample, both)) continue;
      Candidate pair{.faults = {first.faults.front(), second.faults.front()}, .parts = first.parts};
      for (size_t i = 0; i < pair.parts.size(); ++i) take_stage(pair.parts[i], second.parts[i], stage);
      pair.tally = tally_of(pair.parts);
      pair.parts.clear();
      pairs.push_back(std::move(pair));
    }
  }
  return pairs;
}

void FaultSearch::run(Diagnosis& diagnosis) {
  for (size_t i = 0; i < searched_.size(); ++i) {
    Tally nothing;
    nothing.add(truth_.at(searched_[i]), actual_of(i), truth_.at(searched_[i]));
    diagnosis.searched_wrong += nothing.wrong;
  }
  const Sample sample = take_sample();
  std::vector<Candidate> candidates = single_faults(sample);
  diagnosis.tried = static_cast<int64_t>(candidates.size());
  const bool one_explains =
      std::ranges::any_of(candidates, [](const Candidate& candidate) { return candidate.tally.explains_all(); });
  if (!one_explains && options_.pairs) {
    std::ranges::move(pairs_of(candidates, sample, diagnosis.tried), std::back_inserter(candidates));
  }
  // Sort by score, then one fault before two, then by the order of the catalogue.
  std::ranges::stable_sort(candidates, [](const Candidate& x, const Candidate& y) {
    if (x.tally.score() != y.tally.score()) return x.tally.score() > y.tally.score();
    return x.faults.size() < y.faults.size();
  });
  for (const auto& [faults, parts, tally] : candidates) {
    // A finding explains more outputs than it breaks, and at least 1 in 50 of the wrong ones.
    if (tally.score() <= 0 || tally.wrong_explained * 50 < tally.wrong) break;
    // Beside an explanation of every bit, one of some bits is noise.
    if (!diagnosis.findings.empty() && diagnosis.findings.front().explains_all && !tally.explains_all()) break;
    if (static_cast<int>(diagnosis.findings.size()) == options_.max_findings) break;
    Finding finding{.wrong_explained = tally.wrong_explained,
                    .right_broken = tally.right_broken,
                    .explains_all = tally.explains_all()};
    for (const Fault* fault : faults) finding.faults.push_back(*fault);
    diagnosis.findings.push_back(std::move(finding));
  }
}

namespace {

/// Up to `most` of the wrong cases: the first, the last, and evenly spaced ones between them.
std::vector<int64_t> chosen(const std::vector<int64_t>& wrong, int64_t most) {
  const auto count = static_cast<int64_t>(wrong.size());
  if (count <= most) return wrong;
  std::vector<int64_t> some;
  for (int64_t i = 0; i < most; ++i)
    some.push_back(wrong[static_cast<size_t>(most > 1 ? i * (count - 1) / (most - 1) : 0)]);
  return some;
}

}  // namespace

Diagnosis diagnose(std::span<const Case> cases, std::span<const Matrix> actual, const DiagnoseOptions& options) {
  if (options.max_cases < 1) {
    throw Error({.field = "cases to search", .seen = std::to_string(options.max_cases), .expected = "1 or more"});
  }
  if (actual.empty() || actual.size() > cases.size()) {
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = "cases",
                 .seen = counted(static_cast<int64_t>(actual.size()), "matrix of D"),
                 .expected = fmt::format("1..{}: one for each of the first cases", cases.size())});
  }
  Diagnosis diagnosis{.cases = static_cast<int64_t>(actual.size())};
  std::vector<Violation> violations;
  std::vector<int64_t> wrong;
  for (int64_t i = 0; i < diagnosis.cases; ++i) {
    const Matrix& matrix = actual[static_cast<size_t>(i)];
    const Subject subject(cases, i);
    const Mma& mma = subject.mma();
    if (matrix.rows() != mma.m || matrix.cols() != mma.n || matrix.format() != mma.d) {
      violations.push_back({.code = ViolationCode::wrong_shape,
                            .field = fmt::format("D of case {}", i),
                            .seen = shape_of(matrix),
                            .expected = fmt::format("{} x {} {}", mma.m, mma.n, info(mma.d).name)});
      continue;
    }
    const Matrix truth = evaluate(subject, true_parts(subject));
    Tally tally;
    tally.add(truth, matrix, truth);
    diagnosis.outputs += tally.outputs, diagnosis.wrong += tally.wrong;
    if (tally.wrong > 0) wrong.push_back(i);
  }
  if (!violations.empty()) throw Error(std::move(violations));
  diagnosis.wrong_cases = static_cast<int64_t>(wrong.size());
  if (wrong.empty()) return diagnosis;
  std::vector<int64_t> searched = chosen(wrong, options.max_cases);
  diagnosis.searched_cases = static_cast<int64_t>(searched.size());
  FaultSearch(cases, actual, std::move(searched), options).run(diagnosis);
  return diagnosis;
}

}  // namespace bitmma
