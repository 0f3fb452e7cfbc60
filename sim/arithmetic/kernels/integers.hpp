// SPDX-License-Identifier: MIT
// Exact sums of integers, and of positions where both operands have a bit. They wrap modulo 2^32 or are clamped once.
#pragma once

#include <limits>

#include "kernels.hpp"
#include "vector.hpp"

namespace bitmma::kernels {
namespace {

/// Adds C to an exact sum, and wraps or clamps once.
template <int bytes>
BITMMA_INLINE void finish_integers(const typename Vectors<bytes>::I32& sum, const uint32_t* c, bool saturate,
                                   uint32_t* d) {
  using I32 = typename Vectors<bytes>::I32;
  using U32 = typename Vectors<bytes>::U32;
  U32 of_c{};
  if (c) load(of_c, c);
  const I32 wrapped = reinterpret_cast<I32>(reinterpret_cast<U32>(sum) + of_c);
  const I32 overflown = ((sum ^ wrapped) & (reinterpret_cast<I32>(of_c) ^ wrapped)) >> 31;
  const I32 clamped = overflown != 0 ? (sum >> 31) ^ std::numeric_limits<int32_t>::max() : wrapped;
  store(saturate ? clamped : wrapped, d);
}

/// The sums of some rows; dense rows use the same rows of B.
template <int bytes, bool pairs, int rows>
BITMMA_INLINE void sum_rows(const IntegerSum& job, int row, int first) {
  using I32 = typename Vectors<bytes>::I32;
  const int32_t* const a = job.a + static_cast<size_t>(row) * job.terms;
  const uint16_t* const selected_k = job.selected_k ? job.selected_k + static_cast<size_t>(row) * job.terms : nullptr;
  I32 sums[rows]{};
  for (int term = 0; term < job.terms; ++term) {
    I32 b;
    load(b, job.b + static_cast<size_t>(selected_k ? selected_k[term] : term) * job.b_stride + first);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      const int32_t factor = a[static_cast<size_t>(r) * job.terms + term];
      if constexpr (pairs) {
        I32 products;
        multiply_pairs<bytes>(b, I32{} + factor, products);
        sums[r] += products;
      } else {
        sums[r] += b * factor;
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
    const size_t at = static_cast<size_t>(row + r) * job.d_stride + first;
    finish_integers<bytes>(sums[r], job.c ? job.c + at : nullptr, job.saturate, job.d + at);
  }
}

template <int bytes, bool pairs>
BITMMA_INLINE void sum_terms(const IntegerSum& args) {
  const IntegerSum job = args;
  constexpr int lanes = bytes / 4;
  for (int first = 0; first < job.cols; first += lanes) {
    int row = 0;
    for (; row + 4 <= job.rows && !job.selected_k; row += 4) sum_rows<bytes, pairs, 4>(job, row, first);
    for (; row < job.rows; ++row) sum_rows<bytes, pairs, 1>(job, row, first);
  }
}

template <int bytes>
BITMMA_INLINE void sum_integers(const IntegerSum& job) {
  if (job.pairs) sum_terms<bytes, true>(job);
  else sum_terms<bytes, false>(job);
}

template <int bytes>
BITMMA_INLINE void sum_popcounts(const PopcountSum& args) {
  const PopcountSum job = args;
  using I32 = typename Vectors<bytes>::I32;
  using U32 = typename Vectors<bytes>::U32;
  constexpr int lanes = bytes / 4;
  for (int first = 0; first < job.cols; first += lanes) {
    for (int row = 0; row < job.rows; ++row) {
      const uint32_t* const a = job.a + static_cast<size_t>(row) * job.words;
      U32 sum{};
      for (int word = 0; word < job.words; ++word) {
        U32 bits;
        load(bits, job.b + static_cast<size_t>(word) * job.b_stride + first);
        bits = job.exclusive_or ? bits ^ a[word] : bits & a[word];
        count_bits(bits);
        sum += bits;
      }
      const size_t at = static_cast<size_t>(row) * job.d_stride + first;
      finish_integers<bytes>(reinterpret_cast<I32>(sum), job.c ? job.c + at : nullptr, job.saturate, job.d + at);
    }
  }
}

template <int bytes>
BITMMA_INLINE void pack_bits(const uint32_t* codes, int count, int bit, uint32_t* words) {
  for (int i = 0; i < count; ++i) words[i] |= (codes[i] & 1) << bit;
}

template <int bytes>
BITMMA_INLINE void pack_row(const uint32_t* codes, int count, uint32_t* words) {
  constexpr int lanes = bytes / 4;
  for (int first = 0; first < count; first += 32) {
    uint32_t word = 0;
    int at = 0;
    for (; at < 32 && first + at + lanes <= count; at += lanes) {
      typename Vectors<bytes>::I32 bits;
      load(bits, codes + first + at);
      word |= sign_bits<bytes>(bits << 31) << at;
    }
    for (; at < 32 && first + at < count; ++at) word |= (codes[first + at] & 1) << at;
    words[first / 32] = word;
  }
}

}  // namespace
}  // namespace bitmma::kernels
