// SPDX-License-Identifier: MIT
// C's functions on float, one function each: the code of nvcc 13.0 from CUDA's library, and where it differs, that of
// Triton 3.6 from the library of CUDA 12.8. Words are constants of their PTX. All Flush share one source.
#pragma once

#include "../math/f32.hpp"

namespace bitmma::math {

template <Flush flush>
F32<flush> constant(uint32_t word) {
  return F32<flush>::of(word);
}

/// base^x = mantissa * 2^power; the product is exact unless it is subnormal.
template <Flush flush>
struct Power {
  F32<flush> mantissa, scale;
};

/// base^x as 2^(x log2(base)): `per_252` is log2(base) / 252, `high` + `low` is log2(base).
template <Flush flush>
Power<flush> power_of(F32<flush> x, uint32_t per_252, uint32_t high, uint32_t low) {
  using F = F32<flush>;
  // The power of two plus 126, clamped to 0..252. Adding 1.5 * 2^23 with rounding toward -Inf takes the floor of a sum;
  // this code takes the floor of the exact product.
  const F unclamped = fma(x, F::of(per_252), F::of(0x3F000000));
  const float share = pick(unclamped > F(), pick(unclamped < F(1), unclamped, F(1)), F()).number();  // NaN gives 0
  const int32_t power = static_cast<int32_t>(static_cast<double>(share) * 252.0);
  const F rest = fma(x, F::of(low), fma(x, F::of(high), F(static_cast<float>(126 - power))));
  return {.mantissa = unit_ex2(rest), .scale = F::of(static_cast<uint32_t>(power + 1) << 23)};
}

template <Flush flush>
Power<flush> exp_power(F32<flush> x) {
  return power_of(x, 0x3BBB989D, 0x3FB8AA3B, 0x32A57060);
}
template <Flush flush>
F32<flush> exp(F32<flush> x) {
  const Power<flush> power = exp_power(x);
  return power.mantissa * power.scale;
}
template <Flush flush>
F32<flush> exp10(F32<flush> x) {
  const Power<flush> power = power_of(x, 0x3C57FA62, 0x40549A78, 0x33979A37);
  return power.mantissa * power.scale;
}

/// e^x - 1: uses the quotient and remainder by ln 2 if |x| >= 0.41.
template <Flush flush>
F32<flush> expm1(F32<flush> x) {
  using F = F32<flush>;
  const F count = pick(abs(x) < F::of(0x3ED1EB85), F(), to_nearest_integer(x * F::of(0x3FB8AA3B)));
  const F rest = fma(-count, F::of(0x35BFBE8E), fma(-count, F::of(0x3F317200), x));
  const F series = rest * polynomial(rest, {0x3AB5EBE6, 0x3C095663, 0x3D2AABE3, 0x3E2AA9F6, 0x3EFFFFFE});
  const bool largest = count == F(128);  // f32 has no 2^128: add its half twice
  const F exponent = pick(largest, F(127), count);
  const F power = ex2(exponent);
  const F half = fma(fma(series, rest, rest), power, power + F(-1));
  const F near = pick(largest, half + half, half);
  const F bounded = pick(exponent < F(-25), F(-1), pick(exponent > F(128), F::of(infinity_f32), near));
  return pick(x == F(), x + x, bounded);
}

/// x = (1 + fraction) * 2^exponent with a fraction near 0.
template <Flush flush>
struct Logarithm {
  F32<flush> scaled, fraction, exponent;

  /// `result` for a finite positive x, and the special result for all others.
  F32<flush> or_special(F32<flush> result, bool zero_is_infinite = true) const {
    using F = F32<flush>;
    const F infinity = F::of(infinity_f32);
    const F special = pick(scaled.word() < infinity_f32, result, fma(scaled, infinity, infinity));
    return zero_is_infinite ? pick(scaled == F(), -infinity, special) : special;
  }
};

/// `least` is the word of the smallest 1 + fraction.
template <Flush flush>
Logarithm<flush> logarithm_of(F32<flush> x, uint32_t least) {
  using F = F32<flush>;
  const bool tiny = x < F::of(0x00800000);
  const F scaled = pick(tiny, x * F::of(0x4B000000), x);  // 2^23
  const uint32_t power = (scaled.word() - least) & 0xFF800000;
  const F bias = pick(tiny, F(-23), F());
  return {.scaled = scaled,
          .fraction = F::of(scaled.word() - power) + F(-1),
          .exponent = fma(F(static_cast<float>(static_cast<int32_t>(power))), F::of(0x34000000), bias)};
}

template <Flush flush>
[[gnu::always_inline]] inline F32<flush> natural_logarithm(const Logarithm<flush>& x) {
  using F = F32<flush>;
  const F f = x.fraction;
  const F tail = f * polynomial(f, {0xBE055027, 0x3E1039F6, 0xBDF8CDCC, 0x3E0F2955, 0xBE2AD8B9, 0x3E4CED0B, 0xBE7FFF22,
                                    0x3EAAAA78, 0xBF000000});
  return fma(x.exponent, F::of(0x3F317218), fma(tail, f, f));
}
template <Flush flush>
F32<flush> log(F32<flush> x) {
  const Logarithm<flush> parts = logarithm_of(x, 0x3F2AAAAB);
  return parts.or_special(natural_logarithm(parts));
}
template <Flush flush>
F32<flush> log10(F32<flush> x) {
  const Logarithm<flush> parts = logarithm_of(x, 0x3F2AAAAB);
  const F32<flush> natural = parts.or_special(natural_logarithm(parts), false);
  return pick(parts.scaled == F32<flush>(), constant<flush>(0xFF800000), natural * constant<flush>(0x3EDE5BD9));
}
template <Flush flush>
F32<flush> log2(F32<flush> x) {
  using F = F32<flush>;
  const Logarithm<flush> parts = logarithm_of(x, 0x3F3504F3);
  const F f = parts.fraction;
  const F tail = f * (f * polynomial(f, {0x3DC6B27F, 0xBE2C7F30, 0x3E2FCF2A, 0xBE374E43, 0x3E520BF4, 0xBE763C8B,
                                         0x3E93BF99, 0xBEB8AA49, 0x3EF6384A, 0xBF38AA3B}));
  return parts.or_special(parts.exponent + fma(f, F::of(0x3FB8AA3B), tail));
}

/// log(1 + x) without rounding 1 + x: divides x and 1 by a power of two, then adds them.
template <Flush flush>
F32<flush> log1p(F32<flush> x) {
  using F = F32<flush>;
  const uint32_t power = (add_one_toward_zero(x).word() - 0x3F400000) & 0xFF800000;
  const F one_part = fma(F::of(0x3E800000), F::of(0x40800000 - power), F(-1));  // 2^-k - 1, computed from 4 * 2^-k
  const F f = one_part + F::of(x.word() - power);
  const F exponent = F(static_cast<float>(static_cast<int32_t>(power))) * F::of(0x34000000);
  const F tail = f * polynomial(f, {0xBD39BF78, 0x3DD80012, 0xBE0778E0, 0x3E146475, 0xBE2A68DD, 0x3E4CAF9E, 0xBE800042,
                                    0x3EAAAAE6, 0xBF000000});
  const F finite = fma(exponent, F::of(0x3F317218), fma(tail, f, f));
  const F infinity = F::of(infinity_f32);
  const bool is_special = x.word() >= infinity_f32;  // infinite, NaN or negative
  const bool above_minus_one = static_cast<int32_t>(x.word()) < static_cast<int32_t>(0xBF800001);
  const F special = pick(x == F(), F::of(0x80000000), pick(above_minus_one, finite, fma(x, infinity, infinity)));
  return pick(is_special, special, finite);
}

template <Flush flush>
F32<flush> tanh(F32<flush> x) {
  using F = F32<flush>;
  const F size = abs(x), square = x * x;
  const F power = unit_ex2(size * F::of(0x4038AA3B));  // e^(2 |x|)
  const F large = pick(size >= F::of(0x41102CB4), F(1), fma(unit_rcp(power + F(1)), F(-2), F(1)));
  const F tail = fma(polynomial(square, {0x3C80F082, 0xBD563CAE, 0x3E085941, 0xBEAAA9ED}), square, F());
  return pick(size >= F::of(0x3F19999A), with_sign_of(x, large), fma(tail, x, x));
}

/// The coefficients of 1 - 2^p(|x|) from 1.003 on; below it all versions have the same coefficients.
struct ErfTail {
  uint32_t of_7[7];
};
inline constexpr ErfTail erf_tail_13{
    {0x38EB4C3A, 0xBAAE005B, 0x3C09919F, 0xBD24D99A, 0x3E235519, 0x3F69B4F9, 0x3F210A14}};
inline constexpr ErfTail erf_tail_12{
    {0x3789CA3C, 0xB9F560B9, 0x3BAC840B, 0xBD0C8162, 0x3E1CF906, 0x3F6A937E, 0x3F20D842}};

template <Flush flush>
[[gnu::always_inline]] inline F32<flush> erf_of(F32<flush> x, const ErfTail& tail) {
  using F = F32<flush>;
  const F size = abs(x);
  const bool large = size >= F::of(0x3F8060FE);
  const F near = fma(
      polynomial(x * x, {0x38B1E96A, 0xBA574D20, 0x3BAAD5EA, 0xBCDC1BE7, 0x3DE718AF, 0xBEC093AC, 0x3E0375D3}), x, x);
  const F power = unit_ex2(fma(polynomial(size, tail.of_7), -size, -size));
  return pick(large, with_sign_of(x, F(1) - power), near);
}

template <Flush flush>
F32<flush> erf(F32<flush> x) {
  return erf_of(x, erf_tail_13);
}

/// x = quadrant * pi / 2 + rest.
template <Flush flush>
struct Angle {
  F32<flush> rest;
  int32_t quadrant = 0;
};

/// From 105615 on: computes |x| * 2 / pi with 192 bits of 2 / pi, of which 64 matter.
template <Flush flush>
Angle<flush> angle_of_large(F32<flush> x) {
  constexpr uint32_t two_over_pi[6]{0x3C439041, 0xDB629599, 0xF534DDC0, 0xFC2757D1, 0x4E441529, 0xA2F9836E};
  const uint32_t word = x.word(), significand = (word << 8) | 0x80000000, exponent = (word >> 23 & 255) - 128;
  uint32_t product[7];  // lowest first
  uint64_t carry = 0;
  for (int i = 0; i < 6; ++i) {
    carry += uint64_t{two_over_pi[i]} * significand;
    product[i] = static_cast<uint32_t>(carry);
    carry >>= 32;
  }
  product[6] = static_cast<uint32_t>(carry);
  const uint32_t top = 6 - (exponent >> 5), shift = exponent & 31;
  const auto shifted = [&](uint32_t i) {  // the upper half of words i and i - 1, shifted up
    return static_cast<uint32_t>((uint64_t{product[i]} << 32 | product[i - 1]) << shift >> 32);
  };
  const uint64_t turns = uint64_t{shifted(top)} << 32 | shifted(top - 1);
  const uint64_t fraction = turns << 2;
  const bool upper_half = fraction >> 63 != 0, negative = word >> 31 != 0;
  const int32_t quadrant = static_cast<int32_t>(turns >> 62) + upper_half;
  // One's complement: the lower bits, which no product reached, become ones.
  const auto distance = static_cast<int64_t>(upper_half ? ~fraction : fraction);
  const auto rest = F32<flush>(
      static_cast<float>(static_cast<double>(distance) * std::bit_cast<double>(uint64_t{0x3BF921FB54442D19})));
  return {.rest = negative != upper_half ? -rest : rest, .quadrant = negative ? -quadrant : quadrant};
}

template <Flush flush>
[[gnu::always_inline]] inline Angle<flush> angle_of(F32<flush> x) {
  using F = F32<flush>;
  const F size = abs(x);
  if (size.number() >= 105615.0F && size.word() < infinity_f32) return angle_of_large(x);
  const bool is_finite = size.word() < infinity_f32;
  const int32_t quadrant = nearest_integer(pick(is_finite, x * F::of(0x3F22F983), F()).number());
  const F count(static_cast<float>(quadrant));
  const F rest = fma(count, F::of(0xA7C234C5), fma(count, F::of(0xB3A22168), fma(count, F::of(0xBFC90FDA), x)));
  return {.rest = pick(is_finite, rest, F::of(nan_f32)), .quadrant = quadrant};
}

/// sin(rest + quadrant * pi / 2).
template <Flush flush>
[[gnu::always_inline]] inline F32<flush> sine_of(const Angle<flush>& angle) {
  using F = F32<flush>;
  const bool is_cosine = (angle.quadrant & 1) != 0;
  const F square = mul_rn(angle.rest, angle.rest);
  const F of_sine = polynomial(square, {0xB94D4153, 0x3C0885E4, 0xBE2AAAA8});
  const F of_cosine = polynomial(square, {0x37CBAC00, 0xBAB607ED, 0x3D2AAABB, 0xBEFFFFFF});
  const F first = pick(is_cosine, F(1), angle.rest);
  const F result = fma(pick(is_cosine, of_cosine, of_sine), fma(square, first, F()), first);
  return pick((angle.quadrant & 2) != 0, fma(result, F(-1), F()), result);
}
template <Flush flush>
F32<flush> sin(F32<flush> x) {
  return sine_of(angle_of(x));
}
template <Flush flush>
F32<flush> cos(F32<flush> x) {
  Angle<flush> angle = angle_of(x);
  ++angle.quadrant;
  return sine_of(angle);
}

/// x^y for positive x, or |x|^y: 2^(y log2 x) with the logarithm as a sum of two numbers.
template <Flush flush>
F32<flush> positive_power(F32<flush> x, F32<flush> y) {
  using F = F32<flush>;
  const F size = abs(x);
  const bool tiny = size < F::of(0x00800000);
  const F scaled = pick(tiny, size * F::of(0x4B800000), size);  // 2^24
  const uint32_t exponent = (scaled.word() - 0x3F3504F3) & 0xFF800000;
  const F mantissa = F::of(scaled.word() - exponent);
  const F whole =
      fma(F(static_cast<float>(static_cast<int32_t>(exponent))), F::of(0x34000000), pick(tiny, F(-24), F()));
  // ln(m) = 2 artanh((m - 1) / (m + 1)): the quotient and its remainder.
  const F below = mantissa + F(-1), reciprocal = unit_rcp(mantissa + F(1));
  const F quotient = (below + below) * reciprocal, square = quotient * quotient;
  const F left = below - quotient;
  const F lacking = mul_rn(reciprocal, fma(-quotient, below, left + left));
  const F series = mul_rn(polynomial(square, {0x3A2C32E4, 0x3B52E7DB, 0x3C93BB73, 0x3DF6384F}), square);
  const F log2_e = F::of(0x3FB8AA3B);
  const F high = fma(quotient, log2_e, whole);
  F low = fma(quotient, log2_e, whole - high);
  low = fma(quotient, F::of(0x32A55E34), fma(lacking, log2_e, low));
  low = fma(series, quotient, fma(series * F(3), lacking, low));
  const F log = add_rn(high, low), log_rest = add_rn(low, -add_rn(log, -high));
  // 2^(log * y)
  const F product = mul_rn(log, y), product_rest = fma(log_rest, y, fma(log, y, -product));
  const F count = to_nearest_integer(product);
  const F fraction = product_rest + (product - count);
  const F power =
      polynomial(fraction, {0x391FCB8E, 0x3AAF85ED, 0x3C1D9856, 0x3D6357BB, 0x3E75FDEC, 0x3F317218, one_f32});
  // Scales in two steps, because f32 may not hold 2^count.
  const uint32_t first = count > F() ? 0x7F000000 : 0x02000000;
  const float bounded = pick(abs(count) < F(512), count, F()).number();
  const uint32_t second = (static_cast<uint32_t>(static_cast<int32_t>(bounded)) << 23) - (first - 0x7F000000);
  const F result = (power * F::of(first)) * F::of(second);
  return pick(abs(product) > F(152), pick(product < F(), F(), F::of(infinity_f32)), result);
}

/// The same function of CUDA 12.8's library, as Triton links it: e^(y ln x) with ln x as a sum of two numbers. If the
/// compiler joined a product and a sum of the source, neither flushes.
template <Flush flush>
F32<flush> positive_power_12(F32<flush> x, F32<flush> y) {
  using F = F32<flush>;
  const F size = abs(x);  // a subnormal counts as 2^-127
  F mantissa = F::of((size.word() & 0x007FFFFF) | one_f32);
  F exponent = F(static_cast<float>(size.word() >> 23)) + F(-127);
  const bool above = mantissa > F::of(0x3FB504F3);  // sqrt(2)
  exponent = pick(above, exponent + F(1), exponent);
  mantissa = pick(above, mantissa * F(0.5F), mantissa);
  const F below = mantissa + F(-1), reciprocal = unit_rcp(mantissa + F(1)), twice = below + below;
  const F quotient = reciprocal * twice, square = quotient * quotient;
  const F series = mul_rn(mul_rn(polynomial(square, {0x3B18F0FE, 0x3C4CAF63, 0x3DAAAABD}), square), quotient);
  const F left = joined(-reciprocal, twice, below);
  const F lacking = mul_rn(reciprocal, fma(-quotient, below, left + left));
  // The rounding error of each sum of two numbers follows the sum.
  const F sum = joined(reciprocal, twice, series);
  const F rest = lacking + (series + joined(reciprocal, twice, -sum));
  const F of_mantissa = sum + rest, mantissa_rest = rest + (sum - of_mantissa);
  const F of_exponent = mul_rn(exponent, F::of(0x3F317200)), exponent_rest = mul_rn(exponent, F::of(0x35BFBE8E));
  const F high = of_exponent + of_mantissa, high_rest = of_mantissa + (of_exponent - high);
  const F low = exponent_rest + (mantissa_rest + high_rest);
  const F log = high + low, log_rest = low + (high - log);
  // e^(log * y); scales a huge y, because its product with the rest would be infinite.
  const F power = pick(abs(y) > F::of(0x77F684DF), y * F::of(0x39000000), y);
  const F product = mul_rn(power, log);
  const F product_rest = fma(F(), log, fma(power, log_rest, fma(power, log, -product)));
  const F argument = add_rn(product, product_rest);
  const bool at_largest = argument.word() == 0x42B17218;  // ln(2^128): one step less, and 2^-17 more of the rest
  const F reduced = pick(at_largest, F::of(0x42B17217), argument);
  const F whole = truncated(mul_rn(reduced, F::of(0x3FB8AA3B)));
  const F count = pick(abs(whole) > F(126), with_sign_of(whole, F(126)), whole);
  const F fraction = fma(count, F::of(0x3102E308), fma(count, F::of(0xBF317218), reduced));
  const F scale = F::of((count + F::of(0x4B40007F)).word() << 23);  // 1.5 * 2^23 + 127
  const F result = unit_ex2(fraction * F::of(0x3FB8AA3B)) * scale;
  const F lost = add_rn(add_rn(product, -argument), product_rest);
  const F corrected = fma(result, pick(at_largest, lost + F::of(0x37000000), lost), result);
  return pick(result == F::of(infinity_f32), result, corrected);
}

/// x^y if x is negative, zero, infinite or NaN, or if y is infinite or NaN; `odd` states whether y is odd.
template <Flush flush>
F32<flush> power_with_special_cases(F32<flush> x, F32<flush> y, bool odd, F32<flush> power) {
  using F = F32<flush>;
  const F infinity = F::of(infinity_f32), size = F::of(x.word() & 0x7FFFFFFF), size_of_y = F::of(y.word() & 0x7FFFFFFF);
  if (x == F(1) || y == F()) return F(1);
  if (size.word() > infinity_f32 || size_of_y.word() > infinity_f32) return F::of(nan_f32);
  if (x == F() || size == infinity) {
    const uint32_t doubled = (x + x).word(), result = y < F() ? doubled ^ infinity_f32 : doubled;
    return F::of(odd ? result : result & 0x7FFFFFFF);
  }
  if (x == F(-1) && size_of_y == infinity) return F(1);
  if (x > F()) return power;
  if (!(truncated(y) == y)) return F::of(nan_f32);
  return odd ? -power : power;
}

template <Flush flush>
F32<flush> pow(F32<flush> x, F32<flush> y) {
  using F = F32<flush>;
  const F halves = truncated(y * F(0.5F));
  return power_with_special_cases(x, y, abs(y - (halves + halves)) == F(1), positive_power(x, y));
}
template <Flush flush>
F32<flush> pow_12(F32<flush> x, F32<flush> y) {
  using F = F32<flush>;
  const bool odd = abs(joined(truncated(y * F(0.5F)), F(-2), y)) == F(1);
  const F power = (y.word() & 0x7FFFFFFF) == infinity_f32 ? pick((abs(x) > F(1)) == (y > F()), F::of(infinity_f32), F())
                                                          : positive_power_12(x, y);
  return power_with_special_cases(x, y, odd, power);
}

// One or two instructions of the special function unit: fast math, CUDA's __ functions, and Triton's own.
template <Flush flush>
F32<flush> fast_exp(F32<flush> x) {
  return ex2(x * constant<flush>(0x3FB8AA3B));
}
template <Flush flush>
F32<flush> fast_exp10(F32<flush> x) {
  return ex2(x * constant<flush>(0x40549A78));
}
template <Flush flush>
F32<flush> fast_log(F32<flush> x) {
  return lg2(x) * constant<flush>(0x3F317218);
}
template <Flush flush>
F32<flush> fast_log10(F32<flush> x) {
  return lg2(x) * constant<flush>(0x3E9A209B);
}
template <Flush flush>
F32<flush> fast_pow(F32<flush> x, F32<flush> y) {
  return ex2(lg2(x) * y);
}
template <Flush flush>
F32<flush> fast_tanh(F32<flush> x) {
  return F32<flush>::noted("MUFU.TANH", F32<flush>::of(mufu_tanh(x.word())), x);
}
template <Flush flush>
F32<flush> turns(F32<flush> radians) {
  return F32<flush>::noted("mul.rz", F32<flush>::of(turns_of(radians.word())), radians,
                           constant<flush>(turns_per_radian));
}
template <Flush flush>
F32<flush> fast_sin(F32<flush> x) {
  const F32<flush> y = turns(x);
  return F32<flush>::noted("MUFU.SIN", F32<flush>::of(mufu_sin(y.word())), y);
}
template <Flush flush>
F32<flush> fast_cos(F32<flush> x) {
  const F32<flush> y = turns(x);
  return F32<flush>::noted("MUFU.COS", F32<flush>::of(mufu_cos(y.word())), y);
}
template <Flush flush>
F32<flush> fast_sqrt(F32<flush> x) {
  return F32<flush>::noted("MUFU.SQRT", F32<flush>::of(mufu_sqrt(x.word())), x);
}
template <Flush flush>
F32<flush> fast_reciprocal(F32<flush> x) {
  return unit_rcp(x);
}

// The correctly rounded operations of IEEE 754, which PTX calls .rn.
template <Flush flush>
F32<flush> rounded_sqrt(F32<flush> x) {
  return F32<flush>::noted("sqrt.rn", F32<flush>(__builtin_sqrtf(x.value)), x);
}
template <Flush flush>
F32<flush> rounded_quotient(F32<flush> a, F32<flush> b) {
  return F32<flush>::noted("div.rn", F32<flush>(a.value / b.value), a, b);
}
template <Flush flush>
F32<flush> rounded_reciprocal(F32<flush> x) {
  return rounded_quotient(F32<flush>(1), x);
}

// Activations, as the eager kernels of PyTorch and similar programs write them.
/// 1 + e^-x; nvcc joins the last product of expf and the sum.
template <Flush flush>
F32<flush> one_plus_exp_of_minus(F32<flush> x) {
  const Power<flush> power = exp_power(-x);
  return fma(power.mantissa, power.scale, F32<flush>(1));
}
template <Flush flush>
F32<flush> sigmoid(F32<flush> x) {
  return rounded_reciprocal(one_plus_exp_of_minus(x));
}
template <Flush flush>
F32<flush> silu(F32<flush> x) {
  return rounded_quotient(x, one_plus_exp_of_minus(x));
}

template <Flush flush>
F32<flush> fast_one_plus_exp_of_minus(F32<flush> x) {
  return fast_exp(-x) + F32<flush>(1);
}
template <Flush flush>
F32<flush> fast_sigmoid(F32<flush> x) {
  return unit_rcp(fast_one_plus_exp_of_minus(x));
}
template <Flush flush>
F32<flush> fast_silu(F32<flush> x) {
  return quotient(x, fast_one_plus_exp_of_minus(x));
}

/// x * 0.5 * (1 + erf(x / sqrt(2))).
template <Flush flush>
F32<flush> gelu(F32<flush> x) {
  const F32<flush> share = erf(x * constant<flush>(0x3F3504F3)) + F32<flush>(1);
  return (x * F32<flush>(0.5F)) * share;
}
/// 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).
template <Flush flush>
F32<flush> gelu_tanh(F32<flush> x) {
  const F32<flush> cube = (x * x) * x, inner = fma(cube, constant<flush>(0x3D372713), x) * constant<flush>(0x3F4C422A);
  F32<flush> bend;
  if constexpr (flush == Flush::all) {
    bend = fast_tanh(inner);
  } else {
    bend = tanh(inner);
  }
  return (x * F32<flush>(0.5F)) * (bend + F32<flush>(1));
}

// Triton divides with div.full.
template <Flush flush>
F32<flush> triton_reciprocal(F32<flush> x) {
  return full_quotient(F32<flush>(1), x);
}
template <Flush flush>
F32<flush> triton_sigmoid(F32<flush> x) {
  using F = F32<flush>;
  return triton_reciprocal(fast_exp(F() - x) + F(1));
}
template <Flush flush>
F32<flush> triton_silu(F32<flush> x) {
  return triton_sigmoid(x) * x;
}
template <Flush flush>
F32<flush> triton_erf(F32<flush> x) {
  return erf_of(x, erf_tail_12);
}

}  // namespace bitmma::math
