// SPDX-License-Identifier: MIT
#include "fma_loops.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "../core/cpu_level.hpp"
#include "../core/words.hpp"
#include "../formats/sixteen_bits.hpp"
#include "../math/ieee_environment.hpp"

namespace bitmma {
namespace {

/// `count` codes from code `at` on.
template <int count>
BITMMA_INLINE void load_codes(double (&numbers)[count], const void* codes, std::ptrdiff_t at) {
  std::memcpy(numbers, static_cast<const char*>(codes) + at * 8, sizeof numbers);
}

template <int rows, int cols>
BITMMA_INLINE bool add_block(const F64Chains& job, int row, int col) {
  const auto place = [](int line, int stride) { return static_cast<std::ptrdiff_t>(line) * stride; };
  double sums[rows][cols];
  for (int r = 0; r < rows; ++r) load_codes(sums[r], job.d, place(row + r, job.d_stride) + col);
  for (int k = 0; k < job.terms; ++k) {
    double of_b[cols];
    load_codes(of_b, job.b, place(k, job.b_stride) + col);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      double of_a[1];
      load_codes(of_a, job.a, place(row + r, job.a_stride) + k);
      const double factor = job.negate ? -of_a[0] : of_a[0];
#pragma GCC unroll 1
      for (int i = 0; i < cols; ++i) sums[r][i] = __builtin_fma(factor, of_b[i], sums[r][i]);
    }
  }
  bool has_nan = false;
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < cols; ++i) has_nan |= sums[r][i] != sums[r][i];
    std::memcpy(static_cast<char*>(job.d) + (place(row + r, job.d_stride) + col) * 8, sums[r], sizeof sums[r]);
  }
  return has_nan;
}

template <int rows>
BITMMA_INLINE bool add_rows(const F64Chains& job, int row) {
  bool has_nan = false;
  int col = 0;
  for (; col + 8 <= job.cols; col += 8) has_nan |= add_block<rows, 8>(job, row, col);
  for (; col < job.cols; ++col) has_nan |= add_block<rows, 1>(job, row, col);
  return has_nan;
}

BITMMA_INLINE bool add_all(const F64Chains& args) {
  const F64Chains job = args;  // a copy that the stores cannot change
  bool has_nan = false;
  int row = 0;
  for (; row + 4 <= job.rows; row += 4) has_nan |= add_rows<4>(job, row);
  for (; row < job.rows; ++row) has_nan |= add_rows<1>(job, row);
  return has_nan;
}

BITMMA_INLINE uint32_t f32_word(float x) { return x != x ? 0x7FFFFFFF : std::bit_cast<uint32_t>(x); }

/// Converts `count` codes.
template <bool is_f16, int count>
BITMMA_INLINE void load_floats(float (&numbers)[count], const uint32_t* codes) {
  uint32_t words[count];
  std::memcpy(words, codes, sizeof words);
#pragma GCC unroll 1
  for (int i = 0; i < count; ++i) numbers[i] = std::bit_cast<float>(is_f16 ? f32_of_f16(words[i]) : words[i]);
}

/// Some rows of A as floats, which all columns read.
struct QuadsOfA {
  static constexpr int most = 32;
  int first, end;
  float numbers[4 * most];

  BITMMA_INLINE void load(const F16Quads& job) {
    const uint32_t* const codes = job.a + std::ptrdiff_t{4} * first;
    const uint32_t flip = job.negate ? 0x8000 : 0;
    for (int i = 0; i < 4 * (end - first); ++i) numbers[i] = std::bit_cast<float>(f32_of_f16(codes[i] ^ flip));
  }
};

/// Columns col ... col + cols - 1. Rows that select the same rows of B follow each other.
template <bool has_c, bool c_is_f16, bool d_is_f16, int cols>
BITMMA_INLINE void multiply_cols(const F16Quads& job, const QuadsOfA& a, int col) {
  const auto place = [&](int row) { return static_cast<std::ptrdiff_t>(row) * job.cols + col; };
  constexpr uint16_t ascending[4]{0, 1, 2, 3};
  const uint16_t* selected = nullptr;
  float y[4][cols];
  for (int row = a.first; row < a.end; ++row) {
    const uint16_t* const k = job.selected_k ? job.selected_k + std::ptrdiff_t{4} * row : ascending;
    if (!selected || std::memcmp(selected, k, sizeof ascending) != 0) {
      for (int j = 0; j < 4; ++j) load_floats<true>(y[j], job.b + place(k[j]));
      selected = k;
    }
    const float* const x = a.numbers + 4 * (row - a.first);
    float c[cols];
    if constexpr (has_c) load_floats<c_is_f16>(c, job.c + place(row));
    uint32_t d[cols];
#pragma GCC unroll 1
    for (int i = 0; i < cols; ++i) {
      if constexpr (d_is_f16) {
        const float first = __builtin_fmaf(x[1], y[1][i], x[0] * y[0][i]),
                    second = __builtin_fmaf(x[3], y[3][i], x[2] * y[2][i]);
        d[i] = f16_code(f32_word((has_c ? c[i] + first : first) + second));
      } else {
        float sum = 0;
        for (int j = 0; j < 4; ++j) sum = __builtin_fmaf(x[j], y[j][i], sum);
        d[i] = f32_word(has_c ? c[i] + sum : sum);
      }
    }
    std::memcpy(job.d + place(row), d, sizeof d);
  }
}

template <bool has_c, bool c_is_f16, bool d_is_f16>
BITMMA_INLINE void multiply_quads(const F16Quads& args) {
  const F16Quads job = args;
  for (int first = 0; first < job.rows; first += QuadsOfA::most) {
    QuadsOfA a;
    a.first = first, a.end = std::min(first + QuadsOfA::most, job.rows);
    a.load(job);
    int col = 0;
    for (; col + 8 <= job.cols; col += 8) multiply_cols<has_c, c_is_f16, d_is_f16, 8>(job, a, col);
    for (; col < job.cols; ++col) multiply_cols<has_c, c_is_f16, d_is_f16, 1>(job, a, col);
  }
}

BITMMA_INLINE void multiply_all(const F16Quads& job) {
  if (job.d_is_f16) return job.c ? multiply_quads<true, true, true>(job) : multiply_quads<false, true, true>(job);
  if (!job.c) return multiply_quads<false, false, false>(job);
  return job.c_is_f16 ? multiply_quads<true, true, false>(job) : multiply_quads<true, false, false>(job);
}

struct Loops {
  bool (*f64)(const F64Chains&) = nullptr;
  void (*f16)(const F16Quads&) = nullptr;
};

#define BITMMA_FMA_LOOPS(space, target)                                                \
  namespace space {                                                                    \
  BITMMA_IN_ENVIRONMENT target bool f64(const F64Chains& job) { return add_all(job); } \
  BITMMA_IN_ENVIRONMENT target void f16(const F16Quads& job) { multiply_all(job); }    \
  constexpr Loops loops{f64, f16};                                                     \
  }

BITMMA_AT_CPU_LEVELS(BITMMA_FMA_LOOPS)
#if defined(__aarch64__)
constexpr bool baseline_fuses = true;
#else
constexpr bool baseline_fuses = false;  // there the compiler calls a function of C
#endif
constexpr std::array by_level{v4::loops, v3::loops, baseline_fuses ? baseline::loops : Loops{}};

}  // namespace

bool has_fma_loops(Rounding rounding) {
  return at_cpu_level(by_level).f64 != nullptr && math::IeeeEnvironment::has(rounding);
}

bool add_products(const F64Chains& job) {
  const math::IeeeEnvironment environment(job.rounding);
  return at_cpu_level(by_level).f64(job);
}

void multiply(const F16Quads& job) {
  const math::IeeeEnvironment environment;
  at_cpu_level(by_level).f16(job);
}

}  // namespace bitmma
