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
    Vectors<64>::U32 word;
    load(word, codes);
    take(word, scale, to);
  }
  BITMMA_INLINE void take(const Vectors<64>::U32& word, const I32& scale, int32_t* to) {
    const I32 none{};
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

// Slots of registers: lane 4 g + q of register r has two codes of A, of rows g + 8 (r % 2) and K = 8 (r / 2) + 2 q + i;
// two of B, of column g and K = 8 r + 2 q + i; a number of C and D, of row g + 8 (r / 2) and column 2 q + r % 2.

/// Two registers -> for each q the 16 words of their lanes 4 g + q, and back.
BITMMA_INLINE void columns_of_slots(const uint32_t* upper, const uint32_t* lower, Vectors<64>::U32 (&columns)[4]) {
  Vectors<64>::U32 first[2], second[2], of_pairs[2][2];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const uint32_t* const from = i == 0 ? upper : lower;
    load(first[i], from), load(second[i], from + 16);
    of_pairs[0][i] = __builtin_shufflevector(first[i], second[i], 0, 4, 8, 12, 16, 20, 24, 28,  //
                                             1, 5, 9, 13, 17, 21, 25, 29);
    of_pairs[1][i] = __builtin_shufflevector(first[i], second[i], 2, 6, 10, 14, 18, 22, 26, 30,  //
                                             3, 7, 11, 15, 19, 23, 27, 31);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    columns[2 * i] = __builtin_shufflevector(of_pairs[i][0], of_pairs[i][1], 0, 1, 2, 3, 4, 5, 6, 7,  //
                                             16, 17, 18, 19, 20, 21, 22, 23);
    columns[2 * i + 1] = __builtin_shufflevector(of_pairs[i][0], of_pairs[i][1], 8, 9, 10, 11, 12, 13, 14, 15,  //
                                                 24, 25, 26, 27, 28, 29, 30, 31);
  }
}
BITMMA_INLINE void slots_of_columns(const Vectors<64>::U32 (&columns)[4], uint32_t* upper, uint32_t* lower) {
  Vectors<64>::U32 of_pairs[2][2];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    of_pairs[i][0] = __builtin_shufflevector(columns[2 * i], columns[2 * i + 1], 0, 1, 2, 3, 4, 5, 6, 7,  //
                                             16, 17, 18, 19, 20, 21, 22, 23);
    of_pairs[i][1] = __builtin_shufflevector(columns[2 * i], columns[2 * i + 1], 8, 9, 10, 11, 12, 13, 14, 15,  //
                                             24, 25, 26, 27, 28, 29, 30, 31);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    uint32_t* const to = i == 0 ? upper : lower;
    store(__builtin_shufflevector(of_pairs[0][i], of_pairs[1][i], 0, 8, 16, 24, 1, 9, 17, 25,  //
                                  2, 10, 18, 26, 3, 11, 19, 27),
          to);
    store(__builtin_shufflevector(of_pairs[0][i], of_pairs[1][i], 4, 12, 20, 28, 5, 13, 21, 29,  //
                                  6, 14, 22, 30, 7, 15, 23, 31),
          to + 16);
  }
}

/// Whether the registers are those that `to` has decoded. Otherwise it has their words afterwards.
template <typename Decoded, size_t registers>
BITMMA_INLINE bool are_decoded(const std::array<const uint32_t*, registers>& slots, Format format, size_t steps,
                               Decoded& to) {
  constexpr size_t vectors = WarpSlots::lanes / 16;  // of a register
  Vectors<64>::U32 words[vectors * registers], differ{};
#pragma GCC unroll 8
  for (size_t i = 0; i < vectors * registers; ++i) {
    Vectors<64>::U32 before;
    load(words[i], slots[i / vectors] + 16 * (i % vectors)), load(before, to.words.data() + 16 * i);
    differ |= words[i] ^ before;
  }
  std::array<uint64_t, 8> parts;
  store(differ, parts.data());
  uint64_t any = 0;
  for (const uint64_t part : parts) any |= part;
  if (any == 0 && to.format == format && to.steps == steps) return true;
#pragma GCC unroll 8
  for (size_t i = 0; i < vectors * registers; ++i) store(words[i], to.words.data() + 16 * i);
  to.format = format, to.steps = steps;
  return false;
}

BITMMA_INLINE void decode_columns(const WarpSum& job, WarpColumns& to) {
  if (are_decoded(job.slots->a, job.format_of_cols, job.steps.size(), to)) return;
  WarpDecoder<false, false> decoder(job.of_cols.format);
  Vectors<64>::I32 negative[2]{};  // of each half of K
#pragma GCC unroll 2
  for (size_t half = 0; half < 2; ++half) {
    Vectors<64>::U32 columns[4];
    columns_of_slots(job.slots->a[2 * half], job.slots->a[2 * half + 1], columns);
    for (size_t i = 0; i < 8; ++i) {
      const size_t at = (8 * half + i) * warp_cols;
      decoder.take(columns[i / 2] >> 16 * (i % 2), Vectors<64>::I32{}, to.number.data() + 2 * at);
      Vectors<64>::I32 exponent = decoder.exponent;
      lower_half(exponent);
      store(exponent | decoder.exponent, to.exponent.data() + at);
      negative[half] |= (decoder.sign >> 31) & (0x10001 << i);
    }
  }
  if (to.steps == 1) negative[0] |= negative[1] << 8;
  store(negative[0], to.negative.data());
  store(negative[1], to.negative.data() + 2 * warp_cols);
  to.has_special = decoder.has_special();
}

BITMMA_INLINE void decode_rows(const WarpSum& job, WarpRows& to) {
  if (are_decoded(job.slots->b, job.format_of_rows, job.steps.size(), to)) return;
  constexpr size_t places = WarpRows::places, rows = WarpNumbers::rows;
  WarpDecoder<true, false> decoder(job.of_rows.format);
  for (size_t row = 0; row < rows; ++row) {
    Vectors<64>::I32 exponents[2];
    uint32_t signs[2];
#pragma GCC unroll 2
    for (size_t half = 0; half < 2; ++half) {
      const size_t line = row + half * rows;
      const auto low = bitmma::load<Words>(job.slots->b[0] + 4 * line),
                 high = bitmma::load<Words>(job.slots->b[1] + 4 * line);
      const auto codes =
          reinterpret_cast<Vectors<64>::Half16>(__builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7));
      Vectors<64>::I32 wide;
      widen<64>(codes, wide);
      decoder.take(reinterpret_cast<Vectors<64>::U32>(wide), Vectors<64>::I32{}, to.number.data() + 2 * places * line);
      exponents[half] = decoder.exponent;
      signs[half] = sign_bits<64>(decoder.sign);
    }
    lower_half(exponents[0]);
    store(exponents[0] | exponents[1], to.exponent.data() + places * row);
    uint32_t* const negative = to.negative.data() + row;
    if (job.steps.size() == 1) {
      negative[0] = signs[0] | signs[1] << 16;
    } else {
      negative[0] = (signs[0] & 0xFF) | (signs[1] & 0xFF) << 16;
      negative[2 * rows] = signs[0] >> 8 | signs[1] >> 8 << 16;
    }
  }
  to.has_special = decoder.has_special();
}

/// C and D of slots <-> their rows of 16 columns.
BITMMA_INLINE void load_c(const WarpSlots& slots, uint32_t* rows) {
#pragma GCC unroll 2
  for (size_t i = 0; i < 2; ++i) {
    Vectors<64>::U32 columns[4];
    columns_of_slots(slots.c[i], slots.c[i + 2], columns);
    for (size_t q = 0; q < 4; ++q) store(columns[q], rows + (2 * q + i) * warp_cols);
  }
}
BITMMA_INLINE void store_d(const uint32_t* rows, const WarpSlots& slots) {
#pragma GCC unroll 2
  for (size_t i = 0; i < 2; ++i) {
    Vectors<64>::U32 columns[4];
    for (size_t q = 0; q < 4; ++q) load(columns[q], rows + (2 * q + i) * warp_cols);
    slots_of_columns(columns, slots.d[i], slots.d[i + 2]);
  }
}

template <Format output>
BITMMA_INLINE bool sum_warp(const WarpSum& args) {
  WarpSum job = args;
  WarpNumbers numbers;
  const int32_t *row_number = numbers.row_number.data(), *row_exponent = numbers.row_exponent.data(),
                *col_number = numbers.col_number.data(), *col_exponent = numbers.col_exponent.data();
  const uint32_t *row_negative = numbers.row_negative.data(), *col_negative = numbers.col_negative.data();
  alignas(64) std::array<uint32_t, warp_rows * warp_cols> codes;  // of C, then of D, in slots
  const WarpSlots* const slots = output == Format::f32 ? job.slots : nullptr;
  if (slots) {
    WarpRows& rows = *job.decoded_rows;
    WarpColumns& cols = *job.columns;
    decode_rows(job, rows), decode_columns(job, cols);
    if (rows.has_special || cols.has_special) return true;
    row_number = rows.number.data(), row_exponent = rows.exponent.data(), row_negative = rows.negative.data();
    col_number = cols.number.data(), col_exponent = cols.exponent.data(), col_negative = cols.negative.data();
    load_c(*slots, codes.data());
    job.c = job.d = codes.data();
  } else {
    if (job.of_rows.normal ? decode_warp_rows<true>(job, numbers) : decode_warp_rows<false>(job, numbers)) return true;
    if (job.of_cols.normal ? decode_warp_cols<true>(job, numbers) : decode_warp_cols<false>(job, numbers)) return true;
  }
  uint8_t special = 0;
  sum_fma_rows<64, double, false, output, true>({.a_number = row_number,
                                                 .a_exponent = row_exponent,
                                                 .a_negative = row_negative,
                                                 .a_stride = job.places,
                                                 .b_number = col_number,
                                                 .b_exponent = col_exponent,
                                                 .b_negative = col_negative,
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
  if (special != 0) return true;
  if (slots) store_d(codes.data(), *slots);
  return false;
}

}  // namespace
}  // namespace bitmma::kernels
#endif
