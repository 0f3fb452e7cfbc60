// SPDX-License-Identifier: MIT
#include "bitmma/files/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "bitmma/core/error.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/instruction/statement.hpp"
#include "vector_parts.hpp"
#include "vector_schema.hpp"

namespace bitmma {
namespace {

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

void require_recorded(const VectorFile& vectors) {
  if (vectors.has_recorded_d()) return;
  throw Error({.code = ViolationCode::missing_input,
               .field = fmt::format("{}: tensor {}", vectors.file.path, vectors.d_tensor()),
               .seen = "(missing)",
               .expected = "a recorded D to compare with",
               .fix = "bitmma simulate computes one"});
}

std::string print(const Mismatch& mismatch) {
  if (mismatch.row < 0) {
    return fmt::format("case {}, outside D ({}): expected {}, actual {}", mismatch.case_index,
                       std::visit(PlacePrinter{}, mismatch.place), print_bits(mismatch.format, mismatch.expected),
                       print_bits(mismatch.format, mismatch.actual));
  }
  return fmt::format("case {}, row {}, col {} ({}): expected {} ({}), actual {} ({})", mismatch.case_index,
                     mismatch.row, mismatch.col, std::visit(PlacePrinter{mismatch.relative_to_d}, mismatch.place),
                     print_bits(mismatch.format, mismatch.expected), print_value(mismatch.format, mismatch.expected),
                     print_bits(mismatch.format, mismatch.actual), print_value(mismatch.format, mismatch.actual));
}

Comparison& Comparison::operator+=(const Comparison& other) {
  cases += other.cases;
  outputs += other.outputs;
  mismatches += other.mismatches;
  outside_d += other.outside_d;
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
                              .place = place_in_tile(places_of_d(instruction), instruction, row, col),
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

Comparison compare_outside_d(const Case& this_case, int64_t case_index, const State& expected, const State& actual) {
  Comparison result;
  if (!is_mma(this_case.instruction) || !expected.has(Field::tmem) || !actual.has(Field::tmem)) return result;
  const std::span<const uint32_t> expected_words = expected.words(Field::tmem),
                                  actual_words = actual.words(Field::tmem);
  if (std::ranges::equal(expected_words, actual_words)) return result;
  const Buffer& buffer = *std::ranges::find(expected.buffers(), Field::tmem, &Buffer::field);
  if (expected_words.size() != actual_words.size()) {
    throw Error({.field = fmt::format("case {}: Tensor Memory", case_index),
                 .seen = fmt::format("{} cells", actual_words.size()),
                 .expected = fmt::format("{}, the same as before the instruction", expected_words.size())});
  }
  const int64_t lanes = buffer.extents()[1], columns = buffer.extents()[2];
  const Mma mma = mma_of(this_case.instruction);
  const PlaceMap places(this_case.instruction, this_case.target, this_case.before, Role::d);
  std::vector<bool> is_d(expected_words.size());
  for (int row = 0; row < mma.m; ++row) {
    for (int col = 0; col < mma.n; ++col) {
      const Place place = places.place_of(row, col);
      const auto* const cell = std::get_if<TmemPlace>(&place);
      if (!cell) continue;
      const auto index = static_cast<size_t>((cell->cta * lanes + cell->lane) * columns + cell->column);
      if (index < is_d.size()) is_d[index] = true;
    }
  }
  for (size_t i = 0; i < expected_words.size(); ++i) {
    if (is_d[i] || expected_words[i] == actual_words[i]) continue;
    if (result.outside_d++ > 0) continue;
    const auto at = static_cast<int64_t>(i);
    result.first = Mismatch{.case_index = case_index,
                            .row = -1,
                            .col = -1,
                            .place = TmemPlace{.cta = static_cast<int>(at / columns / lanes),
                                               .lane = static_cast<int>(at / columns % lanes),
                                               .column = static_cast<int>(at % columns)},
                            .format = Format::s32,
                            .expected = expected_words[i],
                            .actual = actual_words[i]};
  }
  result.mismatches = result.outside_d;
  return result;
}

namespace {

/// Adds the mismatches that `outside` found in the same case to `whole`.
Comparison with_outside(Comparison whole, const Comparison& outside) {
  const bool is_new = whole.mismatches == 0 && outside.mismatches > 0;
  if (!whole.first) whole.first = outside.first;
  whole.mismatches += outside.mismatches, whole.outside_d += outside.outside_d;
  whole.cases_with_mismatches += is_new;
  return whole;
}

/// Compares the recorded D of case `index` with the computed one, and then the logical d if the file has both. The
/// threads share the blocks of a tile.
Comparison verify_case(const VectorFile& vectors, int64_t index, int threads, const AccumulatorModel* model) {
  const Instruction instruction = instruction_at(vectors, index);
  const int64_t number = vectors.first_case + index;
  if (!vectors.has_state) {
    const Case this_case = case_at(vectors, index);
    return compare_case(instruction, number, recorded_d(this_case), computed_tile(this_case, threads, model));
  }
  const State before = state_before_at(vectors, instruction, index);
  const Matrix computed = result_of(instruction, vectors.target, before, model);
  if (vectors.has_state_after()) {
    const State after = state_after_at(vectors, instruction, index);
    const Comparison d = compare_case(instruction, number, recorded_result(instruction, after), computed);
    const Case this_case{.instruction = instruction, .target = vectors.target, .before = before};
    const Comparison recorded = with_outside(d, compare_outside_d(this_case, number, before, after));
    if (recorded.mismatches != 0 || !is_mma(instruction) || !vectors.file.find("d")) return recorded;
  }
  return compare_case(instruction, number, *logical_at(vectors, instruction, index).d, computed);
}

}  // namespace

Comparison verify(const VectorFile& file, int threads, const Progress& progress, const AccumulatorModel* model) {
  const VectorFile vectors = known_part(file);
  require_recorded(vectors);
  require_consistent(vectors, threads);
  // A thread reads about a megabyte at a time, or less if other threads would otherwise have no work.
  constexpr int64_t block_bytes = 1 << 20;
  size_t file_bytes = 0;
  for (const Tensor& tensor : vectors.file.tensors) file_bytes += tensor.bytes.size();
  const int64_t case_bytes = std::max<int64_t>(1, static_cast<int64_t>(file_bytes) / vectors.cases);
  const int64_t shares = 8 * static_cast<int64_t>(std::max(1, threads));
  const int64_t at_once = std::max<int64_t>(1, std::min(block_bytes / case_bytes, vectors.cases / shares));
  const int64_t blocks = (vectors.cases + at_once - 1) / at_once;
  Comparison total;
  std::mutex mutex;
  parallel_for(static_cast<size_t>(blocks), threads, [&](size_t i) {
    const int64_t first = static_cast<int64_t>(i) * at_once;
    const VectorFile block = in_memory(cases_of(vectors, first, std::min(at_once, vectors.cases - first)));
    for (int64_t index = 0; index < block.cases; ++index) {
      const Comparison comparison = verify_case(block, index, blocks == 1 ? threads : 1, model);
      const std::lock_guard lock(mutex);
      total += comparison;
      if (progress) progress(total.cases);
    }
  });
  vectors.require_unchanged();
  return total;
}

void require_same_cases(const std::string& path, const std::string& name, int64_t cases, const std::string& other_name,
                        int64_t other_cases) {
  std::vector<Violation> violations;
  if (other_name != name) {
    violations.push_back({.field = fmt::format("{}: instruction", path),
                          .seen = other_name,
                          .expected = name,
                          .fix = "both files must contain the same instruction"});
  }
  if (other_cases != cases) {
    violations.push_back({.field = fmt::format("{}: cases", path),
                          .seen = std::to_string(other_cases),
                          .expected = std::to_string(cases),
                          .fix = "both files must contain the same cases"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
}

void require_same_kind(const VectorFile& expected, const VectorFile& actual) {
  if (expected.tiling.is_one_instruction() == actual.tiling.is_one_instruction()) return;
  const auto kind_of = [](const VectorFile& vectors) {
    return vectors.tiling.is_one_instruction()
               ? std::string("cases of one instruction")
               : fmt::format("a whole tile of {} instructions along K", vectors.tiling.k);
  };
  throw Error({.code = ViolationCode::other_inputs,
               .field = actual.file.path,
               .seen = kind_of(actual),
               .expected = fmt::format("{}, as {} has", kind_of(expected), printable(expected.file.path))});
}

Comparison compare_computed(const VectorFile& expected, const VectorFile& actual, int threads) {
  require_same_kind(expected, actual);
  Comparison comparison;
  for (int64_t index = 0; index < expected.cases; ++index)
    comparison += compare_case(instruction_at(expected, index), index, computed_tile(case_at(expected, index), threads),
                               computed_tile(case_at(actual, index), threads));
  return comparison;
}

Comparison compare(const VectorFile& expected_file, const VectorFile& actual_file) {
  require_same_kind(expected_file, actual_file);
  const VectorFile expected = known_part(expected_file), actual = known_part(actual_file);
  require_recorded(expected), require_recorded(actual);
  require_same_cases(actual.file.path, expected.name(), expected.cases, actual.name(), actual.cases);
  require_consistent(expected), require_consistent(actual);
  Comparison total;
  for (int64_t index = 0; index < expected.cases; ++index) {
    const Case x = case_at(expected, index), y = case_at(actual, index);
    const Matrix d = recorded_d(x), other = recorded_d(y);
    if (d.rows() != other.rows() || d.cols() != other.cols() || d.format() != other.format()) {
      const bool has_descriptors = is_mma(x.instruction) && expected.tiling.is_one_instruction();
      throw Error({.field = fmt::format("{}: case {}", actual.file.path, index),
                   .seen = shape_of(other),
                   .expected = shape_of(d),
                   .fix = has_descriptors ? "the instruction descriptors differ" : ""});
    }
    Comparison comparison = compare_case(x.instruction, index, d, other);
    if (x.after && y.after) comparison = with_outside(comparison, compare_outside_d(x, index, *x.after, *y.after));
    // A logical d beside a state is a separate result.
    if (comparison.mismatches == 0 && x.logical.d && y.logical.d)
      comparison = compare_case(x.instruction, index, *x.logical.d, *y.logical.d);
    total += comparison;
  }
  expected.require_unchanged();
  actual.require_unchanged();
  return total;
}

namespace {

void count(std::vector<InputDifference>& differences, std::string_view name, bool differs) {
  if (!differs) return;
  const auto row = std::ranges::find(differences, name, &InputDifference::name);
  if (row == differences.end()) differences.push_back({.name = std::string(name), .cases = 1});
  else ++row->cases;
}

void count_matrices(std::vector<InputDifference>& differences, const LogicalMatrices& x, const LogicalMatrices& y) {
  count(differences, "A", x.a != y.a);
  count(differences, "B", x.b != y.b);
  count(differences, "C", x.c != y.c);
  count(differences, "scales of A", x.scale_a != y.scale_a);
  count(differences, "scales of B", x.scale_b != y.scale_b);
}

/// Compares only elements. Signs and the choice whether to read C belong to the programs, not to the inputs.
void count_operands(std::vector<InputDifference>& differences, const Operands& x, const Operands& y) {
  count(differences, "A", x.a != y.a || x.selected_k != y.selected_k);
  count(differences, "B", x.b != y.b);
  count(differences, "C", x.c && y.c && x.c != y.c);
  if (!x.scales || !y.scales) return;
  count(differences, "scales of A", x.scales->a != y.scales->a);
  count(differences, "scales of B", x.scales->b != y.scales->b);
}

}  // namespace

std::vector<InputDifference> different_inputs(const VectorFile& expected_file, const VectorFile& actual_file) {
  require_same_kind(expected_file, actual_file);
  const VectorFile expected = known_part(expected_file), actual = known_part(actual_file);
  std::vector<InputDifference> differences;
  for (int64_t index = 0; index < std::min(expected.cases, actual.cases); ++index) {
    const Case x = case_at(expected, index), y = case_at(actual, index);
    if (!expected.tiling.is_one_instruction()) {
      count_matrices(differences, x.logical, y.logical);
      continue;
    }
    if (is_mma(x.instruction)) {
      count_operands(differences, operands_of(x), operands_of(y));
      continue;
    }
    for (const FieldRule& rule : fields_of(x.instruction)) {
      const std::string_view name = info(rule.field).name;
      const Tensor *own = expected.file.find(name), *other = actual.file.find(name);
      if (rule.access != Access::write && own && other)
        count(differences, name, !(slice(*own, index) == slice(*other, index)));
    }
  }
  return differences;
}

std::string print(const std::vector<InputDifference>& differences, int64_t cases) {
  std::string text;
  for (const auto& [name, count] : differences)
    text += fmt::format("{}{} in {} of {}", text.empty() ? "" : ", ", name, count, counted(cases, "case"));
  return text;
}

}  // namespace bitmma
