// SPDX-License-Identifier: MIT
// MUFU, the instruction of the special function unit, on f32 words: the steps around the quadratics. Each PTX
// instruction is one or a few of them with products before and after (instructions.cpp).
//
// All: NaN gives 0x7FFFFFFF. Subnormal arguments count as zeros of the same sign, and results below 2^-126 are zeros;
// tanh preserves both. Results are truncated to 24 bits: c0 includes the rounding. Measured on all 2^32 arguments of an
// H100 and an H200. Each function accepts another table of the same size, so that tests can change a coefficient.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "coefficients.hpp"
#include "interpolator.hpp"

namespace bitmma::math {

inline constexpr uint32_t nan_f32 = 0x7FFFFFFF, infinity_f32 = 0x7F800000, one_f32 = 0x3F800000;
inline constexpr uint32_t hidden_bit = 1u << 23;

/// condition ? yes : no, without a branch around the loads of either: this lets compilers vectorise loops over words.
constexpr uint32_t pick(bool condition, uint32_t yes, uint32_t no) {
  const uint32_t mask = 0 - static_cast<uint32_t>(condition);
  return (yes & mask) | (no & ~mask);
}

/// Sign, exponent and mantissa of a word. If the exponent is 0, the unit reads a zero.
struct Fields {
  uint32_t sign = 0;  // at its place
  int exponent = 0;   // biased
  uint32_t mantissa = 0;

  constexpr explicit Fields(uint32_t word)
      : sign(word & 0x80000000), exponent(static_cast<int>(word >> 23 & 255)), mantissa(word & (hidden_bit - 1)) {}
  constexpr bool is_nan() const { return exponent == 255 && mantissa != 0; }
  constexpr bool is_infinite() const { return exponent == 255 && mantissa == 0; }
};

/// The word with this biased exponent and a significand from 2^23 to 2^24 - 1.
constexpr uint32_t word_of(int exponent, uint64_t significand) {
  return (static_cast<uint32_t>(exponent) << 23) + static_cast<uint32_t>(significand) - hidden_bit;
}

/// value * 2^-unit, truncated to 24 bits. 0 gives +0.
constexpr uint32_t cut_off(uint64_t value, int unit) {
  if (value == 0) return 0;
  const int leading = 63 - std::countl_zero(value);
  const uint64_t significand = leading >= 23 ? value >> (leading - 23) : value << (23 - leading);
  return word_of(leading - unit + 127, significand);
}

/// The decoded argument of ex2: the result is 2^power times quadratic `index` at x. The unit drops bits below 2^-23;
/// for a negative argument it complements the fraction bit by bit, so that 2^-2^-24 is 1.
struct Ex2Argument {
  int power = 0;
  uint32_t index = 0, x = 0;

  constexpr explicit Ex2Argument(const Fields& f) {
    const uint32_t significand = f.mantissa | hidden_bit;
    const int shift = f.exponent - 127;  // of |argument| * 2^23
    const uint32_t left = significand << (static_cast<uint32_t>(shift) & 31),
                   right = significand >> (static_cast<uint32_t>(-shift) & 31);
    const uint32_t fixed = pick(shift >= 0, left, pick(shift > -24, right, 0));
    const uint32_t fraction = fixed & (hidden_bit - 1), whole = fixed >> 23;
    const bool negative = f.sign != 0, complement = negative && fraction != 0;
    const uint32_t cut = pick(complement, hidden_bit - 1 - fraction, fraction);
    power = static_cast<int>(pick(negative, 0 - whole, whole) - static_cast<uint32_t>(complement));
    index = cut >> 17;
    x = cut & 0x1FFFF;
  }
};

template <const auto& quadratics = ex2_quadratics>
constexpr uint32_t mufu_ex2(uint32_t word) {
  const Fields f(word);
  const Ex2Argument argument(f);
  const uint32_t result = word_of(argument.power + 127, at(quadratics[argument.index], argument.x) >> 35);
  const bool far = f.exponent >= 127 + 8, negative = f.sign != 0;
  const uint32_t near = pick(argument.power < -126, 0, pick(argument.power > 127, infinity_f32, result));
  return pick(f.is_nan(), nan_f32, pick(far, pick(negative, 0, infinity_f32), near));
}

template <const auto& quadratics = rcp_quadratics>
constexpr uint32_t mufu_rcp(uint32_t word) {
  const Fields f(word);
  const uint64_t value = at_16_bits(quadratics[f.mantissa >> 16], f.mantissa & 0xFFFF);
  const uint32_t word_of_value = word_of(253 - f.exponent, value >> 35);  // of 1, the carry makes the exact power
  const uint32_t magnitude = pick(f.exponent + (f.mantissa != 0) >= 254, 0, word_of_value);
  return pick(f.is_nan(), nan_f32, f.sign | pick(f.exponent == 0, infinity_f32, magnitude));
}

/// The quadratic of a square root: the parity of the exponent and then the mantissa choose it.
constexpr uint32_t root_index(const Fields& f) { return ((f.exponent - 127) & 1 ? 64 : 0) + (f.mantissa >> 17); }

template <const auto& quadratics = rsqrt_quadratics>
constexpr uint32_t mufu_rsq(uint32_t word) {
  const Fields f(word);
  const int half = (f.exponent - 127) >> 1;
  const uint64_t value = at(quadratics[root_index(f)], f.mantissa & 0x1FFFF);
  const bool exact = f.mantissa == 0 && (f.exponent & 1) == 1;
  const uint32_t power = static_cast<uint32_t>(127 - half) << 23;
  const uint32_t finite = pick(f.exponent == 255, 0, pick(exact, power, word_of(126 - half, value >> 35)));
  const uint32_t of_sign = pick(f.exponent == 0, f.sign | infinity_f32, pick(f.sign != 0, nan_f32, finite));
  return pick(f.is_nan(), nan_f32, of_sign);
}

template <const auto& quadratics = sqrt_quadratics>
constexpr uint32_t mufu_sqrt(uint32_t word) {
  const Fields f(word);
  const int half = (f.exponent - 127) >> 1;
  const uint64_t value = at(quadratics[root_index(f)], f.mantissa & 0x1FFFF);
  const uint32_t finite = pick(f.exponent == 255, infinity_f32, word_of(127 + half, value >> 35));
  const uint32_t of_sign = pick(f.exponent == 0, f.sign, pick(f.sign != 0, nan_f32, finite));
  return pick(f.is_nan(), nan_f32, of_sign);
}

template <const auto& quadratics = lg2_quadratics>
constexpr uint32_t mufu_lg2(uint32_t word) {
  const Fields f(word);
  const int exponent = f.exponent - 127;
  const uint64_t fraction = at(quadratics[f.mantissa >> 17], f.mantissa & 0x1FFFF) >> 22;  // of 2^36
  // |exponent| * 2^36 - fraction as a bitwise complement: log2(1/2) is one unit less than 1.
  const uint64_t magnitude = exponent >= 0 ? (static_cast<uint64_t>(exponent) << 36) + fraction
                                           : (static_cast<uint64_t>(-exponent) << 36) - fraction - 1;
  const uint32_t negative = exponent < 0 ? 0x80000000 : 0;
  const uint32_t finite = pick(word == one_f32, 0, negative | cut_off(magnitude, 36));
  const uint32_t of_sign = pick(f.sign != 0, nan_f32, pick(f.exponent == 255, infinity_f32, finite));
  return pick(f.is_nan(), nan_f32, pick(f.exponent == 0, 0x80000000 | infinity_f32, of_sign));
}

/// The sine of `turns`, counted in quarters of 2^23, with the given sign.
template <const auto& quadratics>
constexpr uint32_t sine_of_quarters(uint32_t turns, uint32_t sign) {
  const uint32_t quarter = turns >> 23 & 3, inside = turns & (hidden_bit - 1);
  const uint32_t i = quarter & 1 ? hidden_bit - 1 - inside : inside;
  return (quarter >= 2 ? sign ^ 0x80000000 : sign) | cut_off(at(quadratics[i >> 17], i & 0x1FFFF), 59);
}

/// |argument| * 2^25 modulo 2^25: quarters of a turn in units of 2^-23.
constexpr uint32_t quarters_of(const Fields& f) {
  const uint32_t significand = f.exponent == 0 ? 0 : f.mantissa | hidden_bit;
  const int shift = f.exponent - 125;
  const uint32_t fixed = shift >= 25 ? 0 : shift >= 0 ? significand << shift : shift > -24 ? significand >> -shift : 0;
  return fixed & ((1u << 25) - 1);
}

/// The argument counts turns.
template <const auto& quadratics = sin_quadratics>
constexpr uint32_t mufu_sin(uint32_t word) {
  const Fields f(word);
  return f.exponent == 255 ? nan_f32 : sine_of_quarters<quadratics>(quarters_of(f), f.sign);
}

template <const auto& quadratics = sin_quadratics>
constexpr uint32_t mufu_cos(uint32_t word) {
  const Fields f(word);
  return f.exponent == 255 ? nan_f32 : sine_of_quarters<quadratics>(quarters_of(f) + hidden_bit, 0);
}

/// 1 / (2 pi), the factor of ptxas for radians.
inline constexpr uint32_t turns_per_radian = 0x3E22F983;

/// radians * turns_per_radian, rounded toward zero; the unit reads a subnormal product as zero.
constexpr uint32_t turns_of(uint32_t radians) {
  const Fields f(radians);
  if (f.exponent == 255) return radians;
  const uint64_t product = uint64_t{f.mantissa | hidden_bit} * ((turns_per_radian & (hidden_bit - 1)) | hidden_bit);
  const int carry = static_cast<int>(product >> 47);
  const int exponent = f.exponent + static_cast<int>(turns_per_radian >> 23) - 127 + carry;
  return f.sign | (f.exponent == 0 || exponent <= 0 ? 0 : word_of(exponent, product >> (23 + carry)));
}

/// A binade of tanh: its first quadratic, and the number of dropped bits of the 23-bit mantissa.
struct TanhBinade {
  uint8_t first = 0, dropped_bits = 0, unit = 0;
};

/// The binades from 2^-8 to 2^3.
inline constexpr auto tanh_binades = [] {
  constexpr std::array<uint8_t, 11> dropped{6, 6, 6, 5, 5, 4, 4, 4, 3, 2, 3};
  std::array<TanhBinade, 11> binades{};
  uint8_t first = 0;
  for (std::size_t i = 0; i < binades.size(); ++i) {
    binades[i] = {.first = first, .dropped_bits = dropped[i], .unit = static_cast<uint8_t>(i < 4 ? 63 : 58)};
    first = static_cast<uint8_t>(first + (1 << (6 - dropped[i])));
  }
  return binades;
}();

template <const auto& quadratics = tanh_quadratics>
constexpr uint32_t mufu_tanh(uint32_t word) {
  const Fields f(word);
  if (f.is_nan()) return nan_f32;
  const int exponent = f.exponent - 127;
  if (exponent < -8) return word;
  if (exponent >= 3) return f.sign | one_f32;
  const TanhBinade& binade = tanh_binades[static_cast<std::size_t>(exponent + 8)];
  const uint32_t i = f.mantissa >> binade.dropped_bits;
  return f.sign | cut_off(at(quadratics[binade.first + (i >> 17)], i & 0x1FFFF), binade.unit);
}

/// rcp and rsqrt of f64: the unit reads only the upper word, uses its 20 mantissa bits with the quadratics of f32, and
/// gives an upper word; the lower one is 0.
struct UpperFields {
  uint32_t sign = 0;
  int exponent = 0;
  uint32_t mantissa = 0;  // of 23 bits, the lowest three 0

  constexpr explicit UpperFields(uint32_t word)
      : sign(word & 0x80000000), exponent(static_cast<int>(word >> 20 & 2047)), mantissa((word & 0xFFFFF) << 3) {}
  constexpr bool is_nan() const { return exponent == 2047 && mantissa != 0; }
};

/// The upper word with this biased exponent; the leading bit of `value` is bit 58.
constexpr uint32_t upper_word_of(int exponent, uint64_t value) {
  return (static_cast<uint32_t>(exponent) << 20) + static_cast<uint32_t>(value >> 38) - (1u << 20);
}

constexpr uint32_t mufu_rcp64h(uint32_t word) {
  const UpperFields f(word);
  if (f.is_nan()) return nan_f32;
  if (f.exponent == 0) return f.sign | 0x7FF00000;
  if (f.exponent + (f.mantissa != 0) >= 2046) return f.sign;
  return f.sign | upper_word_of(2045 - f.exponent, at_16_bits(rcp_quadratics[f.mantissa >> 16], f.mantissa & 0xFFFF));
}

constexpr uint32_t mufu_rsq64h(uint32_t word) {
  const UpperFields f(word);
  if (f.is_nan()) return nan_f32;
  if (f.exponent == 0) return f.sign | 0x7FF00000;
  if (f.sign != 0) return nan_f32;
  if (f.exponent == 2047) return 0;
  const int half = (f.exponent - 1023) >> 1;
  const bool odd = (f.exponent & 1) == 0;
  if (!odd && f.mantissa == 0) return static_cast<uint32_t>(1023 - half) << 20;
  return upper_word_of(1022 - half, at(rsqrt_quadratics[(odd ? 64 : 0) + (f.mantissa >> 17)], f.mantissa & 0x1FFFF));
}

}  // namespace bitmma::math
