#include "bitmma/io/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "bitmma/core/error.hpp"
#include "bitmma/core/parallel.hpp"

namespace bitmma {
namespace {

void require_recorded(const VectorFile& vectors) {
  if (vectors.has_recorded_d()) return;
  throw Error({.field = fmt::format("{}: tensor {}", vectors.file.path, vectors.d_tensor()),
               .seen = "(missing)",
               .legal = "a recorded D to compare with",
               .fix = "bitmma simulate computes one"});
}

}  // namespace

std::string print(const Mismatch& mismatch) {
  const auto& [reg, cell] = mismatch.place;
  const std::string where = cell ? fmt::format("cta {}, lane {}, column {}{}", cell->cta, cell->lane, cell->column,
                                               mismatch.format == Format::u32 ? "" : " of D")
                                 : fmt::format("thread {}, register {}, bit {}", reg->thread, reg->reg, reg->bit);
  return fmt::format("case {}, row {}, col {} ({}): expected {} ({}), actual {} ({})", mismatch.case_index,
                     mismatch.row, mismatch.col, where, print_bits(mismatch.format, mismatch.expected),
                     print_value(mismatch.format, mismatch.expected), print_bits(mismatch.format, mismatch.actual),
                     print_value(mismatch.format, mismatch.actual));
}

Comparison& Comparison::operator+=(const Comparison& other) {
  cases += other.cases;
  outputs += other.outputs;
  mismatches += other.mismatches;
  cases_with_mismatches += other.cases_with_mismatches;
  if (other.first && (!first || other.first->case_index < first->case_index)) first = other.first;
  return *this;
}

Comparison compare_case(const VectorFile& vectors, int64_t case_index, const BitMatrix& expected,
                        const BitMatrix& actual) {
  return compare_case(case_index, expected, actual,
                      [&](int row, int col) { return output_place(vectors, expected, case_index, row, col); });
}

Comparison compare_case(int64_t case_index, const BitMatrix& expected, const BitMatrix& actual,
                        const std::function<OutputPlace(int, int)>& place_of) {
  Comparison result{.cases = 1, .outputs = int64_t{expected.rows()} * expected.cols()};
  if (std::equal(expected.bits.data(), expected.bits.data() + expected.bits.size(), actual.bits.data())) return result;
  for (int row = 0; row < expected.rows(); ++row) {
    for (int col = 0; col < expected.cols(); ++col) {
      if (expected(row, col) == actual(row, col)) continue;
      ++result.mismatches;
      if (result.first) continue;
      result.first = Mismatch{.case_index = case_index,
                              .row = row,
                              .col = col,
                              .place = place_of(row, col),
                              .format = expected.format,
                              .expected = expected(row, col),
                              .actual = actual(row, col)};
    }
  }
  result.cases_with_mismatches = 1;
  return result;
}

Comparison verify(const VectorFile& vectors, int threads, const Progress& progress, const AccumulatorModel* model) {
  require_recorded(vectors);
  const bool logical_d_too = vectors.has_images && !vectors.move && vectors.file.find("d") != nullptr;
  VectorFile logical = vectors;  // the same file, seen through its logical matrices
  logical.has_images = false;
  // What was read is given back every so often, so that memory does not grow with the file.
  constexpr int64_t kept_bytes = 64 << 20;
  size_t file_bytes = 0;
  for (const Tensor& tensor : vectors.file.tensors) file_bytes += tensor.bytes.size();
  const int64_t kept_cases = std::max<int64_t>(
      1, kept_bytes / std::max<int64_t>(1, static_cast<int64_t>(file_bytes) / std::max<int64_t>(1, vectors.cases)));
  Comparison total;
  std::mutex mutex;
  parallel_for(static_cast<size_t>(vectors.cases), threads, [&](size_t i) {
    const auto index = static_cast<int64_t>(i);
    const BitMatrix computed = computed_d(vectors, index, model);
    Comparison one = compare_case(vectors, index, recorded_d(vectors, index), computed);
    if (logical_d_too && one.mismatches == 0) one = compare_case(vectors, index, recorded_d(logical, index), computed);
    const std::lock_guard lock(mutex);
    total += one;
    if (vectors.file.mapped && total.cases % kept_cases == 0) vectors.file.mapped->forget();
    if (progress) progress(total.cases);
  });
  return total;
}

Comparison compare(const VectorFile& expected, const VectorFile& actual) {
  require_recorded(expected);
  require_recorded(actual);
  std::vector<Violation> violations;
  if (expected.name() != actual.name()) {
    violations.push_back({.field = fmt::format("{}: instruction", actual.file.path),
                          .seen = actual.name(),
                          .legal = expected.name(),
                          .fix = "compare files of one instruction"});
  }
  if (expected.cases != actual.cases) {
    violations.push_back({.field = fmt::format("{}: cases", actual.file.path),
                          .seen = std::to_string(actual.cases),
                          .legal = std::to_string(expected.cases)});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  Comparison total;
  for (int64_t index = 0; index < expected.cases; ++index) {
    const BitMatrix x = recorded_d(expected, index), y = recorded_d(actual, index);
    if (x.rows() != y.rows() || x.cols() != y.cols() || x.format != y.format) {
      throw Error({.field = fmt::format("{}: case {}", actual.file.path, index),
                   .seen = fmt::format("{} x {} {}", y.rows(), y.cols(), info(y.format).name),
                   .legal = fmt::format("{} x {} {}", x.rows(), x.cols(), info(x.format).name),
                   .fix = expected.move ? "" : "the instruction descriptors differ"});
    }
    total += compare_case(expected, index, x, y);
  }
  return total;
}

}  // namespace bitmma
