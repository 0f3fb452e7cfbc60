// SPDX-License-Identifier: MIT
// Vectors of any instruction set, and the operations of the loops on them. The bodies are templates over the bytes of a
// vector and are always inlined into the functions of a table (dispatch.cpp), which are compiled for the instruction
// set; the compiler maps GNU vectors to its registers. Three rules keep the machine code good.
//
//   1. Operations that GNU vectors cannot express use a builtin, in a short function with plain C++ beside it for the
// baseline of x86-64: multiply_pairs, shift_right, widen, sign_bits, and normalise (round.hpp). NEON, which every
// 64-bit ARM has, is the baseline there and has its own builtins.
//   2. There are no branches on data.
//   3. Comparisons select between numbers, never between 0 and -1: that would be the comparison itself, which GCC 12
// splits lane by lane.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "../../core/words.hpp"

#if defined(__x86_64__) && !defined(__clang__)
#include <immintrin.h>  // declares the builtins of instruction sets for which this file is not compiled
#define BITMMA_X86_BUILTINS 1
#pragma GCC diagnostic ignored "-Wpsabi"  // templates that are only ever inlined pass no vectors
#elif defined(__aarch64__)
#include <arm_neon.h>
#define BITMMA_NEON 1
#endif

namespace bitmma::kernels {
namespace {

/// Vectors of `bytes` bytes, and of half as many. (A type with the attribute cannot be a template argument, but a
/// number can.)
template <int bytes>
struct Vectors {
  using I8 [[gnu::vector_size(bytes)]] = char;  // the element type of the builtins
  using I16 [[gnu::vector_size(bytes)]] = int16_t;
  using I32 [[gnu::vector_size(bytes)]] = int32_t;
  using U32 [[gnu::vector_size(bytes)]] = uint32_t;
  using I64 [[gnu::vector_size(bytes)]] = long long;  // the element type of the builtins
  using U64 [[gnu::vector_size(bytes)]] = unsigned long long;
  using F32 [[gnu::vector_size(bytes)]] = float;  // only fma_chain.hpp computes with these two
  using F64 [[gnu::vector_size(bytes)]] = double;
  using Half16 [[gnu::vector_size(bytes / 2)]] = int16_t;
  using Half32 [[gnu::vector_size(bytes / 2)]] = int32_t;
};

/// Whether there are 32 vector registers of this size, as in AVX-512 and NEON, or 16.
template <int bytes>
#if BITMMA_NEON
constexpr bool many_registers = true;
#else
constexpr bool many_registers = bytes == 64;
#endif

/// By reference, unlike the one in core/words.hpp: a function compiled for the baseline must not return such a vector.
template <typename V>
BITMMA_INLINE void load(V& vector, const void* from) {
  std::memcpy(&vector, from, sizeof vector);
}

/// The larger of every number and its neighbour in `other`.
template <typename V>
BITMMA_INLINE void raise_to(V& vector, const V& other) {
  vector = other > vector ? other : vector;
}

/// The smaller of every number and `limit`.
template <typename V, typename Number>
BITMMA_INLINE void limit_to(V& vector, Number limit) {
  const V limits = V{} + limit;
  vector = vector < limits ? vector : limits;
}

template <typename V>
BITMMA_INLINE bool contains(const V& vector, int32_t number) {
  std::array<int32_t, sizeof(V) / 4> numbers;
  store(vector, numbers.data());
  return std::ranges::find(numbers, number) != numbers.end();
}

/// Sums of both 16-bit products: lower halves and upper halves.
template <int bytes>
BITMMA_INLINE void multiply_pairs(const typename Vectors<bytes>::I32& x, const typename Vectors<bytes>::I32& y,
                                  typename Vectors<bytes>::I32& sums) {
#if BITMMA_X86_BUILTINS
  using I16 = typename Vectors<bytes>::I16;
  using I32 = typename Vectors<bytes>::I32;
  if constexpr (bytes == 64) {
    sums = reinterpret_cast<I32>(__builtin_ia32_pmaddwd512_mask(reinterpret_cast<I16>(x), reinterpret_cast<I16>(y),
                                                                I32{}, static_cast<uint16_t>(~0)));
    return;
  } else if constexpr (bytes == 32) {
    sums = reinterpret_cast<I32>(__builtin_ia32_pmaddwd256(reinterpret_cast<I16>(x), reinterpret_cast<I16>(y)));
    return;
  }
#endif
  sums = (x << 16 >> 16) * (y << 16 >> 16) + (x >> 16) * (y >> 16);
}

/// The same of two vectors and one pair.
template <int bytes>
BITMMA_INLINE void multiply_pairs(const typename Vectors<bytes>::I32 (&x)[2], int32_t y,
                                  typename Vectors<bytes>::I32 (&sums)[2]) {
  using I32 = typename Vectors<bytes>::I32;
#if BITMMA_NEON
  if constexpr (bytes == 16) {  // lower halves side by side and upper ones, once for all y; products are widened
    const auto first = reinterpret_cast<int16x8_t>(x[0]), second = reinterpret_cast<int16x8_t>(x[1]);
    const int16x8_t lower = vuzp1q_s16(first, second), upper = vuzp2q_s16(first, second);
    const auto of_y = reinterpret_cast<int16x4_t>(int32x2_t{y, 0});
    sums[0] = reinterpret_cast<I32>(
        vmlal_lane_s16(vmull_lane_s16(vget_low_s16(lower), of_y, 0), vget_low_s16(upper), of_y, 1));
    sums[1] = reinterpret_cast<I32>(vmlal_high_lane_s16(vmull_high_lane_s16(lower, of_y, 0), upper, of_y, 1));
    return;
  }
#endif
#pragma GCC unroll 2
  for (int v = 0; v < 2; ++v) multiply_pairs<bytes>(x[v], I32{} + y, sums[v]);
}

/// Numbers shifted right by counts from 0 on, arithmetically: a count of 32 or more leaves 0 or -1.
template <int bytes>
BITMMA_INLINE void shift_right(typename Vectors<bytes>::I32& numbers, const typename Vectors<bytes>::I32& counts) {
#if BITMMA_X86_BUILTINS
  if constexpr (bytes == 64) {
    numbers = __builtin_ia32_psrav16si_mask(numbers, counts, numbers, static_cast<uint16_t>(~0));
    return;
  } else if constexpr (bytes == 32) {
    numbers = __builtin_ia32_psrav8si(numbers, counts);
    return;
  }
#endif
  auto limited = counts;
  limit_to(limited, 31);
  numbers >>= limited;
}

/// Two vectors shifted right, the first by counts in the lower halves, the second by those in the upper ones.
template <int bytes>
BITMMA_INLINE void shift_right(typename Vectors<bytes>::I32 (&numbers)[2], const typename Vectors<bytes>::I16& counts) {
  using I32 = typename Vectors<bytes>::I32;
#if BITMMA_NEON
  if constexpr (bytes == 16) {  // shifts to the left, by the lowest byte of a lane: what is above needs no clearing
    const auto left = reinterpret_cast<int32x4_t>(-vminq_s16(reinterpret_cast<int16x8_t>(counts), vdupq_n_s16(31)));
    numbers[0] = reinterpret_cast<I32>(vshlq_s32(reinterpret_cast<int32x4_t>(numbers[0]), left));
    numbers[1] = reinterpret_cast<I32>(vshlq_s32(reinterpret_cast<int32x4_t>(numbers[1]), left >> 16));
    return;
  }
#endif
  const auto both = reinterpret_cast<typename Vectors<bytes>::U32>(counts);
  shift_right<bytes>(numbers[0], reinterpret_cast<I32>(both & 0xFFFF));
  shift_right<bytes>(numbers[1], reinterpret_cast<I32>(both >> 16));
}

/// 64-bit numbers shifted right by counts that may also be negative: those, and counts of 64 or more, leave 0 or -1.
template <int bytes>
BITMMA_INLINE void shift_right(typename Vectors<bytes>::I64& numbers, const typename Vectors<bytes>::I64& counts) {
  using I64 = typename Vectors<bytes>::I64;
#if BITMMA_X86_BUILTINS
  if constexpr (bytes == 64) {
    numbers = __builtin_ia32_psrav8di_mask(numbers, counts, numbers, static_cast<uint8_t>(~0));
    return;
  } else if constexpr (bytes == 32) {
    const I64 sign = numbers >> 63;
    numbers = __builtin_ia32_psrlv4di(numbers ^ sign, counts) ^ sign;
    return;
  }
#endif
  const I64 most = I64{} + 63;
  numbers >>= (counts < 0 ? most : counts > most ? most : counts);
}

/// Sixteen bits -> 32.
template <int bytes>
BITMMA_INLINE void widen(const typename Vectors<bytes>::Half16& narrow, typename Vectors<bytes>::I32& wide) {
#if BITMMA_X86_BUILTINS
  using I32 = typename Vectors<bytes>::I32;
  if constexpr (bytes == 64) {
    wide = __builtin_ia32_pmovsxwd512_mask(narrow, I32{}, static_cast<uint16_t>(~0));
    return;
  }
#endif
  wide = __builtin_convertvector(narrow, typename Vectors<bytes>::I32);
}

/// 32 bits -> 64.
template <int bytes>
BITMMA_INLINE void widen(const typename Vectors<bytes>::Half32& narrow, typename Vectors<bytes>::I64& wide) {
#if BITMMA_X86_BUILTINS
  if constexpr (bytes == 64) {
    wide = __builtin_ia32_pmovsxdq512_mask(narrow, typename Vectors<bytes>::I64{}, static_cast<uint8_t>(~0));
    return;
  }
#endif
  wide = __builtin_convertvector(narrow, typename Vectors<bytes>::I64);
}

/// The sign of every number, as one bit.
template <int bytes>
BITMMA_INLINE uint32_t sign_bits(const typename Vectors<bytes>::I32& numbers) {
#if BITMMA_X86_BUILTINS
  if constexpr (bytes == 64) return __builtin_ia32_cvtd2mask512(numbers);
  else if constexpr (bytes == 32)
    return static_cast<uint32_t>(__builtin_ia32_movmskps256(reinterpret_cast<typename Vectors<bytes>::F32>(numbers)));
#elif BITMMA_NEON
  if constexpr (bytes == 16) {
    const uint32x4_t bits = reinterpret_cast<uint32x4_t>(numbers) >> 31;
    return vaddvq_u32(vshlq_u32(bits, int32x4_t{0, 1, 2, 3}));
  }
#endif
  uint32_t bits = 0;
  for (int lane = 0; lane < bytes / 4; ++lane) bits |= static_cast<uint32_t>(numbers[lane] < 0) << lane;
  return bits;
}

#if BITMMA_X86_BUILTINS
/// Replaces every byte below 16 by its number of set bits.
template <int bytes>
BITMMA_INLINE void look_up_nibbles(typename Vectors<bytes>::U32& words) {
  using I8 = typename Vectors<bytes>::I8;
  using U32 = typename Vectors<bytes>::U32;
  U32 counts;
  for (int i = 0; i < bytes / 4; i += 4)
    counts[i] = 0x02010100, counts[i + 1] = 0x03020201, counts[i + 2] = 0x03020201, counts[i + 3] = 0x04030302;
  const I8 of = reinterpret_cast<I8>(words);
  if constexpr (bytes == 64)
    words = reinterpret_cast<U32>(__builtin_ia32_pshufb512_mask(reinterpret_cast<I8>(counts), of, of, ~uint64_t{0}));
  else words = reinterpret_cast<U32>(__builtin_ia32_pshufb256(reinterpret_cast<I8>(counts), of));
}

/// Sums of adjacent bytes, in 16 bits.
template <int bytes>
BITMMA_INLINE void add_byte_pairs(typename Vectors<bytes>::U32& words) {
  using I8 = typename Vectors<bytes>::I8;
  using I16 = typename Vectors<bytes>::I16;
  using U32 = typename Vectors<bytes>::U32;
  const I8 ones = I8{} + 1, of = reinterpret_cast<I8>(words);
  if constexpr (bytes == 64)
    words = reinterpret_cast<U32>(__builtin_ia32_pmaddubsw512_mask(of, ones, I16{}, ~uint32_t{0}));
  else words = reinterpret_cast<U32>(__builtin_ia32_pmaddubsw256(of, ones));
}
#endif

/// Counts the set bits of every byte: adds neighbours, then pairs, then fours.
template <typename V>
BITMMA_INLINE void count_in_bytes(V& bits) {
#if BITMMA_NEON
  if constexpr (sizeof(V) == 16) {
    bits = reinterpret_cast<V>(vcntq_u8(reinterpret_cast<uint8x16_t>(bits)));
    return;
  }
#endif
  bits -= (bits >> 1) & 0x55555555u;
  bits = (bits & 0x33333333u) + ((bits >> 2) & 0x33333333u);
  bits = (bits + (bits >> 4)) & 0x0F0F0F0Fu;
}

/// Counts the set bits of every word.
template <typename V>
BITMMA_INLINE void count_bits(V& words) {
  count_in_bytes(words);
  words = (words * 0x01010101u) >> 24;
}

}  // namespace
}  // namespace bitmma::kernels
