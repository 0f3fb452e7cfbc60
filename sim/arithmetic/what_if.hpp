// SPDX-License-Identifier: MIT
// The exact result of an output, and the results of other adders for the same operands: other GPUs, a chain of fp32
// FMAs, the correctly rounded sum. For explain and diagnose; multiply_accumulate is the model itself.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "special_values.hpp"
#include "terms.hpp"

namespace bitmma {

/// An exact sum of +-magnitude * 2^exponent: a fixed-point number with bits 2^-640 .. 2^638 and a sign, wide enough for
/// every product of formats of up to 32 bits, with scales.
class ExactSum {
 public:
  void add(const Exact& term);
  ExactSum& operator-=(const ExactSum& other);
  bool is_zero() const;
  /// The top 63 bits; the lowest is sticky, so that round_to rounds as with all bits.
  Exact rounded_source() const;
  /// The nearest double, only for output; nothing computes with it.
  double approximate() const;
  /// Prints "0x1.8p+3": the hexadecimal significand times a power of two, exactly.
  std::string print() const;

 private:
  static constexpr int words = 20, lowest_exponent = -640;
  std::array<uint64_t, words> magnitude() const;
  bool negative() const { return (words_[words - 1] >> 63) != 0; }

  std::array<uint64_t, words> words_{};  // two's complement, least significant word first
};

/// The exact sum of all terms and C, which must be finite.
ExactSum exact_sum(Format output, std::span<const ExactTerm> terms, const std::optional<Decoded>& c);

struct WhatIf {
  enum class Kind : uint8_t { model, fma_chain, correctly_rounded };
  Kind kind = Kind::model;
  std::string name = {};
  AccumulatorModel model = {};  // for Kind::model
};

/// Other adders for the operands of `own`: every other GPU's row for the same formats, the fp32 FMA chain in order of
/// k, and the correctly rounded exact sum. Empty for integers.
std::vector<WhatIf> what_ifs(const AccumulatorModel& own, Format a, Format b);

/// D as `what_if` computes it.
Matrix compute(const WhatIf& what_if, const Operands& operands, Format output);

}  // namespace bitmma
