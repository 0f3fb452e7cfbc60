// SPDX-License-Identifier: MIT
// Words of f32 with the operations of GPU code. Each is one IEEE 754 operation to nearest even on the host. It flushes
// subnormal numbers where the GPU's code does, and takes a note if `Flush` asks for one. Use it only inside an
// IeeeEnvironment (ieee_environment.hpp). NaN payloads are the host's until `canonical`.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "ieee_environment.hpp"
#include "mufu.hpp"

namespace bitmma::math {

/// Which operations read and write subnormal numbers as zeros of the same sign (.ftz).
struct Flush {
  uint8_t which = 0;
  bool is_noted = false;  // `notes` records every operation

  static const Flush none;
  static const Flush calls;  // only instructions that the library calls by name, not + - * < of its source
  static const Flush all;
  constexpr Flush noted() const { return {.which = which, .is_noted = true}; }
  /// True if the same operations flush.
  friend constexpr bool operator==(Flush a, Flush b) { return a.which == b.which; }
};
inline constexpr Flush Flush::none{.which = 0}, Flush::calls{.which = 1}, Flush::all{.which = 2};

/// One computed operation, for callers that ask how a result is made.
struct Note {
  struct Operand {
    uint32_t word = 0;
    int from = -1;  // its note; -1: a constant, or from integers; -2 and -3: the arguments
  };
  std::string_view operation = {};
  std::vector<Operand> operands = {};
  uint32_t result = 0;
  bool is_read = false;  // by integer code, which takes no notes
};
inline thread_local std::vector<Note>* notes = nullptr;
/// Adds a note and returns its index. Not inlined: loops over words take no notes, so this need not be fast.
[[gnu::noinline]] inline int take_note(std::string_view operation, std::initializer_list<Note::Operand> operands,
                                       uint32_t result) {
  notes->push_back({.operation = operation, .operands = operands, .result = result});
  return static_cast<int>(notes->size()) - 1;
}
[[gnu::noinline]] inline void mark_read(int note) {
  if (note >= 0) (*notes)[static_cast<std::size_t>(note)].is_read = true;
}

/// The origin of a number, as in Note::Operand::from; empty if no notes are taken.
template <bool is_noted>
struct Origin {};
template <>
struct Origin<true> {
  int from = -1;
};

inline float flushed(float x) {
  const uint32_t word = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>(pick((word & infinity_f32) != 0, word, word & 0x80000000));
}

/// Returns x, a product or sum with .ftz, or zero if x rounded to 24 bits with unbounded exponents is below 2^-126.
/// `raised` is the same product or sum times 2^64. Where it decides, no factor is so large that it overflows.
inline float flushed_below(float raised, float x) {
  const bool tiny = (std::bit_cast<uint32_t>(raised) & 0x7FFFFFFF) < std::bit_cast<uint32_t>(0x1p-62F);
  const uint32_t word = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>(pick(tiny, word & 0x80000000, word));
}
inline float flushed_product(float a, float b) { return flushed_below((a * 0x1p64F) * b, a * b); }
inline float flushed_fma(float a, float b, float c) {
  return flushed_below(__builtin_fmaf(a * 0x1p64F, b, c * 0x1p64F), __builtin_fmaf(a, b, c));
}

template <Flush flush>
struct F32 : Origin<flush.is_noted> {
  float value = 0;

  F32() = default;
  explicit F32(float x) : value(x) {}
  static F32 of(uint32_t word) { return F32(std::bit_cast<float>(word)); }

  /// The word that integer code reads.
  uint32_t word() const { return std::bit_cast<uint32_t>(number()); }
  float number() const {
    if constexpr (flush.is_noted) {
      mark_read(this->from);
    }
    return value;
  }

  /// Returns `result` with a note of operation(operands...).
  template <typename... Operands>
  static F32 noted([[maybe_unused]] std::string_view operation, F32 result,
                   [[maybe_unused]] const Operands&... operands) {
    if constexpr (flush.is_noted) {
      result.from = take_note(operation, {{.word = std::bit_cast<uint32_t>(operands.value), .from = operands.from}...},
                              std::bit_cast<uint32_t>(result.value));
    }
    return result;
  }

  /// A value as an operator (or an instruction called by its name) reads or writes it.
  static float at_operator(float x) { return flush == Flush::all ? flushed(x) : x; }
  static float at_call(float x) { return flush != Flush::none ? flushed(x) : x; }
  static float product_of(bool flushes, float a, float b) {
    return flushes ? flushed_product(flushed(a), flushed(b)) : a * b;
  }
  static float sum_of(bool flushes, float a, float b, float c) {
    return flushes ? flushed_fma(flushed(a), flushed(b), flushed(c)) : __builtin_fmaf(a, b, c);
  }

  friend F32 operator+(F32 a, F32 b) {
    return noted("add", F32(at_operator(at_operator(a.value) + at_operator(b.value))), a, b);
  }
  friend F32 operator-(F32 a, F32 b) {
    return noted("sub", F32(at_operator(at_operator(a.value) - at_operator(b.value))), a, b);
  }
  friend F32 operator*(F32 a, F32 b) {
    return noted("mul", F32(product_of(flush == Flush::all, a.value, b.value)), a, b);
  }
  friend F32 operator-(F32 a) { return noted("neg", of(bits(a) ^ 0x80000000), a); }
  friend bool operator<(F32 a, F32 b) { return at_operator(a.value) < at_operator(b.value); }
  friend bool operator>(F32 a, F32 b) { return b < a; }
  friend bool operator>=(F32 a, F32 b) { return at_operator(a.value) >= at_operator(b.value); }
  friend bool operator==(F32 a, F32 b) { return at_operator(a.value) == at_operator(b.value); }

  friend F32 fma(F32 a, F32 b, F32 c) {
    return noted("fma", F32(sum_of(flush != Flush::none, a.value, b.value, c.value)), a, b, c);
  }
  /// A product and a sum of the source that the compiler joined into one operation.
  friend F32 joined(F32 a, F32 b, F32 c) {
    return noted("fma", F32(sum_of(flush == Flush::all, a.value, b.value, c.value)), a, b, c);
  }
  friend F32 mul_rn(F32 a, F32 b) {
    return noted("mul", F32(product_of(flush != Flush::none, a.value, b.value)), a, b);
  }
  friend F32 add_rn(F32 a, F32 b) { return noted("add", F32(at_call(at_call(a.value) + at_call(b.value))), a, b); }
  friend F32 abs(F32 a) { return noted("abs", F32(at_call(of(bits(a) & 0x7FFFFFFF).value)), a); }
  friend F32 pick(bool condition, F32 yes, F32 no) {
    F32 picked = of(pick(condition, bits(yes), bits(no)));
    if constexpr (flush.is_noted) picked.from = condition ? yes.from : no.from;
    return picked;
  }
  friend F32 with_sign_of(F32 sign, F32 magnitude) {
    return noted("copysign", of((bits(magnitude) & 0x7FFFFFFF) | (bits(sign) & 0x80000000)), magnitude, sign);
  }

 private:
  static uint32_t bits(F32 a) { return std::bit_cast<uint32_t>(a.value); }
};

/// The special function unit's functions, .approx.ftz, even if the surrounding code does not flush.
template <Flush flush>
F32<flush> unit_ex2(F32<flush> x) {
  return F32<flush>::noted("MUFU.EX2", F32<flush>::of(mufu_ex2(x.word())), x);
}
template <Flush flush>
F32<flush> unit_rcp(F32<flush> x) {
  return F32<flush>::noted("MUFU.RCP", F32<flush>::of(mufu_rcp(x.word())), x);
}
template <Flush flush>
F32<flush> unit_lg2(F32<flush> x) {
  return F32<flush>::noted("MUFU.LG2", F32<flush>::of(mufu_lg2(x.word())), x);
}
template <Flush flush>
F32<flush> unit_rsq(F32<flush> x) {
  return F32<flush>::noted("MUFU.RSQ", F32<flush>::of(mufu_rsq(x.word())), x);
}

// The same functions in the mode of the surrounding code. The unit itself always flushes: without .ftz, products around
// it preserve subnormal numbers (SASS of CUDA 13 for sm_90a).

/// 1 if the magnitude is at least 2^-126, else 2^24.
template <Flush flush>
F32<flush> scale_of_tiny(F32<flush> x) {
  return F32<flush>::of(pick((x.word() & 0x7FFFFFFF) < 0x00800000, 0x4B800000, one_f32));
}
template <Flush flush>
F32<flush> ex2(F32<flush> x) {
  using F = F32<flush>;
  if (flush != Flush::none) return unit_ex2(x);
  const bool small = x < F(-126);
  const F y = unit_ex2(pick(small, x * F(0.5F), x));
  return pick(small, y * y, y);
}
template <Flush flush>
F32<flush> lg2(F32<flush> x) {
  using F = F32<flush>;
  if (flush != Flush::none) return unit_lg2(x);
  const F scale = scale_of_tiny(x), y = unit_lg2(x * scale);
  return pick(scale > F(1), y + F(-24), y);
}
template <Flush flush>
F32<flush> rsqrt(F32<flush> x) {
  using F = F32<flush>;
  if (flush != Flush::none) return unit_rsq(x);
  const F scale = scale_of_tiny(x), y = unit_rsq(x * scale);
  return y * pick(scale > F(1), F(4096), F(1));
}
/// a / b as div.approx computes it.
template <Flush flush>
F32<flush> quotient(F32<flush> a, F32<flush> b) {
  if (flush != Flush::none) return a * unit_rcp(b);
  const F32<flush> scale = scale_of_tiny(b);
  return unit_rcp(b * scale) * (a * scale);
}
/// a / b as div.full computes it, which also scales a large b.
template <Flush flush>
F32<flush> full_quotient(F32<flush> a, F32<flush> b) {
  using F = F32<flush>;
  const F scale = pick(abs(b) > F::of(0x7E800000), F(0.25F), scale_of_tiny(b));  // 2^126
  return unit_rcp(b * scale) * (a * scale);
}

/// c[0] x^(n - 1) + ... + c[n - 1] as a chain of fma. The pragma unrolls it: an inner loop would prevent the compiler
/// from vectorising loops over words.
template <Flush flush, std::size_t count>
F32<flush> polynomial(F32<flush> x, const uint32_t (&coefficients)[count]) {
  F32<flush> sum = F32<flush>::of(coefficients[0]);
#pragma GCC unroll 16
  for (std::size_t i = 1; i < count; ++i) sum = fma(sum, x, F32<flush>::of(coefficients[i]));
  return sum;
}

/// The integer nearest to an x of a magnitude below 2^22, ties to even.
inline int32_t nearest_integer(float x) {
  return static_cast<int32_t>(std::bit_cast<uint32_t>(x + 12582912.0F) - 0x4B400000);  // 1.5 * 2^23
}

/// Rounds to an integer, as cvt.rni, .rzi and .rmi do; a zero keeps its sign.
template <Flush flush>
F32<flush> to_nearest_integer(F32<flush> x) {
  const bool has_fraction = (x.word() & 0x7FFFFFFF) < 0x4A800000;  // 2^22
  const F32<flush> rounded((pick(has_fraction, x, F32<flush>()).value + 12582912.0F) - 12582912.0F);
  return F32<flush>::noted("cvt.rni", pick(has_fraction, with_sign_of(x, rounded), x), x);
}
template <Flush flush>
F32<flush> truncated(F32<flush> x) {
  const bool has_fraction = (x.word() & 0x7FFFFFFF) < 0x4B000000;  // 2^23
  const F32<flush> cut(static_cast<float>(static_cast<int32_t>(pick(has_fraction, x, F32<flush>()).value)));
  return F32<flush>::noted("cvt.rzi", pick(has_fraction, with_sign_of(x, cut), x), x);
}

/// x + 1 rounded toward zero: the nearest sum, minus one step if it exceeds the exact sum.
template <Flush flush>
F32<flush> add_one_toward_zero(F32<flush> x) {
  const float a = F32<flush>::at_call(x.value), sum = a + 1.0F, part = sum - a;
  const float error = (a - (sum - part)) + (1.0F - part);  // exact - sum, if finite
  const bool beyond = ((error < 0) & (sum > 0)) | ((error > 0) & (sum < 0));
  const F32<flush> result(F32<flush>::at_call(F32<flush>::of(std::bit_cast<uint32_t>(sum) - beyond).value));
  return F32<flush>::noted("add.rz", result, x, F32<flush>(1));
}

inline uint32_t canonical(uint32_t word) { return pick((word & 0x7FFFFFFF) > infinity_f32, nan_f32, word); }

}  // namespace bitmma::math
