// SPDX-License-Identifier: MIT
#include "product.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "../formats/matrix_inside.hpp"
#include "accumulator_blocks.hpp"
#include "bitmma/core/bits.hpp"
#include "bitmma/core/interrupt.hpp"
#include "bitmma/formats/round.hpp"
#include "checks.hpp"
#include "fused_sum.hpp"
#include "kernels/kernels.hpp"
#include "slow_path.hpp"
#include "warp_product.hpp"

namespace bitmma {
namespace {

/// Widens an f16 C for an f32 D, exactly: only m8n8k4 has this combination.
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

/// Fused sums.
Matrix sum_product(const AccumulatorModel& model, const Operands& operands) {
  const AccumulatorModel accumulator_model = step_model(model);
  return product_by_steps(model, operands, [&accumulator_model](const Operands& step, const KStep&) {
    return product_of_step(accumulator_model, step);
  });
}

Matrix product(const AccumulatorModel& model, const Operands& operands) {
  check_interrupt();
  if (std::optional<Matrix> d = warp_product(model, operands)) return std::move(*d);
  if (!operands.swapped && operands.selected_k.empty() && prefers_swapped(model, operands.a.rows(), operands.b.cols()))
    return transposed(product(model, swapped(operands)));
  switch (model.arithmetic) {
    case Arithmetic::integer: return integer_product(operands);
    case Arithmetic::popcount: return popcount_product(operands);
    case Arithmetic::fma_chain:
    case Arithmetic::fma_pairs: return fma_product(model, operands);
    default: return sum_product(model, operands);
  }
}

/// Returns false, and writes nothing, if the product needs whole matrices.
bool product_by_blocks(const AccumulatorModel& model, const Operands& operands, const AccumulatorBlocks& blocks) {
  if (operands.selected_k.empty() && prefers_swapped(model, operands.a.rows(), operands.b.cols())) return false;
  if (model.arithmetic == Arithmetic::integer) {
    integer_product(operands, blocks);
    return true;
  }
  const bool is_one_step = !is_chained(model, operands.a.cols()) && !model.c_last;
  return model.arithmetic == Arithmetic::fused_sum && is_one_step && model.scaling != Scaling::exact_groups &&
         fused_product(step_model(model), operands, blocks);
}

/// The chunks of scales that cover stored columns [first, first + terms) of `stored`.
BlockScales scales_of_step(const BlockScales& scales, int stored, int first, int terms) {
  const int chunks = scales.a.cols(), begin = first * chunks / stored,
            count = (first + terms - 1) * chunks / stored - begin + 1;
  return {.a = block_of(scales.a, 0, scales.a.rows(), begin, count),
          .b = block_of(scales.b, begin, count, 0, scales.b.cols())};
}

/// The f16 codes for all codes of formats of up to 8 bits. A subnormal becomes a normal number with its own exponent.
using CodesAsF16 = std::array<std::array<uint32_t, 256>, formats.size()>;
const CodesAsF16& codes_as_f16() {
  static const CodesAsF16 table = [] {
    CodesAsF16 codes{};
    for (const FormatInfo& from : formats) {
      for (uint32_t code = 0; from.bits <= 8 && from.kind == NumberKind::floating && code <= low_mask(from.bits);
           ++code)
        codes[static_cast<size_t>(from.id)][code] =
            static_cast<uint32_t>(convert(from.id, code, Format::f16, Rounding::nearest_even, Overflow::infinity));
    }
    return codes;
  }();
  return table;
}

/// The operands of a step: f16 if the step widens them.
Matrix widened(Matrix matrix, Format input) {
  if (matrix.format() == input) return matrix;
  const auto& codes = codes_as_f16()[static_cast<size_t>(matrix.format())];
  Matrix wide = unfilled_matrix(Format::f16, matrix.rows(), matrix.cols());
  std::ranges::transform(matrix.words(), wide.words().begin(), [&](uint32_t code) { return codes[code & 0xFF]; });
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

Operands step_of(const AccumulatorModel& model, const Operands& operands, std::span<const int> columns) {
  // A step without columns selects nothing from B, and `selected_k` could not say so.
  const bool dense = operands.selected_k.empty() || columns.empty();
  Operands step{
      .a = widened(picked_cols(operands.a, columns), step_input(model, operands.a.format())),
      .b = widened(dense ? picked_rows(operands.b, columns) : operands.b, step_input(model, operands.b.format())),
      .negate_a = operands.negate_a,
      .negate_b = operands.negate_b,
      .saturate = operands.saturate,
      .swapped = operands.swapped};
  const auto stored = static_cast<size_t>(operands.a.cols());
  for (size_t row = 0; row < static_cast<size_t>(operands.a.rows()) && !dense; ++row) {
    for (const int j : columns) step.selected_k.push_back(operands.selected_k[row * stored + static_cast<size_t>(j)]);
  }
  for (MixedTerm mixed : operands.mixed) {
    const auto column = std::ranges::find(columns, static_cast<int>(mixed.stored));
    if (column == columns.end()) continue;
    mixed.stored = static_cast<uint16_t>(column - columns.begin());
    step.mixed.push_back(mixed);
  }
  if (operands.scales) {
    step.scales =
        scales_of_step(*operands.scales, operands.a.cols(), columns.front(), static_cast<int>(columns.size()));
  }
  return step;
}

Matrix product_by_steps(const AccumulatorModel& model, const Operands& operands, const StepProduct& product) {
  const int terms = operands.a.cols();
  if (!is_chained(model, terms) && !model.c_last) return product(operands, {.count = terms});
  std::optional<Matrix> c = model.c_last ? std::nullopt : operands.c;
  int scale_input_d = operands.scale_input_d;
  std::vector<int> columns;
  for_each_step(model, terms, [&](const KStep& step) {
    columns.clear();
    for (int i = 0; i < step.count; ++i) columns.push_back(step.term(i));
    Operands of_step = step_of(model, operands, columns);
    of_step.c = std::move(c);
    of_step.scale_input_d = std::exchange(scale_input_d, 0);
    c = product(of_step, step);
  });
  return with_c_last(model, std::move(*c), operands.c);
}

Matrix with_c_last(const AccumulatorModel& model, Matrix sum, const std::optional<Matrix>& c) {
  if (!model.c_last || !c) return sum;
  std::ranges::transform(sum.words(), c->words(), sum.words().begin(),
                         [&](uint32_t code, uint32_t addend) { return with_c_last(model, code, addend, c->format()); });
  return sum;
}

bool prefers_swapped(const AccumulatorModel& model, int m, int n) {
  // Popcounts transpose words, not bits; chains of operations gain nothing from swapping.
  if (model.arithmetic != Arithmetic::fused_sum && model.arithmetic != Arithmetic::integer) return false;
  // Groups are summed in vectors of 16-bit numbers.
  return fills_better_swapped(m, n,
                              model.scaling == Scaling::exact_groups ? kernels::decoded_numbers : kernels::other_codes);
}

Matrix multiply_accumulate(const AccumulatorModel& model, const Operands& operands) {
  require_agreement(model, operands, Inputs::of_model);
  return product(model, operands);
}

void multiply_accumulate(const AccumulatorModel& model, Operands operands, const AccumulatorBlocks& blocks) {
  assert(!operands.c && !operands.swapped);
  if (product_by_blocks(model, operands, blocks)) return;
  const int rows = operands.a.rows(), cols = operands.b.cols();
  if (blocks.read) {
    operands.c = unfilled_matrix(model.output, rows, cols);
    blocks.read(0, rows, operands.c->words().data(), cols);
  }
  blocks.write(0, rows, product(model, operands).words().data(), cols);
}

Matrix multiply_accumulate_unchecked(const AccumulatorModel& model, const Operands& operands) {
  require_agreement(model, operands, Inputs::of_arithmetic);
  return product(model, operands);
}

}  // namespace bitmma
