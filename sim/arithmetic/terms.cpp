// SPDX-License-Identifier: MIT
#include "terms.hpp"

#include <algorithm>

namespace bitmma {
namespace {

std::vector<Decoded> decode_rows(const Matrix& matrix, bool negate) {
  const FormatInfo& format = info(matrix.format());
  std::vector<Decoded> rows;
  rows.reserve(matrix.size());
  for (const uint32_t bits : matrix.words()) {
    rows.push_back(decode(format, bits));
    rows.back().negative ^= negate;
  }
  return rows;
}

/// Column by column.
std::vector<Decoded> decode_cols(const Matrix& matrix, bool negate) { return decode_rows(transposed(matrix), negate); }

/// The word for a mixed term: two halves of a column of B.
uint32_t mixed_word(const MixedTerm& mixed, const Matrix& b, int col) {
  const auto half = [&](int h) { return b(h / 2, col) >> 16 * (h % 2) & 0xFFFF; };
  return half(mixed.high_half) << 16 | half(mixed.low_half);
}

}  // namespace

Factors::Factors(const Operands& operands)
    : operands_(operands),
      a_(decode_rows(operands.a, operands.negate_a)),
      b_(decode_cols(operands.b, operands.negate_b)) {
  if (!operands.scales) return;
  chunks_ = operands.scales->a.cols();
  scale_a_ = decode_rows(operands.scales->a, false);
  scale_b_ = decode_cols(operands.scales->b, false);
}

void Factors::find_terms(int row, int col, std::vector<ExactTerm>& terms) const {
  const Matrix& b = operands_.b;
  const std::span<const Decoded> of_a = row_of_a(row), of_b = col_of_b(col);
  const size_t stored = of_a.size();
  terms.resize(stored);
  for (size_t j = 0; j < stored; ++j) {
    ExactTerm& term = terms[j];
    term.k = operands_.selected_k.empty() ? static_cast<int>(j)
                                          : operands_.selected_k[static_cast<size_t>(row) * stored + j];
    term.a = of_a[j];
    term.b = of_b[static_cast<size_t>(term.k)];
    term.b_bits = b(term.k, col);
    term.scale_a = term.scale_b = std::nullopt;  // `terms` may come from scaled operands
  }
  const auto [first, last] = std::ranges::equal_range(operands_.mixed, row, {}, &MixedTerm::row);
  for (auto mixed = first; mixed != last; ++mixed) {
    ExactTerm& term = terms[mixed->stored];
    term.b_bits = mixed_word(*mixed, b, col);
    term.b = decode(b.format(), term.b_bits);
    term.b.negative ^= operands_.negate_b;
  }
  // A non-finite number has significand 0.
  const int fraction_bits = info(operands_.a.format()).mantissa_bits + info(b.format()).mantissa_bits;
  for (ExactTerm& term : terms) {
    term.product = {.negative = term.a.negative != term.b.negative,
                    .magnitude = term.a.significand * term.b.significand,
                    .exponent = term.a.exponent + term.b.exponent - fraction_bits};
  }
  if (!operands_.scales) return;
  const std::span<const Decoded> scales_a = scales_of_row(row), scales_b = scales_of_col(col);
  const int scale_fraction_bits =
      info(operands_.scales->a.format()).mantissa_bits + info(operands_.scales->b.format()).mantissa_bits;
  for (size_t j = 0; j < stored; ++j) {
    ExactTerm& term = terms[j];
    const size_t chunk = j * scales_a.size() / stored;
    term.scale_a = scales_a[chunk], term.scale_b = scales_b[chunk];
    term.product.magnitude *= term.scale_a->significand * term.scale_b->significand;
    term.product.exponent += term.scale_a->exponent + term.scale_b->exponent - scale_fraction_bits;
  }
}

std::vector<ExactTerm> exact_terms(const Operands& operands, int row, int col) {
  const Operands element = block_of(operands, row, 1, col, 1);
  std::vector<ExactTerm> terms;
  Factors(element).find_terms(0, 0, terms);
  return terms;
}

Decoded decode_c(Format format, uint32_t code, Format output) {
  Decoded c = decode(format, code);
  c.significand <<= info(output).mantissa_bits - info(format).mantissa_bits;
  return c;
}

std::optional<Decoded> exact_c(const Operands& operands, int row, int col, Format output) {
  if (!operands.c) return std::nullopt;
  Decoded c = decode_c(operands.c->format(), (*operands.c)(row, col), output);
  c.exponent -= operands.scale_input_d;
  return c;
}

}  // namespace bitmma
