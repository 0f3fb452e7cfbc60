#include "bitmma/files/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "bitmma/core/error.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/instruction/statement.hpp"
#include "vector_parts.hpp"

namespace bitmma {
namespace {

void require_recorded(const VectorFile& vectors) {
  if (vectors.has_recorded_d()) return;
  throw Error({.field = fmt::format("{}: tensor {}", vectors.file.path, vectors.d_tensor()),
               .seen = "(missing)",
               .expected = "a recorded D to compare with",
               .fix = "simulate the file to compute one"});
}

std::string shape_of(const Matrix& matrix) {
  return fmt::format("{} x {} {}", matrix.rows(), matrix.cols(), info(matrix.format()).name);
}

struct PlacePrinter {
  bool relative_to_d = false;

  std::string operator()(const RegisterPlace& place) const {
    return fmt::format("thread {}, register {}, bit {}", place.thread, place.reg, place.bit);
  }
  std::string operator()(const TmemPlace& place) const {
    return fmt::format("cta {}, lane {}, column {}{}", place.cta, place.lane, place.column,
                       relative_to_d ? " of D" : "");
  }
  std::string operator()(const SmemRead& place) const { return print(Place(place)); }
};

}  // namespace

std::string print(const Mismatch& mismatch) {
  return fmt::format("case {}, row {}, col {} ({}): expected {} ({}), actual {} ({})", mismatch.case_index,
                     mismatch.row, mismatch.col, std::visit(PlacePrinter{mismatch.relative_to_d}, mismatch.place),
                     print_bits(mismatch.format, mismatch.expected), print_value(mismatch.format, mismatch.expected),
                     print_bits(mismatch.format, mismatch.actual), print_value(mismatch.format, mismatch.actual));
}

Comparison& Comparison::operator+=(const Comparison& other) {
  cases += other.cases;
  outputs += other.outputs;
  mismatches += other.mismatches;
  cases_with_mismatches += other.cases_with_mismatches;
  map += other.map;
  if (other.first && (!first || other.first->case_index < first->case_index)) first = other.first;
  return *this;
}

Comparison compare_case(const Instruction& instruction, int64_t case_index, const Matrix& expected,
                        const Matrix& actual) {
  if (expected.rows() != actual.rows() || expected.cols() != actual.cols() || expected.format() != actual.format()) {
    throw Error(
        {.field = fmt::format("case {}", case_index), .seen = shape_of(actual), .expected = shape_of(expected)});
  }
  Comparison result{.cases = 1, .outputs = static_cast<int64_t>(expected.size())};
  if (std::ranges::equal(expected.words(), actual.words())) return result;
  result.map = {
      .rows = expected.rows(), .cols = expected.cols(), .counts = std::vector<int64_t>(expected.size()), .cases = 1};
  for (int row = 0; row < expected.rows(); ++row) {
    for (int col = 0; col < expected.cols(); ++col) {
      if (expected.code(row, col) == actual.code(row, col)) continue;
      ++result.mismatches;
      ++result.map.counts[static_cast<size_t>(row) * static_cast<size_t>(expected.cols()) + static_cast<size_t>(col)];
      if (result.first) continue;
      result.first = Mismatch{.case_index = case_index,
                              .row = row,
                              .col = col,
                              .place = places_of_d(instruction).place_of(row, col),
                              .relative_to_d = is_mma(instruction),
                              .format = expected.format(),
                              .expected = expected.code(row, col),
                              .actual = actual.code(row, col)};
    }
  }
  result.cases_with_mismatches = 1;
  return result;
}

Comparison compare_cases(std::span<const Case> cases, std::span<const Matrix> actual) {
  if (actual.size() > cases.size()) {
    throw Error({.field = "actual",
                 .seen = fmt::format("{} matrices", actual.size()),
                 .expected = fmt::format("at most {}, one for each case", cases.size())});
  }
  Comparison comparison;
  for (size_t i = 0; i < actual.size(); ++i)
    comparison += compare_case(cases[i].instruction, static_cast<int64_t>(i), computed_d(cases[i]), actual[i]);
  return comparison;
}

namespace {

/// Compares the recorded D of case `index` with the computed one, and then the logical d, where the file has both.
Comparison verify_case(const VectorFile& vectors, int64_t index, const AccumulatorModel* model) {
  const Instruction instruction = instruction_at(vectors, index);
  const int64_t number = vectors.first_case + index;
  if (!vectors.has_state) {
    const Case one = case_at(vectors, index);
    return compare_case(instruction, number, recorded_d(one), computed_d(one, model));
  }
  const Matrix computed = result_of(instruction, vectors.target, state_before_at(vectors, instruction, index), model);
  const Matrix recorded = recorded_result(instruction, state_after_at(vectors, instruction, index));
  const Comparison registers = compare_case(instruction, number, recorded, computed);
  const bool has_logical_d = wants_logical_d(vectors) && vectors.file.find("d") != nullptr;
  if (!has_logical_d || registers.mismatches != 0) return registers;
  return compare_case(instruction, number, *logical_at(vectors, instruction, index).d, computed);
}

}  // namespace

Comparison verify(const VectorFile& file, int threads, const Progress& progress, const AccumulatorModel* model) {
  const VectorFile vectors = known_part(file);
  require_recorded(vectors);
  // A thread reads about a megabyte at a time, or less where that would leave others without work.
  constexpr int64_t block_bytes = 1 << 20;
  size_t file_bytes = 0;
  for (const Tensor& tensor : vectors.file.tensors) file_bytes += tensor.bytes.size();
  const int64_t case_bytes = std::max<int64_t>(1, static_cast<int64_t>(file_bytes) / vectors.cases);
  const int64_t shares = 8 * static_cast<int64_t>(std::max(1, threads));
  const int64_t at_once = std::max<int64_t>(1, std::min(block_bytes / case_bytes, vectors.cases / shares));
  Comparison total;
  std::mutex mutex;
  parallel_for(static_cast<size_t>((vectors.cases + at_once - 1) / at_once), threads, [&](size_t i) {
    const int64_t first = static_cast<int64_t>(i) * at_once;
    const VectorFile block = in_memory(cases_of(vectors, first, std::min(at_once, vectors.cases - first)));
    for (int64_t index = 0; index < block.cases; ++index) {
      const Comparison one = verify_case(block, index, model);
      const std::lock_guard lock(mutex);
      total += one;
      if (progress) progress(total.cases);
    }
  });
  vectors.require_unchanged();
  return total;
}

Comparison compare(const VectorFile& expected_file, const VectorFile& actual_file) {
  const VectorFile expected = known_part(expected_file), actual = known_part(actual_file);
  require_recorded(expected);
  require_recorded(actual);
  std::vector<Violation> violations;
  if (expected.name() != actual.name()) {
    violations.push_back({.field = fmt::format("{}: instruction", actual.file.path),
                          .seen = actual.name(),
                          .expected = expected.name(),
                          .fix = "compare files of one instruction"});
  }
  if (expected.cases != actual.cases) {
    violations.push_back({.field = fmt::format("{}: cases", actual.file.path),
                          .seen = std::to_string(actual.cases),
                          .expected = std::to_string(expected.cases)});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  Comparison total;
  for (int64_t index = 0; index < expected.cases; ++index) {
    const Case x = case_at(expected, index), y = case_at(actual, index);
    const Matrix d = recorded_d(x), other = recorded_d(y);
    if (d.rows() != other.rows() || d.cols() != other.cols() || d.format() != other.format()) {
      throw Error({.field = fmt::format("{}: case {}", actual.file.path, index),
                   .seen = shape_of(other),
                   .expected = shape_of(d),
                   .fix = is_mma(x.instruction) ? "the instruction descriptors differ" : ""});
    }
    total += compare_case(x.instruction, index, d, other);
  }
  expected.require_unchanged();
  actual.require_unchanged();
  return total;
}

}  // namespace bitmma
