// SPDX-License-Identifier: MIT
// Rounds a sum to a code: round_to (formats/round.hpp) for vectors, for the two roundings of the hardware, f32 toward
// zero and f16 to nearest even.
//
//   1. Shift the sum left until its leading one is the highest bit.
//   2. Drop the bits below the last place; for a subnormal result these are more.
//   3. Add exponent and mantissa: the hidden bit makes normals, subnormals and carries alike.
#pragma once

#include <array>

#include "kernels.hpp"
#include "vector.hpp"

namespace bitmma::kernels {
namespace {

/// A sum in units of 2^(max_exponent - fraction_bits): its magnitude in 32 bits, and its sign.
template <int bytes>
struct Sum {
  typename Vectors<bytes>::U32 magnitude;
  typename Vectors<bytes>::I32 sign;  // 0 or -1
};

/// `number` shifted left until its leading one is bit 31, and the shift count. A zero stays zero.
template <int bytes>
BITMMA_INLINE void normalise(typename Vectors<bytes>::U32& number, typename Vectors<bytes>::I32& moved) {
  using I32 = typename Vectors<bytes>::I32;
  using U32 = typename Vectors<bytes>::U32;
#if BITMMA_NEON
  if constexpr (bytes == 16) {
    moved = reinterpret_cast<I32>(vclzq_u32(number | 1));
    number <<= reinterpret_cast<U32>(moved);
    return;
  }
#endif
  if constexpr (bytes == 64) {  // AVX-512 counts leading zeros, and the compiler recognises this loop
    std::array<uint32_t, bytes / 4> in;
    std::array<int32_t, bytes / 4> out;
    store(number | 1, in.data());
    for (size_t i = 0; i < in.size(); ++i) out[i] = __builtin_clz(in[i]);
    load(moved, out.data());
    number <<= reinterpret_cast<U32>(moved);
  } else {
    moved = I32{};
    for (const int step : {16, 8, 4, 2, 1}) {
      const I32 by = reinterpret_cast<I32>(number & ~(~0u >> step)) == 0 ? I32{} + step : I32{};
      number <<= reinterpret_cast<U32>(by);
      moved += by;
    }
  }
}

/// The same for 64-bit numbers, approximately: the leading one reaches the upper 32 bits, but bit 63 only from 2^56 on.
template <int bytes>
BITMMA_INLINE void normalise(typename Vectors<bytes>::U64& number, typename Vectors<bytes>::I64& moved) {
  using I64 = typename Vectors<bytes>::I64;
  using U64 = typename Vectors<bytes>::U64;
#if BITMMA_X86_BUILTINS
  if constexpr (bytes == 64) {
    const auto nonzero = reinterpret_cast<I64>(number | 1);  // so that the count stays below 64
    moved = __builtin_ia32_vplzcntq_512_mask(nonzero, nonzero, static_cast<uint8_t>(~0));
    number <<= reinterpret_cast<U64>(moved);
    return;
  }
#endif
  moved = I64{};
  for (const int step : {32, 16, 8}) {
    const I64 by = (number & ~(~uint64_t{0} >> step)) == 0 ? I64{} + step : I64{};
    number <<= reinterpret_cast<U64>(by);
    moved += by;
  }
}

/// Rounds the sum to a code of `output`, like round_to for vectors; a test compares the two.
template <Format output, int bytes>
BITMMA_INLINE void round_sum(const OutputConstants& format, const Sum<bytes>& sum,
                             const typename Vectors<bytes>::I32& max_exponent, int fraction_bits,
                             typename Vectors<bytes>::U32& d) {
  using I32 = typename Vectors<bytes>::I32;
  using U32 = typename Vectors<bytes>::U32;
  constexpr int mantissa_bits = info(output).mantissa_bits;
  U32 magnitude = sum.magnitude;
  I32 zeros;
  normalise<bytes>(magnitude, zeros);
  // How far the exponent of that bit is above the smallest exponent. Below the smallest one the last place is fixed,
  // and more bits are dropped.
  const I32 over = max_exponent + (31 - fraction_bits + format.bias - 1) - zeros;
  const I32 none{};
  I32 below = none - over, normal = over;
  raise_to(below, none);
  raise_to(normal, none);
  I32 code;
  if constexpr (output == Format::f16) {
    // One sticky bit replaces the lowest eight. Ties go to even; less than half of the last place is
    // dropped.
    const U32 sticky = (magnitude >> 8) | ((magnitude & 0xFF) == 0 ? U32{} : U32{} + 1);
    constexpr int normal_drop = 23 - mantissa_bits;
    limit_to(below, 25 - normal_drop);
    const U32 drop = reinterpret_cast<U32>(below + normal_drop);
    const U32 u32 = (U32{} + 1) << drop;
    code = reinterpret_cast<I32>((sticky + (u32 >> 1) - 1 + ((sticky >> drop) & 1)) >> drop);
  } else {
    code = reinterpret_cast<I32>(magnitude >> (31 - mantissa_bits));
    shift_right<bytes>(code, below);
    code &= static_cast<int32_t>(format.kept_mask);
  }
  // With the hidden bit, one addition makes normals, subnormals and carries alike. Exponents are below 2^9, so 32 bits
  // suffice.
  U32 finite = reinterpret_cast<U32>(code) + (reinterpret_cast<U32>(normal) << mantissa_bits);
  limit_to(finite, static_cast<uint32_t>(format.infinity));
  d = code == 0 ? U32{} : finite | reinterpret_cast<U32>(sum.sign & format.sign_bit);  // a zero result is always +0
}

}  // namespace
}  // namespace bitmma::kernels
