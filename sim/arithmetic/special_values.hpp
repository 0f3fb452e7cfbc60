// SPDX-License-Identifier: MIT
// The effect of NaN and infinity on D, in one place. A term is infinite if one of its factors is.
//
//   1. NaN anywhere, infinity times zero, or infinities of both signs:   NaN, 0x7FFFFFFF or 0x7FFF, without a payload
//   2. otherwise infinity:                                               infinity of that sign
//   3. otherwise the sum is finite, and its rounding decides
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "terms.hpp"

namespace bitmma {

/// The special values in one sum.
struct SpecialValues {
  bool nan = false;
  bool to_positive = false, to_negative = false;  // infinite terms by sign

  void add(const ExactTerm& term);
  void add_c(const Decoded& c) {
    nan |= is_nan(c);
    to_negative |= is_infinite(c) & c.negative;
    to_positive |= is_infinite(c) & !c.negative;
  }
  /// Returns nullopt if the sum is finite.
  std::optional<uint32_t> code(const FormatInfo& output) const {
    if (nan || (to_positive && to_negative)) return static_cast<uint32_t>(*output.canonical_nan());
    if (to_positive) return static_cast<uint32_t>(*output.infinity());
    if (to_negative) return static_cast<uint32_t>(output.sign_bit() | *output.infinity());
    return std::nullopt;
  }

 private:
  static bool is_nan(const Decoded& value) { return value.number == NumberClass::nan; }
  static bool is_infinite(const Decoded& value) { return value.number == NumberClass::infinity; }
};

/// The code of `output` that special terms and C force. Returns nullopt if all are finite.
std::optional<uint32_t> special_result(Format output, std::span<const ExactTerm> terms,
                                       const std::optional<Decoded>& c);

/// Up to 64 factors of a row of A or a column of B at once, one bit each.
struct SpecialFactors {
  uint64_t nan = 0, infinite = 0, zero = 0, negative = 0;

  void add(const Decoded& factor, int term) {
    nan |= uint64_t{factor.number == NumberClass::nan} << term;
    infinite |= uint64_t{factor.number == NumberClass::infinity} << term;
    zero |= uint64_t{factor.is_zero()} << term;
    negative |= uint64_t{factor.negative} << term;
  }
};

/// The special values of a row of A times a column of B.
inline SpecialValues special_values(const SpecialFactors& a, const SpecialFactors& b) {
  const uint64_t infinite = a.infinite | b.infinite, negative = a.negative ^ b.negative;
  const uint64_t undefined = (a.infinite & b.zero) | (a.zero & b.infinite);
  SpecialValues met;
  met.nan = (a.nan | b.nan | undefined) != 0;
  met.to_positive = (infinite & ~negative) != 0;
  met.to_negative = (infinite & negative) != 0;
  return met;
}

}  // namespace bitmma
