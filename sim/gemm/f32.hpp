// SPDX-License-Identifier: MIT
// f32 arithmetic as CUDA cores do it between instructions: IEEE 754, each operation rounded to nearest even, subnormals
// kept, every NaN 0x7FFFFFFF. The host's f32 does the same: include this file only where contraction is off.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "bitmma/formats/matrix.hpp"
#include "bitmma/formats/round.hpp"

namespace bitmma::f32 {

inline float value(uint32_t code) { return std::bit_cast<float>(code); }
inline uint32_t code(float value) { return value != value ? 0x7FFFFFFF : std::bit_cast<uint32_t>(value); }

inline uint32_t add(uint32_t x, uint32_t y) { return code(value(x) + value(y)); }
inline uint32_t multiply(uint32_t x, uint32_t y) { return code(value(x) * value(y)); }
inline uint32_t fma(uint32_t x, uint32_t y, uint32_t z) { return code(std::fma(value(x), value(y), value(z))); }
/// fmaxf(x, 0): NaN becomes 0.
inline uint32_t relu(uint32_t x) { return value(x) > 0 ? x : 0; }
/// A subnormal becomes a zero of the same sign.
inline uint32_t flushed(uint32_t x) { return (x & 0x7F800000) == 0 ? x & 0x80000000 : x; }

/// sum += addend, element by element. With `flush`, subnormal inputs and results become zeros.
inline void add(Matrix& sum, const Matrix& addend, bool flush = false) {
  const std::span<uint32_t> to = sum.words();
  const std::span<const uint32_t> from = addend.words();
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] = flush ? flushed(add(flushed(to[i]), flushed(from[i]))) : add(to[i], from[i]);
}

/// Rounds every f32 to `format` and widens it again.
inline void round_to(Matrix& sums, Format format) {
  if (format == Format::f32) return;
  for (uint32_t& word : sums.words()) {
    const uint64_t narrow = convert(Format::f32, word, format, Rounding::nearest_even, Overflow::infinity);
    word = static_cast<uint32_t>(convert(format, narrow, Format::f32, Rounding::nearest_even, Overflow::infinity));
  }
}

}  // namespace bitmma::f32
