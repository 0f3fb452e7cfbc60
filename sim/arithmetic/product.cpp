#include "product.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "../formats/matrix_inside.hpp"
#include "bitmma/formats/ieee.hpp"
#include "checks.hpp"
#include "kernels/kernels.hpp"
#include "slow_path.hpp"

namespace bitmma {
namespace {

/// C of f16 where D is f32, exactly widened: m8n8k4 alone has that.
Matrix widened_c(const Matrix& c, Format format) {
  if (c.format() == format) return c;
  Matrix wide = unfilled_matrix(format, c.rows(), c.cols());
  std::ranges::transform(c.words(), wide.words().begin(), [&](uint32_t code) {
    return static_cast<uint32_t>(convert(c.format(), code, format, Rounding::nearest_even, Overflow::infinity));
  });
  return wide;
}

/// All terms at once.
Matrix product_of_step(const AccumulatorModel& model, const Operands& operands) {
  if (operands.c && operands.c->format() != model.output) {
    Operands wide = operands;
    wide.c = widened_c(*operands.c, model.output);
    Matrix d = product_of_step(model, wide);
    // A subnormal C has a larger exponent than the same number has in D's format.
    replace_outputs_of_subnormal_c(model, operands, d);
    return d;
  }
  return model.scaling == Scaling::exact_groups ? grouped_product(model, operands) : fused_product(model, operands);
}

/// D of a step of K is C of the next.
Matrix product_of_steps(const AccumulatorModel& model, const Operands& operands) {
  if (!is_chained(model, operands.a.cols()) && !model.c_last) return product_of_step(model, operands);
  std::optional<Matrix> c = model.c_last ? std::nullopt : operands.c;
  int scale_input_d = operands.scale_input_d;
  for (const std::vector<int>& columns : steps_of(model, operands.a.cols())) {
    Operands step = step_of(model, operands, columns);
    step.c = std::move(c);
    step.scale_input_d = std::exchange(scale_input_d, 0);
    c = product_of_step(model, step);
  }
  return model.c_last ? with_c_last(*c, operands.c) : std::move(*c);
}

Matrix product(const AccumulatorModel& model, const Operands& operands) {
  if (!operands.swapped && operands.selected_k.empty() && prefers_swapped(model, operands.a.rows(), operands.b.cols()))
    return transposed(product(model, swapped(operands)));
  switch (model.arithmetic) {
    case Arithmetic::integer: return integer_product(operands);
    case Arithmetic::popcount: return popcount_product(operands);
    case Arithmetic::fma_chain:
    case Arithmetic::fma_pairs: return fma_product(model, operands);
    default: return product_of_steps(model, operands);
  }
}

/// Chunks of scales that stored columns [first, first + terms) of `stored` lie in.
BlockScales scales_of_step(const BlockScales& scales, int stored, int first, int terms) {
  const int chunks = scales.a.cols(), begin = first * chunks / stored,
            count = (first + terms - 1) * chunks / stored - begin + 1;
  return {.a = block_of(scales.a, 0, scales.a.rows(), begin, count),
          .b = block_of(scales.b, begin, count, 0, scales.b.cols())};
}

Matrix columns_of(const Matrix& matrix, std::span<const int> columns) {
  Matrix picked = unfilled_matrix(matrix.format(), matrix.rows(), static_cast<int>(columns.size()));
  for (int row = 0; row < matrix.rows(); ++row) {
    for (size_t i = 0; i < columns.size(); ++i) picked(row, static_cast<int>(i)) = matrix(row, columns[i]);
  }
  return picked;
}

Matrix rows_of(const Matrix& matrix, std::span<const int> rows) {
  Matrix picked = unfilled_matrix(matrix.format(), static_cast<int>(rows.size()), matrix.cols());
  for (size_t i = 0; i < rows.size(); ++i)
    std::ranges::copy(matrix.row(rows[i]), picked.row(static_cast<int>(i)).begin());
  return picked;
}

/// fp8 as f16, exactly: F2FP.F16.UNPACK_B. A subnormal e4m3 becomes a normal number, with the exponent of one.
Matrix widened(const Matrix& matrix) {
  const Format from = matrix.format();
  if (info(from).bits > 8) return matrix;
  std::array<uint32_t, 256> f16{};
  for (uint32_t code = 0; code < f16.size(); ++code)
    f16[code] = static_cast<uint32_t>(convert(from, code, Format::f16, Rounding::nearest_even, Overflow::infinity));
  Matrix wide = unfilled_matrix(Format::f16, matrix.rows(), matrix.cols());
  std::ranges::transform(matrix.words(), wide.words().begin(), [&](uint32_t code) { return f16[code & 0xFF]; });
  return wide;
}

}  // namespace

Operands swapped(const Operands& operands) {
  assert(operands.selected_k.empty() && operands.mixed.empty());
  Operands result{.a = transposed(operands.b),
                  .b = transposed(operands.a),
                  .negate_a = operands.negate_b,
                  .negate_b = operands.negate_a,
                  .saturate = operands.saturate,
                  .exclusive_or = operands.exclusive_or,
                  .rounding = operands.rounding,
                  .scale_input_d = operands.scale_input_d,
                  .swapped = !operands.swapped};
  if (operands.c) result.c = transposed(*operands.c);
  if (operands.scales)
    result.scales = BlockScales{.a = transposed(operands.scales->b), .b = transposed(operands.scales->a)};
  return result;
}

std::vector<std::vector<int>> steps_of(const AccumulatorModel& model, int terms) {
  std::vector<std::vector<int>> steps;
  if (model.step_order == StepOrder::byte_pairs) {
    steps.resize(2);
    for (int j = 0; j < terms; ++j) steps[static_cast<size_t>(j / 2 % 2)].push_back(j);
    return steps;
  }
  const int step = model.terms_per_step == 0 ? terms : model.terms_per_step;
  for (int j = 0; j < terms; ++j) {
    if (j % step == 0) steps.emplace_back();
    steps.back().push_back(j);
  }
  return steps;
}

Operands step_of(const AccumulatorModel& model, const Operands& operands, std::span<const int> columns) {
  const bool dense = operands.selected_k.empty();
  Operands step{.a = columns_of(operands.a, columns),
                .b = dense ? rows_of(operands.b, columns) : operands.b,
                .negate_a = operands.negate_a,
                .negate_b = operands.negate_b,
                .swapped = operands.swapped};
  const auto stored = static_cast<size_t>(operands.a.cols());
  for (size_t row = 0; row < static_cast<size_t>(operands.a.rows()) && !dense; ++row) {
    for (const int j : columns) step.selected_k.push_back(operands.selected_k[row * stored + static_cast<size_t>(j)]);
  }
  for (MixedTerm mixed : operands.mixed) {
    const auto found = std::ranges::find(columns, static_cast<int>(mixed.stored));
    if (found == columns.end()) continue;
    mixed.stored = static_cast<uint16_t>(found - columns.begin());
    step.mixed.push_back(mixed);
  }
  if (operands.scales) {
    step.scales =
        scales_of_step(*operands.scales, operands.a.cols(), columns.front(), static_cast<int>(columns.size()));
  }
  if (model.step_order == StepOrder::byte_pairs) step.a = widened(step.a), step.b = widened(step.b);
  return step;
}

Matrix with_c_last(const Matrix& sum, const std::optional<Matrix>& c) {
  if (!c) return sum;
  const Matrix addend = widened_c(*c, sum.format());
  Matrix d = unfilled_matrix(sum.format(), sum.rows(), sum.cols());
  for (int row = 0; row < d.rows(); ++row) {
    for (int col = 0; col < d.cols(); ++col)
      d(row, col) = static_cast<uint32_t>(ieee_add(sum.format(), sum(row, col), addend(row, col)));
  }
  return d;
}

bool prefers_swapped(const AccumulatorModel& model, int m, int n) {
  // Popcounts transpose words, not bits; chains of operations gain nothing.
  if (model.arithmetic != Arithmetic::fused_sum && model.arithmetic != Arithmetic::integer) return false;
  // Groups are summed in vectors of 16-bit numbers.
  return fills_better_swapped(m, n,
                              model.scaling == Scaling::exact_groups ? kernels::decoded_numbers : kernels::other_codes);
}

Matrix multiply_accumulate(const AccumulatorModel& model, const Operands& operands) {
  require_agreement(model, operands, Inputs::of_model);
  return product(model, operands);
}

Matrix multiply_accumulate_unchecked(const AccumulatorModel& model, const Operands& operands) {
  require_agreement(model, operands, Inputs::of_arithmetic);
  return product(model, operands);
}

}  // namespace bitmma
