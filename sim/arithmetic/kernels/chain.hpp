// SPDX-License-Identifier: MIT
// Chains of fused sums, where D of a step is C of the next: the building blocks of whole products. A few rows and a
// strip of columns, two vectors wide, pass through all steps before the next ones; accumulators stay decoded in
// registers. A step:
//
//   find_largest    the largest exponent of the products of every output
//   align_row       e_max, and C truncated by it
//   add_products    truncates and adds products, in one part or two, and counts negative ones
//   take            adds C and rounds the sum
//
// The two halves of a strip share vectors of 16-bit numbers: column j is in the lower half of word j, the corresponding
// column of the right half in the upper one.
#pragma once

#include <algorithm>
#include <array>

#include "decode.hpp"
#include "fused.hpp"
#include "round.hpp"

namespace bitmma::kernels {
namespace {

/// A 16-bit number in both halves of a word. (GCC 12 fills a vector of 16-bit numbers lane by lane.)
constexpr int32_t twice(int32_t number) {
  return static_cast<int32_t>((static_cast<uint32_t>(number) & 0xFFFF) * 0x10001u);
}

/// Decodes codes, and accumulates the range of their exponents. `small`: for formats with small exponents, of which
/// every sum is plain, it is that of the formats; and there are no block scales.
template <int bytes, bool small = false>
struct ChainNumbers : DecodedNumbers<bytes> {
  using I32 = typename Vectors<bytes>::I32;
  I32 special;  // -1: there is a NaN or infinity in this lane
  I32 lowest = I32{} + 4096, highest = I32{} - 4096;

  /// `scale`: the exponents of block scales, or zeros.
  BITMMA_INLINE void take(const DecodeConstants& format, const typename Vectors<bytes>::U32& word, int shift,
                          const I32& scale) {
    const I32 none{};
    this->decode(format, word, shift, 0);
    const I32 is_special = (this->code & format.special_mask) == format.special_code ? none - 1 : none;
    special |= is_special;
    if constexpr (small) return;
    this->exponent += scale, this->finite_exponent += scale;
    // Outputs with NaN or infinity are computed again: their exponents must not affect the range.
    raise_to(highest, is_special == 0 ? this->exponent : none - 4096);
    const I32 low = this->whole == 0 ? none + 4096 : this->finite_exponent;
    lowest = low < lowest ? low : lowest;
  }

  BITMMA_INLINE void report(ExponentRange& range) const {
    if constexpr (small) {
      range = {.lowest = least_small_exponent, .highest = most_small_exponent};
      return;
    }
    std::array<int32_t, bytes / 4> numbers;
    store(lowest, numbers.data());
    range.lowest = std::min(range.lowest, *std::ranges::min_element(numbers));
    store(highest, numbers.data());
    range.highest = std::max(range.highest, *std::ranges::max_element(numbers));
  }
};

/// Loads the codes from number `first` on, and zeros from number `end` on.
template <int bytes>
BITMMA_INLINE void load_codes(typename Vectors<bytes>::U32& word, const uint32_t* codes, int first, int end) {
  constexpr int lanes = bytes / 4;
  const int count = end - first;
  const uint32_t* const from = count > 0 ? codes + first : codes;
  if (count >= lanes) return load(word, from);
  std::array<uint32_t, lanes> last{};
  for (int lane = 0; lane < count; ++lane) last[static_cast<size_t>(lane)] = from[lane];
  load(word, last.data());
}

/// Raises exponents by those of products: of rows of A, `a_stride` words apart, and a strip of B.
template <typename V, int rows>
BITMMA_INLINE void raise_to_products(const int32_t* a, int a_stride, const int32_t* b, int terms, V (&largest)[rows]) {
  constexpr int lanes = sizeof(V) / 4;
  for (int term = 0; term < terms; ++term) {
    V of_b;
    load(of_b, b + static_cast<size_t>(term) * lanes);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r)
      raise_to<V>(largest[r], of_b + reinterpret_cast<V>(typename Vectors<sizeof(V)>::I32{} +
                                                         a[static_cast<size_t>(r) * a_stride + term]));
  }
}

/// Bits [first, first + count) of a row of them, at most 32.
inline uint32_t bits_at(const uint64_t* bits, int first, int count) {
  const uint64_t low = bits[first / 64] >> first % 64, high = bits[first / 64 + 1] << 1 << (63 - first % 64);
  return static_cast<uint32_t>((low | high) & ((uint64_t{1} << count) - 1));
}

/// Decodes all rows of A, the last one repeatedly up to a multiple of chain_rows. Steps that follow each other in K
/// are decoded together. `Layout` stores numbers of some terms, and signs of a step, in the job's arrays.
template <int bytes, typename Layout, bool small = false>
BITMMA_INLINE void decode_rows_of_a(const ChainDecoding& args) {
  const ChainDecoding job = args;
  constexpr int lanes = bytes / 4, rows_ahead = 4;
  ChainNumbers<bytes, small> numbers;
  for (int row = 0; row < round_up(job.lines, chain_rows); ++row) {
    const int line = std::min(row, job.lines - 1);
    const int from = job.pairs_rows ? line / 16 * 16 + line % 16 / 2 + line % 2 * 8 : line;
    const uint32_t* const codes = job.codes + static_cast<size_t>(from) * job.codes_stride;
    const uint32_t* const later =
        codes + static_cast<size_t>(std::min(rows_ahead, job.lines - 1 - from)) * job.codes_stride;
    numbers.special = typename Vectors<bytes>::I32{};
    const auto scale = typename Vectors<bytes>::I32{} + (job.scales ? job.scales[from] : 0);
    for (size_t step = 0; step < job.steps.size();) {
      const ChainStep& first = job.steps[step];
      size_t end = step + 1;
      int terms = first.terms;
      for (; end < job.steps.size() && job.steps[end].first == first.first + terms; ++end)
        terms += job.steps[end].terms;
      std::array<uint64_t, most_chain_terms / 64 + 1> negative{};
      for (int term = 0; term < terms; term += lanes) {
        __builtin_prefetch(later + first.first + term);  // rows are in separate pages
        typename Vectors<bytes>::U32 word;
        load_codes<bytes>(word, codes + first.first, term, terms);
        numbers.take(job.format, word, job.shift, scale);
        Layout::put(job, row, static_cast<size_t>(first.at + term), numbers);
        negative[static_cast<size_t>(term / 64)] |= uint64_t{sign_bits<bytes>(numbers.sign)} << term % 64;
      }
      for (; step < end; ++step) {
        const ChainStep& chain_step = job.steps[step];
        Layout::put_signs(job, row, chain_step, bits_at(negative.data(), chain_step.at - first.at, chain_step.terms));
      }
    }
    job.special[row] |= sign_bits<bytes>(numbers.special);
  }
  numbers.report(*job.range);
}

template <int bytes>
struct PairsOfA {
  BITMMA_INLINE static void put(const ChainDecoding& job, int row, size_t at, const ChainNumbers<bytes>& numbers) {
    const size_t to = static_cast<size_t>(row) * job.stride + at;
    store(numbers.pair, job.number + to);
    store((numbers.exponent & 0xFFFF) | (numbers.exponent << 16), job.exponent + to);
  }
  BITMMA_INLINE static void put_signs(const ChainDecoding& job, int row, const ChainStep& step, uint32_t signs) {
    job.negative[static_cast<size_t>(row) * static_cast<size_t>(job.decoded_steps) + static_cast<size_t>(step.number)] =
        step.terms <= 16 ? signs * 0x10001u : signs;
  }
};

template <int bytes>
BITMMA_INLINE void decode_chain_a(const ChainDecoding& job) {
  decode_rows_of_a<bytes, PairsOfA<bytes>>(job);
}

/// Decodes all strips of one row of B, reading the row from end to end.
template <int bytes>
BITMMA_INLINE void decode_chain_b(const ChainDecoding& args) {
  using I32 = typename Vectors<bytes>::I32;
  const ChainDecoding job = args;
  constexpr int lanes = bytes / 4, strip = 2 * lanes;
  const auto words = static_cast<size_t>(job.decoded_steps);
  ChainNumbers<bytes> numbers[2];
  for (const ChainStep step : job.steps) {
    for (int term = 0; term < step.terms; ++term) {
      const uint32_t* codes = job.codes + static_cast<size_t>(step.first + term) * job.codes_stride;
      const uint32_t* const next = codes + (term + 1 < step.terms ? job.codes_stride : 0);
      size_t to = static_cast<size_t>(step.at + term) * lanes;
      uint32_t* negative = job.negative + static_cast<size_t>(step.number) * strip;
      for (int first = 0; first < job.lines; first += strip) {
        I32 signs[2];
#pragma GCC unroll 2
        for (int v = 0; v < 2; ++v) {
          __builtin_prefetch(next + std::min(first + v * lanes, job.lines - 1));  // rows are in separate pages
          typename Vectors<bytes>::U32 word;
          load_codes<bytes>(word, codes, first + v * lanes, job.lines);
          load(numbers[v].special, job.special + first + v * lanes);
          I32 scale{};
          if (job.scales) load(scale, job.scales + first + v * lanes);
          numbers[v].take(job.format, word, job.shift, scale);
          store(numbers[v].special, job.special + first + v * lanes);
          store(numbers[v].pair, job.number + 2 * to + v * lanes);
          signs[v] = I32{};
          if (term > 0) load(signs[v], negative + v * lanes);
          signs[v] |= numbers[v].sign & static_cast<int32_t>(1u << term);
        }
        if (step.terms <= 16 && term + 1 == step.terms) signs[0] |= signs[1] << 16;
        store((numbers[0].exponent & 0xFFFF) | (numbers[1].exponent << 16), job.exponent + to);
#pragma GCC unroll 2
        for (int v = 0; v < 2; ++v) store(signs[v], negative + v * lanes);
        to += static_cast<size_t>(job.stride) * lanes, negative += words * strip;
      }
    }
  }
  numbers[0].report(*job.range);
  numbers[1].report(*job.range);
}

/// An accumulator between steps. `plain` supports neither infinity nor subnormals: bit 30 is the leading bit, or
/// everything is zero; bits are inverted if it is negative, and the exponent is that of the leading bit. Otherwise
/// codes are decoded and rounded in every step.
template <int bytes, bool plain>
struct ChainState {
  typename Vectors<bytes>::I32 number, exponent;
};
template <int bytes>
struct ChainState<bytes, false> {
  typename Vectors<bytes>::U32 code;
};

/// Counts the set bits in the lower and the upper two bytes of every word, or in all four.
template <int bytes>
BITMMA_INLINE void count_in_halves(typename Vectors<bytes>::U32& words) {
#if BITMMA_X86_BUILTINS
  if constexpr (bytes >= 32) {
    using U32 = typename Vectors<bytes>::U32;
    U32 low = words & 0x0F0F0F0Fu, high = (words >> 4) & 0x0F0F0F0Fu;
    look_up_nibbles<bytes>(low);
    look_up_nibbles<bytes>(high);
    words = low + high;
    add_byte_pairs<bytes>(words);
    return;
  }
#endif
  count_in_bytes(words);
  words = (words + (words >> 8)) & 0x00FF00FFu;
}

/// Runs the steps for some rows of a strip.
template <int bytes, int rows, bool two_parts, bool plain, Format output>
struct ChainSteps {
  using I16 = typename Vectors<bytes>::I16;
  using I32 = typename Vectors<bytes>::I32;
  using U32 = typename Vectors<bytes>::U32;
  using State = ChainState<bytes, plain>;
  static constexpr int lanes = bytes / 4, strip = 2 * lanes, mantissa_bits = info(output).mantissa_bits;

  /// The state passed from one step to the next.
  struct Aligned {
    I32 c[rows][2];             // truncated to a multiple of 2^(e_max - F)
    I32 max_exponent[rows][2];  // plain: + 31 - F
    I16 max_exponent_plus_1[rows];
  };

  BITMMA_INLINE static void read(const ChainSum& job, int row, int v, State& state) {
    U32 code{};
    if (job.c) load(code, job.c + static_cast<size_t>(row - job.first_row) * job.d_stride + v * lanes);
    if constexpr (plain) {
      C<bytes> c;
      I32 unused{};
      decode_c<output, bytes>(job.output, code, 0, c, unused);
      state.number = (c.magnitude << (30 - mantissa_bits)) ^ c.sign;
      state.exponent = c.exponent;
    } else {
      state.code = code;
    }
  }

  BITMMA_INLINE static void write(const ChainSum& job, int row, int v, const State& state) {
    U32 code;
    if constexpr (plain) {
      const I32 sign = state.number >> 31, magnitude = state.number ^ sign;
      // The hidden bit adds one to the field.
      const I32 finite =
          (magnitude >> (30 - mantissa_bits)) + ((state.exponent + (job.output.bias - 1)) << mantissa_bits);
      code = magnitude == 0 ? U32{} : reinterpret_cast<U32>(finite | (sign & job.output.sign_bit));
    } else {
      code = state.code;
    }
    store(code, job.d + static_cast<size_t>(row - job.first_row) * job.d_stride + v * lanes);
  }

  /// The largest exponent of the products of every output, or the floor.
  BITMMA_INLINE static void find_largest(const ChainSum& job, int row, const ChainStep& step, I16 (&largest)[rows]) {
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) largest[r] = reinterpret_cast<I16>(I32{} + twice(job.floor_exponent));
    raise_to_products(job.a_exponent + static_cast<size_t>(row) * job.a_stride + step.at, job.a_stride,
                      job.b_exponent + static_cast<size_t>(step.at) * lanes, step.terms, largest);
  }

  /// e_max of one vector, raised by C, and C truncated to its unit.
  BITMMA_INLINE static void align(const ChainSum& job, const State& state, I32& most, I32& biased, I32& of_c,
                                  I32& largest_field) {
    if constexpr (plain) {
      raise_to(most, state.exponent);
      biased = most + (31 - job.fraction_bits);
      of_c = state.number;
      shift_right<bytes>(of_c, biased - state.exponent - 1);
      of_c -= state.number >> 31;
    } else {
      const int up = std::max(0, job.fraction_bits - mantissa_bits),
                down = std::max(0, mantissa_bits - job.fraction_bits);
      C<bytes> c;
      decode_c<output, bytes>(job.output, state.code, 0, c, largest_field);
      raise_to(most, c.exponent);
      biased = most;
      of_c = (c.magnitude << up) ^ c.sign;
      shift_right<bytes>(of_c, most + down - c.exponent);
      of_c -= c.sign;
    }
  }

  BITMMA_INLINE static void align_row(const ChainSum& job, const I16& largest, const State (&state)[2], int r,
                                      Aligned& to, I32& largest_field) {
    const I32 both = reinterpret_cast<I32>(largest);
    I32 most[2] = {both << 16 >> 16, both >> 16};
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) align(job, state[v], most[v], to.max_exponent[r][v], to.c[r][v], largest_field);
    to.max_exponent_plus_1[r] = reinterpret_cast<I16>((most[0] & 0xFFFF) | (most[1] << 16)) + 1;
  }

  /// Counts the negative products of a row.
  BITMMA_INLINE static void count_negative(const uint32_t* b, uint32_t a, const ChainStep& step, U32 (&count)[2]) {
    load(count[0], b);
    count[0] ^= a;
    count_in_halves<bytes>(count[0]);
    if (step.terms <= 16) {
      count[1] = count[0] >> 16;
      count[0] &= 0xFFFF;
      return;
    }
    load(count[1], b + lanes);
    count[1] ^= a;
    count_in_halves<bytes>(count[1]);
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) count[v] = (count[v] + (count[v] >> 16)) & 0xFFFF;
  }

  /// Truncates and adds products [begin, end).
  BITMMA_INLINE static void add_products(const ChainSum& job, int row, const ChainStep& step, int begin, int end,
                                         const I16 (&max_exponent_plus_1)[rows], U32 (&sum)[rows][2]) {
    const size_t at_a = static_cast<size_t>(row) * job.a_stride + step.at;
    const int32_t* const a_exponent = job.a_exponent + at_a;
    const Pair* const a_pair = job.a_number + at_a;
    const int32_t* const b_exponent = job.b_exponent + static_cast<size_t>(step.at) * lanes;
    const Pair* const b_pair = job.b_number + static_cast<size_t>(step.at) * strip;
    const int a_stride = job.a_stride;
    for (int term = begin; term < end; ++term) {
      I16 exponent;
      load(exponent, b_exponent + static_cast<size_t>(term) * lanes);
      I32 pair[2];
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) load(pair[v], b_pair + static_cast<size_t>(term) * strip + v * lanes);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        const size_t of_a = static_cast<size_t>(r) * a_stride + term;
        const I16 drops = max_exponent_plus_1[r] - exponent - reinterpret_cast<I16>(I32{} + a_exponent[of_a]);
        I32 products[2];
        multiply_pairs<bytes>(pair, a_pair[of_a], products);
        shift_right<bytes>(products, drops);
#pragma GCC unroll 2
        for (int v = 0; v < 2; ++v) sum[r][v] += reinterpret_cast<U32>(products[v]);
      }
    }
  }

  /// Adds C and rounds the sum.
  BITMMA_INLINE static void take(const ChainSum& job, const U32& part, const U32& more, const I32& of_c,
                                 const I32& max_exponent, State& state) {
    const I32 parts[2] = {reinterpret_cast<I32>(part), reinterpret_cast<I32>(more)};
    Sum<bytes> sum;
    add_up<bytes>(parts[0], two_parts ? &parts[1] : nullptr, of_c, sum);
    if constexpr (plain) {
      I32 zeros;
      normalise<bytes>(sum.magnitude, zeros);
      const uint32_t kept = job.output.kept_mask << (31 - mantissa_bits);
      state.number = reinterpret_cast<I32>((sum.magnitude & kept) >> 1) ^ sum.sign;
      state.exponent = reinterpret_cast<I32>(sum.magnitude) < 0 ? max_exponent - zeros : I32{} + exponent_of_zero;
    } else {
      round_sum<output, bytes>(job.output, sum, max_exponent + 1, job.fraction_bits + 1, state.code);
    }
  }

  BITMMA_INLINE static void run(const ChainSum& job, int row) {
    I32 largest_field{};
    I16 largest[rows];
    Aligned aligned;
    find_largest(job, row, job.steps[0], largest);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      State state[2];
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) read(job, row + r, v, state[v]);
      align_row(job, largest[r], state, r, aligned, largest_field);
    }
    const ChainStep *step = job.steps.data(), *const last = step + job.steps.size() - 1;
    const auto decoded_steps = static_cast<size_t>(job.decoded_steps);
    const uint32_t* const a_negative = job.a_negative + static_cast<size_t>(row) * decoded_steps;
    for (;; ++step) {
      U32 sum[rows][2], more[rows][2]{};
      const auto number = static_cast<size_t>(step->number);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r)
        count_negative(job.b_negative + number * strip, a_negative[static_cast<size_t>(r) * decoded_steps + number],
                       *step, sum[r]);
      const int end_of_part = two_parts ? std::min(job.terms_per_part, step->terms) : step->terms;
      add_products(job, row, *step, 0, end_of_part, aligned.max_exponent_plus_1, sum);
      if constexpr (two_parts)
        add_products(job, row, *step, end_of_part, step->terms, aligned.max_exponent_plus_1, more);
      if (step == last) {
#pragma GCC unroll 4
        for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
          for (int v = 0; v < 2; ++v) {
            State state;
            take(job, sum[r][v], more[r][v], aligned.c[r][v], aligned.max_exponent[r][v], state);
            write(job, row + r, v, state);
          }
        }
        break;
      }
      // Pass the result of a step directly to the next one.
      find_largest(job, row, step[1], largest);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        State state[2];
#pragma GCC unroll 2
        for (int v = 0; v < 2; ++v)
          take(job, sum[r][v], more[r][v], aligned.c[r][v], aligned.max_exponent[r][v], state[v]);
        align_row(job, largest[r], state, r, aligned, largest_field);
      }
    }
    if constexpr (!plain) {
      if (contains(largest_field, static_cast<int32_t>(info(output).exponent_mask())))
        job.special[row / chain_rows] = 1;
    }
  }
};

template <int bytes, bool two_parts, bool plain, Format output>
BITMMA_INLINE void sum_chain(const ChainSum& args) {
  const ChainSum job = args;
  constexpr int together = many_registers<bytes> && plain ? 4 : 2;
  static_assert(chain_rows % together == 0);
  for (int row = job.first_row; row < job.first_row + job.rows; row += together)
    ChainSteps<bytes, together, two_parts, plain, output>::run(job, row);
}

template <int bytes, Format output>
BITMMA_INLINE void sum_chain(const ChainSum& job) {
  if constexpr (output == Format::f32) {
    if (job.plain && !job.any_c)
      return job.two_parts ? sum_chain<bytes, true, true, output>(job) : sum_chain<bytes, false, true, output>(job);
  }
  return job.two_parts ? sum_chain<bytes, true, false, output>(job) : sum_chain<bytes, false, false, output>(job);
}

}  // namespace
}  // namespace bitmma::kernels
