// SPDX-License-Identifier: MIT
// Chains of sums whose aligned products fit in 16 bits: 8-bit types with 13 fraction bits. Two terms of a column share
// a word, so everything before the sum takes half as many instructions as in chain.hpp, which has the same steps.
//
//   |a| * b - 1 where b is negative    one instruction; after the right shift it is the truncated product,
//                                      or one less where b is negative
//   times the sign of a, and added     one more and an addition, two terms at once
//
// The sum of a's signs over negative b is added separately: each step counts bits once.
#pragma once

#include "chain.hpp"

#if BITMMA_X86_BUILTINS
namespace bitmma::kernels {
namespace {

template <int bytes>
struct BytesOfA {
  BITMMA_INLINE static void put(const ChainDecoding& job, size_t row, size_t to, const ChainNumbers<bytes>& numbers) {
    using Half16 = typename Vectors<bytes>::Half16;
    int16_t* const magnitude = reinterpret_cast<int16_t*>(job.pair + row) + to;
    store(__builtin_convertvector(numbers.magnitude | 0x100, Half16), magnitude);
    store(__builtin_convertvector(numbers.sign | 1, Half16), magnitude + job.stride);
    store(__builtin_convertvector(numbers.exponent, Half16), reinterpret_cast<int16_t*>(job.exponent + row) + to);
  }
  BITMMA_INLINE static uint32_t signs_of_step(uint32_t signs, int) { return signs; }
};

template <int bytes>
BITMMA_INLINE void decode_byte_chain_a(const ChainDecoding& job) {
  decode_rows_of_a<bytes, BytesOfA<bytes>>(job);
}

template <int bytes>
BITMMA_INLINE void decode_byte_chain_b(const ChainDecoding& given) {
  using I32 = typename Vectors<bytes>::I32;
  using U32 = typename Vectors<bytes>::U32;
  const ChainDecoding job = given;
  constexpr int lanes = bytes / 4, strip = 2 * lanes;
  const size_t words = job.steps.size();
  ChainNumbers<bytes> numbers;
  for (size_t number = 0; number < words; ++number) {
    const ChainStep step = job.steps[number];
    for (int term = 0; term < step.terms; ++term) {
      const uint32_t* const codes = job.codes + static_cast<size_t>(step.first + term) * job.codes_stride;
      const uint32_t* const next = codes + (term + 1 < step.terms ? job.codes_stride : 0);
      size_t to = static_cast<size_t>((step.at + term) / 2) * strip;
      uint32_t* negative = job.negative + number * 2 * strip;
      for (int first = 0; first < job.lines; first += lanes) {
        __builtin_prefetch(next + first);  // rows are in separate pages
        U32 word;
        load_codes<bytes>(word, codes + first, job.lines - first);
        load(numbers.special, job.special + first);
        numbers.take(job.format, word, job.shift);
        store(numbers.special, job.special + first);
        const I32 sign = numbers.magnitude == 0 ? I32{} : numbers.sign;
        const I32 signed_byte = (((numbers.magnitude ^ sign) - sign) & 0xFF) | (sign & 0xFF00);
        const int half = first % strip;
        I32 pair, exponent, signs{};
        if (term % 2 == 0) {
          pair = signed_byte;
          exponent = (numbers.exponent & 0xFFFF) | static_cast<int32_t>(static_cast<uint32_t>(exponent_of_zero) << 16);
        } else {
          load(pair, job.pair + to + half);
          load(exponent, job.exponent + to + half);
          pair |= signed_byte << 16;
          exponent = (exponent & 0xFFFF) | (numbers.exponent << 16);
        }
        store(pair, job.pair + to + half);
        store(exponent, job.exponent + to + half);
        if (term > 0) load(signs, negative + half);
        signs |= sign & static_cast<int32_t>(1u << term);
        store(signs, negative + half);
        if (term + 1 == step.terms) {
          U32 count = reinterpret_cast<U32>(signs);
          count_bits(count);
          store(count, negative + strip + half);
        }
        if (half != 0) to += static_cast<size_t>(job.stride / 2) * strip, negative += words * 2 * strip;
      }
      // The right half of the last strip may have no columns.
      if ((job.lines - 1) % strip < lanes) {
        const I32 none{};
        store(none, job.pair + to + lanes);
        store(none, job.exponent + to + lanes);
        store(none, negative + lanes);
        store(none, negative + strip + lanes);
      }
    }
  }
  numbers.report(*job.range);
}

template <int bytes, int rows, bool plain, Format output>
struct ByteSteps {
  using Steps = ChainSteps<bytes, rows, false, plain, output>;
  using I16 = typename Vectors<bytes>::I16;
  using I32 = typename Vectors<bytes>::I32;
  using U32 = typename Vectors<bytes>::U32;
  using State = ChainState<bytes, plain>;
  static constexpr int lanes = bytes / 4, strip = 2 * lanes;

  struct Aligned {
    I32 c[rows][2], max_exponent[rows][2];
    I16 in_both_halves[rows][2];
  };

  BITMMA_INLINE static void find_largest(const ChainSum& job, int row, const ChainStep& step, I16 (&largest)[rows][2]) {
    const int32_t* const a = job.a_exponent + static_cast<size_t>(row) * job.a_stride + step.at / 2;
    const int32_t* const b = job.b_exponent + static_cast<size_t>(step.at / 2) * strip;
    const int a_stride = job.a_stride, pairs = (step.terms + 1) / 2;
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r)
      largest[r][0] = largest[r][1] = reinterpret_cast<I16>(I32{} + twice(job.floor_exponent));
    for (int pair = 0; pair < pairs; ++pair) {
      I16 of_b[2];
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) load(of_b[v], b + static_cast<size_t>(pair) * strip + v * lanes);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        const I16 of_a = reinterpret_cast<I16>(I32{} + a[static_cast<size_t>(r) * a_stride + pair]);
#pragma GCC unroll 2
        for (int v = 0; v < 2; ++v) raise_to<I16>(largest[r][v], of_b[v] + of_a);
      }
    }
  }

  BITMMA_INLINE static void align(const ChainSum& job, const I16& largest, const State& state, int r, int v,
                                  Aligned& to, I32& largest_field) {
    const I32 both = reinterpret_cast<I32>(largest);
    I32 most = both << 16 >> 16;
    raise_to<I32>(most, both >> 16);
    Steps::align(job, state, most, to.max_exponent[r][v], to.c[r][v], largest_field);
    to.in_both_halves[r][v] = reinterpret_cast<I16>((most & 0xFFFF) | (most << 16));
  }

  /// Adds the signs of a where b is negative.
  BITMMA_INLINE static void add_signs(const uint32_t* b, uint32_t a, U32& sum) {
    U32 both, count;
    load(both, b);
    load(count, b + strip);
    both &= a;
    count_in_halves<bytes>(both);
    both = (both + (both >> 16)) & 0xFFFF;
    sum = count - both - both;
  }

  BITMMA_INLINE static void add_products(const ChainSum& job, int row, const ChainStep& step, const Aligned& aligned,
                                         U32 (&sum)[rows][2]) {
    const size_t of_row = static_cast<size_t>(row) * job.a_stride;
    const int32_t* const a_exponent = job.a_exponent + of_row + step.at / 2;
    const Pair* const a_pair = job.a_pair + of_row + step.at / 2;
    const size_t at_b = static_cast<size_t>(step.at / 2) * strip;
    const int a_stride = job.a_stride, pairs = (step.terms + 1) / 2;
    for (int pair = 0; pair < pairs; ++pair) {
      I32 number[2];
      I16 exponent[2];
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) {
        load(number[v], job.b_pair + at_b + static_cast<size_t>(pair) * strip + v * lanes);
        load(exponent[v], job.b_exponent + at_b + static_cast<size_t>(pair) * strip + v * lanes);
      }
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        const size_t of_a = static_cast<size_t>(r) * a_stride + pair;
        const I16 raise = reinterpret_cast<I16>(I32{} + a_exponent[of_a]);
        const I32 magnitude = I32{} + a_pair[of_a], sign = I32{} + a_pair[of_a + a_stride / 2];
#pragma GCC unroll 2
        for (int v = 0; v < 2; ++v) {
          I16 product;
          multiply_bytes<bytes>(magnitude, number[v], product);
          shift_right<bytes>(product, aligned.in_both_halves[r][v] - exponent[v] - raise);
          I32 signed_products;
          multiply_pairs<bytes>(reinterpret_cast<I32>(product), sign, signed_products);
          sum[r][v] += reinterpret_cast<U32>(signed_products);
        }
      }
    }
  }

  BITMMA_INLINE static void run(const ChainSum& job, int row) {
    I32 largest_field{};
    I16 largest[rows][2];
    Aligned aligned;
    find_largest(job, row, job.steps[0], largest);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) {
        State state;
        Steps::read(job, row + r, v, state);
        align(job, largest[r][v], state, r, v, aligned, largest_field);
      }
    }
    const ChainStep *step = job.steps.data(), *const last = step + job.steps.size() - 1;
    const uint32_t *b_negative = job.b_negative,
                   *a_negative = job.a_negative + static_cast<size_t>(row) * job.steps.size();
    const U32 no_more{};
    for (;; ++step, ++a_negative, b_negative += 2 * strip) {
      U32 sum[rows][2];
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
        for (int v = 0; v < 2; ++v)
          add_signs(b_negative + v * lanes, a_negative[static_cast<size_t>(r) * job.steps.size()], sum[r][v]);
      }
      add_products(job, row, *step, aligned, sum);
      const bool is_last = step == last;
      if (!is_last) find_largest(job, row, step[1], largest);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
        for (int v = 0; v < 2; ++v) {
          State state;
          Steps::take(job, sum[r][v], no_more, aligned.c[r][v], aligned.max_exponent[r][v], state);
          if (is_last) Steps::write(job, row + r, v, state);
          else align(job, largest[r][v], state, r, v, aligned, largest_field);
        }
      }
      if (is_last) break;
    }
    if constexpr (!plain) {
      if (contains(largest_field, static_cast<int32_t>(info(output).exponent_mask())))
        job.special[row / chain_rows] = 1;
    }
  }
};

template <int bytes, bool plain, Format output>
BITMMA_INLINE void run_byte_chain(const ChainSum& given) {
  const ChainSum job = given;
  for (int row = 0; row < job.rows; row += chain_rows) ByteSteps<bytes, chain_rows, plain, output>::run(job, row);
}

template <int bytes, Format output>
BITMMA_INLINE void sum_byte_chain(const ChainSum& job) {
  if constexpr (output == Format::f32) {
    if (job.plain) return run_byte_chain<bytes, true, output>(job);
  }
  run_byte_chain<bytes, false, output>(job);
}

}  // namespace
}  // namespace bitmma::kernels
#endif
