// SPDX-License-Identifier: MIT
// The special function unit: a table of quadratics, evaluated in integers. Oberman and Siu published the design (A
// High-Performance Area-Efficient Multifunction Interpolator, ARITH-17, 2005); measurements gave the truncations.
//
//   ex2(0x3E99999A) = 2^0.3    fraction 0x266666 of 2^23: quadratic 19, at 0x6666 of 2^17
//     0x4E9F6D57E200000 + 111,608 * 0x6666 * 2^18 + 1,218 * S(0x6666)    in units of 2^-58; the upper 24 bits:
//     0x3F9D9624
#pragma once

#include <cstdint>

namespace bitmma::math {

/// c0 + c1 * x * 2^18 + c2 * S(x), in the unit of the function.
struct Quadratic {
  int64_t c0 = 0;
  int32_t c1 = 0, c2 = 0;
};

/// S(x) / 2^19 of a 17-bit x: x^2 from a squarer without the partial products below 2^19.
///
/// The square is the sum of b_i 2^2i and, for i < j, b_i b_j 2^(i + j + 1). The squarer has the products of row i for j
/// >= 18 - i.
constexpr uint32_t truncated_square(uint32_t x) {
  uint32_t sum = 0;
  for (uint32_t i = 2; i <= 16; ++i) {
    const uint32_t above = x >> (i + 1) << (i + 1);  // the bits j > i
    const uint32_t diagonal = 2 * i >= 19 ? uint32_t{1} << (2 * i - 19) : 0;
    const uint32_t row = (above >> (18 - i)) + diagonal;
    sum += row & (0 - (x >> i & 1));
  }
  return sum;
}

/// The quadratic at a 17-bit x.
constexpr uint64_t at(const Quadratic& quadratic, uint32_t x) {
  const int64_t linear = int64_t{quadratic.c1} * x, square = int64_t{quadratic.c2} * truncated_square(x);
  return static_cast<uint64_t>(quadratic.c0 + linear * (1 << 18) + square * (1 << 19));
}

/// The quadratic at a 16-bit x, computed from 2x: the square of x is a quarter of the square of 2x.
constexpr uint64_t at_16_bits(const Quadratic& quadratic, uint32_t x) {
  const int64_t linear = int64_t{quadratic.c1} * (2 * x), square = int64_t{quadratic.c2} * truncated_square(2 * x);
  return static_cast<uint64_t>(quadratic.c0 + (linear + square) * (1 << 17));
}

}  // namespace bitmma::math
