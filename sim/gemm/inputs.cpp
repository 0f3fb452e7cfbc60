// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>

#include "bitmma/core/error.hpp"
#include "bitmma/gemm/gemm.hpp"

namespace bitmma {
namespace {

/// The indices must be below the extents of the product; an operand of that extent may be shorter.
void require_below(std::span<const int> numbers, int count, std::string_view what) {
  for (const int number : numbers) {
    if (number >= 0 && number < count) continue;
    throw Error(
        {.field = std::string(what), .seen = std::to_string(number), .expected = fmt::format("0..{}", count - 1)});
  }
}

void pick_rows(std::optional<Matrix>& matrix, std::span<const int> rows, std::string_view name) {
  if (matrix) matrix = rows_of(*matrix, rows, name);
}
void pick_cols(std::optional<Matrix>& matrix, std::span<const int> cols, std::string_view name) {
  if (matrix) matrix = cols_of(*matrix, cols, name);
}

/// Indices in the whole product. `before`: the indices of the inputs; if empty, they count from 0.
std::vector<int64_t> numbers_of(std::span<const int> picks, const std::vector<int64_t>& before, int count,
                                std::string_view what) {
  if (!before.empty() && before.size() != static_cast<size_t>(count)) {
    throw Error({.field = std::string(what),
                 .seen = fmt::format("{} numbers", before.size()),
                 .expected = fmt::format("{} or none", count)});
  }
  std::vector<int64_t> found;
  for (const int i : picks) found.push_back(before.empty() ? i : before[static_cast<size_t>(i)]);
  return found;
}

}  // namespace

Matrix rows_of(const Matrix& matrix, std::span<const int> rows, std::string_view name) {
  require_below(rows, matrix.rows(), fmt::format("rows of {}", name));
  Matrix part(matrix.format(), static_cast<int>(rows.size()), matrix.cols());
  for (int i = 0; i < part.rows(); ++i)
    std::ranges::copy(matrix.row(rows[static_cast<size_t>(i)]), part.row(i).begin());
  return part;
}

Matrix cols_of(const Matrix& matrix, std::span<const int> cols, std::string_view name) {
  require_below(cols, matrix.cols(), fmt::format("columns of {}", name));
  Matrix part(matrix.format(), matrix.rows(), static_cast<int>(cols.size()));
  for (int i = 0; i < part.rows(); ++i) {
    for (int j = 0; j < part.cols(); ++j) part.set_code(i, j, matrix.code(i, cols[static_cast<size_t>(j)]));
  }
  return part;
}

GemmInputs part_of(const GemmInputs& whole, std::span<const int> rows, std::span<const int> cols) {
  require_below(rows, whole.a.rows(), "rows"), require_below(cols, whole.b.cols(), "cols");
  GemmInputs part = whole;
  part.a = rows_of(whole.a, rows, "a"), part.b = cols_of(whole.b, cols, "b");
  pick_rows(part.c, rows, "c"), pick_cols(part.c, cols, "c");
  pick_cols(part.bias, cols, "bias");
  if (whole.scale_a && whole.scale_a->rows() > 1) pick_rows(part.scale_a, rows, "scale_a");
  if (whole.scale_b && whole.scale_b->cols() == whole.b.cols()) pick_cols(part.scale_b, cols, "scale_b");
  pick_rows(part.sfa, rows, "sfa"), pick_cols(part.sfb, cols, "sfb");
  part.whole_m = std::max<int64_t>(whole.whole_m, whole.a.rows());
  part.whole_n = std::max<int64_t>(whole.whole_n, whole.b.cols());
  part.rows = numbers_of(rows, whole.rows, whole.a.rows(), "rows"),
  part.cols = numbers_of(cols, whole.cols, whole.b.cols(), "cols");
  return part;
}

}  // namespace bitmma
