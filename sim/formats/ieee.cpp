// SPDX-License-Identifier: MIT
#include "bitmma/formats/ieee.hpp"

#include <algorithm>
#include <bit>

namespace bitmma {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr int top_bit = 125;  // the leading bit of the larger operand, with two bits above it for the sum

int leading_bit(Wide value) {
  const auto high = static_cast<uint64_t>(value >> 64);
  return high != 0 ? 127 - std::countl_zero(high) : 63 - std::countl_zero(static_cast<uint64_t>(value));
}

/// value * 2^-shift; sets the lowest bit if any dropped bit is set.
Wide shifted_right(Wide value, int shift) {
  if (shift == 0) return value;
  if (shift > 127) return value != 0 ? 1 : 0;
  const Wide dropped = value & ((Wide{1} << shift) - 1);
  return value >> shift | (dropped != 0 ? 1 : 0);
}

/// +-magnitude * 2^exponent with its leading bit at top_bit.
struct Normal {
  bool negative = false;
  Wide magnitude = 0;
  int exponent = 0;
};

Normal normalised(bool negative, Wide magnitude, int exponent) {
  const int shift = top_bit - leading_bit(magnitude);
  return {.negative = negative, .magnitude = magnitude << shift, .exponent = exponent - shift};
}

uint64_t rounded(const FormatInfo& format, const Normal& sum, Rounding rounding, Underflow underflow) {
  // 64 bits with a sticky bit are more than any format keeps.
  const int shift = std::max(0, leading_bit(sum.magnitude) - 62);
  const Exact exact{.negative = sum.negative,
                    .magnitude = static_cast<uint64_t>(shifted_right(sum.magnitude, shift)),
                    .exponent = sum.exponent + shift};
  if (underflow == Underflow::flush && is_tiny(format, exact, rounding)) return sum.negative ? format.sign_bit() : 0;
  // Rounding modes that round a magnitude down stop at the largest finite one.
  const bool down = rounding == Rounding::toward_zero || (rounding == Rounding::toward_positive && sum.negative) ||
                    (rounding == Rounding::toward_negative && !sum.negative);
  return round_to(format, exact, rounding, format.mantissa_bits, down ? Overflow::saturate : Overflow::infinity);
}

}  // namespace

uint64_t ieee_fma(Format format, uint64_t a_code, uint64_t b_code, uint64_t c_code, Rounding rounding,
                  Underflow underflow) {
  const FormatInfo& row = info(format);
  const Decoded a = decode(row, a_code), b = decode(row, b_code), c = decode(row, c_code);
  const auto is_nan = [](const Decoded& x) { return x.number == NumberClass::nan; };
  const auto is_infinite = [](const Decoded& x) { return x.number == NumberClass::infinity; };
  const bool negative = a.negative != b.negative, product_infinite = is_infinite(a) || is_infinite(b);
  const bool invalid = (is_infinite(a) && b.is_zero()) || (is_infinite(b) && a.is_zero()) ||
                       (product_infinite && is_infinite(c) && negative != c.negative);
  if (is_nan(a) || is_nan(b) || is_nan(c) || invalid) return *row.canonical_nan();
  const auto infinity = [&](bool sign) { return (sign ? row.sign_bit() : 0) | *row.infinity(); };
  if (product_infinite) return infinity(negative);
  if (is_infinite(c)) return infinity(c.negative);

  const Wide product = Wide{a.significand} * b.significand;
  const int product_exponent = a.exponent + b.exponent - 2 * row.mantissa_bits,
            c_exponent = c.exponent - row.mantissa_bits;
  const uint64_t zero_of_cancelling = rounding == Rounding::toward_negative ? row.sign_bit() : 0;
  if (product == 0 && c.significand == 0)
    return negative == c.negative ? (negative ? row.sign_bit() : 0) : zero_of_cancelling;
  if (product == 0) return rounded(row, normalised(c.negative, c.significand, c_exponent), rounding, underflow);
  Normal large = normalised(negative, product, product_exponent);
  if (c.significand == 0) return rounded(row, large, rounding, underflow);
  Normal small = normalised(c.negative, c.significand, c_exponent);
  if (small.exponent > large.exponent || (small.exponent == large.exponent && small.magnitude > large.magnitude))
    std::swap(large, small);
  const Wide aligned = shifted_right(small.magnitude, large.exponent - small.exponent);
  Normal sum = large;
  if (large.negative == small.negative) {
    sum.magnitude += aligned;
  } else {
    sum.magnitude -= aligned;
    if (sum.magnitude == 0) return zero_of_cancelling;
  }
  return rounded(row, sum, rounding, underflow);
}

uint64_t ieee_add(Format format, uint64_t a, uint64_t b, Rounding rounding, Underflow underflow) {
  const FormatInfo& row = info(format);
  const uint64_t one = static_cast<uint64_t>(row.bias) << row.mantissa_bits;
  return ieee_fma(format, a, one, b, rounding, underflow);
}

uint64_t ieee_mul(Format format, uint64_t a, uint64_t b, Rounding rounding, Underflow underflow) {
  // Adding a zero with the product's sign changes no product.
  const uint64_t sign_bit = info(format).sign_bit();
  return ieee_fma(format, a, b, (a ^ b) & sign_bit, rounding, underflow);
}

uint64_t ieee_div(Format format, uint64_t a_code, uint64_t b_code, Rounding rounding, Underflow underflow) {
  const FormatInfo& row = info(format);
  const Decoded a = decode(row, a_code), b = decode(row, b_code);
  const bool a_infinite = a.number == NumberClass::infinity, b_infinite = b.number == NumberClass::infinity;
  if (a.number == NumberClass::nan || b.number == NumberClass::nan || (a_infinite && b_infinite) ||
      (a.is_zero() && b.is_zero())) {
    return *row.canonical_nan();
  }
  const bool negative = a.negative != b.negative;
  const uint64_t sign = negative ? row.sign_bit() : 0;
  if (a_infinite || b.is_zero()) return sign | *row.infinity();
  if (b_infinite || a.is_zero()) return sign;
  // The leading bit of a is at 125 and b has 53 bits at most: the quotient has 72 or more.
  const Normal numerator = normalised(negative, a.significand, a.exponent);
  const Wide divisor = b.significand, quotient = numerator.magnitude / divisor;
  const bool rest = numerator.magnitude % divisor != 0;
  return rounded(row, normalised(negative, quotient | Wide{rest}, numerator.exponent - b.exponent), rounding,
                 underflow);
}

uint64_t ieee_sqrt(Format format, uint64_t code, Rounding rounding) {
  const FormatInfo& row = info(format);
  const Decoded a = decode(row, code);
  if (a.is_zero()) return code;
  if (a.number == NumberClass::nan || a.negative) return *row.canonical_nan();
  if (a.number == NumberClass::infinity) return code;
  Normal square = normalised(false, a.significand, a.exponent - row.mantissa_bits);
  if (square.exponent % 2 != 0) square = {.magnitude = square.magnitude << 1, .exponent = square.exponent - 1};
  // Bit by bit: `root` becomes the largest number whose square does not exceed the magnitude.
  Wide root = 0, rest = square.magnitude;
  for (Wide bit = Wide{1} << 126; bit != 0; bit >>= 2) {
    const Wide next = root + bit;
    root >>= 1;
    if (rest >= next) {
      rest -= next;
      root += bit;
    }
  }
  return rounded(row, normalised(false, root << 1 | Wide{rest != 0}, square.exponent / 2 - 1), rounding,
                 Underflow::gradual);
}

}  // namespace bitmma
