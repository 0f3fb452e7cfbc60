// SPDX-License-Identifier: MIT
#include "exact_steps.hpp"

#include <array>
#include <bit>

#include "../core/cpu_level.hpp"
#include "../core/words.hpp"
#include "../math/ieee_environment.hpp"
#include "kernels/kernels.hpp"

namespace bitmma {
namespace {

constexpr int rows = 8, cols = 16, most_terms = 32;
/// F of the rows for which 32 bits suffice: 16 * (2^4 - 1)^2 * 2^(F - 6) and the first sum are below 2^31.
constexpr int most_fraction_bits = 25;

struct Values {
  int32_t bits = 0;           // of all magnitudes
  int32_t largest_field = 0;  // a code without its sign
};

/// Integers in units of the format's smallest number. Those that do not fit have a larger code than any that does.
template <int mantissa_bits>
BITMMA_INLINE Values take_values(const uint32_t* codes, int count, int32_t* values) {
  constexpr int32_t hidden_bit = 1 << mantissa_bits;
  int32_t bits = 0, largest = 0;
  for (int i = 0; i < count; ++i) {
    const auto code = static_cast<int32_t>(codes[i]), magnitude_code = code & 0x7F;
    const int32_t field = magnitude_code >> mantissa_bits;
    const int32_t whole = (magnitude_code & (hidden_bit - 1)) | (field == 0 ? 0 : hidden_bit);
    const uint32_t magnitude = static_cast<uint32_t>(whole) << (field == 0 ? 0 : field - 1),
                   sign = 0u - (codes[i] >> 7 & 1);
    bits |= static_cast<int32_t>(magnitude);
    largest = magnitude_code > largest ? magnitude_code : largest;
    values[i] = static_cast<int32_t>((magnitude ^ sign) - sign);
  }
  return {bits, largest};
}

BITMMA_INLINE int32_t pair_of(int32_t low, int32_t high, int shift) {
  return ((low >> shift) & 0xFFFF) | static_cast<int32_t>(static_cast<uint32_t>(high >> shift) << 16);
}

/// Pairs of 16 bits from neighbouring rows of A^T, and from neighbours in rows of B^T, whose first halves come first.
BITMMA_INLINE void pair_up(const int32_t* of_a, const int32_t* of_b, int terms, int a_shift, int b_shift, int32_t* a,
                           int32_t* b) {
  for (int i = 0; i < terms / 2; ++i) {
    for (int col = 0; col < cols; ++col)
      a[i * cols + col] = pair_of(of_a[2 * i * cols + col], of_a[(2 * i + 1) * cols + col], a_shift);
  }
  const int pairs = terms / 4;
  for (int step = 0; step < 2; ++step) {
    for (int row = 0; row < rows; ++row, b += pairs) {
      const int32_t* const from = of_b + row * terms + step * 2 * pairs;
      for (int i = 0; i < pairs; ++i) b[i] = pair_of(from[2 * i], from[2 * i + 1], b_shift);
    }
  }
}

/// Two truncations to f32, of the first sum and of the second one added to it. Inside an environment that rounds toward
/// zero: conversions truncate, and no other operation rounds.
BITMMA_INLINE void truncate_sums(const uint32_t* first, const uint32_t* second, float unit, uint32_t* d) {
  for (int i = 0; i < rows * cols; ++i) {
    const auto c = static_cast<int32_t>(static_cast<float>(static_cast<int32_t>(first[i])));
    d[i] = std::bit_cast<uint32_t>(static_cast<float>(c + static_cast<int32_t>(second[i])) * unit);
  }
}

struct Loops {
  Values (*take_e4m3)(const uint32_t*, int, int32_t*);
  Values (*take_e5m2)(const uint32_t*, int, int32_t*);
  void (*pair_up)(const int32_t*, const int32_t*, int, int, int, int32_t*, int32_t*);
  void (*truncate)(const uint32_t*, const uint32_t*, float, uint32_t*);
};

#define BITMMA_EXACT_LOOPS(space, target)                                                                              \
  namespace space {                                                                                                    \
  target Values e4m3(const uint32_t* c, int n, int32_t* v) { return take_values<3>(c, n, v); }                         \
  target Values e5m2(const uint32_t* c, int n, int32_t* v) { return take_values<2>(c, n, v); }                         \
  target void pair_up(const int32_t* of_a, const int32_t* of_b, int terms, int a_shift, int b_shift, int32_t* a,       \
                      int32_t* b) {                                                                                    \
    bitmma::pair_up(of_a, of_b, terms, a_shift, b_shift, a, b);                                                        \
  }                                                                                                                    \
  BITMMA_IN_ENVIRONMENT target void truncate(const uint32_t* first, const uint32_t* second, float unit, uint32_t* d) { \
    truncate_sums(first, second, unit, d);                                                                             \
  }                                                                                                                    \
  constexpr Loops loops{e4m3, e5m2, pair_up, truncate};                                                                \
  }

BITMMA_AT_CPU_LEVELS(BITMMA_EXACT_LOOPS)
constexpr std::array by_level{v4::loops, v3::loops, baseline::loops};

/// The units of one side: all values are multiples of 2^low and below 2^(low + range + 1).
struct Range {
  int low = 0, range = 0, exponent_of_one = 0;
};
std::optional<Range> range_of(Format format, const Values& values) {
  // The largest code whose value fits in 31 bits and is finite.
  const int32_t largest = format == Format::e4m3 ? 0x7E : 0x6F;
  if (values.bits == 0 || values.largest_field > largest) return std::nullopt;
  const int low = std::countr_zero(static_cast<uint32_t>(values.bits)),
            high = std::bit_width(static_cast<uint32_t>(values.bits)) - 1;
  if (high - low >= 15) return std::nullopt;
  return Range{
      .low = low, .range = high - low, .exponent_of_one = info(format).min_exponent() - info(format).mantissa_bits};
}

}  // namespace

bool may_have_exact_steps(const AccumulatorModel& model, Format a, Format b, int terms) {
  constexpr FormatSet fp8{Format::e4m3, Format::e5m2};
  return math::IeeeEnvironment::has(Rounding::toward_zero) && model.step_order == StepOrder::byte_pairs &&
         model.c_last && kernels::loop_of(model) == kernels::LoopId::f32_toward_zero &&
         model.fraction_bits == most_fraction_bits && model.output_fraction_bits == 23 &&
         kernels::floor_of(model) < -100 && fp8.contains(a) && fp8.contains(b) && terms % 16 == 0 &&
         terms <= most_terms;
}

void sum_pairs(const int32_t* a, const int32_t* b, int pairs, const uint32_t* c, bool saturate, uint32_t* d) {
  kernels::kernels().sum_integers({.a = a,
                                   .b = b,
                                   .b_stride = cols,
                                   .selected_k = nullptr,
                                   .rows = rows,
                                   .cols = cols,
                                   .terms = pairs,
                                   .pairs = true,
                                   .c = c,
                                   .saturate = saturate,
                                   .d = d,
                                   .d_stride = cols});
}

bool sum_exactly(const ExactSteps& job) {
  alignas(64) std::array<int32_t, most_terms * cols> values, a;
  alignas(64) std::array<int32_t, rows * most_terms> b_values, b;
  alignas(64) std::array<uint32_t, rows * cols> first, second;
  const Loops& loops = at_cpu_level(by_level);
  const auto take = [&](Format format) { return format == Format::e4m3 ? loops.take_e4m3 : loops.take_e5m2; };
  const int terms = job.terms, pairs = terms / 4;  // of one step
  const std::optional<Range> of_a = range_of(job.a_format, take(job.a_format)(job.a, terms * cols, values.data()));
  if (!of_a) return false;
  const std::optional<Range> of_b = range_of(job.b_format, take(job.b_format)(job.b, rows * terms, b_values.data()));
  if (!of_b || of_a->range + of_b->range > job.fraction_bits) return false;
  loops.pair_up(values.data(), b_values.data(), terms, of_a->low, of_b->low, a.data(), b.data());
  const auto sum = [&](int step, uint32_t* sums) {
    sum_pairs(b.data() + step * rows * pairs, a.data() + step * pairs * cols, pairs, nullptr, false, sums);
  };
  sum(0, first.data()), sum(1, second.data());
  int32_t bits = 0;
  for (const uint32_t sum_word : first) bits |= static_cast<int32_t>(sum_word) ^ static_cast<int32_t>(sum_word) >> 31;
  if (bits >> (job.fraction_bits + 1) != 0) return false;
  const int unit = of_a->low + of_b->low + of_a->exponent_of_one + of_b->exponent_of_one;
  const math::IeeeEnvironment environment(Rounding::toward_zero);
  loops.truncate(first.data(), second.data(), std::bit_cast<float>((unit + 127) << 23), job.d);
  return true;
}

}  // namespace bitmma
