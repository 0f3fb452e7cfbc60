// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>

#include "bitmma/core/error.hpp"
#include "bitmma/gemm/gemm.hpp"
#include "gemm_inside.hpp"

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

bool is_cut(OperandCut cut, int extent, int extent_of_product) {
  switch (cut) {
    case OperandCut::none: return false;
    case OperandCut::always: return true;
    case OperandCut::unless_single: return extent > 1;
    case OperandCut::if_as_many: return extent == extent_of_product;
  }
  return false;
}

/// Rounds f32 words to tf32 on the bits: a carry out of the mantissa raises the exponent, up to infinity.
Matrix with_rounded_inputs(const Matrix& matrix, InputRounding rounding) {
  if (rounding == InputRounding::none) return matrix;
  constexpr uint32_t dropped = 0x1FFF, half = 0x1000, nan = 0x7FFFE000;
  Matrix rounded = matrix;
  for (uint32_t& word : rounded.words()) {
    if ((word & 0x7FFFFFFF) > 0x7F800000) {
      // As on an H200: cvt.rn.tf32 returns the canonical NaN; cvt.rna.tf32 drops bits, so 0x7F800001 becomes infinity.
      word = rounding == InputRounding::tf32_rna ? word & ~dropped : nan;
      continue;
    }
    const uint32_t up = rounding == InputRounding::tf32_rna ? half : half - 1 + (word >> 13 & 1);
    word = (word + up) & ~dropped;
  }
  return rounded;
}

/// Indices in the whole product. `before`: the indices of the inputs; if empty, they count from 0.
std::vector<int64_t> numbers_of(std::span<const int> picks, const std::vector<int64_t>& before, int count,
                                std::string_view what) {
  if (!before.empty() && before.size() != static_cast<size_t>(count)) {
    throw Error({.field = std::string(what),
                 .seen = fmt::format("{} numbers", before.size()),
                 .expected = fmt::format("{} or none", count)});
  }
  std::vector<int64_t> numbers;
  for (const int i : picks) numbers.push_back(before.empty() ? i : before[static_cast<size_t>(i)]);
  return numbers;
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

const Matrix* find_operand(const GemmInputs& inputs, GemmOperand operand) {
  if (const auto member = info(operand).optional) return inputs.*member ? &*(inputs.*member) : nullptr;
  return operand == GemmOperand::a ? &inputs.a : &inputs.b;
}

void set_operand(GemmInputs& inputs, GemmOperand operand, Matrix matrix) {
  if (const auto member = info(operand).optional) inputs.*member = std::move(matrix);
  else (operand == GemmOperand::a ? inputs.a : inputs.b) = std::move(matrix);
}

GemmInputs rounded_inputs(const GemmInputs& inputs, InputRounding rounding) {
  GemmInputs rounded = inputs;
  rounded.a = with_rounded_inputs(inputs.a, rounding);
  rounded.b = with_rounded_inputs(inputs.b, rounding);
  return rounded;
}

GemmInputs part_of(const GemmInputs& whole, std::span<const int> rows, std::span<const int> cols) {
  require_below(rows, whole.a.rows(), "rows"), require_below(cols, whole.b.cols(), "cols");
  GemmInputs part = whole;
  for (const GemmOperandInfo& row : gemm_operands) {
    const Matrix* const operand = find_operand(whole, row.id);
    if (!operand) continue;
    const bool cuts_rows = is_cut(row.rows, operand->rows(), whole.a.rows()),
               cuts_cols = is_cut(row.cols, operand->cols(), whole.b.cols());
    if (cuts_rows) set_operand(part, row.id, rows_of(*operand, rows, row.name));
    if (cuts_cols) set_operand(part, row.id, cols_of(*find_operand(part, row.id), cols, row.name));
  }
  part.whole_m = std::max<int64_t>(whole.whole_m, whole.a.rows());
  part.whole_n = std::max<int64_t>(whole.whole_n, whole.b.cols());
  part.rows = numbers_of(rows, whole.rows, whole.a.rows(), "rows"),
  part.cols = numbers_of(cols, whole.cols, whole.b.cols(), "cols");
  return part;
}

}  // namespace bitmma
