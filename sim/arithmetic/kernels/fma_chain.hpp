// SPDX-License-Identifier: MIT
// Chains of fused sums in which one IEEE operation multiplies, aligns, truncates and adds a term: for AVX-512, whose
// operations have their own rounding, and for AVX2, where the caller sets rounding toward minus infinity for all of
// them.
//
// Let E be the largest exponent of a sum, F its fraction bits and u = 2^(E - F) its unit. An accumulator starts at
// M = 1.5 * 2^52 * u and stays in [2^52 u, 2^53 u), where neighbouring doubles are u apart. Rounded toward minus
// infinity, therefore,
//
//   fma(a, b, accumulator) = accumulator + u * floor(a * b / u)
//
//   F = 2, E = 0: u = 1/4; a * b = 0.8 adds 3 u, a * b = -0.8 adds -4 u
//
// Truncation toward zero is not floor. But both differ by the same number for all negative products if b is stored a
// little larger: b * (1 + d), where d is at most 2^-40. A product has at most 22 bits, so it is at least 2^-22 of
// itself away from every multiple of u that it does not equal, and d moves it across none of them. A negative product
// that is a multiple of u falls below it. So each negative product adds one u less than its truncation does.
//
// The negative products are counted from their signs. Their number is added to the accumulator's bits as an integer,
// because the lowest bit is u. Zeros count as well: they are numbers far below every unit, with a sign.
//
// C is the first term, as fma(C, 1 + 2^-27, M), and one more is added if it is negative. The accumulator minus M is the
// exact sum, which is rounded and is C of the next step. If F is at most 13, all of this fits floats: M = 1.5 * 2^23 u,
// d = 2^-19, twice as many numbers per vector.
//
// The budget: a sum of T products and C is below 2^(F + 2) u * (T + 1). This must be below 2^51 u, or below 2^22 u.
//
// The search for E needs no arithmetic on numbers: vectors of exponents of 16 bits, or of 8 bits for two rows at a
// time, and words of C, the upper 16 bits of its numbers. The word of M is that of 2^E plus a constant.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <type_traits>

#include "../../core/pairs.hpp"
#include "chain.hpp"

#if BITMMA_X86_BUILTINS
namespace bitmma::kernels {
namespace {

/// What differs between accumulators of doubles and of floats.
template <int bytes, typename Number>
struct FmaFormat;
template <int bytes>
struct FmaFormat<bytes, double> {
  using V = typename Vectors<bytes>::F64;
  using Bits = typename Vectors<bytes>::U64;
  static constexpr int mantissa_bits = 52, bias = 1023, exponent_in_word = 4;  // of the upper 16 bits of a number
  static constexpr int above = 40, above_c = 27;                               // the logarithms of the factors over 1
  static constexpr int tiny_exponent = -600, lowest_floor = -300;
};
template <int bytes>
struct FmaFormat<bytes, float> {
  using V = typename Vectors<bytes>::F32;
  using Bits = typename Vectors<bytes>::U32;
  static constexpr int mantissa_bits = 23, bias = 127, exponent_in_word = 7;
  static constexpr int above = 19, above_c = 19;
  static constexpr int tiny_exponent = -120, lowest_floor = -64;
};

constexpr double power_of_two(int exponent) {
  double power = 1;
  for (; exponent > 0; --exponent) power *= 2;
  for (; exponent < 0; ++exponent) power /= 2;
  return power;
}

/// Whether operations have their own rounding. Otherwise every one rounds toward minus infinity, x - x is -0, and
/// there is no single operation for a larger magnitude.
template <int bytes>
constexpr bool has_own_rounding = bytes == 64;

// The operations that GNU vectors cannot express.
template <int bytes>
BITMMA_INLINE void multiply_add_down(const typename Vectors<bytes>::F64& x, const typename Vectors<bytes>::F64& y,
                                     typename Vectors<bytes>::F64& sum) {
  if constexpr (has_own_rounding<bytes>)
    sum =
        __builtin_ia32_vfmaddpd512_mask(x, y, sum, static_cast<uint8_t>(~0), _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  else sum = __builtin_ia32_vfmaddpd256(x, y, sum);
}
template <int bytes>
BITMMA_INLINE void multiply_add_down(const typename Vectors<bytes>::F32& x, const typename Vectors<bytes>::F32& y,
                                     typename Vectors<bytes>::F32& sum) {
  if constexpr (has_own_rounding<bytes>)
    sum = __builtin_ia32_vfmaddps512_mask(x, y, sum, static_cast<uint16_t>(~0),
                                          _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  else sum = __builtin_ia32_vfmaddps256(x, y, sum);
}
BITMMA_INLINE void add_toward_zero(Vectors<64>::F64& sum, const Vectors<64>::F64& x) {
  sum = __builtin_ia32_addpd512_mask(sum, x, sum, static_cast<uint8_t>(~0), _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}
BITMMA_INLINE void add_toward_zero(Vectors<64>::F32& sum, const Vectors<64>::F32& x) {
  sum = __builtin_ia32_addps512_mask(sum, x, sum, static_cast<uint16_t>(~0), _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}
/// The number of larger magnitude, without a sign or with that of `number`.
enum class Sign : uint8_t { none = 0b1011, of_number = 0b0011 };
template <Sign sign>
BITMMA_INLINE void raise_magnitude(Vectors<64>::F64& number, const Vectors<64>::F64& other) {
  number = __builtin_ia32_rangepd512_mask(number, other, static_cast<int>(sign), number, static_cast<uint8_t>(~0),
                                          _MM_FROUND_CUR_DIRECTION);
}
template <Sign sign>
BITMMA_INLINE void raise_magnitude(Vectors<64>::F32& number, const Vectors<64>::F32& other) {
  number = __builtin_ia32_rangeps512_mask(number, other, static_cast<int>(sign), number, static_cast<uint16_t>(~0),
                                          _MM_FROUND_CUR_DIRECTION);
}
BITMMA_INLINE void without_sign(Vectors<32>::F64& number) {
  number = reinterpret_cast<Vectors<32>::F64>(reinterpret_cast<Vectors<32>::U64>(number) & ~(1ULL << 63));
}
BITMMA_INLINE void without_sign(Vectors<32>::F32& number) {
  number = reinterpret_cast<Vectors<32>::F32>(reinterpret_cast<Vectors<32>::U32>(number) & ~(1U << 31));
}
/// If `other` is NaN, the number stays.
template <Sign sign>
BITMMA_INLINE void raise_magnitude(Vectors<32>::F64& number, const Vectors<32>::F64& other) {
  static_assert(sign == Sign::none);
  Vectors<32>::F64 magnitude = other;
  without_sign(number), without_sign(magnitude);
  number = __builtin_ia32_maxpd256(magnitude, number);
}
template <Sign sign>
BITMMA_INLINE void raise_magnitude(Vectors<32>::F32& number, const Vectors<32>::F32& other) {
  static_assert(sign == Sign::none);
  Vectors<32>::F32 magnitude = other;
  without_sign(number), without_sign(magnitude);
  number = __builtin_ia32_maxps256(magnitude, number);
}
template <int bytes>
BITMMA_INLINE bool any_greater(const typename Vectors<bytes>::I16& x, const typename Vectors<bytes>::I16& y) {
  if constexpr (bytes == 64) return __builtin_ia32_pcmpgtw512_mask(x, y, ~uint32_t{0}) != 0;
  else return __builtin_ia32_pmovmskb256(reinterpret_cast<typename Vectors<bytes>::I8>(x > y)) != 0;
}
/// Bytes of `from` by their indices within 16 bytes; an index below 0 makes a zero.
template <int bytes>
BITMMA_INLINE void pick_bytes(const typename Vectors<bytes>::I8& from, const std::array<char, bytes>& indices,
                              typename Vectors<bytes>::I8& picked) {
  typename Vectors<bytes>::I8 of;
  load(of, indices.data());
  if constexpr (bytes == 64) picked = __builtin_ia32_pshufb512_mask(from, of, from, ~uint64_t{0});
  else picked = __builtin_ia32_pshufb256(from, of);
}
template <int bytes>
BITMMA_INLINE void bits_of_f16(const typename Vectors<bytes>::F32& numbers, typename Vectors<bytes>::I32& codes) {
  if constexpr (bytes == 64)
    widen<bytes>(__builtin_ia32_vcvtps2ph512_mask(numbers, _MM_FROUND_TO_NEAREST_INT, Vectors<32>::I16{},
                                                  static_cast<uint16_t>(~0)),
                 codes);
  else widen<bytes>(__builtin_ia32_vcvtps2ph256(numbers, _MM_FROUND_TO_NEAREST_INT), codes);
  codes &= 0xFFFF;
}
template <int bytes>
BITMMA_INLINE void f16_of_bits(const typename Vectors<bytes>::I32& codes, typename Vectors<bytes>::F32& numbers) {
  const auto narrow = __builtin_convertvector(codes, typename Vectors<bytes>::Half16);
  if constexpr (bytes == 64)
    numbers = __builtin_ia32_vcvtph2ps512_mask(narrow, Vectors<64>::F32{}, static_cast<uint16_t>(~0),
                                               _MM_FROUND_CUR_DIRECTION);
  else numbers = __builtin_ia32_vcvtph2ps256(narrow);
}

/// Floats, which are pairs in `half` -> doubles, and back. (For conversions of GNU vectors, GCC 12 uses halves.)
BITMMA_INLINE void widen(const Vectors<32>::F64& half, Vectors<64>::F64& numbers) {
  numbers = __builtin_ia32_cvtps2pd512_mask(reinterpret_cast<Vectors<32>::F32>(half), Vectors<64>::F64{},
                                            static_cast<uint8_t>(~0), _MM_FROUND_CUR_DIRECTION);
}
BITMMA_INLINE void widen(const Vectors<16>::F64& half, Vectors<32>::F64& numbers) {
  numbers = __builtin_ia32_cvtps2pd256(reinterpret_cast<Vectors<16>::F32>(half));
}
BITMMA_INLINE void narrow(const Vectors<64>::F64& numbers, Vectors<32>::F64& half) {
  half = reinterpret_cast<Vectors<32>::F64>(
      __builtin_ia32_cvtpd2ps512_mask(numbers, Vectors<32>::F32{}, static_cast<uint8_t>(~0), _MM_FROUND_CUR_DIRECTION));
}
BITMMA_INLINE void narrow(const Vectors<32>::F64& numbers, Vectors<16>::F64& half) {
  half = reinterpret_cast<Vectors<16>::F64>(__builtin_ia32_cvtpd2ps256(numbers));
}

/// How a strip of columns is kept, for vectors of 64 bytes: both halves of the strip, each 16 columns, take one vector
/// of floats, or two of doubles, because the second half of a word's bits follows the first in the same 16 bytes.
/// Column j of a half has the 16-bit word 2 j + half of exponents.
template <int bytes, typename Number>
struct FmaLayout : FmaFormat<bytes, Number> {
  using Format = FmaFormat<bytes, Number>;
  using typename Format::Bits;
  using typename Format::V;
  using I32 = typename Vectors<bytes>::I32;
  using F32 = typename Vectors<bytes>::F32;
  static constexpr int bytes_of_number = sizeof(Number), lanes = bytes / bytes_of_number,
                       vectors_of_half = bytes_of_number / 4, vectors = 2 * vectors_of_half, strip = bytes / 2;

  /// The indices for pick_bytes that take byte `byte` of every column's word to byte `to` of its number.
  using Indices = std::array<char, bytes>;
  static constexpr void take_byte(int vector, int byte, int to, Indices& indices) {
    for (int i = to; i < bytes; i += bytes_of_number) {
      const int col = i % 16 / bytes_of_number + vector % vectors_of_half * (16 / bytes_of_number);
      indices[static_cast<size_t>(i)] = static_cast<char>(4 * col + 2 * (vector / vectors_of_half) + byte);
    }
  }
  static constexpr Indices no_bytes() {
    Indices none;
    none.fill(-1);
    return none;
  }
  /// A word becomes the upper 16 bits of a number.
  alignas(64) static constexpr auto to_upper_bits = [] {
    std::array<Indices, vectors> indices;
    for (int v = 0; v < vectors; ++v) {
      Indices& of = indices[static_cast<size_t>(v)] = no_bytes();
      take_byte(v, 0, bytes_of_number - 2, of);
      take_byte(v, 1, bytes_of_number - 1, of);
    }
    return indices;
  }();
  /// The upper 16 bits of numbers of a vector become their words.
  alignas(64) static constexpr auto from_upper_bits = [] {
    std::array<Indices, vectors> indices;
    for (size_t v = 0; v < indices.size(); ++v) {
      indices[v] = no_bytes();
      for (int i = bytes_of_number - 2; i < bytes; ++i) {
        const int from = to_upper_bits[v][static_cast<size_t>(i)];
        if (from >= 0) indices[v][static_cast<size_t>(i / 16 * 16 + from)] = static_cast<char>(i % 16);
      }
    }
    return indices;
  }();
  /// The byte of one of two rows becomes the lowest one of a number.
  alignas(64) static constexpr auto to_lowest_byte = [] {
    std::array<std::array<Indices, vectors>, 2> indices;
    for (int r = 0; r < 2; ++r) {
      for (int v = 0; v < vectors; ++v) {
        Indices& of = indices[static_cast<size_t>(r)][static_cast<size_t>(v)] = no_bytes();
        take_byte(v, r, 0, of);
      }
    }
    return indices;
  }();

  /// Numbers of half a strip -> vectors, and back.
  BITMMA_INLINE static void split(const F32& half, V* numbers) {
    if constexpr (bytes_of_number == 4) {
      numbers[0] = half;
    } else if constexpr (bytes == 32) {
      const auto pairs = reinterpret_cast<V>(half);
      widen(__builtin_shufflevector(pairs, pairs, 0, 2), numbers[0]);
      widen(__builtin_shufflevector(pairs, pairs, 1, 3), numbers[1]);
    } else {
      const auto pairs = reinterpret_cast<V>(half);
      widen(__builtin_shufflevector(pairs, pairs, 0, 2, 4, 6), numbers[0]);
      widen(__builtin_shufflevector(pairs, pairs, 1, 3, 5, 7), numbers[1]);
    }
  }
  BITMMA_INLINE static void join(const V* numbers, F32& half) {
    if constexpr (bytes_of_number == 4) {
      half = numbers[0];
    } else if constexpr (bytes == 32) {
      Vectors<16>::F64 pairs[2];
      narrow(numbers[0], pairs[0]), narrow(numbers[1], pairs[1]);
      half = reinterpret_cast<F32>(__builtin_shufflevector(pairs[0], pairs[1], 0, 2, 1, 3));
    } else {
      Vectors<32>::F64 pairs[2];
      narrow(numbers[0], pairs[0]), narrow(numbers[1], pairs[1]);
      half = reinterpret_cast<F32>(__builtin_shufflevector(pairs[0], pairs[1], 0, 4, 1, 5, 2, 6, 3, 7));
    }
  }

  /// Decoded codes as numbers with magnitudes d larger. `natural`: the numbers in order, as A needs; otherwise as the
  /// columns of a half.
  template <bool natural>
  BITMMA_INLINE static void put(const DecodedNumbers<bytes>& from, int significand_bits, bool enlarge, int32_t* to) {
    I32 significand = from.whole, exponent = from.exponent - significand_bits;
    raise_to<I32>(significand, I32{} + 1);
    raise_to<I32>(exponent, I32{} + Format::tiny_exponent);
    const I32 normal = reinterpret_cast<I32>(__builtin_convertvector(significand, F32)),
              sign = from.sign & std::numeric_limits<int32_t>::min();
    const int d = enlarge ? 1 << (Format::mantissa_bits - Format::above) : 0;
    if constexpr (bytes_of_number == 4) store((normal + (exponent << 23) + d) | sign, to);
    else put<natural>(((normal >> 3) + ((exponent + (Format::bias - 127)) << 20)) | sign, I32{} + d, to);
  }
  /// The two words of doubles.
  template <bool natural>
  BITMMA_INLINE static void put(const I32& high, const I32& low, int32_t* to) {
    if constexpr (bytes == 32 && natural) {
      store(__builtin_shufflevector(low, high, 0, 8, 1, 9, 2, 10, 3, 11), to);
      store(__builtin_shufflevector(low, high, 4, 12, 5, 13, 6, 14, 7, 15), to + 8);
    } else if constexpr (bytes == 32) {
      store(__builtin_shufflevector(low, high, 0, 8, 1, 9, 4, 12, 5, 13), to);
      store(__builtin_shufflevector(low, high, 2, 10, 3, 11, 6, 14, 7, 15), to + 8);
    } else if constexpr (natural) {
      store(__builtin_shufflevector(low, high, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23), to);
      store(__builtin_shufflevector(low, high, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31), to + 16);
    } else {
      store(__builtin_shufflevector(low, high, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29), to);
      store(__builtin_shufflevector(low, high, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31), to + 16);
    }
  }
};

/// Exponents for the search: in 16 bits as they are in a number's upper 16 bits, or in 8 bits, of two rows.
/// The sum with an exponent of zero is below every floor.
template <int bytes, typename Number, bool narrow>
struct FmaExponents {
  using I32 = typename Vectors<bytes>::I32;
  using Format = FmaFormat<bytes, Number>;
  static constexpr int zero = narrow ? -64 : -1000, no_sum = -40, unit = 1 << Format::exponent_in_word;
  static constexpr int rows = narrow ? 2 : 1;  // of A that share a word
  static_assert(!narrow || 2 * -14 > no_sum);  // see fits_narrow
  static_assert(narrow || zero + Format::bias + 127 < Format::lowest_floor + Format::bias);

  BITMMA_INLINE static void clamp(I32& exponent) { raise_to<I32>(exponent, I32{} + zero); }
  BITMMA_INLINE static void of_a(I32& exponent) {
    clamp(exponent);
    if constexpr (narrow) exponent = (exponent & 0xFF) * 0x10001;
    else exponent = (exponent + Format::bias) * unit & 0xFFFF, exponent |= exponent << 16;
  }
  BITMMA_INLINE static void of_b(I32& exponent) {
    clamp(exponent);
    exponent = narrow ? (exponent & 0xFF) * 0x101 : exponent * unit & 0xFFFF;
  }
};

/// Words of signs per step, for two rows of A or two columns of B: four terms each.
inline constexpr int fma_sign_words = most_dense_terms / 4;

template <int bytes, typename Number, bool narrow>
struct NumbersOfA {
  using Exponents = FmaExponents<bytes, Number, narrow>;
  using I32 = typename Vectors<bytes>::I32;

  BITMMA_INLINE static void put(const ChainDecoding& job, int row, size_t at,
                                const ChainNumbers<bytes, narrow>& numbers) {
    FmaLayout<bytes, Number>::template put<true>(
        numbers, job.format.mantissa_bits, false,
        job.number + (static_cast<size_t>(row) * static_cast<size_t>(job.stride) + at) * (sizeof(Number) / 4));
    I32 exponent = numbers.exponent;
    Exponents::of_a(exponent);
    int32_t* const to =
        job.exponent + static_cast<size_t>(row / Exponents::rows) * static_cast<size_t>(job.stride) + at;
    if (row % Exponents::rows == 1) {
      I32 other;
      load(other, to);
      exponent = exponent << 8 | (other & 0x00FF00FF);
    }
    store(exponent, to);
  }
  BITMMA_INLINE static void put_signs(const ChainDecoding& job, int row, const ChainStep& step, uint32_t signs) {
    uint32_t* const to = job.negative + (static_cast<size_t>(row / 2) * static_cast<size_t>(job.decoded_steps) +
                                         static_cast<size_t>(step.number)) *
                                            fma_sign_words;
    for (int term = 0; term < step.terms; term += 8) {
      const uint64_t fours = __builtin_ia32_pdep_di(signs >> term, 0x0000000F'0000000F) * 0x10001;
      uint64_t two = fours;
      if (row % 2 == 1) {
        std::memcpy(&two, to + term / 4, sizeof two);
        two |= fours << 8;
      }
      std::memcpy(to + term / 4, &two, sizeof two);
    }
  }
};

template <int bytes, typename Number, bool narrow>
BITMMA_INLINE void decode_fma_chain_a(const ChainDecoding& job) {
  decode_rows_of_a<bytes, NumbersOfA<bytes, Number, narrow>, narrow>(job);
}

/// Decodes all strips of four rows of B at a time, which share a word of signs.
template <int bytes, typename Number, bool narrow>
BITMMA_INLINE void decode_fma_chain_b(const ChainDecoding& args) {
  using Layout = FmaLayout<bytes, Number>;
  using I32 = typename Vectors<bytes>::I32;
  const ChainDecoding job = args;
  constexpr int lanes = bytes / 4, strip = Layout::strip;
  constexpr size_t words = strip * sizeof(Number) / 4;
  int64_t end_of_k = 0;
  for (const ChainStep& step : job.steps) end_of_k = std::max(end_of_k, step.first + step.terms);
  ChainNumbers<bytes, narrow> numbers[2];
  for (const ChainStep step : job.steps) {
    for (int begin = 0; begin < step.terms; begin += 4) {
      const int end = std::min(begin + 4, step.terms);
      const uint32_t* const codes = job.codes + static_cast<size_t>(step.first + begin) * job.codes_stride;
      for (int first = 0; first < job.lines; first += strip) {
        const auto i = static_cast<size_t>(first / strip);
        I32 signs[2]{};
        I32 scales[2]{};
        for (int v = 0; v < 2; ++v) {
          load(numbers[v].special, job.special + first + v * lanes);
          if (job.scales) load(scales[v], job.scales + first + v * lanes);
        }
        for (int term = begin; term < end; ++term) {
          const uint32_t* const from = codes + static_cast<size_t>(term - begin) * job.codes_stride;
          const uint32_t* const later = from + (step.first + term + 4 < end_of_k ? 4 * job.codes_stride : 0);
          const size_t to = i * static_cast<size_t>(job.stride) + static_cast<size_t>(step.at + term);
          I32 exponent[2];
#pragma GCC unroll 2
          for (int v = 0; v < 2; ++v) {
            __builtin_prefetch(later + std::min(first + v * lanes, job.lines - 1));  // rows are in separate pages
            typename Vectors<bytes>::U32 word;
            load_codes<bytes>(word, from, first + v * lanes, job.lines);
            numbers[v].take(job.format, word, 0, scales[v]);
            Layout::template put<false>(numbers[v], job.format.mantissa_bits, true,
                                        job.number + to * words + static_cast<size_t>(v) * words / 2);
            exponent[v] = numbers[v].exponent;
            FmaExponents<bytes, Number, narrow>::of_b(exponent[v]);
            signs[v] |= numbers[v].sign & static_cast<int32_t>(1u << (term - begin));
          }
          store(exponent[0] | exponent[1] << 16, job.exponent + to * lanes);
        }
        for (int v = 0; v < 2; ++v) store(numbers[v].special, job.special + first + v * lanes);
        store((signs[0] | signs[1] << 16) * 0x101,
              job.negative +
                  ((i * static_cast<size_t>(job.decoded_steps) + static_cast<size_t>(step.number)) * fma_sign_words +
                   static_cast<size_t>(begin / 4)) *
                      lanes);
      }
    }
  }
  numbers[0].report(*job.range);
  numbers[1].report(*job.range);
}

/// Runs the steps for four rows of a strip. `plain` as in ChainState; otherwise C and results may also be infinite or
/// subnormal. With `two_rows`, for eight rows of 16 columns: the second half of a strip's row is row + 4 (warp.hpp).
template <int bytes, typename Number, bool narrow, bool plain, Format output, bool two_rows = false>
struct FmaSteps {
  using Layout = FmaLayout<bytes, Number>;
  using Exponents = FmaExponents<bytes, Number, narrow>;
  using V = typename Layout::V;
  using Bits = typename Layout::Bits;
  using I8 = typename Vectors<bytes>::I8;
  using I16 = typename Vectors<bytes>::I16;
  using I32 = typename Vectors<bytes>::I32;
  using U32 = typename Vectors<bytes>::U32;
  using F32 = typename Vectors<bytes>::F32;
  static constexpr int rows = 4, vectors = Layout::vectors, strip = Layout::strip, lanes = bytes / 4;
  static constexpr int rows_together = many_registers<bytes> ? rows : rows / 2;
  static_assert(rows == chain_rows);
  static constexpr int second_row = two_rows ? 4 : 0, second_cols = two_rows ? 0 : lanes;  // of the second half
  static constexpr bool is_float = std::is_same_v<Number, float>;
  using Bit = std::conditional_t<is_float, uint32_t, uint64_t>;
  static constexpr Bit sign_bit = Bit{1} << (8 * sizeof(Number) - 1),
                       exponent_bits = sign_bit - (Bit{1} << Layout::mantissa_bits);
  /// From here on C is infinite; for floats, too large or too small for an accumulator.
  static constexpr Number too_large = static_cast<Number>(power_of_two(output == Format::f16 ? 16
                                                                       : is_float            ? 100
                                                                                             : 128)),
                          too_small = static_cast<Number>(
                              is_float && output == Format::f32 ? power_of_two(Layout::lowest_floor) : 0.0);

  struct State {
    V c[rows][vectors];
  };
  /// C of a strip by exponents, of which the words are those of `largest`, and by bits to be counted as negative terms.
  /// They take fewer operations than numbers, but do not distinguish a subnormal C from zero.
  static constexpr int counts = two_rows ? rows : rows / 2;
  struct WordsOfC {
    I16 exponent[rows];
    U32 negative[counts];
  };
  BITMMA_INLINE static void find_words(const State& state, WordsOfC& to) {
#pragma GCC unroll 4
    for (int i = 0; i < counts; ++i) to.negative[i] = U32{};
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      I8 words{};
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        I8 picked;
        pick_bytes<bytes>(reinterpret_cast<I8>(state.c[r][v]), Layout::from_upper_bits[static_cast<size_t>(v)], picked);
        words |= picked;
      }
      to.exponent[r] = reinterpret_cast<I16>(reinterpret_cast<I32>(words) & twice(0x8000 - Exponents::unit));
      const bool in_upper_byte = !two_rows && r % 2 == 1;
      to.negative[two_rows ? r : r / 2] +=
          (reinterpret_cast<U32>(words) >> (in_upper_byte ? 7 : 15)) & (in_upper_byte ? 0x01000100U : 0x00010001U);
    }
  }

  using Codes = I32[rows][2];
  using Thread = typename Pairs<bytes>::V;
  /// The registers of four threads, with two of four rows.
  template <typename Word>
  BITMMA_INLINE static Word* registers_of(Word* words, const ChainSum& job, int row) {
    return words + static_cast<size_t>(2 * (row - job.first_row)) * static_cast<size_t>(job.d_stride);
  }
  BITMMA_INLINE static void load_c(const ChainSum& job, int row, Codes& codes) {
    if (output == Format::f32 && job.in_fragment) {
#pragma GCC unroll 2
      for (int r = 0; r < rows; r += 2) {
        Thread thread[4], upper[2], lower[2];
#pragma GCC unroll 4
        for (int q = 0; q < 4; ++q) load(thread[q], registers_of(job.c, job, row + r) + q * job.d_stride);
        rows_of_threads<bytes>(thread, upper, lower);
#pragma GCC unroll 2
        for (int half = 0; half < 2; ++half)
          codes[r][half] = reinterpret_cast<I32>(upper[half]), codes[r + 1][half] = reinterpret_cast<I32>(lower[half]);
      }
      return;
    }
    const uint32_t* const c = job.c + static_cast<size_t>(row - job.first_row) * job.d_stride;
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half)
        load(codes[r][half], c + static_cast<size_t>(r + half * second_row) * job.d_stride + half * second_cols);
    }
  }
  BITMMA_INLINE static void store_d(const ChainSum& job, int row, const Codes& codes) {
    if (output == Format::f32 && job.in_fragment) {
#pragma GCC unroll 2
      for (int r = 0; r < rows; r += 2) {
        Thread thread[4], upper[2], lower[2];
#pragma GCC unroll 2
        for (int half = 0; half < 2; ++half)
          upper[half] = reinterpret_cast<Thread>(codes[r][half]),
          lower[half] = reinterpret_cast<Thread>(codes[r + 1][half]);
        threads_of_rows<bytes>(upper, lower, thread);
#pragma GCC unroll 4
        for (int q = 0; q < 4; ++q) store(thread[q], registers_of(job.d, job, row + r) + q * job.d_stride);
      }
      return;
    }
    uint32_t* const d = job.d + static_cast<size_t>(row - job.first_row) * job.d_stride;
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half)
        store(codes[r][half], d + static_cast<size_t>(r + half * second_row) * job.d_stride + half * second_cols);
    }
  }

  BITMMA_INLINE static void read(const ChainSum& job, int row, State& state) {
    Codes codes{};
    if (job.c) load_c(job, row, codes);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        I32 code = codes[r][half];
        F32 number;
        if constexpr (output == Format::f16) {
          f16_of_bits<bytes>(code, number);
        } else {
          // Floats have no room for bits of C that are below every unit.
          if constexpr (!plain && is_float) code &= static_cast<int32_t>(~0u << (23 - job.fraction_bits));
          number = reinterpret_cast<F32>(code);
        }
        V* const c = state.c[r] + half * Layout::vectors_of_half;
        Layout::split(number, c);
        if constexpr (!plain) {
          for (int v = 0; v < Layout::vectors_of_half; ++v) {
            if constexpr (has_own_rounding<bytes>) c[v] += V{};  // -0 becomes 0
            else c[v] = c[v] == 0 ? V{} : c[v];
            c[v] = c[v] == c[v] ? c[v] : V{} + 2 * too_large;  // NaN is replaced like infinity
          }
        }
      }
    }
  }

  /// Reads a C of any size. Returns false if it, or a result, may be infinite.
  BITMMA_INLINE static bool read_words(const ChainSum& job, int row, State& state, WordsOfC& to) {
    constexpr int shift = 16 - 1 - 8 - Layout::exponent_in_word;  // from the exponent in the upper half of an f32
    const I16 bias = reinterpret_cast<I16>(I32{} + twice((Layout::bias - 127) * Exponents::unit)),
              largest = reinterpret_cast<I16>(I32{} + twice((Layout::bias + 125) * Exponents::unit));
    Codes codes{};
    load_c(job, row, codes);
    I16 highest{};
#pragma GCC unroll 4
    for (int i = 0; i < counts; ++i) to.negative[i] = U32{};
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      const I32 halves = reinterpret_cast<I32>(reinterpret_cast<U32>(codes[r][0]) >> 16) | (codes[r][1] & ~0xFFFF);
      to.exponent[r] = (reinterpret_cast<I16>(halves & twice(0x7F80)) >> shift) + bias;
      raise_to<I16>(highest, to.exponent[r]);
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const U32 code = reinterpret_cast<U32>(codes[r][half]);
        to.negative[two_rows ? r : r / 2] +=
            code > (1U << 31) ? U32{} + (1U << (16 * half + (two_rows ? 0 : r % 2 * 8))) : U32{};  // -0 is no such term
        Layout::split(reinterpret_cast<F32>(codes[r][half]), state.c[r] + half * Layout::vectors_of_half);
      }
    }
    return !any_greater<bytes>(highest, largest);
  }
  /// What makes the word of M of that of 2^E.
  static int word_of_middle(const ChainSum& job) {
    constexpr int half = Exponents::unit / 2;  // 1.5
    return (Layout::mantissa_bits - job.fraction_bits) * Exponents::unit + half;
  }

  BITMMA_INLINE static void write(const ChainSum& job, int row, const State& state) {
    Codes codes;
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        F32 number;
        V of_half[Layout::vectors_of_half];
        for (int v = 0; v < Layout::vectors_of_half; ++v) {
          of_half[v] = state.c[r][half * Layout::vectors_of_half + v];
          if constexpr (output == Format::f32 && !plain && !is_float && !has_own_rounding<bytes>)
            with_infinity(of_half[v]);
        }
        Layout::join(of_half, number);
        if constexpr (output == Format::f16) bits_of_f16<bytes>(number, codes[r][half]);
        else codes[r][half] = reinterpret_cast<I32>(number);
      }
    }
    store_d(job, row, codes);
  }

  /// A result that f32 cannot hold becomes infinite, as conversion to nearest makes it.
  BITMMA_INLINE static void with_infinity(V& c) {
    V magnitude = c;
    without_sign(magnitude);
    const Bits infinite = (reinterpret_cast<Bits>(c) & sign_bit) | exponent_bits;
    c = magnitude >= V{} + static_cast<Number>(power_of_two(128)) ? reinterpret_cast<V>(infinite) : c;
  }

  /// The largest exponent of the products of every output, or the floor, as a word of a number.
  BITMMA_INLINE static void find_largest(const ChainSum& job, int row, const ChainStep& step, I16 (&largest)[rows]) {
    const int32_t* const a =
        job.a_exponent + static_cast<size_t>(row / Exponents::rows) * static_cast<size_t>(job.a_stride) + step.at;
    const int32_t* const b = job.b_exponent + static_cast<size_t>(step.at) * lanes;
    const int32_t floor = (std::max(job.floor_exponent, Layout::lowest_floor) + Layout::bias) * Exponents::unit;
    const I16 lowest = reinterpret_cast<I16>(I32{} + twice(floor));
    if constexpr (narrow) {
      I8 most[rows / 2];
#pragma GCC unroll 2
      for (int r = 0; r < rows / 2; ++r) most[r] = reinterpret_cast<I8>(I32{} + static_cast<int32_t>(0x80808080));
      raise_to_products(a, job.a_stride, b, step.terms, most);
      constexpr int none_word = (Exponents::no_sum + Layout::bias) * Exponents::unit;
      const I16 none = reinterpret_cast<I16>(I32{} + twice(none_word));
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        const I16 both = reinterpret_cast<I16>(most[r / 2]);
        const I16 i16 = (r % 2 == 0 ? both << 8 : reinterpret_cast<I16>(reinterpret_cast<U32>(both) & 0xFF00FF00u)) >>
                        (8 - Layout::exponent_in_word);
        const I16 word = i16 + reinterpret_cast<I16>(I32{} + twice(Layout::bias * Exponents::unit));
        largest[r] = word < none ? lowest : word;
        if (floor > none_word) raise_to<I16>(largest[r], lowest);
      }
    } else {
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) largest[r] = lowest;
      raise_to_products(a, job.a_stride, b, step.terms, largest);
    }
  }

  /// Counts the negative products of a step with a bit per term in the halves of two words.
  BITMMA_INLINE static void count_negative(const uint32_t* a, const uint32_t* b, int terms, U32 (&count)[rows]) {
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) count[r] = U32{};
    for (int word = 0; word < (terms + 15) / 16; ++word, a += rows, b += lanes) {
      U32 of_b;
      load(of_b, b);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        U32 signs = of_b ^ a[r];
        count_in_halves<bytes>(signs);
        count[r] += signs;
      }
    }
  }

  /// Counts the negative products, two rows at a time.
  BITMMA_INLINE static void count_negative(const uint32_t* a, size_t a_stride, const uint32_t* b, int terms,
                                           U32 (&count)[rows / 2]) {
#pragma GCC unroll 2
    for (int r = 0; r < rows / 2; ++r) count[r] = U32{};
    for (int word = 0; word < (terms + 3) / 4; ++word) {
      U32 of_b;
      load(of_b, b + word * lanes);
#pragma GCC unroll 2
      for (int r = 0; r < rows / 2; ++r) {
        U32 signs = of_b ^ a[static_cast<size_t>(r) * a_stride + static_cast<size_t>(word)];
        look_up_nibbles<bytes>(signs);
        count[r] += signs;
      }
    }
  }

  /// M, and the accumulator with C and the correction for all negative terms. `plain`: `largest` has the words of M,
  /// and C counts already.
  BITMMA_INLINE static void begin(const ChainSum& job, int vector, int row, const V& c, const I16& largest,
                                  const U32& count, V& middle, V& sum, V& largest_c) {
    I8 picked;
    pick_bytes<bytes>(reinterpret_cast<I8>(largest), Layout::to_upper_bits[static_cast<size_t>(vector)], picked);
    if constexpr (plain) middle = reinterpret_cast<V>(picked);
    else find_middle(job, c, reinterpret_cast<V>(picked), middle, largest_c);
    sum = middle;
    multiply_add_down<bytes>(c, V{} + static_cast<Number>(1 + power_of_two(-Layout::above_c)), sum);
    pick_bytes<bytes>(reinterpret_cast<I8>(count),
                      Layout::to_lowest_byte[static_cast<size_t>(row)][static_cast<size_t>(vector)], picked);
    Bits negative = reinterpret_cast<Bits>(picked);
    if constexpr (!plain) negative += reinterpret_cast<Bits>(c) >> (8 * sizeof(Number) - 1);
    sum = reinterpret_cast<V>(reinterpret_cast<Bits>(sum) + negative);
  }

  BITMMA_INLINE static void find_middle(const ChainSum& job, const V& c, const V& power, V& middle, V& largest_c) {
    const V none{}, smallest = none + static_cast<Number>(power_of_two(output == Format::f16 ? -14 : -126));
    V most = c, checked = c;
    if constexpr (too_small > 0) {
      V magnitude = c;
      raise_magnitude<Sign::none>(magnitude, none);
      checked = c == 0 ? none : magnitude < none + too_small ? none + too_large : c;
    }
    raise_magnitude<Sign::none>(largest_c, checked);
    raise_magnitude<Sign::none>(most, smallest);
    most = c == 0 ? none : most;
    raise_magnitude<Sign::none>(most, power);
    middle =
        reinterpret_cast<V>(reinterpret_cast<Bits>(most) & exponent_bits) *
        static_cast<Number>(1.5 * power_of_two(Layout::mantissa_bits) * power_of_two_at_runtime(-job.fraction_bits));
  }

  static double power_of_two_at_runtime(int exponent) {
    return std::bit_cast<double>(static_cast<uint64_t>(1023 + exponent) << 52);
  }

  /// The rounded sum.
  BITMMA_INLINE static void finish(const ChainSum& job, const V& sum, const V& middle, V& c) {
    V exact = sum - middle;
    if constexpr (plain) {
      const Bit kept = is_float ? static_cast<Bit>(job.output.kept_mask)
                                : static_cast<Bit>(static_cast<int64_t>(static_cast<int32_t>(job.output.kept_mask)))
                                      << (Layout::mantissa_bits - 23);
      if constexpr (!has_own_rounding<bytes>) exact = exact == 0 ? V{} : exact;
      c = reinterpret_cast<V>(reinterpret_cast<Bits>(exact) & kept);
    } else {
      // Adds a number of which the lowest bit is the result's, and subtracts it.
      constexpr int mantissa_bits = info(output).mantissa_bits;
      const int kept_bits = mantissa_bits - std::countr_zero(job.output.kept_mask);
      const V smallest = V{} + static_cast<Number>(power_of_two(output == Format::f16 ? -14 : -126));
      const auto scale =
          static_cast<Number>(1.5 * power_of_two(Layout::mantissa_bits) * power_of_two_at_runtime(-kept_bits));
      if constexpr (has_own_rounding<bytes>) {
        V more = exact;
        raise_magnitude<Sign::of_number>(more, smallest);
        more = reinterpret_cast<V>(reinterpret_cast<Bits>(more) & (exponent_bits | sign_bit)) * scale;
        c = exact;
        if constexpr (output == Format::f16) c += more;
        else add_toward_zero(c, more);
        c -= more;
      } else {
        // Of magnitudes, rounding toward minus infinity truncates.
        V magnitude = exact, power = exact;
        without_sign(magnitude);
        raise_magnitude<Sign::none>(power, smallest);
        power = reinterpret_cast<V>(reinterpret_cast<Bits>(power) & exponent_bits);
        const V more = power * scale;
        V large = magnitude + more;
        if constexpr (output == Format::f16) round_up_to_nearest(magnitude, more, power, kept_bits, large);
        c = large - more;
        c = large == more ? V{}
                          : reinterpret_cast<V>(reinterpret_cast<Bits>(c) | (reinterpret_cast<Bits>(exact) & sign_bit));
      }
    }
  }

  /// `large` is `magnitude` + `more`, truncated; its lowest bit is power * 2^-kept_bits.
  BITMMA_INLINE static void round_up_to_nearest(const V& magnitude, const V& more, const V& power, int kept_bits,
                                                V& large) {
    const V rest = magnitude - (large - more),
            half = power * static_cast<Number>(power_of_two_at_runtime(-1 - kept_bits));
    const Bits none{}, odd = reinterpret_cast<Bits>(large) & 1;
    const Bits up = rest > half ? none + 1 : rest == half ? odd : none;
    large = reinterpret_cast<V>(reinterpret_cast<Bits>(large) + up);
  }

  BITMMA_INLINE static void add_products(const ChainSum& job, int row, const ChainStep& step, V (&sum)[rows][vectors]) {
    const Bit* const a = reinterpret_cast<const Bit*>(job.a_number) +
                         static_cast<size_t>(row) * static_cast<size_t>(job.a_stride) + step.at;
    constexpr int vectors_of_b = two_rows ? Layout::vectors_of_half : vectors;
    const Number* const b =
        reinterpret_cast<const Number*>(job.b_number) + static_cast<size_t>(step.at) * vectors_of_b * Layout::lanes;
    const int a_stride = job.a_stride, terms = step.terms;
#pragma GCC unroll 2
    for (int first = 0; first < rows; first += rows_together) {
      const Number* of = b;
      for (int term = 0; term < terms; ++term, of += vectors_of_b * Layout::lanes) {
        V of_b[vectors_of_b];
#pragma GCC unroll 4
        for (int v = 0; v < vectors_of_b; ++v) load(of_b[v], of + v * Layout::lanes);
#pragma GCC unroll 4
        for (int r = first; r < first + rows_together; ++r) {
#pragma GCC unroll 4
          for (int v = 0; v < vectors; ++v) {
            const int of_row = r + v / Layout::vectors_of_half * second_row;
            const V of_a = reinterpret_cast<V>(Bits{} + a[static_cast<size_t>(of_row) * a_stride + term]);
            multiply_add_down<bytes>(of_a, of_b[v % vectors_of_b], sum[r][v]);
          }
        }
      }
    }
  }

  /// One step; only plain ones need the words of C.
  BITMMA_INLINE static void take_step(const ChainSum& job, int row, const ChainStep& step, const WordsOfC& of_c,
                                      State& state, V& largest_c) {
    const auto number = static_cast<size_t>(step.number);
    const size_t a_negative_stride = static_cast<size_t>(job.decoded_steps) * fma_sign_words;
    const uint32_t *const a_negative = job.a_negative + static_cast<size_t>(row / 2) * a_negative_stride +
                                       number * (two_rows ? 2 * rows : fma_sign_words),
                          *const b_negative = job.b_negative + number * (two_rows ? 2 : fma_sign_words) * lanes;
    I16 largest[rows];
    find_largest(job, row, step, largest);
    U32 count[counts];
    if constexpr (two_rows) count_negative(a_negative, b_negative, step.terms, count);
    else count_negative(a_negative, a_negative_stride, b_negative, step.terms, count);
    if constexpr (plain) {
#pragma GCC unroll 4
      for (int i = 0; i < counts; ++i) count[i] += of_c.negative[i];
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        raise_to<I16>(largest[r], of_c.exponent[r]);
        largest[r] += reinterpret_cast<I16>(I32{} + twice(word_of_middle(job)));
      }
    }
    V middle[rows][vectors], sum[rows][vectors];
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v)
        begin(job, v, two_rows ? 0 : r % 2, state.c[r][v], largest[r], count[two_rows ? r : r / 2], middle[r][v],
              sum[r][v], largest_c);
    }
    add_products(job, row, step, sum);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) finish(job, sum[r][v], middle[r][v], state.c[r][v]);
    }
  }

  /// Returns false, and writes nothing, if a C is not plain.
  BITMMA_INLINE static bool run(const ChainSum& job, int row) {
    V largest_c{};
    State state;
    WordsOfC of_c;
    if constexpr (plain) {
      if (!job.any_c) {
        read(job, row, state);
        find_words(state, of_c);
      } else if (is_float || !read_words(job, row, state, of_c)) {
        return false;
      }
    } else {
      read(job, row, state);
    }
    const ChainStep *step = job.steps.data(), *const last = step + job.steps.size() - 1;
    for (;; ++step) {
      take_step(job, row, *step, of_c, state, largest_c);
      if (step == last) break;
      if constexpr (plain) find_words(state, of_c);
    }
    if constexpr (!plain) {
      std::array<Number, Layout::lanes> numbers;
      store(largest_c, numbers.data());
      if (*std::ranges::max_element(numbers) >= too_large) {
        job.special[row / chain_rows] = 1;
        if (job.in_place) return true;
      }
    }
    write(job, row, state);
    return true;
  }
};

/// Whether no bit of a subnormal C is lost, which words of exponents do not distinguish from zero.
template <typename Number, Format output>
bool can_take_words_of(const ChainSum& job) {
  return !std::is_same_v<Number, float> && output == Format::f32 && job.fraction_bits >= 23 &&
         job.output.kept_mask == ~0u;
}

template <int bytes, typename Number, bool narrow, Format output, bool two_rows = false>
BITMMA_INLINE void sum_fma_rows(const ChainSum& job) {
  const bool is_plain = job.plain && (!job.any_c || can_take_words_of<Number, output>(job));
  for (int row = job.first_row; row < job.first_row + job.rows; row += chain_rows) {
    if constexpr (output == Format::f32) {
      if (is_plain && FmaSteps<bytes, Number, narrow, true, output, two_rows>::run(job, row)) continue;
    }
    FmaSteps<bytes, Number, narrow, false, output, two_rows>::run(job, row);
  }
}

template <int bytes, typename Number, bool narrow, Format output>
BITMMA_INLINE void sum_fma_chain(const ChainSum& args) {
  const ChainSum job = args;
  sum_fma_rows<bytes, Number, narrow, output>(job);
}

}  // namespace
}  // namespace bitmma::kernels
#endif
