// SPDX-License-Identifier: MIT
// The bits that the hot loops use, and which sums fit them. A sum that does not fit is still correct: the slow path
// (slow_path.hpp) computes it.
//
// The loop of fused sums (kernels/fused.hpp) shifts significands left before it multiplies them, so that products are
// in units of 2^(e_max - F). Four limits follow.
//
//   1. F drops no bit of a product before it is aligned.
//   2. The loop needs twice each product. The two significands of a product have at most 14 and 15 bits.
//   3. The sum of all products and C fits in 32 bits plus its sign.
//   4. The products form at most two parts whose sums fit in 31 bits; before correction each term may be off by one.
//
//   f16 x f16, F = 25, K = 16: a product is below 2^(22 + 5), so that sixteen of them and C stay below 2^32
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "bitmma/arithmetic/accumulator_model.hpp"

namespace bitmma {

/// Bits of a significand that the loops multiply, without its sign.
inline constexpr int pair_bits = 15;

/// How far significands of A and B are shifted left, and how many products one part of the sum has.
struct Budget {
  int a_shift = 0, b_shift = 0, terms_per_part = 0;
};

/// Returns nullopt if the bits do not suffice.
constexpr std::optional<Budget> find_budget(int fraction_bits, Format a, Format b, int terms) {
  const int a_bits = info(a).mantissa_bits + 1, b_bits = info(b).mantissa_bits + 1;
  const int product_shift = fraction_bits - (a_bits - 1) - (b_bits - 1);
  if (product_shift < 0 || fraction_bits > 27) return std::nullopt;
  const int a_shift = std::min(product_shift + 1, pair_bits - 1 - a_bits), b_shift = product_shift + 1 - a_shift;
  if (a_shift < 0 || b_bits + b_shift > pair_bits) return std::nullopt;
  const auto largest = [](int bits) { return (int64_t{1} << bits) - 1; };
  const int64_t product = largest(a_bits) * largest(b_bits) << product_shift, c = int64_t{2} << fraction_bits;
  const int64_t per_part = (std::numeric_limits<int32_t>::max() - int64_t{terms}) / product;
  if (2 * per_part < terms || terms * product + c > std::numeric_limits<uint32_t>::max()) return std::nullopt;
  return Budget{
      .a_shift = a_shift, .b_shift = b_shift, .terms_per_part = static_cast<int>(std::min<int64_t>(per_part, terms))};
}

/// The exponents of formats with small ones.
inline constexpr int least_small_exponent = -14, most_small_exponent = 16;
/// True if exponents of products fit in 8 bits with room for zeros, as fma_chain.hpp needs them. A sum of such products
/// is zero, or normal and finite.
constexpr bool have_small_exponents(Format a, Format b) {
  const auto is_small = [](Format format) {
    return info(format).min_exponent() >= least_small_exponent &&
           static_cast<int>(info(format).exponent_mask()) - info(format).bias <= most_small_exponent;
  };
  return is_small(a) && is_small(b);
}

/// True if products with small exponents can be summed in floats there: in units of 2^(e_max - F), the sum is below
/// 2^22, and significands of B and of C, 19 bits with the hidden one, have room for the bits that make truncation
/// toward zero of a floor.
constexpr bool fits_floats(int fraction_bits, int output_fraction_bits, Format b, int terms) {
  return fraction_bits <= 13 && output_fraction_bits <= 18 && info(b).mantissa_bits <= 3 && terms <= 32;
}
static_assert(have_small_exponents(Format::f16, Format::e5m2) && !have_small_exponents(Format::bf16, Format::f16));

/// Rows with Scaling::exact_groups have 16 terms per group. A product of e2m1 is in quarters and a scale of ue4m3 in
/// eighths, so a group times both scales is an integer below 2^group_bits in units of 2^-group_fraction_bits.
inline constexpr int group_size = 16, group_bits = 20, scale_fraction_bits = 3,
                     group_fraction_bits = 2 * info(Format::e2m1).mantissa_bits + 2 * scale_fraction_bits;
static_assert(group_size * 12 * 12 * 15 * 15 < 1 << group_bits);  // the largest: 6 is 12 halves, 1.875 is 15 eighths

/// Most groups of one instruction: K = 128 stored e2m1.
inline constexpr int most_groups = 8;

/// True if so many groups, aligned to F bits, and C add up in 64 bits, and F drops no bit of C.
constexpr bool groups_fit(int fraction_bits, int groups) {
  return groups <= most_groups && fraction_bits >= info(Format::f32).mantissa_bits &&
         fraction_bits - group_fraction_bits + group_bits <= 58;
}

}  // namespace bitmma
