// SPDX-License-Identifier: MIT
// The terms of one output: which element of A is multiplied with which of B, and what that is worth. Everything that
// looks at outputs one by one takes them from here: the rule spelled out, what-if models, explanations.
//
//   sparse f16, row 3, j = 5, selected_k = 9, negate_a:  a = -a(3, 5), b = b(9, col), k = 9, product = a * b
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bitmma/arithmetic/operands.hpp"
#include "bitmma/formats/round.hpp"

namespace bitmma {

/// A pair of factors, signs applied, and the scales of their block.
struct ExactTerm {
  Decoded a = {}, b = {};
  uint32_t b_bits = 0;  // as read; halves put together where metadata mixes them
  int k = 0;            // row of B
  std::optional<Decoded> scale_a = {}, scale_b = {};
  Exact product = {};  // with scales; magnitude 0 when something is not finite

  bool is_finite() const {
    const auto finite = [](const Decoded& value) { return value.number == NumberClass::finite; };
    return finite(a) && finite(b) && (!scale_a || finite(*scale_a)) && (!scale_b || finite(*scale_b));
  }
  /// The exponent by which terms are aligned: that of the factors together, not normalised, and of the scales.
  int exponent() const { return a.exponent + b.exponent + (scale_a ? scale_a->exponent + scale_b->exponent : 0); }
};

/// Floating-point operands decoded once, for callers that compute many outputs. It refers to the operands.
class Factors {
 public:
  explicit Factors(const Operands& operands);

  /// Signs applied; row of A in order of j, column of B in order of k.
  std::span<const Decoded> row_of_a(int row) const { return line(a_, row, operands_.a.cols()); }
  std::span<const Decoded> col_of_b(int col) const { return line(b_, col, operands_.b.rows()); }
  /// Empty without scales.
  std::span<const Decoded> scales_of_row(int row) const { return line(scale_a_, row, chunks_); }
  std::span<const Decoded> scales_of_col(int col) const { return line(scale_b_, col, chunks_); }

  /// `terms` becomes those of output (row, col), in order of j.
  void find_terms(int row, int col, std::vector<ExactTerm>& terms) const;

 private:
  static std::span<const Decoded> line(const std::vector<Decoded>& factors, int index, int length) {
    return std::span(factors).subspan(static_cast<size_t>(index) * length, length);
  }

  const Operands& operands_;
  int chunks_ = 0;
  std::vector<Decoded> a_, b_, scale_a_, scale_b_;
};

/// The terms of only output (row, col).
std::vector<ExactTerm> exact_terms(const Operands& operands, int row, int col);

/// A code of C as a sum with D of `output` adds it: its significand has the fraction bits of `output`. An f16 beside an
/// f32 D keeps its exponent: a subnormal one is aligned at 2^-14.
Decoded decode_c(Format format, uint32_t code, Format output);

/// C of output (row, col) as a sum with D of `output` adds it, scale_input_d applied. Returns nullopt without C.
std::optional<Decoded> exact_c(const Operands& operands, int row, int col, Format output);

}  // namespace bitmma
