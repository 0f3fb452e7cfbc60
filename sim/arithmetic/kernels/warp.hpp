// SPDX-License-Identifier: MIT
// All steps of one mma.sync by the accumulators of fma_chain.hpp. AVX-512 only. Eight rows of 16 columns become four
// rows of a strip, and `half` is 0 for rows 0 to 3 and 1 for rows 4 to 7:
//
//   exponents    word (row % 4, place) has those of rows row % 4 and row % 4 + 4 in its halves
//                word (place, col) has that of the column in both
//   signs        two words per step, with a bit per term in each half, in the same order
#pragma once

#include "fma_chain.hpp"

#if BITMMA_X86_BUILTINS
namespace bitmma::kernels {
namespace {

struct WarpNumbers {
  static constexpr int places = most_warp_places, rows = warp_rows / 2;
  alignas(64) std::array<int32_t, 2 * warp_rows * places> row_number;
  alignas(64) std::array<int32_t, 2 * warp_cols * places> col_number;
  alignas(64) std::array<int32_t, rows * places> row_exponent;
  alignas(64) std::array<int32_t, warp_cols * places> col_exponent;
  std::array<uint32_t, 2 * rows * most_warp_steps> row_negative;
  alignas(64) std::array<uint32_t, 2 * warp_cols * most_warp_steps> col_negative;
};

/// Decodes codes of one side. The upper 16 bits of a double are also its exponent in the search, without a bias for
/// columns.
template <bool is_row, bool normal>
struct WarpDecoder {
  using I32 = Vectors<64>::I32;
  using Double = FmaFormat<64, double>;
  static constexpr int bias_of_search = is_row ? Double::bias : 0, zero = -700;
  static_assert(zero + 127 + 23 + 128 < Double::lowest_floor);
  // With scales, of types of up to 8 bits, no product is below the floor; nor is one of a zero above it.
  static_assert(2 * (-14 - 2 - 127) > Double::lowest_floor && zero + 2 * 127 + 16 < Double::lowest_floor);
  DecodeConstants format;
  I32 largest{};           // for special codes
  I32 exponent{}, sign{};  // in the upper 12 bits; in the highest bit

  explicit WarpDecoder(const DecodeConstants& of) : format(of) {}

  /// `scale`: the exponents of scales, or zeros.
  BITMMA_INLINE void take(const uint32_t* codes, const I32& scale, int32_t* to) {
    const I32 none{};
    Vectors<64>::U32 word;
    load(word, codes);
    const I32 code = reinterpret_cast<I32>(word >> format.ignored_bits);
    raise_to<I32>(largest, code & format.special_mask);
    const I32 field = (code >> format.mantissa_bits) & format.exponent_mask;
    const I32 whole =
        (code & format.mantissa_mask) | (field == 0 ? none + format.hidden_bit_of_zero : none + format.hidden_bit);
    sign = reinterpret_cast<I32>(word << (31 - format.sign_shift));
    // The exponent of the hidden bit. That of the significand as a float, (127 + mantissa_bits) or less, is added.
    const int bits = 127 + format.mantissa_bits;
    const I32 of_hidden_bit = (field == 0 ? none + format.exponent_of_zero_field : field) + scale;
    exponent = ((whole == 0 ? none + (zero + bits + format.bias) : of_hidden_bit) << 20) +
               ((bias_of_search - format.bias) << 20);
    const I32 number = exponent + (reinterpret_cast<I32>(__builtin_convertvector(whole, Vectors<64>::F32)) >> 3) +
                       ((Double::bias - bias_of_search - bits) << 20);
    if constexpr (normal) exponent = (number & 0x7FF00000) - ((Double::bias - bias_of_search) << 20);
    const int d = is_row ? 0 : 1 << (Double::mantissa_bits - Double::above);
    FmaLayout<64, double>::put<is_row>(number | (sign & std::numeric_limits<int32_t>::min()), none + d, to);
  }
  bool has_special() const { return contains(largest, format.special_code); }
};
BITMMA_INLINE void lower_half(Vectors<64>::I32& words) {
  words = reinterpret_cast<Vectors<64>::I32>(reinterpret_cast<Vectors<64>::U32>(words) >> 16);
}

template <bool normal>
BITMMA_INLINE bool decode_warp_rows(const WarpSum& job, WarpNumbers& to) {
  const int half = WarpNumbers::rows * job.places;
  // A bit for each place of each row, and room for reading 32.
  std::array<uint8_t, warp_rows * most_warp_places / 8 + 4> negative;
  WarpDecoder<true, normal> decoder(job.of_rows.format);
  const int32_t* const exponents_of_rows = job.of_rows.exponents;
  for (int i = 0; i < half; i += 16) {
    Vectors<64>::I32 exponents[2];
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const int at = i + h * half;
      const Vectors<64>::I32 scale = Vectors<64>::I32{} + (exponents_of_rows ? exponents_of_rows[at / job.places] : 0);
      decoder.take(job.of_rows.codes + at, scale, to.row_number.data() + 2 * at);
      exponents[h] = decoder.exponent;
      const auto signs = static_cast<uint16_t>(sign_bits<64>(decoder.sign));
      std::memcpy(negative.data() + at / 8, &signs, sizeof signs);
    }
    lower_half(exponents[0]);
    store(exponents[0] | exponents[1], to.row_exponent.data() + i);
  }
  uint32_t* words = to.row_negative.data();
  for (const ChainStep& step : job.steps) {
    const uint32_t mask = ~0u >> (32 - step.terms);
    for (int row = 0; row < WarpNumbers::rows; ++row, ++words) {
      uint32_t bits[2];
      for (int h = 0; h < 2; ++h) {
        std::memcpy(&bits[h], negative.data() + (row * job.places + h * half + step.at) / 8, sizeof bits[h]);
        bits[h] &= mask;
      }
      words[0] = (bits[0] & 0xFFFF) | bits[1] << 16;
      words[WarpNumbers::rows] = bits[0] >> 16 | (bits[1] & 0xFFFF0000);
    }
    words += WarpNumbers::rows;
  }
  return decoder.has_special();
}

template <bool normal>
BITMMA_INLINE bool decode_warp_cols(const WarpSum& job, WarpNumbers& to) {
  WarpDecoder<false, normal> decoder(job.of_cols.format);
  Vectors<64>::I32 scale{};
  if (job.of_cols.exponents) load(scale, job.of_cols.exponents);
  uint32_t* words = to.col_negative.data();
  for (const ChainStep& step : job.steps) {
    for (int first = 0; first < step.terms; first += 16) {
      Vectors<64>::I32 negative{};
      for (int term = first; term < std::min(first + 16, step.terms); ++term) {
        const int at = (step.at + term) * warp_cols;
        decoder.take(job.of_cols.codes + at, scale, to.col_number.data() + 2 * at);
        Vectors<64>::I32 exponent = decoder.exponent;
        lower_half(exponent);
        store(exponent | decoder.exponent, to.col_exponent.data() + at);
        negative |= (decoder.sign >> 31) & (0x10001 << (term - first));
      }
      store(negative, words + first / 16 * warp_cols);
    }
    words += 2 * warp_cols;
  }
  return decoder.has_special();
}

template <Format output>
BITMMA_INLINE bool sum_warp(const WarpSum& args) {
  const WarpSum job = args;
  WarpNumbers numbers;
  if (job.of_rows.normal ? decode_warp_rows<true>(job, numbers) : decode_warp_rows<false>(job, numbers)) return true;
  if (job.of_cols.normal ? decode_warp_cols<true>(job, numbers) : decode_warp_cols<false>(job, numbers)) return true;
  uint8_t special = 0;
  sum_fma_rows<64, double, false, output, true>({.a_number = numbers.row_number.data(),
                                                 .a_exponent = numbers.row_exponent.data(),
                                                 .a_negative = numbers.row_negative.data(),
                                                 .a_stride = job.places,
                                                 .b_number = numbers.col_number.data(),
                                                 .b_exponent = numbers.col_exponent.data(),
                                                 .b_negative = numbers.col_negative.data(),
                                                 .steps = job.steps,
                                                 .decoded_steps = static_cast<int>(job.steps.size()),
                                                 .first_row = 0,
                                                 .rows = WarpNumbers::rows,
                                                 .c = job.c,
                                                 .plain = job.plain,
                                                 .any_c = job.c != nullptr,
                                                 .terms_per_part = 0,
                                                 .two_parts = false,
                                                 .fraction_bits = job.fraction_bits,
                                                 .floor_exponent = job.floor_exponent,
                                                 .output = job.output,
                                                 .d = job.d,
                                                 .d_stride = warp_cols,
                                                 .special = &special});
  return special != 0;
}

}  // namespace
}  // namespace bitmma::kernels
#endif
