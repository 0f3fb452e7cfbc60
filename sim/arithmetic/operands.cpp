// SPDX-License-Identifier: MIT
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

}  // namespace

Operands block_of(const Operands& operands, std::span<const int> rows, std::span<const int> cols) {
  require_inside("row", rows, operands.a.rows());
  require_inside("column", cols, operands.b.cols());
  Operands block{.a = picked_rows(operands.a, rows),
                 .b = picked_cols(operands.b, cols),
                 .negate_a = operands.negate_a,
                 .negate_b = operands.negate_b,
                 .saturate = operands.saturate,
                 .exclusive_or = operands.exclusive_or,
                 .rounding = operands.rounding,
                 .scale_input_d = operands.scale_input_d,
                 .swapped = operands.swapped};
  if (operands.c) block.c = picked_cols(picked_rows(*operands.c, rows), cols);
  if (operands.scales)
    block.scales = BlockScales{.a = picked_rows(operands.scales->a, rows), .b = picked_cols(operands.scales->b, cols)};
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
