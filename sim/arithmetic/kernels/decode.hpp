// SPDX-License-Identifier: MIT
// Codes -> numbers, without branches:
//
//   decode      A and B, once per product, to pairs and exponents in arrays
//   decode_c    C, when it is added
//
// NaN and infinity become arbitrary numbers. The loops record the largest exponent field, which reveals them.
#pragma once

#include <algorithm>

#include "kernels.hpp"
#include "round.hpp"
#include "vector.hpp"

namespace bitmma::kernels {
namespace {

/// Decoded codes.
template <int bytes>
struct DecodedNumbers {
  using I32 = typename Vectors<bytes>::I32;
  I32 code, whole, magnitude, sign, pair, finite_exponent, exponent;

  /// flip: -1 negates the numbers. `normal`: a subnormal number gets the significand and exponent of a normal one.
  template <bool normal = false>
  BITMMA_INLINE void decode(const DecodeConstants& format, const typename Vectors<bytes>::U32& word, int shift,
                            int32_t flip) {
    const I32 none{};
    code = reinterpret_cast<I32>(word >> format.ignored_bits);
    const I32 mantissa = code & format.mantissa_mask, field = (code >> format.mantissa_bits) & format.exponent_mask;
    whole = mantissa | (field == 0 ? none + format.hidden_bit_of_zero : none + format.hidden_bit);
    sign = -(reinterpret_cast<I32>(word >> format.sign_shift) & 1) ^ flip;
    I32 further{};
    if constexpr (normal) {
      auto leading = reinterpret_cast<typename Vectors<bytes>::U32>(whole);
      normalise<bytes>(leading, further);
      further -= 31 - format.mantissa_bits;
    }
    magnitude = whole << (further + shift);
    const I32 significand = (magnitude ^ sign) - sign;
    pair = (significand & 0xFFFF) | ((sign | 1) << 16);
    finite_exponent = (field == 0 ? none + format.exponent_of_zero_field : field) - format.bias - further;
    exponent = whole == 0 ? none + exponent_of_zero : finite_exponent;
  }
};

/// Decodes one vector of codes of a row.
template <int bytes, bool normal>
BITMMA_INLINE void decode_vector(const Decoding& job, int row, int first, DecodedNumbers<bytes>& numbers,
                                 typename Vectors<bytes>::I32& largest) {
  using I32 = typename Vectors<bytes>::I32;
  const size_t at = static_cast<size_t>(row) * job.stride + first;
  typename Vectors<bytes>::U32 word;
  load(word, job.codes + static_cast<size_t>(row) * job.codes_stride + first);
  numbers.template decode<normal>(job.format, word, job.shift, job.flip);
  raise_to<I32>(largest, numbers.code & job.format.special_mask);
  store(numbers.pair, job.pair + at);
  store(numbers.exponent, job.exponent + at);
  store(__builtin_convertvector(numbers.exponent, typename Vectors<bytes>::Half16), job.narrow_exponent + at);
}

/// Decodes codes [first, end) of a row in whole vectors. The signs go to the row's word or to the columns' words; the
/// choice is a template parameter, because a test per vector costs up to a tenth of a product.
template <int bytes, bool of_row, bool normal>
BITMMA_INLINE void decode_codes(const Decoding& job, int row, int first, int end,
                                typename Vectors<bytes>::I32& largest) {
  using I32 = typename Vectors<bytes>::I32;
  DecodedNumbers<bytes> numbers;
  for (; first < end; first += bytes / 4) {
    decode_vector<bytes, normal>(job, row, first, numbers, largest);
    if constexpr (of_row) {
      if (first < 32) job.negative_of_row[row] |= sign_bits<bytes>(numbers.sign) << first;
    } else if (job.negative_of_col && row < 32) {
      I32 negative;
      load(negative, job.negative_of_col + first);
      negative |= numbers.sign & static_cast<int32_t>(1u << row);
      store(negative, job.negative_of_col + first);
    }
  }
}

template <int bytes, bool of_row, bool normal>
BITMMA_INLINE bool decode_rows(const Decoding& args) {
  const Decoding job = args;  // a copy that the stores cannot alias
  // Rows end with eight codes; no vector may read beyond them.
  constexpr int lanes = bytes / 4, small_bytes = std::min(bytes, 32);
  const int whole_lanes = bytes > small_bytes ? job.cols / lanes * lanes : 0;
  typename Vectors<bytes>::I32 largest{};
  typename Vectors<small_bytes>::I32 small_largest{};
  for (int row = 0; row < job.rows; ++row) {
    if constexpr (bytes > small_bytes) decode_codes<bytes, of_row, normal>(job, row, 0, whole_lanes, largest);
    decode_codes<small_bytes, of_row, normal>(job, row, whole_lanes, job.cols, small_largest);
  }
  return contains(largest, job.format.special_code) || contains(small_largest, job.format.special_code);
}

/// Sixteen columns, with at most 32 rows: their words of signs stay in registers.
template <int bytes, bool normal>
BITMMA_INLINE bool decode_sixteen_cols(const Decoding& args) {
  const Decoding job = args;
  typename Vectors<bytes>::I32 largest{};
  DecodedNumbers<bytes> numbers;
  for (int first = 0; first < 16; first += bytes / 4) {
    typename Vectors<bytes>::I32 negative{};
    for (int row = 0; row < job.rows; ++row) {
      decode_vector<bytes, normal>(job, row, first, numbers, largest);
      negative |= numbers.sign & static_cast<int32_t>(1u << row);
    }
    store(negative, job.negative_of_col + first);
  }
  return contains(largest, job.format.special_code);
}

template <int bytes, bool normal>
BITMMA_INLINE bool decode(const Decoding& job) {
  if (job.negative_of_row) return decode_rows<bytes, true, normal>(job);
  if (job.cols == 16 && job.rows <= 32 && job.negative_of_col) return decode_sixteen_cols<bytes, normal>(job);
  return decode_rows<bytes, false, normal>(job);
}

template <int bytes>
BITMMA_INLINE bool decode(const Decoding& job) {
  return job.normal ? decode<bytes, true>(job) : decode<bytes, false>(job);
}

/// Decodes C of some columns: exponents for alignment, and values.
template <int bytes>
struct C {
  using I32 = typename Vectors<bytes>::I32;
  I32 magnitude{}, sign{}, exponent = I32{} + exponent_of_zero;
};

template <Format output, int bytes>
BITMMA_INLINE void decode_c(const OutputConstants& format, const typename Vectors<bytes>::U32& word, int c_scale,
                            C<bytes>& c, typename Vectors<bytes>::I32& largest_field) {
  using I32 = typename Vectors<bytes>::I32;
  constexpr int mantissa_bits = info(output).mantissa_bits, unused_bits = 32 - info(output).bits;
  const I32 code = reinterpret_cast<I32>(word), none{};
  const I32 mantissa = code & format.mantissa_mask, field = (code >> mantissa_bits) & format.exponent_mask;
  raise_to(largest_field, field);
  c.magnitude = field == 0 ? mantissa : mantissa | format.hidden_bit;
  c.sign = (code << unused_bits) >> 31;
  I32 finite = field;
  raise_to(finite, none + 1);
  finite -= format.bias + c_scale;
  c.exponent = c.magnitude == 0 ? none + exponent_of_zero : finite;
}

}  // namespace
}  // namespace bitmma::kernels
