// SPDX-License-Identifier: MIT
// Chains of IEEE operations: f64, and m8n8k4 of f16 on targets where ptxas emits FFMA and FADD for it. fma_steps
// computes one output after another. Products take the loops of fma_loops.hpp where the processor has them, but for NaN
// words and selected terms of f64.
#include "fma.hpp"

#include <optional>
#include <utility>

#include "../formats/matrix_inside.hpp"
#include "bitmma/formats/ieee.hpp"
#include "fma_loops.hpp"
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

namespace {

uint64_t result_at(const AccumulatorModel& model, const Operands& operands, int row, int col) {
  return fma_steps(model, operands, row, col).back().result;
}

bool is_f64_chain(const AccumulatorModel& model) {
  return model.arithmetic == Arithmetic::fma_chain && model.output == Format::f64;
}

/// Replaces every NaN of D by result(row, col).
template <typename Result>
void replace_nans(Matrix& d, bool has_nan, const Result& result) {
  for (int row = 0; row < d.rows() && has_nan; ++row) {
    for (int col = 0; col < d.cols(); ++col) {
      if (is_nan_of_f64(d.code(row, col))) d.set_code(row, col, result(row, col));
    }
  }
}

std::optional<Matrix> product_by_loop(const AccumulatorModel& model, const Operands& operands) {
  const Matrix &a = operands.a, &b = operands.b;
  if (!has_fma_loops(operands.rounding)) return std::nullopt;
  const bool negate = operands.negate_a != operands.negate_b;
  if (is_f64_chain(model) && operands.selected_k.empty()) {
    Matrix d = operands.c ? *operands.c : Matrix(model.output, a.rows(), b.cols());
    const bool has_nan = add_products({.a = a.words().data(),
                                       .b = b.words().data(),
                                       .d = d.words().data(),
                                       .a_stride = a.cols(),
                                       .b_stride = b.cols(),
                                       .d_stride = b.cols(),
                                       .rows = a.rows(),
                                       .cols = b.cols(),
                                       .terms = a.cols(),
                                       .negate = negate,
                                       .rounding = operands.rounding});
    replace_nans(d, has_nan, [&](int row, int col) { return result_at(model, operands, row, col); });
    return d;
  }
  if (model.arithmetic != Arithmetic::fma_pairs || (model.output != Format::f32 && model.output != Format::f16))
    return std::nullopt;
  Matrix d = unfilled_matrix(model.output, a.rows(), b.cols());
  multiply({.a = a.words().data(),
            .b = b.words().data(),
            .c = operands.c ? operands.c->words().data() : nullptr,
            .d = d.words().data(),
            .selected_k = operands.selected_k.empty() ? nullptr : operands.selected_k.data(),
            .rows = a.rows(),
            .cols = b.cols(),
            .negate = negate,
            .c_is_f16 = operands.c && operands.c->format() == Format::f16,
            .d_is_f16 = model.output == Format::f16});
  return d;
}

}  // namespace

Matrix fma_product_by_steps(const AccumulatorModel& model, const Operands& operands) {
  Matrix d = unfilled_matrix(model.output, operands.a.rows(), operands.b.cols());
  for (int row = 0; row < d.rows(); ++row) {
    for (int col = 0; col < d.cols(); ++col) d.set_code(row, col, result_at(model, operands, row, col));
  }
  return d;
}

std::optional<Matrix> chain_of_f64(const AccumulatorModel& model, const ChainBlock& block,
                                   std::span<const ChainUpdate> updates, int k, const std::optional<Matrix>& c) {
  if (!is_f64_chain(model) || !has_fma_loops(Rounding::nearest_even)) return std::nullopt;
  Matrix d = c ? *c : Matrix(model.output, block.rows, block.cols);
  F64Chains job{.d = d.words().data(), .d_stride = block.cols, .rows = block.rows, .cols = block.cols};
  const std::vector<uint64_t> zeros(static_cast<size_t>(block.cols));
  const auto code_at = [](const Matrix& matrix, int row, int64_t col) {
    return matrix.words().data() + 2 * (int64_t{row} * matrix.cols() + col);
  };
  bool has_nan = false;
  for (size_t i = 0; i < updates.size();) {
    // Full updates that follow each other along K are one sum.
    const auto first = static_cast<int>(updates[i].first);
    int terms = updates[i].count;
    bool is_full = terms == k;
    for (++i; i < updates.size() && is_full && updates[i].first == first + terms; ++i)
      terms += updates[i].count, is_full = updates[i].count == k;
    job.a = code_at(block.a, block.row, first), job.a_stride = block.a.cols();
    job.b = code_at(block.b, first, block.col), job.b_stride = block.b.cols();
    job.terms = terms;
    has_nan |= add_products(job);
    if (is_full) continue;
    // The rest of the instruction is zero: +0 is added, which makes +0 of -0.
    job.a = job.b = zeros.data(), job.a_stride = job.b_stride = 0, job.terms = 1;
    has_nan |= add_products(job);
  }
  replace_nans(d, has_nan, [&](int row, int col) {
    std::optional<Matrix> of_c;
    if (c) of_c = block_of(*c, row, 1, col, 1);
    const ChainBlock chain_block{
        .a = block.a, .b = block.b, .row = block.row + row, .rows = 1, .col = block.col + col, .cols = 1};
    return chain_by_updates(model, chain_block, updates, k, std::move(of_c)).code(0, 0);
  });
  return d;
}

Matrix fma_product(const AccumulatorModel& model, const Operands& operands) {
  std::optional<Matrix> d = product_by_loop(model, operands);
  return d ? std::move(*d) : fma_product_by_steps(model, operands);
}

}  // namespace bitmma
