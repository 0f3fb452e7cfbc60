// SPDX-License-Identifier: MIT
// The terms of one output: which element of A is multiplied with which element of B, and the value of the product. All
// code that handles outputs one by one uses them: the rule in plain steps, what-if models, explanations.
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

/// A pair of factors with their signs, and the scales of their block.
struct ExactTerm {
  Decoded a = {}, b = {};
  uint32_t b_bits = 0;  // as read; two halves if metadata mixes them
  int k = 0;            // row of B
  std::optional<Decoded> scale_a = {}, scale_b = {};
  Exact product = {};  // with scales; magnitude 0 if something is not finite

  bool is_finite() const {
    const auto finite = [](const Decoded& value) { return value.number == NumberClass::finite; };
    return finite(a) && finite(b) && (!scale_a || finite(*scale_a)) && (!scale_b || finite(*scale_b));
  }
  /// The exponent for alignment: of the factors together, not normalised, and of the scales.
  int exponent() const { return a.exponent + b.exponent + (scale_a ? scale_a->exponent + scale_b->exponent : 0); }
};

/// Floating-point operands, decoded once for callers that compute many outputs. It refers to the operands.
class Factors {
 public:
  explicit Factors(const Operands& operands);

  /// With signs; a row of A is in order of j, a column of B in order of k.
  std::span<const Decoded> row_of_a(int row) const { return line(a_, row, operands_.a.cols()); }
  std::span<const Decoded> col_of_b(int col) const { return line(b_, col, operands_.b.rows()); }
  /// Empty without scales.
  std::span<const Decoded> scales_of_row(int row) const { return line(scale_a_, row, chunks_); }
  std::span<const Decoded> scales_of_col(int col) const { return line(scale_b_, col, chunks_); }

  /// Sets `terms` to those of output (row, col), in order of j.
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

/// Decodes a code of C for a sum with a D of `output`: the significand has the fraction bits of `output`. An f16 C with
/// an f32 D keeps its exponent: a subnormal one is aligned at 2^-14.
Decoded decode_c(Format format, uint32_t code, Format output);

/// C of output (row, col) for a sum with a D of `output`, after scale_input_d. Returns nullopt without C.
std::optional<Decoded> exact_c(const Operands& operands, int row, int col, Format output);

}  // namespace bitmma
