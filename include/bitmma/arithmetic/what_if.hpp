// The exact real result of an output, and what other adders would have made of the same operands: other GPUs, a chain
// of fp32 FMAs, the correctly rounded sum. For explaining and diagnosing; the model itself is multiply_accumulate.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bitmma/arithmetic/multiply_accumulate.hpp"

namespace bitmma {

/// A sum of +-magnitude * 2^exponent, exactly: a fixed-point number wide enough for every product of every format with
/// scales, 2^-576 .. 2^575.
class ExactSum {
 public:
  void add(const Exact& term);
  ExactSum& operator-=(const ExactSum& other);
  bool is_zero() const;
  /// The top 63 bits; the lowest is sticky, so that round_to rounds as if it had them all.
  Exact rounded_source() const;
  /// Nearest double, for people to read; never computed with.
  double approximate() const;
  /// "0x1.8p+3" written out: significand in hex times a power of two, exactly.
  std::string print() const;

 private:
  static constexpr int words = 20, lowest_exponent = -640;
  std::array<uint64_t, words> magnitude() const;
  bool negative() const { return (words_[words - 1] >> 63) != 0; }

  std::array<uint64_t, words> words_{};  // two's complement, little end first
};

/// One factor pair of an output with its scales, as exact numbers.
struct ExactTerm {
  Decoded a, b;
  uint32_t b_bits = 0;  // as read; halves put together where metadata mixes them
  int k = 0;            // row of B
  std::optional<Decoded> scale_a, scale_b;
  Exact product;  // with scales; magnitude 0 when something is not finite

  bool is_finite() const;
};

/// The terms of output (row, col), signs applied; for floating-point operands.
std::vector<ExactTerm> exact_terms(const Operands& operands, int row, int col);

/// C of output (row, col) as it enters the sum: sign, value, scale-input-d applied. Nothing without C.
std::optional<Decoded> exact_c(const Operands& operands, int row, int col);

/// NaN or infinity that special operands force, as a code of `output`.
std::optional<uint32_t> special_result(Format output, const std::vector<ExactTerm>& terms,
                                       const std::optional<Decoded>& c);

/// The exact sum of all terms and C. Only where nothing is special.
ExactSum exact_sum(Format output, const std::vector<ExactTerm>& terms, const std::optional<Decoded>& c);

struct WhatIf {
  enum class Kind : uint8_t { model, fma_chain, correctly_rounded };
  Kind kind = Kind::model;
  std::string name;
  AccumulatorModel model;  // of Kind::model
};

/// Other adders for operands that `own` sums: every other GPU's row for the same formats, the fp32 FMA chain in order
/// of k, and the correctly rounded exact sum. Empty for integers.
std::vector<WhatIf> what_ifs(const AccumulatorModel& own, Format a, Format b);

/// D as `what_if` computes it.
BitMatrix compute(const WhatIf& what_if, const Operands& operands, Format output);

}  // namespace bitmma
