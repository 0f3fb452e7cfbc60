// SPDX-License-Identifier: MIT
// The only rounding code. Every conversion of an exact value to a code of a format ends here.
//
//   exact 2^-24 * 0b1'0000'0000'01|1  ->  f16, nearest even: 0b1'0000'0000'10      (tie away from the odd neighbour)
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "bitmma/core/bits.hpp"
#include "bitmma/formats/format.hpp"

namespace bitmma {

enum class Rounding : uint8_t { toward_zero, nearest_even, nearest_away, toward_positive, toward_negative };

/// The result if a magnitude exceeds the largest finite number.
enum class Overflow : uint8_t {
  infinity,  // infinity; if the format has none, NaN with the value's sign; if it has neither, the largest finite
  saturate,  // the largest finite value (PTX .satfinite)
};

/// +-magnitude * 2^exponent, exactly. A zero keeps its sign. Unsigned formats (the scales) use only the magnitude.
struct [[nodiscard]] Exact {
  bool negative = false;
  uint64_t magnitude = 0;
  int exponent = 0;
};

/// `value` rounded once to `format`. Only `fraction_bits` of the format's mantissa bits are kept; the others are zero
/// (fp8 sums of Hopper keep 13 of 23). Subnormal results are produced, never flushed. Overflow is decided after the
/// rounding, so toward_zero overflows only from 2^(emax+1) on, as the tensor cores do (measured, H200).
constexpr uint64_t round_to(const FormatInfo& format, const Exact& value, Rounding rounding, int fraction_bits,
                            Overflow overflow = Overflow::infinity) {
  const bool negative = value.negative && format.is_signed;
  const uint64_t sign = negative ? format.sign_bit() : 0;
  const int mantissa_bits = format.mantissa_bits;
  const uint64_t max_finite = format.max_finite() >> format.ignored_bits;
  uint64_t code = 0;
  if (value.magnitude != 0) {
    // No format and no significand needs more; sums of exponents then fit in an int.
    constexpr int most_exponent = 1 << 20;
    const int value_exponent = value.exponent < -most_exponent  ? -most_exponent
                               : value.exponent > most_exponent ? most_exponent
                                                                : value.exponent;
    const int leading = 63 - std::countl_zero(value.magnitude) + value_exponent;
    const int exponent = leading > format.min_exponent() ? leading : format.min_exponent();
    const int quantum = exponent - fraction_bits;  // exponent of the last kept bit
    const int drop = quantum - value_exponent;
    uint64_t kept = 0;
    if (drop <= 0) {
      kept = value.magnitude << -drop;
    } else {
      kept = drop > 63 ? 0 : value.magnitude >> drop;
      const uint64_t rest = value.magnitude & low_mask(drop);
      const uint64_t half = drop > 64 ? std::numeric_limits<uint64_t>::max() : uint64_t{1} << (drop - 1);
      const bool above = drop <= 64 && rest > half, tie = drop <= 64 && rest == half;
      const bool up = rounding == Rounding::nearest_even      ? above || (tie && (kept & 1))
                      : rounding == Rounding::nearest_away    ? above || tie
                      : rounding == Rounding::toward_positive ? rest != 0 && !negative
                      : rounding == Rounding::toward_negative ? rest != 0 && negative
                                                              : false;
      kept += up;
    }
    // With the hidden bit inside `kept`, one addition produces the code of normals, subnormals and carries alike.
    kept <<= mantissa_bits - fraction_bits;
    if (format.has_zero) {
      const uint64_t biased = static_cast<uint64_t>(exponent + format.bias);
      if (biased > 2 * format.exponent_mask()) {
        code = ~uint64_t{0};  // above every exponent of the format
      } else {
        code = ((biased - 1) << mantissa_bits) + kept;
      }
    } else {  // ue8m0: powers of two from 2^-127; smaller values become the smallest one
      code = kept == 0 ? 0 : static_cast<uint64_t>(exponent + format.bias) + kept - 1;
    }
  }
  if (code > max_finite) {
    if (overflow == Overflow::infinity && format.infinity()) return sign | *format.infinity();
    if (overflow == Overflow::infinity && format.canonical_nan()) return sign | *format.canonical_nan();
    code = max_finite;
  }
  return sign | code << format.ignored_bits;
}

constexpr uint64_t round_to(Format format, const Exact& value, Rounding rounding,
                            Overflow overflow = Overflow::infinity) {
  return round_to(info(format), value, rounding, info(format).mantissa_bits, overflow);
}

/// Whether `value`, rounded to `format` with an unbounded exponent, is smaller than the smallest normal number. .ftz
/// flushes exactly these results: on an H100 the largest subnormal that rounds up to a normal number stays (measured,
/// data/math). IEEE 754-2019 7.5 calls this tininess after rounding.
constexpr bool is_tiny(const FormatInfo& format, const Exact& value, Rounding rounding) {
  if (value.magnitude == 0) return false;
  const Exact raised{
      .negative = value.negative, .magnitude = value.magnitude, .exponent = value.exponent - format.min_exponent()};
  const uint64_t one = static_cast<uint64_t>(format.bias) << format.mantissa_bits;
  return (round_to(format, raised, rounding, format.mantissa_bits) & ~format.sign_bit()) < one;
}

/// Converts a code from one floating format to another by the rules of PTX cvt: a NaN becomes the canonical NaN, or
/// with saturate in a format without NaN (e2m3, e3m2, e2m1) the largest value; infinity saturates or overflows like any
/// value that is too large. Source: PTX ISA 9.7.9.21.
uint64_t convert(Format from, uint64_t bits, Format to, Rounding rounding, Overflow overflow);

}  // namespace bitmma
