// SPDX-License-Identifier: MIT
#include "bitmma/files/tiling.hpp"

#include <fmt/format.h>

#include "bitmma/core/parallel.hpp"

namespace bitmma {
namespace {

void require_below(std::string_view field, int value, int count) {
  if (value >= 0 && value < count) return;
  throw Error(
      {.field = std::string(field), .seen = std::to_string(value), .expected = fmt::format("0..{}", count - 1)});
}

}  // namespace

Tiling tiling_of(const Case& whole) {
  const LogicalMatrices& logical = whole.logical;
  if (whole.has_state() || !is_mma(whole.instruction) || !logical.a || !logical.b) return {};
  const Mma mma = mma_of(whole.instruction);
  const int m = logical.a->rows(), n = logical.b->cols(), k = logical.b->rows();
  if (mma.products > 1 || (m == mma.m && n == mma.n && k == mma.k)) return {};
  if (m % mma.m != 0 || n % mma.n != 0 || k % mma.k != 0 || m == 0 || n == 0 || k == 0 || logical.a->cols() != k)
    throw Error({.field = "tile",
                 .seen = fmt::format("a {} x {}, b {} x {}", m, logical.a->cols(), k, n),
                 .expected = fmt::format("M, N and K of one instruction, {} x {} x {}, or multiples of them", mma.m,
                                         mma.n, mma.k)});
  return {.m = m / mma.m, .n = n / mma.n, .k = k / mma.k};
}

Case instruction_at(const Case& whole, int row, int col, int step, const Matrix* d_before) {
  const Tiling tiling = tiling_of(whole);
  if (tiling.is_one_instruction()) return whole;
  const Mma mma = mma_of(whole.instruction);
  require_below("row", row, tiling.m * mma.m);
  require_below("col", col, tiling.n * mma.n);
  require_below("step", step, tiling.k);
  const int top = row / mma.m * mma.m, left = col / mma.n * mma.n, scales = mma.scale_count;
  const auto part = [](const std::optional<Matrix>& matrix, int first_row, int rows, int first_col, int cols) {
    return matrix ? std::optional(block_of(*matrix, first_row, rows, first_col, cols)) : std::nullopt;
  };
  const LogicalMatrices& logical = whole.logical;
  Case instruction{.instruction = whole.instruction, .target = whole.target};
  instruction.logical = {.a = part(logical.a, top, mma.m, step * mma.k, mma.k),
                         .b = part(logical.b, step * mma.k, mma.k, left, mma.n),
                         .c = d_before ? std::optional(*d_before) : part(logical.c, top, mma.m, left, mma.n),
                         .d = step + 1 == tiling.k ? part(logical.d, top, mma.m, left, mma.n) : std::nullopt,
                         .scale_a = part(logical.scale_a, top, mma.m, step * scales, scales),
                         .scale_b = part(logical.scale_b, step * scales, scales, left, mma.n)};
  const bool reads_c = d_before || (mma.enable_input_d && logical.c);
  instruction.instruction = with_enable_input_d(whole.instruction, reads_c);
  return instruction;
}

Matrix computed_tile(const Case& whole, int threads, const AccumulatorModel* model) {
  const Tiling tiling = tiling_of(whole);
  if (tiling.is_one_instruction()) return computed_d(whole, model);
  const Mma mma = mma_of(whole.instruction);
  Matrix d(mma.d, tiling.m * mma.m, tiling.n * mma.n);
  parallel_for(static_cast<size_t>(tiling.m) * static_cast<size_t>(tiling.n), threads, [&](size_t number) {
    const int block = static_cast<int>(number), row = block / tiling.n * mma.m, col = block % tiling.n * mma.n;
    std::optional<Matrix> part;
    for (int step = 0; step < tiling.k; ++step)
      part = computed_d(instruction_at(whole, row, col, step, part ? &*part : nullptr), model);
    set_block(d, row, col, *part);
  });
  return d;
}

}  // namespace bitmma
