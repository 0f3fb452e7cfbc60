// SPDX-License-Identifier: MIT
// Fused sums of products. A and B are decoded once into arrays; the hot loop (kernels/fused.hpp) does the rest.
#include <algorithm>
#include <cassert>

#include "accumulator_blocks.hpp"
#include "bitmma/core/bits.hpp"
#include "budget.hpp"
#include "chain.hpp"
#include "product.hpp"
#include "slow_path.hpp"
#include "whole_rows.hpp"

namespace bitmma {
namespace {

/// A decoded operand as arrays, row by row. Rows are padded with zeros.
struct DecodedMatrix {
  int stride = 0;
  kernels::Array<kernels::Pair> pair;
  kernels::Array<int32_t> exponent;         // exponent_of_zero for zeros; includes the scale
  kernels::Array<int16_t> narrow_exponent;  // the same in 16 bits
  kernels::Array<uint32_t> negative;        // one word per row of A or column of B
  bool any_special = false;                 // NaN or infinity, or a NaN scale

  size_t at(int row) const { return static_cast<size_t>(row) * stride; }
};

enum class Side : uint8_t { a, b };

void decode_matrix(Side side, const Matrix& matrix, int shift, bool negate, DecodedMatrix& decoded) {
  assert(info(matrix.format()).is_signed);
  const int rows = matrix.rows(), cols = matrix.cols();
  decoded.stride = kernels::round_up(cols, kernels::decoded_numbers);
  const size_t count = decoded.at(rows);
  decoded.pair.resize(count);
  decoded.exponent.resize(count);
  decoded.narrow_exponent.resize(count);
  decoded.negative.assign(static_cast<size_t>(side == Side::a ? rows : decoded.stride), 0);
  const WholeRows whole(matrix, kernels::fused_codes);
  decoded.any_special =
      kernels::kernels().decode({.format = kernels::DecodeConstants(info(matrix.format())),
                                 .codes = whole.codes(),
                                 .codes_stride = whole.stride(),
                                 .rows = rows,
                                 .cols = cols,
                                 .stride = decoded.stride,
                                 .shift = shift,
                                 .flip = negate ? -1 : 0,
                                 .normal = false,
                                 .pair = decoded.pair.data(),
                                 .exponent = decoded.exponent.data(),
                                 .narrow_exponent = decoded.narrow_exponent.data(),
                                 .negative_of_row = side == Side::a ? decoded.negative.data() : nullptr,
                                 .negative_of_col = side == Side::b ? decoded.negative.data() : nullptr});
  // Codes are decoded in groups of eight; if everything is negated, the padding after the last column is negative.
  if (side == Side::b || cols >= 32 || cols % kernels::fused_codes == 0) return;
  for (uint32_t& word : decoded.negative) word &= static_cast<uint32_t>(low_mask(cols));
}

/// A power of two for every chunk of a row's `cols` columns.
void scale_rows(DecodedMatrix& decoded, const Matrix& scales, int cols) {
  const int chunks = scales.cols();
  for (int row = 0; row < scales.rows(); ++row) {
    int32_t* const exponent = decoded.exponent.data() + decoded.at(row);
    int16_t* const narrow = decoded.narrow_exponent.data() + decoded.at(row);
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const Decoded scale = decode(scales.format(), scales(row, chunk));
      decoded.any_special |= scale.number == NumberClass::nan;
      const int end = chunk + 1 < chunks ? cols * (chunk + 1) / chunks : decoded.stride;
      for (int col = cols * chunk / chunks; col < end; ++col)
        exponent[col] += scale.exponent, narrow[col] = static_cast<int16_t>(narrow[col] + scale.exponent);
    }
  }
}

/// A power of two for every chunk of a column's `rows` rows.
void scale_cols(DecodedMatrix& decoded, const Matrix& scales, int rows) {
  kernels::Array<int16_t> raise(static_cast<size_t>(decoded.stride) * static_cast<size_t>(scales.rows()), 0);
  for (int chunk = 0; chunk < scales.rows(); ++chunk) {
    for (int col = 0; col < scales.cols(); ++col) {
      const Decoded scale = decode(scales.format(), scales(chunk, col));
      decoded.any_special |= scale.number == NumberClass::nan;
      raise[static_cast<size_t>(chunk) * static_cast<size_t>(decoded.stride) + static_cast<size_t>(col)] =
          static_cast<int16_t>(scale.exponent);
    }
  }
  for (int row = 0; row < rows; ++row) {
    const int chunk = row * scales.rows() / rows;
    const int16_t* const by = raise.data() + static_cast<size_t>(chunk) * static_cast<size_t>(decoded.stride);
    int32_t* const exponent = decoded.exponent.data() + decoded.at(row);
    int16_t* const narrow = decoded.narrow_exponent.data() + decoded.at(row);
    for (int col = 0; col < decoded.stride; ++col) exponent[col] += by[col];
    for (int col = 0; col < decoded.stride; ++col) narrow[col] = static_cast<int16_t>(narrow[col] + by[col]);
  }
}

/// Buffers for successive products, one set per thread: a repeated shape allocates
/// nothing.
struct Workspace {
  DecodedMatrix a, b;
  kernels::Array<int32_t> scratch;
};

/// The sum of all columns, still without C and D, and its loop.
struct Fused {
  kernels::SumFused loop;
  kernels::FusedSum job;
  bool any_special;  // NaN, infinity or a mixed term in the operands

  bool run() const { return loop(job) | any_special; }
};

/// nullopt if no loop supports the operands. The numbers are valid until the next call in this thread.
std::optional<Fused> begin_fused(const AccumulatorModel& model, const Operands& operands) {
  const int rows = operands.a.rows(), cols = operands.b.cols(), terms = operands.a.cols();
  const kernels::SumFused loop = kernels::kernels().sum_fused[kernels::loop_of(model)];
  const std::optional<Budget> budget =
      find_budget(model.fraction_bits, operands.a.format(), operands.b.format(), terms);
  const bool fits_words = terms <= kernels::most_dense_terms || !operands.selected_k.empty();
  if (!loop || !budget || !fits_words || !scales_fit(operands)) return std::nullopt;

  thread_local Workspace workspace;
  auto& [a, b, scratch] = workspace;
  decode_matrix(Side::a, operands.a, budget->a_shift, operands.negate_a, a);
  decode_matrix(Side::b, operands.b, budget->b_shift, operands.negate_b, b);
  if (operands.scales) {
    scale_rows(a, operands.scales->a, operands.a.cols());
    scale_cols(b, operands.scales->b, operands.b.rows());
  }
  scratch.resize(kernels::scratch_numbers);
  return Fused{.loop = loop,
               .job = {.a = numbers_of(a),
                       .b = numbers_of(b),
                       .selected_k = operands.selected_k.empty() ? nullptr : operands.selected_k.data(),
                       .rows = rows,
                       .cols = cols,
                       .terms = terms,
                       .terms_per_part = budget->terms_per_part,
                       .c = nullptr,
                       .c_scale = operands.scale_input_d,
                       .fraction_bits = model.fraction_bits,
                       .floor_exponent = kernels::floor_of(model),
                       .output = kernels::OutputConstants(info(model.output), model.output_fraction_bits),
                       .d = nullptr,
                       .d_stride = 0,
                       .scratch = scratch.data()},
               .any_special = a.any_special || b.any_special || !operands.mixed.empty()};
}

}  // namespace

bool scales_fit(const Operands& operands) {
  const auto is_power = [](const Matrix& scales) { return info(scales.format()).mantissa_bits == 0; };
  const std::optional<BlockScales>& scales = operands.scales;
  return !scales || (scales->a.cols() == 1 && is_power(scales->a) && is_power(scales->b));
}

Matrix fused_product(const AccumulatorModel& model, const Operands& operands) {
  if (std::optional<Matrix> d = step_by_chain(model, operands)) return std::move(*d);
  std::optional<Fused> fused = begin_fused(model, operands);
  if (!fused) return slow_product(model, operands);
  Accumulator accumulator(model.output, operands.a.rows(), operands.b.cols(), operands.c, kernels::fused_codes);
  fused->job.c = accumulator.c(), fused->job.d = accumulator.d(), fused->job.d_stride = accumulator.stride();
  const bool any_special = fused->run();
  Matrix d = accumulator.take_d();
  if (any_special) replace_special_outputs(model, operands, d);
  return d;
}

bool fused_product(const AccumulatorModel& model, const Operands& operands, const AccumulatorBlocks& blocks) {
  if (step_by_chain(model, operands, blocks)) return true;
  const std::optional<Fused> fused = begin_fused(model, operands);
  if (!fused || fused->any_special) return false;
  const auto sum = [&](const AccumulatorBlock& block) {
    Fused block_sum = *fused;
    kernels::FusedSum& job = block_sum.job;
    const size_t before = static_cast<size_t>(block.row) * static_cast<size_t>(job.a.stride);
    job.a.pair += before, job.a.exponent += before, job.a.narrow_exponent += before, job.a.negative += block.row;
    if (job.selected_k) job.selected_k += static_cast<size_t>(block.row) * static_cast<size_t>(job.terms);
    job.rows = block.rows, job.c = block.c(), job.d = block.codes, job.d_stride = block.stride;
    return block_sum.run();
  };
  sum_by_blocks(blocks, model.output, operands, sum,
                [&](const Operands& block) { return fused_product(model, block); });
  return true;
}

}  // namespace bitmma
