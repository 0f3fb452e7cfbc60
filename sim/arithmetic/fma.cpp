// SPDX-License-Identifier: MIT
// Chains of IEEE operations: f64, and m8n8k4 of f16 on targets where ptxas emits FFMA and FADD for it. Computes one
// output after another.
#include "fma.hpp"

#include <utility>

#include "../formats/matrix_inside.hpp"
#include "bitmma/formats/ieee.hpp"
#include "product.hpp"

namespace bitmma {
namespace {

/// Widens f16 to f32, exactly.
uint32_t widened(Format format, uint64_t code) {
  if (format == Format::f32) return static_cast<uint32_t>(code);
  return static_cast<uint32_t>(convert(format, code, Format::f32, Rounding::nearest_even, Overflow::infinity));
}

/// DMMA's multiply-add: IEEE 754 except for its NaN words.
uint64_t chained(const AccumulatorModel& model, const Operands& operands, uint64_t a, uint64_t b, uint64_t c) {
  if (operands.swapped) std::swap(a, b);
  const Format format = model.output;
  const uint64_t result = ieee_fma(format, a, b, c, operands.rounding);
  const auto is_nan = [&](uint64_t code) { return decode(format, code).number == NumberClass::nan; };
  if (model.nan == NanRule::canonical || !is_nan(result)) return result;
  const uint64_t quiet = uint64_t{1} << (info(format).mantissa_bits - 1);
  for (const uint64_t operand : {b, c, a}) {
    if (is_nan(operand)) return operand | quiet;
  }
  return info(format).sign_bit() | *info(format).infinity() | quiet;
}

uint64_t negated(Format format, uint64_t code, bool negate) { return negate ? code ^ info(format).sign_bit() : code; }

}  // namespace

std::vector<FmaStep> fma_steps(const AccumulatorModel& model, const Operands& operands, int row, int col) {
  const Matrix &a = operands.a, &b = operands.b;
  const int terms = a.cols();
  const auto k_of = [&](int j) {
    return operands.selected_k.empty()
               ? j
               : operands.selected_k[static_cast<size_t>(row) * static_cast<size_t>(terms) + static_cast<size_t>(j)];
  };
  const auto a_code = [&](int j) { return negated(a.format(), a.code(row, j), operands.negate_a); };
  const auto b_code = [&](int j) { return negated(b.format(), b.code(k_of(j), col), operands.negate_b); };
  std::vector<FmaStep> steps;
  if (model.arithmetic == Arithmetic::fma_chain) {
    uint64_t sum = operands.c ? operands.c->code(row, col) : 0;
    for (int j = 0; j < terms; ++j) {
      steps.push_back({.kind = FmaStep::Kind::fma, .term = j, .addend = sum});
      sum = steps.back().result = chained(model, operands, a_code(j), b_code(j), sum);
    }
    return steps;
  }
  // Everything below uses f32.
  constexpr Format f32 = Format::f32;
  constexpr uint64_t minus_zero = 0x80000000;  // the neutral addend: with it an FFMA is an FMUL
  const auto multiply_add = [&](int j, uint64_t addend) {
    const uint64_t result = ieee_fma(f32, widened(a.format(), a_code(j)), widened(b.format(), b_code(j)), addend);
    steps.push_back({.kind = FmaStep::Kind::fma, .term = j, .addend = addend, .result = result});
    return result;
  };
  const auto add = [&](uint64_t x, uint64_t y) {
    steps.push_back({.kind = FmaStep::Kind::add, .first = x, .addend = y, .result = ieee_add(f32, x, y)});
    return steps.back().result;
  };
  const uint64_t c = operands.c ? widened(operands.c->format(), operands.c->code(row, col)) : 0;
  if (model.output == f32) {
    uint64_t sum = 0;
    for (int j = 0; j < terms; ++j) sum = multiply_add(j, sum);
    if (operands.c) add(c, sum);
    return steps;
  }
  uint64_t sum = c;
  for (int j = 0; j < terms; j += 2) {
    const uint64_t pair = multiply_add(j + 1, multiply_add(j, minus_zero));
    sum = j == 0 && !operands.c ? pair : add(sum, pair);
  }
  steps.push_back({.kind = FmaStep::Kind::convert,
                   .first = sum,
                   .result = convert(f32, sum, model.output, Rounding::nearest_even, Overflow::infinity)});
  return steps;
}

Matrix fma_product(const AccumulatorModel& model, const Operands& operands) {
  Matrix d = unfilled_matrix(model.output, operands.a.rows(), operands.b.cols());
  for (int row = 0; row < d.rows(); ++row) {
    for (int col = 0; col < d.cols(); ++col) d.set_code(row, col, fma_steps(model, operands, row, col).back().result);
  }
  return d;
}

}  // namespace bitmma
