// SPDX-License-Identifier: MIT
// Sums of exact groups of 16 e2m1 products, aligned by the exponents of their scales. Three steps per output:
//
//   find_group_sums     sums 16 products per group, exactly, in quarters
//   scale_groups        multiplies by both scales; e_max is the largest of their exponents, of C and of the floor
//   add_groups          truncates every group and C to a multiple of 2^(e_max - F), and adds them in 64 bits
//
// A vector of 16-bit numbers corresponds to two of 32-bit and four of 64-bit ones. Intermediate numbers are in arrays.
#pragma once

#include <array>
#include <cstring>
#include <utility>

#include "decode.hpp"
#include "round.hpp"

namespace bitmma::kernels {
namespace {

/// The outputs of one vector of 16-bit numbers.
template <int bytes>
struct GroupSteps {
  using I16 = typename Vectors<bytes>::I16;
  using I32 = typename Vectors<bytes>::I32;
  using U32 = typename Vectors<bytes>::U32;
  using I64 = typename Vectors<bytes>::I64;
  using U64 = typename Vectors<bytes>::U64;
  using Half16 = typename Vectors<bytes>::Half16;
  using Half32 = typename Vectors<bytes>::Half32;
  static constexpr int lanes = bytes / 2, lanes32 = bytes / 4, lanes64 = bytes / 8;
  using Row32 = std::array<int32_t, lanes>;

  std::array<Row32, most_groups> sums, any;               // in quarters; for a sparse A, if a term is non-zero
  std::array<Row32, most_groups + 1> numbers, exponents;  // the last row is c
  Row32 max_exponents, lacking;
  std::array<uint32_t, lanes> magnitudes;
  Row32 signs, leading;

  /// Widens 16-bit numbers to 32 bits.
  BITMMA_INLINE static void store_wide(const I16& narrow, Row32& wide) {
    std::array<int16_t, lanes> numbers;
    store(narrow, numbers.data());
    for (int at = 0; at < lanes; at += lanes32) {
      Half16 half;
      I32 whole;
      load(half, numbers.data() + at);
      widen<bytes>(half, whole);
      store(whole, wide.data() + at);
    }
  }

  /// Every term multiplies its own row of B. Products of halves are quarters of at most 144, and sixteen of them fit in
  /// 16 bits.
  BITMMA_INLINE void find_sparse_sum(const GroupSum& job, const int16_t* a, const uint16_t* selected_k, int first,
                                     int g) {
    const int begin = g * group_size;
    I16 sum{}, bits{};
    for (int term = begin; term < begin + group_size; ++term) {
      I16 b;
      load(b, job.b + static_cast<size_t>(selected_k[term]) * job.b_stride + first);
      sum += b * a[term];
      const int16_t counts = a[term] == 0 ? 0 : -1;
      bits |= b & counts;
    }
    store_wide(sum, sums[g]);
    store_wide(bits, any[g]);
  }

  BITMMA_INLINE void find_dense_sum(const GroupSum& job, const int16_t* a, int first, int g) {
    const int begin = g * group_size;
    I32 low{}, high{};
#pragma GCC unroll 8
    for (int term = begin; term < begin + group_size; term += 2) {
      int32_t a_pair;
      std::memcpy(&a_pair, a + term, sizeof a_pair);
      const int32_t* const b_row = job.b_pairs + static_cast<size_t>(term / 2) * job.b_stride + first;
      I32 b[2], products[2];
      load(b[0], b_row);
      load(b[1], b_row + lanes32);
      multiply_pairs<bytes>(b, a_pair, products);
      low += products[0];
      high += products[1];
    }
    store(low, sums[g].data());
    store(high, sums[g].data() + lanes32);
  }

  BITMMA_INLINE void find_group_sums(const GroupSum& job, int row, int first, int groups) {
    const int16_t* const a = job.a + static_cast<size_t>(row) * job.terms;
    const uint16_t* const selected_k = job.selected_k ? job.selected_k + static_cast<size_t>(row) * job.terms : nullptr;
    for (int g = 0; g < groups; ++g) {
      if (selected_k) find_sparse_sum(job, a, selected_k, first, g);
      else find_dense_sum(job, a, first, g);
    }
  }

  /// Takes C of some columns: raises e_max, and records where C is negative.
  BITMMA_INLINE void take_c(const GroupSum& job, const uint32_t* from, int groups, int at, I32& max_exponent,
                            I32& negative, I32& largest_field) {
    U32 word;
    load(word, from);
    C<bytes> c;
    decode_c<Format::f32, bytes>(job.output, word, job.c_scale, c, largest_field);
    raise_to(max_exponent, c.exponent);
    const I32 number = (c.magnitude ^ c.sign) - c.sign;
    negative = number >> 31;  // excludes a negative zero
    store(number, numbers[static_cast<size_t>(groups)].data() + at);
    store(c.exponent, exponents[static_cast<size_t>(groups)].data() + at);
  }

  /// Multiplies one group by both scales. A group that cancels keeps its exponent; an empty group has none.
  BITMMA_INLINE void scale_group(const GroupSum& job, int row, int first, int groups, int g, int at, I32& max_exponent,
                                 I32& negative) {
    const Scale& of_a = job.a_scales[static_cast<size_t>(row) * groups + g];
    const size_t of_b = static_cast<size_t>(g) * job.b_stride + first + at;
    I32 sum, significand, exponent, bits;
    load(sum, sums[g].data() + at);
    load(significand, job.b_significands + of_b);
    load(exponent, job.b_exponents + of_b);
    exponent += of_a.exponent;
    if (job.selected_k) {
      load(bits, any[g].data() + at);
    } else {
      load(bits, job.b_nonzero + of_b);
      bits &= job.a_nonzero[static_cast<size_t>(row) * groups + g];
    }
    const I32 counting = bits == 0 ? I32{} + exponent_of_zero : exponent;
    raise_to(max_exponent, counting);
    const I32 whole = sum * (significand * of_a.significand);
    negative += whole >> 31;
    store(whole, numbers[g].data() + at);
    store(exponent, exponents[g].data() + at);
  }

  BITMMA_INLINE void scale_groups(const GroupSum& job, int row, int first, int groups, I32& largest_field) {
    for (int at = 0; at < lanes; at += lanes32) {
      I32 max_exponent = I32{} + job.floor_exponent, negative{};
      if (job.c && first + at < job.cols)
        take_c(job, job.c + static_cast<size_t>(row) * job.d_stride + first + at, groups, at, max_exponent, negative,
               largest_field);
      for (int g = 0; g < groups; ++g) scale_group(job, row, first, groups, g, at, max_exponent, negative);
      max_exponent += 1;  // because numbers are doubled below
      store(max_exponent, max_exponents.data() + at);
      store(-negative, lacking.data() + at);
    }
  }

  BITMMA_INLINE static void load_wide(I64& wide, const int32_t* from) {
    Half32 narrow;
    load(narrow, from);
    widen<bytes>(narrow, wide);
  }

  /// Truncates and adds group g, or C. As with products of pairs, numbers are doubled, and a negative one is one less:
  /// then shifts truncate toward zero but leave one less, which `lacking` compensates.
  BITMMA_INLINE void add_truncated(int g, int at, int up, const I64& max_exponent, I64& sum) {
    I64 number, exponent;
    load_wide(number, numbers[static_cast<size_t>(g)].data() + at);
    load_wide(exponent, exponents[static_cast<size_t>(g)].data() + at);
    number <<= up + 1;
    number += number >> 63;
    shift_right<bytes>(number, max_exponent - exponent);  // negative only for an empty group
    sum += number;
  }

  /// The part of a 64-bit sum that f32 needs fits in 32 bits.
  BITMMA_INLINE void add_groups(const GroupSum& job, int groups) {
    for (int at = 0; at < lanes; at += lanes64) {
      I64 max_exponent, sum;
      load_wide(max_exponent, max_exponents.data() + at);
      load_wide(sum, lacking.data() + at);
      for (int g = 0; g < groups; ++g) add_truncated(g, at, job.fraction_bits - group_fraction_bits, max_exponent, sum);
      if (job.c) add_truncated(groups, at, job.fraction_bits - info(Format::f32).mantissa_bits, max_exponent, sum);

      const I64 sum_sign = sum >> 63;
      U64 left = reinterpret_cast<U64>((sum ^ sum_sign) - sum_sign);
      I64 moved;
      normalise<bytes>(left, moved);
      max_exponent -= moved;
      const Half32 high = __builtin_convertvector(left >> 32, Half32),
                   narrow_sign = __builtin_convertvector(sum_sign, Half32),
                   narrow_exponent = __builtin_convertvector(max_exponent, Half32);
      store(high, magnitudes.data() + at);
      store(narrow_sign, signs.data() + at);
      store(narrow_exponent, leading.data() + at);
    }
  }

  BITMMA_INLINE void finish(const GroupSum& job, int row, int first) {
    for (int at = 0; at < lanes && first + at < job.cols; at += lanes32) {
      Sum<bytes> sum;
      I32 max_exponent;
      load(sum.magnitude, magnitudes.data() + at);
      load(sum.sign, signs.data() + at);
      load(max_exponent, leading.data() + at);
      U32 code;
      round_sum<Format::f32, bytes>(job.output, sum, max_exponent, job.fraction_bits + 1 - 32, code);
      store(code, job.d + static_cast<size_t>(row) * job.d_stride + first + at);
    }
  }

  /// Outputs (row, first ...).
  BITMMA_INLINE void run(const GroupSum& job, int row, int first, I32& largest_field) {
    const int groups = job.terms / group_size;
    find_group_sums(job, row, first, groups);
    scale_groups(job, row, first, groups, largest_field);
    add_groups(job, groups);
    finish(job, row, first);
  }
};

template <int bytes>
BITMMA_INLINE bool sum_groups(const GroupSum& args) {
  const GroupSum job = args;
  if constexpr (bytes > 32) {  // half a vector is enough
    if (job.cols <= 16) return sum_groups<32>(job);
  }
  typename Vectors<bytes>::I32 largest_field{};
  for (int first = 0; first < job.cols; first += bytes / 2) {
    for (int row = 0; row < job.rows; ++row) {
      GroupSteps<bytes> steps;
      steps.run(job, row, first, largest_field);
    }
  }
  return contains(largest_field, static_cast<int32_t>(info(Format::f32).exponent_mask()));
}

}  // namespace
}  // namespace bitmma::kernels
