// SPDX-License-Identifier: MIT
// Exact sums: integers as arrays of 32-bit numbers, bits packed into words. The hot loops are in kernels/integers.hpp.
#include <algorithm>
#include <cassert>

#include "accumulator_blocks.hpp"
#include "product.hpp"
#include "whole_rows.hpp"

namespace bitmma {
namespace {

/// Integers in multiplication order; rows padded with zeros.
void take_values(const Matrix& matrix, bool negate, int stride, kernels::Array<int32_t>& values) {
  values.resize(static_cast<size_t>(matrix.rows()) * stride);
  const int cols = matrix.cols(), unused_bits = 32 - info(matrix.format()).bits;
  const bool is_signed = info(matrix.format()).is_signed;
  if (matrix.format() == Format::s1z4m11) {
    for (int row = 0; row < matrix.rows(); ++row) {
      const uint32_t* const codes = matrix.row(row).data();
      int32_t* const to = values.data() + static_cast<size_t>(row) * stride;
      for (int col = 0; col < cols; ++col) {
        const auto value = static_cast<int32_t>(decode_integer(Format::s1z4m11, codes[col]));
        to[col] = negate ? -value : value;
      }
      std::fill(to + cols, to + stride, 0);
    }
    return;
  }
  assert(info(matrix.format()).kind == NumberKind::integer && unused_bits >= 24 && !negate);
  for (int row = 0; row < matrix.rows(); ++row) {
    const uint32_t* const codes = matrix.row(row).data();
    int32_t* const to = values.data() + static_cast<size_t>(row) * stride;
    if (is_signed) {
      for (int col = 0; col < cols; ++col) to[col] = static_cast<int32_t>(codes[col] << unused_bits) >> unused_bits;
    } else {
      for (int col = 0; col < cols; ++col) to[col] = static_cast<int32_t>(codes[col] << unused_bits >> unused_bits);
    }
    std::fill(to + cols, to + stride, 0);
  }
}

/// The sum of all columns, still without C and D. Its numbers are valid until the next call in this thread.
kernels::IntegerSum begin_sum(const Operands& operands) {
  const int rows = operands.a.rows(), cols = operands.b.cols(), terms = operands.a.cols(),
            stride = kernels::round_up(cols, kernels::decoded_numbers);
  assert(terms <= kernels::most_integer_terms);
  thread_local kernels::Array<int32_t> a, b;
  take_values(operands.a, operands.negate_a, terms, a);
  take_values(operands.b, operands.negate_b, stride, b);
  return {.a = a.data(),
          .b = b.data(),
          .b_stride = stride,
          .selected_k = operands.selected_k.empty() ? nullptr : operands.selected_k.data(),
          .rows = rows,
          .cols = cols,
          .terms = terms,
          .pairs = false,
          .c = nullptr,
          .saturate = operands.saturate,
          .d = nullptr,
          .d_stride = 0};
}

/// Multiplies bits of rows of A and columns of B, packed in words: rows x words and words x cols.
Matrix sum_words(const Matrix& a, const Matrix& b, const std::optional<Matrix>& c, const Operands& options) {
  const WholeRows whole_b(b, kernels::other_codes);
  Accumulator accumulator(Format::s32, a.rows(), b.cols(), c, kernels::other_codes);
  kernels::kernels().sum_popcounts({.a = a.words().data(),
                                    .b = whole_b.codes(),
                                    .b_stride = whole_b.stride(),
                                    .rows = a.rows(),
                                    .cols = b.cols(),
                                    .words = a.cols(),
                                    .c = accumulator.c(),
                                    .saturate = options.saturate,
                                    .exclusive_or = options.exclusive_or,
                                    .d = accumulator.d(),
                                    .d_stride = accumulator.stride()});
  return accumulator.take_d();
}

}  // namespace

Matrix integer_product(const Operands& operands) {
  const int rows = operands.a.rows(), cols = operands.b.cols();
  Accumulator accumulator(Format::s32, rows, cols, operands.c, kernels::other_codes);
  kernels::IntegerSum job = begin_sum(operands);
  job.c = accumulator.c(), job.d = accumulator.d(), job.d_stride = accumulator.stride();
  kernels::kernels().sum_integers(job);
  return accumulator.take_d();
}

void integer_product(const Operands& operands, const AccumulatorBlocks& blocks) {
  const kernels::IntegerSum whole = begin_sum(operands);
  const auto sum = [&](const AccumulatorBlock& block) {
    kernels::IntegerSum job = whole;
    const auto before = static_cast<size_t>(block.row) * static_cast<size_t>(job.terms);
    job.a += before, job.selected_k = job.selected_k ? job.selected_k + before : nullptr;
    job.rows = block.rows, job.c = block.c(), job.d = block.codes, job.d_stride = block.stride;
    kernels::kernels().sum_integers(job);
    return false;
  };
  sum_by_blocks(blocks, Format::s32, operands, sum, [](const Operands& block) { return integer_product(block); });
}

Matrix popcount_product(const Operands& operands) {
  const int rows = operands.a.rows(), cols = operands.b.cols(), terms = operands.a.cols(), words = (terms + 31) / 32;
  Matrix a = unfilled_matrix(Format::s32, rows, words), b(Format::s32, words, cols);
  for (int row = 0; row < rows; ++row)
    kernels::kernels().pack_row(operands.a.row(row).data(), terms, a.row(row).data());
  for (int k = 0; k < terms; ++k)
    kernels::kernels().pack_bits(operands.b.row(k).data(), cols, k % 32, b.row(k / 32).data());
  if (!fills_better_swapped(rows, cols, kernels::other_codes)) return sum_words(a, b, operands.c, operands);
  // Transpose words instead of bits: there are 32 times fewer.
  return transposed(sum_words(transposed(b), transposed(a),
                              operands.c ? std::optional(transposed(*operands.c)) : std::nullopt, operands));
}

}  // namespace bitmma
