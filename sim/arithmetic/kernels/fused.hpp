// SPDX-License-Identifier: MIT
// Fused sums: every product and C is truncated to a multiple of 2^(e_max - F) and added, and the sum is rounded once.
// With AVX-512 and AVX2, fma_chain.hpp computes most dense sums of 16 terms or more; with AVX-512, warp.hpp those of
// mma.sync.
// Three steps, each a short loop whose constants stay in registers:
//
//   find_max_exponents    finds e_max of every output, over products, C and the floor; truncates C to its unit
//   add_products          truncates and adds products, in one part or two, and counts negative ones
//   finish                adds the parts and C, and rounds
//
// Intermediate results are in job.scratch. The outer loop runs over columns and the inner one over rows, so that a
// block of B and its sums stay in the L1 cache.
#pragma once

#include <algorithm>
#include <array>
#include <limits>

#include "decode.hpp"
#include "round.hpp"

namespace bitmma::kernels {
namespace {

/// x + c, or x + y + c. The magnitude fits in 32 bits, as the caller guarantees; the sign needs a 33rd bit.
template <int bytes>
BITMMA_INLINE void add_up(const typename Vectors<bytes>::I32& x, const typename Vectors<bytes>::I32* y,
                          const typename Vectors<bytes>::I32& c, Sum<bytes>& sum) {
  using U32 = typename Vectors<bytes>::U32;
  U32 low = reinterpret_cast<U32>(x) + reinterpret_cast<U32>(c);
  if (y) {
    low += reinterpret_cast<U32>(*y);
    const auto half = (x >> 1) + (*y >> 1) + (c >> 1) + (((x & 1) + (*y & 1) + (c & 1)) >> 1);
    sum.sign = half >> 31;
  } else {
    // If all numbers have one sign, it is the sign of the sum; otherwise 32 bits suffice.
    sum.sign = ((x & c) | ((x ^ c) & reinterpret_cast<typename Vectors<bytes>::I32>(low))) >> 31;
  }
  sum.magnitude = (low ^ reinterpret_cast<U32>(sum.sign)) - reinterpret_cast<U32>(sum.sign);
}

/// The steps for a block: `rows` rows from `row` on and `vectors` vectors of columns from `first` on. Signs of dense
/// products are counted in words, one bit per term; those of sparse products are taken from each product.
template <int bytes, int vectors_, bool dense, bool two_parts, Format output>
struct FusedSteps {
  using I32 = typename Vectors<bytes>::I32;
  using U32 = typename Vectors<bytes>::U32;
  static constexpr int vectors = vectors_, lanes = bytes / 4, block = vectors * lanes;

  using Narrow = typename Vectors<2 * block>::I16;  // all columns of the block
  using Half16 = typename Vectors<bytes>::Half16;   // the columns of one vector

  enum Kept { of_products, of_more_products, of_c, max_exponent_plus_1 };
  BITMMA_INLINE static int32_t* kept(const FusedSum& job, int row, Kept what) {
    return job.scratch + static_cast<size_t>(what * scratch_rows + row % scratch_rows) * block;
  }
  BITMMA_INLINE static size_t row_of_b(const FusedSum& job, int row, int term) {
    return static_cast<size_t>(dense ? term : job.selected_k[static_cast<size_t>(row) * job.terms + term]) *
           job.b.stride;
  }

  /// Truncates C of one vector to a multiple of 2^(e_max - F), after raising e_max to the exponent of C.
  BITMMA_INLINE static void align_c(const FusedSum& job, const uint32_t* from, I32& max_exponent, I32& aligned,
                                    I32& largest_field) {
    const int up = std::max(0, job.fraction_bits - info(output).mantissa_bits),
              down = std::max(0, info(output).mantissa_bits - job.fraction_bits);
    U32 word;
    load(word, from);
    C<bytes> c;
    decode_c<output, bytes>(job.output, word, job.c_scale, c, largest_field);
    raise_to(max_exponent, c.exponent);
    aligned = (c.magnitude << up) ^ c.sign;
    shift_right<bytes>(aligned, max_exponent + down - c.exponent);
    aligned -= c.sign;
  }

  /// The largest exponent of the products of every output.
  template <int rows>
  BITMMA_INLINE static void find_largest(const FusedSum& job, int row, int first, Narrow (&largest)[rows]) {
    const int16_t* a_exponent[rows];
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      a_exponent[r] = job.a.narrow_exponent + static_cast<size_t>(row + r) * job.a.stride;
      largest[r] = Narrow{} + std::numeric_limits<int16_t>::min();
    }
    for (int term = 0; term < job.terms; ++term) {
      Narrow of_b;
      load(of_b, job.b.narrow_exponent + row_of_b(job, row, term) + first);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) raise_to<Narrow>(largest[r], of_b + a_exponent[r][term]);
    }
  }

  /// Raises the exponents by the floor and by C and stores them; also truncates C.
  BITMMA_INLINE static void keep_max_exponents(const FusedSum& job, int row, int first, const Narrow& largest,
                                               const I32& floor, I32& largest_field) {
    std::array<int16_t, block> narrow;
    store(largest, narrow.data());
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      Half16 half;
      load(half, narrow.data() + v * lanes);
      I32 exponent;
      widen<bytes>(half, exponent);
      raise_to(exponent, floor);
      if (job.c) {
        I32 aligned;
        align_c(job, job.c + static_cast<size_t>(row) * job.d_stride + first + v * lanes, exponent, aligned,
                largest_field);
        store(aligned, kept(job, row, of_c) + v * lanes);
      }
      exponent += 1;
      store(exponent, kept(job, row, max_exponent_plus_1) + v * lanes);
    }
  }

  /// e_max: the largest exponent of products, C and the floor.
  template <int rows>
  BITMMA_INLINE static void find_max_exponents(const FusedSum& job, int row, int first, I32& largest_field) {
    Narrow largest[rows];
    find_largest<rows>(job, row, first, largest);
    const I32 floor = I32{} + job.floor_exponent;
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) keep_max_exponents(job, row + r, first, largest[r], floor, largest_field);
  }

  /// Counts the negative products of a row. A word has one bit per term; with up to 16 terms, two vectors share
  /// words.
  BITMMA_INLINE static void count_negative(const FusedSum& job, int row, int first, U32 (&count)[vectors]) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) load(count[v], job.b.negative + first + v * lanes);
    if (vectors == 2 && job.terms <= 16) {
      U32 both = (count[0] | count[vectors - 1] << 16) ^ (job.a.negative[row] * 0x10001u);
      count_in_bytes(both);
      both += both >> 8;
      count[0] = both & 0xFF;
      count[vectors - 1] = (both >> 16) & 0xFF;
      return;
    }
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      count[v] ^= job.a.negative[row];
      count_bits(count[v]);
    }
  }

  /// The sums of some rows, including the step for special values.
  template <int rows>
  struct Sums {
    I32 max_exponent[rows][vectors];
    U32 sum[rows][vectors];
    const int32_t* a_exponent[rows];
    const Pair* a_pair[rows];
  };

  /// Starts a sum with the correction for all negative products, whatever their part.
  template <int rows>
  BITMMA_INLINE static void begin_sums(const FusedSum& job, int row, int first, bool count, Sums<rows>& of) {
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      const size_t a = static_cast<size_t>(row + r) * job.a.stride;
      of.a_exponent[r] = job.a.exponent + a, of.a_pair[r] = job.a.pair + a;
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        load(of.max_exponent[r][v], kept(job, row + r, max_exponent_plus_1) + v * lanes);
        of.sum[r][v] = U32{};
      }
      if (dense && count) count_negative(job, row + r, first, of.sum[r]);
    }
  }

  /// Truncates one product per row and column to a multiple of 2^(e_max - F), and adds it.
  template <int rows>
  BITMMA_INLINE static void add_term(const FusedSum& job, size_t b, int term, Sums<rows>& of) {
    I32 exponent[vectors], pair[vectors];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      load(exponent[v], job.b.exponent + b + v * lanes);
      load(pair[v], job.b.pair + b + v * lanes);
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      I32 products[vectors];
      if constexpr (vectors == 2) multiply_pairs<bytes>(pair, of.a_pair[r][term], products);
      else multiply_pairs<bytes>(pair[0], I32{} + of.a_pair[r][term], products[0]);
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        const I32 drop = of.max_exponent[r][v] - exponent[v] - of.a_exponent[r][term];
        I32& product = products[v];
        if constexpr (!dense) of.sum[r][v] += reinterpret_cast<U32>(product) >> 31;
        shift_right<bytes>(product, drop);
        of.sum[r][v] += reinterpret_cast<U32>(product);
      }
    }
  }

  /// Computes the part of the sum over terms [begin, end).
  template <int rows>
  BITMMA_INLINE static void add_products(const FusedSum& job, int row, int first, int begin, int end, Kept what) {
    Sums<rows> of;
    begin_sums<rows>(job, row, first, begin == 0, of);
    for (int term = begin; term < end; ++term) add_term<rows>(job, row_of_b(job, row, term) + first, term, of);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) store(of.sum[r][v], kept(job, row + r, what) + v * lanes);
    }
  }

  template <int rows>
  BITMMA_INLINE static void add_products(const FusedSum& job, int row, int first) {
    add_products<rows>(job, row, first, 0, job.terms_per_part, of_products);
    if constexpr (two_parts) add_products<rows>(job, row, first, job.terms_per_part, job.terms, of_more_products);
  }

  /// Adds C and rounds the sum.
  BITMMA_INLINE static void finish(const FusedSum& job, int row, int first) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      I32 max_exponent, parts[2], c_part{};
      load(max_exponent, kept(job, row, max_exponent_plus_1) + v * lanes);
      load(parts[0], kept(job, row, of_products) + v * lanes);
      if constexpr (two_parts) load(parts[1], kept(job, row, of_more_products) + v * lanes);
      if (job.c) load(c_part, kept(job, row, of_c) + v * lanes);
      Sum<bytes> sum;
      add_up<bytes>(parts[0], two_parts ? &parts[1] : nullptr, c_part, sum);
      U32 code;
      round_sum<output, bytes>(job.output, sum, max_exponent, job.fraction_bits + 1, code);
      store(code, job.d + static_cast<size_t>(row) * job.d_stride + first + v * lanes);
    }
  }

  /// Runs all steps for the columns from `first` on, some rows at a time.
  BITMMA_INLINE static void run(const FusedSum& job, int first, I32& largest_field) {
    constexpr int four = dense ? 4 : 1, together = !dense         ? 1
                                                   : vectors == 1 ? 4
                                                                  : 2;  // rows that use the same rows of B
    for (int begin = 0; begin < job.rows; begin += scratch_rows) {
      const int end = std::min(job.rows, begin + scratch_rows);
      int row = begin;
      for (; row + four <= end; row += four) find_max_exponents<four>(job, row, first, largest_field);
      for (; row < end; ++row) find_max_exponents<1>(job, row, first, largest_field);
      for (row = begin; row + together <= end; row += together) add_products<together>(job, row, first);
      for (; row < end; ++row) add_products<1>(job, row, first);
      for (row = begin; row < end; ++row) finish(job, row, first);
    }
  }
};

template <int bytes, bool dense, bool two_parts, Format output>
BITMMA_INLINE bool sum_fused(const FusedSum& args) {
  const FusedSum job = args;  // a copy that stores cannot alias, so that it stays in registers
  using Two = FusedSteps<bytes, 2, dense, two_parts, output>;
  using One = FusedSteps<bytes, 1, dense, two_parts, output>;
  constexpr auto special = static_cast<int32_t>(info(output).exponent_mask());
  typename Vectors<bytes>::I32 largest_field{};
  const int cols = round_up(job.cols, fused_codes);
  int first = 0;
  for (; cols - first >= Two::block; first += Two::block) Two::run(job, first, largest_field);
  for (; cols - first >= One::block; first += One::block) One::run(job, first, largest_field);
  if constexpr (One::block > fused_codes) {
    typename Vectors<32>::I32 small_field{};
    if (first < cols) FusedSteps<32, 1, dense, two_parts, output>::run(job, first, small_field);
    if (contains(small_field, special)) return true;
  }
  return contains(largest_field, special);
}

template <int bytes, Format output>
BITMMA_INLINE bool sum_fused(const FusedSum& job) {
  const bool two_parts = job.terms_per_part < job.terms;
  // Dense first: g++ assumes the first branch is likely, which matters by 8 % of a product.
  if (!job.selected_k)
    return two_parts ? sum_fused<bytes, true, true, output>(job) : sum_fused<bytes, true, false, output>(job);
  return two_parts ? sum_fused<bytes, false, true, output>(job) : sum_fused<bytes, false, false, output>(job);
}

}  // namespace
}  // namespace bitmma::kernels
