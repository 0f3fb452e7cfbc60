// SPDX-License-Identifier: MIT
// Accumulator registers <-> rows of a matrix, for vectors of any instruction set. In every 8 columns a thread holds two
// neighbours in row g and two in row g + 8; the four threads that share two rows fill 8 columns of both:
//
//   registers  q0: g 0 1, g+8 0 1, g 8 9, g+8 8 9 ... | q1: g 2 3, g+8 2 3, g 10 11 ... | q2 | q3
//   rows       g: 0 1 2 3 4 5 6 7 8 ...               | g + 8: 0 1 2 3 4 5 6 7 8 ...
#pragma once

#include "words.hpp"

namespace bitmma {

/// Neighbouring pairs of 32-bit registers as one number.
template <int bytes>
struct Pairs;
template <>
struct Pairs<16> {
  using V = Doubles;
  // zip: the even numbers of both in turn, and the odd ones; its own inverse. interleave: sixteen bytes of both in
  // turn; part is its inverse.
  BITMMA_INLINE static void zip(const V& x, const V& y, V& low, V& high) {
    low = __builtin_shufflevector(x, y, 0, 2), high = __builtin_shufflevector(x, y, 1, 3);
  }
  BITMMA_INLINE static void interleave(const V& x, const V& y, V& first, V& second) { first = x, second = y; }
  BITMMA_INLINE static void part(const V& first, const V& second, V& x, V& y) { x = first, y = second; }
};
template <>
struct Pairs<32> {
  using V [[gnu::vector_size(32)]] = uint64_t;
  BITMMA_INLINE static void zip(const V& x, const V& y, V& low, V& high) {
    low = __builtin_shufflevector(x, y, 0, 4, 2, 6), high = __builtin_shufflevector(x, y, 1, 5, 3, 7);
  }
  BITMMA_INLINE static void interleave(const V& x, const V& y, V& first, V& second) {
    first = __builtin_shufflevector(x, y, 0, 1, 4, 5), second = __builtin_shufflevector(x, y, 2, 3, 6, 7);
  }
  BITMMA_INLINE static void part(const V& first, const V& second, V& x, V& y) { interleave(first, second, x, y); }
};
template <>
struct Pairs<64> {
  using V [[gnu::vector_size(64)]] = uint64_t;
  BITMMA_INLINE static void zip(const V& x, const V& y, V& low, V& high) {
    low = __builtin_shufflevector(x, y, 0, 8, 2, 10, 4, 12, 6, 14),
    high = __builtin_shufflevector(x, y, 1, 9, 3, 11, 5, 13, 7, 15);
  }
  BITMMA_INLINE static void interleave(const V& x, const V& y, V& first, V& second) {
    first = __builtin_shufflevector(x, y, 0, 1, 8, 9, 2, 3, 10, 11),
    second = __builtin_shufflevector(x, y, 4, 5, 12, 13, 6, 7, 14, 15);
  }
  BITMMA_INLINE static void part(const V& first, const V& second, V& x, V& y) {
    x = __builtin_shufflevector(first, second, 0, 1, 4, 5, 8, 9, 12, 13),
    y = __builtin_shufflevector(first, second, 2, 3, 6, 7, 10, 11, 14, 15);
  }
};

/// Two vectors of each row and one of each thread.
template <int bytes, typename V = typename Pairs<bytes>::V>
BITMMA_INLINE void rows_of_threads(const V (&thread)[4], V (&upper)[2], V (&lower)[2]) {
  V above[2], below[2];
  Pairs<bytes>::zip(thread[0], thread[1], above[0], below[0]);
  Pairs<bytes>::zip(thread[2], thread[3], above[1], below[1]);
  Pairs<bytes>::interleave(above[0], above[1], upper[0], upper[1]);
  Pairs<bytes>::interleave(below[0], below[1], lower[0], lower[1]);
}
template <int bytes, typename V = typename Pairs<bytes>::V>
BITMMA_INLINE void threads_of_rows(const V (&upper)[2], const V (&lower)[2], V (&thread)[4]) {
  V above[2], below[2];
  Pairs<bytes>::part(upper[0], upper[1], above[0], above[1]);
  Pairs<bytes>::part(lower[0], lower[1], below[0], below[1]);
  Pairs<bytes>::zip(above[0], below[0], thread[0], thread[1]);
  Pairs<bytes>::zip(above[1], below[1], thread[2], thread[3]);
}

}  // namespace bitmma
