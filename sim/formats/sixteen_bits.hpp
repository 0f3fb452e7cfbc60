// SPDX-License-Identifier: MIT
// f32 words to and from codes of f16 and bf16, for loops: without branches, so that compilers make vectors of them. The
// caller's environment rounds to nearest even and keeps subnormal numbers (math/ieee_environment.hpp).
#pragma once

#include <bit>
#include <cstdint>

namespace bitmma {

/// To nearest even, as convert() rounds; a NaN becomes 0x7FFF.
inline uint32_t bf16_code(uint32_t word) {
  const uint32_t rounded = (word + 0x7FFF + (word >> 16 & 1)) >> 16;
  return (word & 0x7FFFFFFF) > 0x7F800000 ? 0x7FFF : rounded;
}
inline uint32_t f16_code(uint32_t word) {
  const uint32_t magnitude = word & 0x7FFFFFFF, sign = word >> 16 & 0x8000;
  // The exponent's bias falls by 112. Below 2^-14 a sum with 1/2 puts the last bit of a subnormal code at that of f32.
  const uint32_t normal = (magnitude - (112u << 23) + 0xFFF + (magnitude >> 13 & 1)) >> 13;
  const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000;
  const uint32_t finite = magnitude < 0x38800000 ? subnormal : normal;
  const uint32_t code = sign | (magnitude >= 0x47800000 ? 0x7C00 : finite);
  return magnitude > 0x7F800000 ? 0x7FFF : code;
}

/// Exact; a NaN keeps its payload.
inline uint32_t f32_of_bf16(uint32_t code) { return code << 16; }
inline uint32_t f32_of_f16(uint32_t code) {
  const uint32_t bits = (code & 0x7FFF) << 13, sign = (code & 0x8000) << 16;
  const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(bits) * 0x1p112F);
  return sign | ((code & 0x7C00) == 0x7C00 ? bits | 0x7F800000 : finite);
}

}  // namespace bitmma
