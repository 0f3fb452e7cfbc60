#include "bitmma/arithmetic/operands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "../formats/matrix_inside.hpp"
#include "bitmma/core/error.hpp"

namespace bitmma {
namespace {

void require_inside(std::string_view what, std::span<const int> picked, int count) {
  for (const int i : picked) {
    if (i >= 0 && i < count) continue;
    throw Error({.field = fmt::format("{} of a block of D", what),
                 .seen = std::to_string(i),
                 .expected = fmt::format("inside 0..{}", count - 1)});
  }
}

std::vector<int> numbers_from(int first, int count) {
  std::vector<int> numbers(static_cast<size_t>(std::max(count, 0)));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

/// Element (i, j) is element (rows[i], cols[j]).
Matrix pick(const Matrix& matrix, std::span<const int> rows, std::span<const int> cols) {
  Matrix picked = unfilled_matrix(matrix.format(), static_cast<int>(rows.size()), static_cast<int>(cols.size()));
  const size_t width = matrix.is_wide() ? 2 : 1;  // words of a code
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint32_t* const from = matrix.row(rows[i]).data();
    uint32_t* const to = picked.row(static_cast<int>(i)).data();
    for (size_t j = 0; j < cols.size(); ++j)
      std::copy_n(from + width * static_cast<size_t>(cols[j]), width, to + width * j);
  }
  return picked;
}
Matrix pick_rows(const Matrix& matrix, std::span<const int> rows) {
  return pick(matrix, rows, numbers_from(0, matrix.cols()));
}
Matrix pick_cols(const Matrix& matrix, std::span<const int> cols) {
  return pick(matrix, numbers_from(0, matrix.rows()), cols);
}

}  // namespace

Operands block_of(const Operands& operands, std::span<const int> rows, std::span<const int> cols) {
  require_inside("row", rows, operands.a.rows());
  require_inside("column", cols, operands.b.cols());
  Operands block{.a = pick_rows(operands.a, rows),
                 .b = pick_cols(operands.b, cols),
                 .negate_a = operands.negate_a,
                 .negate_b = operands.negate_b,
                 .saturate = operands.saturate,
                 .exclusive_or = operands.exclusive_or,
                 .rounding = operands.rounding,
                 .scale_input_d = operands.scale_input_d,
                 .swapped = operands.swapped};
  if (operands.c) block.c = pick(*operands.c, rows, cols);
  if (operands.scales)
    block.scales = BlockScales{.a = pick_rows(operands.scales->a, rows), .b = pick_cols(operands.scales->b, cols)};
  const auto stored = static_cast<std::ptrdiff_t>(operands.a.cols());
  for (size_t i = 0; i < rows.size() && !operands.selected_k.empty(); ++i) {
    const auto first = operands.selected_k.begin() + stored * rows[i];
    block.selected_k.insert(block.selected_k.end(), first, first + stored);
    for (MixedTerm mixed : operands.mixed) {
      if (mixed.row != rows[i]) continue;
      mixed.row = static_cast<uint16_t>(i);
      block.mixed.push_back(mixed);
    }
  }
  return block;
}

Operands block_of(const Operands& operands, int row, int rows, int col, int cols) {
  return block_of(operands, numbers_from(row, rows), numbers_from(col, cols));
}

}  // namespace bitmma
