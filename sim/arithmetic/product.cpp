#include "product.hpp"

#include <algorithm>
#include <cassert>

#include "checks.hpp"
#include "kernels/kernels.hpp"

namespace bitmma {
namespace {

/// All terms at once.
Matrix product_of_step(const AccumulatorModel& model, const Operands& operands) {
  return model.scaling == Scaling::groups_of_16 ? grouped_product(model, operands) : fused_product(model, operands);
}

/// D of a step of K is C of the next.
Matrix product_of_steps(const AccumulatorModel& model, const Operands& operands) {
  const int terms = operands.a.cols(), step = model.terms_per_step;
  if (step == 0 || terms <= step) return product_of_step(model, operands);
  Operands first = step_of(operands, 0, step);
  first.c = operands.c;
  first.scale_input_d = operands.scale_input_d;
  Matrix d = product_of_step(model, first);
  for (int begin = step; begin < terms; begin += step) {
    Operands next = step_of(operands, begin, std::min(step, terms - begin));
    next.c = std::move(d);
    d = product_of_step(model, next);
  }
  return d;
}

Matrix product(const AccumulatorModel& model, const Operands& operands) {
  if (!operands.swapped && operands.selected_k.empty() && prefers_swapped(model, operands.a.rows(), operands.b.cols()))
    return transposed(product(model, swapped(operands)));
  switch (model.arithmetic) {
    case Arithmetic::integer: return integer_product(operands);
    case Arithmetic::popcount: return popcount_product(operands);
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

}  // namespace

Operands swapped(const Operands& operands) {
  assert(operands.selected_k.empty() && operands.mixed.empty());
  Operands result{.a = transposed(operands.b),
                  .b = transposed(operands.a),
                  .negate_a = operands.negate_b,
                  .negate_b = operands.negate_a,
                  .saturate = operands.saturate,
                  .scale_input_d = operands.scale_input_d,
                  .swapped = !operands.swapped};
  if (operands.c) result.c = transposed(*operands.c);
  if (operands.scales)
    result.scales = BlockScales{.a = transposed(operands.scales->b), .b = transposed(operands.scales->a)};
  return result;
}

Operands step_of(const Operands& operands, int first, int terms) {
  const Matrix &a = operands.a, &b = operands.b;
  const bool dense = operands.selected_k.empty();
  Operands step{.a = block_of(a, 0, a.rows(), first, terms),
                .b = dense ? block_of(b, first, terms, 0, b.cols()) : b,
                .negate_a = operands.negate_a,
                .negate_b = operands.negate_b,
                .swapped = operands.swapped};
  for (int row = 0; row < a.rows() && !dense; ++row) {
    const auto begin = operands.selected_k.begin() + std::ptrdiff_t{row} * a.cols() + first;
    step.selected_k.insert(step.selected_k.end(), begin, begin + terms);
  }
  for (MixedTerm mixed : operands.mixed) {
    if (mixed.stored < first || mixed.stored >= first + terms) continue;
    mixed.stored = static_cast<uint16_t>(mixed.stored - first);
    step.mixed.push_back(mixed);
  }
  if (operands.scales) step.scales = scales_of_step(*operands.scales, a.cols(), first, terms);
  return step;
}

bool prefers_swapped(const AccumulatorModel& model, int m, int n) {
  if (model.arithmetic == Arithmetic::popcount) return false;  // transposes words, not bits
  // Groups are summed in vectors of 16-bit numbers.
  return fills_better_swapped(m, n,
                              model.scaling == Scaling::groups_of_16 ? kernels::decoded_numbers : kernels::other_codes);
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
