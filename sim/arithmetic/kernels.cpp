// One source for every instruction set. The bodies are templates on the bytes of a vector and are always inlined into
// the functions of a table, which carry the name of the instruction set; the compiler maps GNU vectors to whatever
// registers that has. What C++ cannot say has a builtin in a function of a few lines, with plain C++ beside it that the
// baseline runs: multiply_pairs, shift_right, widen, sign_bits, normalise. No branches on data. Comparisons choose
// between numbers, never between 0 and -1: that is the comparison itself, which GCC 12 takes apart, lane by lane.
#include "kernels.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "bitmma/arithmetic/cpu_target.hpp"
#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"

#define BITMMA_INLINE [[gnu::always_inline]] inline
#define BITMMA_INLINE_LAMBDA __attribute__((always_inline))

#if defined(__x86_64__) && !defined(__clang__)
#include <immintrin.h>  // makes GCC know the builtins of instruction sets that this file is not compiled for
#define BITMMA_X86_BUILTINS 1
#pragma GCC diagnostic ignored "-Wpsabi"  // templates that are only ever inlined pass no vectors
#endif

namespace bitmma::kernels {

DecodeConstants::DecodeConstants(const FormatInfo& format)
    : ignored_bits(format.ignored_bits),
      mantissa_bits(format.mantissa_bits),
      bias(format.bias),
      hidden_bit(1 << format.mantissa_bits),
      hidden_bit_of_zero(format.has_zero ? 0 : hidden_bit),
      exponent_of_zero_field(format.has_zero ? 1 : 0),
      exponent_mask(static_cast<int32_t>(format.exponent_mask())),
      mantissa_mask(static_cast<int32_t>(format.mantissa_mask())),
      sign_shift(format.bits - 1),
      // ieee: every code of the largest exponent; nan_only: the one with all mantissa bits too; none: no code is -1
      special_mask(format.non_finite == NonFinite::nan_only ? exponent_mask << mantissa_bits | mantissa_mask
                                                            : exponent_mask << mantissa_bits),
      special_code(format.non_finite == NonFinite::none ? -1 : special_mask) {}

OutputConstants::OutputConstants(const FormatInfo& format, int fraction_bits)
    : mantissa_mask(static_cast<int32_t>(format.mantissa_mask())),
      exponent_mask(static_cast<int32_t>(format.exponent_mask())),
      hidden_bit(1 << format.mantissa_bits),
      bias(format.bias),
      infinity(static_cast<int32_t>(*format.infinity())),
      sign_bit(static_cast<int32_t>(format.sign_bit())),
      kept_mask(~0u << (format.mantissa_bits - fraction_bits)) {}

namespace {

/// Vectors of `bytes` bytes, and of half as many. (A type with the attribute cannot be a template argument, a number
/// can.)
template <int bytes>
struct Vectors {
  using I16 [[gnu::vector_size(bytes)]] = int16_t;
  using I32 [[gnu::vector_size(bytes)]] = int32_t;
  using U32 [[gnu::vector_size(bytes)]] = uint32_t;
  using I64 [[gnu::vector_size(bytes)]] = long long;  // as the instructions have it
  using U64 [[gnu::vector_size(bytes)]] = unsigned long long;
  using F32 [[gnu::vector_size(bytes)]] = float;  // as some instructions see them; nothing computes with it
  using Half16 [[gnu::vector_size(bytes / 2)]] = int16_t;
  using Half32 [[gnu::vector_size(bytes / 2)]] = int32_t;
};

template <typename V>
BITMMA_INLINE void load(V& vector, const void* from) {
  std::memcpy(&vector, from, sizeof vector);
}

template <typename V>
BITMMA_INLINE void store(const V& vector, void* to) {
  std::memcpy(to, &vector, sizeof vector);
}

/// The larger of every number and its neighbour in `other`.
template <typename V>
BITMMA_INLINE void raise_to(V& vector, const V& other) {
  vector = other > vector ? other : vector;
}

/// The smaller of every number and `limit`.
template <typename V, typename Number>
BITMMA_INLINE void limit_to(V& vector, Number limit) {
  const V limits = V{} + limit;
  vector = vector < limits ? vector : limits;
}

template <typename V>
BITMMA_INLINE bool contains(const V& vector, int32_t number) {
  std::array<int32_t, sizeof(V) / 4> numbers;
  store(vector, numbers.data());
  return std::ranges::find(numbers, number) != numbers.end();
}

/// Sums of both 16-bit products: lower halves and upper halves.
template <int bytes>
BITMMA_INLINE void multiply_pairs(const typename Vectors<bytes>::I32& x, const typename Vectors<bytes>::I32& y,
                                  typename Vectors<bytes>::I32& sums) {
#if BITMMA_X86_BUILTINS
  using I16 = typename Vectors<bytes>::I16;
  using I32 = typename Vectors<bytes>::I32;
  if constexpr (bytes == 64) {
    sums = reinterpret_cast<I32>(__builtin_ia32_pmaddwd512_mask(reinterpret_cast<I16>(x), reinterpret_cast<I16>(y),
                                                                I32{}, static_cast<uint16_t>(~0)));
    return;
  } else if constexpr (bytes == 32) {
    sums = reinterpret_cast<I32>(__builtin_ia32_pmaddwd256(reinterpret_cast<I16>(x), reinterpret_cast<I16>(y)));
    return;
  }
#endif
  sums = (x << 16 >> 16) * (y << 16 >> 16) + (x >> 16) * (y >> 16);
}

/// Numbers shifted right by counts from 0 on, arithmetically: a count of 32 or more leaves 0 or -1.
template <int bytes>
BITMMA_INLINE void shift_right(typename Vectors<bytes>::I32& numbers, const typename Vectors<bytes>::I32& counts) {
#if BITMMA_X86_BUILTINS
  if constexpr (bytes == 64) {
    numbers = __builtin_ia32_psrav16si_mask(numbers, counts, numbers, static_cast<uint16_t>(~0));
    return;
  } else if constexpr (bytes == 32) {
    numbers = __builtin_ia32_psrav8si(numbers, counts);
    return;
  }
#endif
  auto limited = counts;
  limit_to(limited, 31);
  numbers >>= limited;
}

/// The same of 64-bit numbers, whose counts may also be negative: those, and counts of 64 or more, leave 0 or -1.
template <int bytes>
BITMMA_INLINE void shift_right(typename Vectors<bytes>::I64& numbers, const typename Vectors<bytes>::I64& counts) {
  using I64 = typename Vectors<bytes>::I64;
#if BITMMA_X86_BUILTINS
  if constexpr (bytes == 64) {
    numbers = __builtin_ia32_psrav8di_mask(numbers, counts, numbers, static_cast<uint8_t>(~0));
    return;
  } else if constexpr (bytes == 32) {
    const I64 sign = numbers >> 63;
    numbers = __builtin_ia32_psrlv4di(numbers ^ sign, counts) ^ sign;
    return;
  }
#endif
  const I64 most = I64{} + 63;
  numbers >>= (counts < 0 ? most : counts > most ? most : counts);
}

/// Sixteen bits -> 32.
template <int bytes>
BITMMA_INLINE void widen(const typename Vectors<bytes>::Half16& narrow, typename Vectors<bytes>::I32& wide) {
#if BITMMA_X86_BUILTINS
  using I32 = typename Vectors<bytes>::I32;
  if constexpr (bytes == 64) {
    wide = __builtin_ia32_pmovsxwd512_mask(narrow, I32{}, static_cast<uint16_t>(~0));
    return;
  }
#endif
  wide = __builtin_convertvector(narrow, typename Vectors<bytes>::I32);
}

/// 32 bits -> 64.
template <int bytes>
BITMMA_INLINE void widen(const typename Vectors<bytes>::Half32& narrow, typename Vectors<bytes>::I64& wide) {
#if BITMMA_X86_BUILTINS
  if constexpr (bytes == 64) {
    wide = __builtin_ia32_pmovsxdq512_mask(narrow, typename Vectors<bytes>::I64{}, static_cast<uint8_t>(~0));
    return;
  }
#endif
  wide = __builtin_convertvector(narrow, typename Vectors<bytes>::I64);
}

/// The sign of every number as a bit.
template <int bytes>
BITMMA_INLINE uint32_t sign_bits(const typename Vectors<bytes>::I32& numbers) {
#if BITMMA_X86_BUILTINS
  if constexpr (bytes == 64)
    return __builtin_ia32_cvtd2mask512(numbers);
  else if constexpr (bytes == 32)
    return static_cast<uint32_t>(__builtin_ia32_movmskps256(reinterpret_cast<typename Vectors<bytes>::F32>(numbers)));
#endif
  uint32_t bits = 0;
  for (int lane = 0; lane < bytes / 4; ++lane) bits |= static_cast<uint32_t>(numbers[lane] < 0) << lane;
  return bits;
}

/// Bits set, counted in every byte: neighbours added, pairs and then fours.
template <typename V>
BITMMA_INLINE void count_in_bytes(V& bits) {
  bits -= (bits >> 1) & 0x55555555u;
  bits = (bits & 0x33333333u) + ((bits >> 2) & 0x33333333u);
  bits = (bits + (bits >> 4)) & 0x0F0F0F0Fu;
}

/// Bits set in every word.
template <typename V>
BITMMA_INLINE void count_bits(V& words) {
  count_in_bytes(words);
  words = (words * 0x01010101u) >> 24;
}

/// Codes [first, end) of a row, by whole vectors.
template <int bytes>
BITMMA_INLINE void decode_codes(const Decoding& job, int row, int first, int end,
                                typename Vectors<bytes>::I32& largest) {
  using I32 = typename Vectors<bytes>::I32;
  using U32 = typename Vectors<bytes>::U32;
  constexpr int lanes = bytes / 4;
  const DecodeConstants& format = job.format;
  const uint32_t* const codes = job.codes + static_cast<size_t>(row) * job.codes_stride;
  const size_t at = static_cast<size_t>(row) * job.stride;
  const I32 none{};
  for (; first < end; first += lanes) {
    U32 word;
    load(word, codes + first);
    const I32 code = reinterpret_cast<I32>(word >> format.ignored_bits);
    const I32 mantissa = code & format.mantissa_mask, field = (code >> format.mantissa_bits) & format.exponent_mask;
    raise_to<I32>(largest, code & format.special_mask);
    const I32 whole = mantissa | (field == 0 ? none + format.hidden_bit_of_zero : none + format.hidden_bit);
    const I32 sign = -(reinterpret_cast<I32>(word >> format.sign_shift) & 1) ^ job.flip;
    const I32 significand = ((whole << job.shift) ^ sign) - sign;
    const I32 pair = (significand & 0xFFFF) | ((sign | 1) << 16);
    const I32 finite = (field == 0 ? none + format.exponent_of_zero_field : field) - format.bias;
    const I32 exponent = whole == 0 ? none + exponent_of_zero : finite;
    store(pair, job.pair + at + first);
    store(exponent, job.exponent + at + first);
    store(__builtin_convertvector(exponent, typename Vectors<bytes>::Half16), job.narrow_exponent + at + first);
    if (job.negative_of_col && row < 32) {
      I32 negative{};
      if (row > 0) load(negative, job.negative_of_col + first);
      negative |= sign & static_cast<int32_t>(1u << row);
      store(negative, job.negative_of_col + first);
    }
    if (job.negative_of_row && first < 32)
      job.negative_of_row[row] = (first == 0 ? 0 : job.negative_of_row[row]) | sign_bits<bytes>(sign) << first;
  }
}

template <int bytes>
BITMMA_INLINE bool decode(const Decoding& given) {
  const Decoding job = given;                                               // a copy: the stores cannot change it
  constexpr int lanes = bytes / 4, small_bytes = bytes == 64 ? 32 : bytes;  // eight codes, which no vector may pass
  const int whole_lanes = job.cols / lanes * lanes;
  typename Vectors<bytes>::I32 largest{};
  typename Vectors<small_bytes>::I32 small_largest{};
  for (int row = 0; row < job.rows; ++row) {
    decode_codes<bytes>(job, row, 0, whole_lanes, largest);
    decode_codes<small_bytes>(job, row, whole_lanes, job.cols, small_largest);
  }
  return contains(largest, job.format.special_code) || contains(small_largest, job.format.special_code);
}

/// C of some columns, decoded: what aligns and what it is worth.
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

/// A sum in units of 2^(max_exponent - fraction_bits), kept as what fits 32 bits: its magnitude and its sign.
template <int bytes>
struct Sum {
  typename Vectors<bytes>::U32 magnitude;
  typename Vectors<bytes>::I32 sign;  // 0 or -1
};

/// x + c, or x + y + c. The magnitude fits 32 bits, as the caller promises; the sign needs a 33rd.
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
    // Of numbers with one sign that is the sum's; otherwise 32 bits are enough.
    sum.sign = ((x & c) | ((x ^ c) & reinterpret_cast<typename Vectors<bytes>::I32>(low))) >> 31;
  }
  sum.magnitude = (low ^ reinterpret_cast<U32>(sum.sign)) - reinterpret_cast<U32>(sum.sign);
}

/// `number` moved up until its leading one is bit 31, and by how much. A zero stays one, wherever it is moved.
template <int bytes>
BITMMA_INLINE void normalise(typename Vectors<bytes>::U32& number, typename Vectors<bytes>::I32& moved) {
  using I32 = typename Vectors<bytes>::I32;
  using U32 = typename Vectors<bytes>::U32;
  if constexpr (bytes == 64) {  // AVX-512 counts leading zeros, and the compiler knows this loop
    std::array<uint32_t, bytes / 4> in;
    std::array<int32_t, bytes / 4> out;
    store(number | 1, in.data());
    for (size_t i = 0; i < in.size(); ++i) out[i] = __builtin_clz(in[i]);
    load(moved, out.data());
    number <<= reinterpret_cast<U32>(moved);
  } else {
    moved = I32{};
    for (const int step : {16, 8, 4, 2, 1}) {
      const I32 by = reinterpret_cast<I32>(number & ~(~0u >> step)) == 0 ? I32{} + step : I32{};
      number <<= reinterpret_cast<U32>(by);
      moved += by;
    }
  }
}

/// The same of 64-bit numbers, and roughly: bit 63 of those below 2^56 is not promised, one of the upper 32 is.
template <int bytes>
BITMMA_INLINE void normalise(typename Vectors<bytes>::U64& number, typename Vectors<bytes>::I64& moved) {
  using I64 = typename Vectors<bytes>::I64;
  using U64 = typename Vectors<bytes>::U64;
#if BITMMA_X86_BUILTINS
  if constexpr (bytes == 64) {
    const auto one = reinterpret_cast<I64>(number | 1);  // so that the count stays below 64
    moved = __builtin_ia32_vplzcntq_512_mask(one, one, static_cast<uint8_t>(~0));
    number <<= reinterpret_cast<U64>(moved);
    return;
  }
#endif
  moved = I64{};
  for (const int step : {32, 16, 8}) {
    const I64 by = (number & ~(~uint64_t{0} >> step)) == 0 ? I64{} + step : I64{};
    number <<= reinterpret_cast<U64>(by);
    moved += by;
  }
}

/// The sum rounded to a code of `output`: round_to spelled out for vectors; a test holds the two against each other.
template <Format output, int bytes>
BITMMA_INLINE void round_sum(const OutputConstants& format, const Sum<bytes>& sum,
                             const typename Vectors<bytes>::I32& max_exponent, int fraction_bits,
                             typename Vectors<bytes>::U32& d) {
  using I32 = typename Vectors<bytes>::I32;
  using U32 = typename Vectors<bytes>::U32;
  constexpr int mantissa_bits = info(output).mantissa_bits;
  U32 magnitude = sum.magnitude;
  I32 zeros;
  normalise<bytes>(magnitude, zeros);
  // How far the exponent of that bit is above the smallest one. Below it the last place stays where it is, and more
  // bits go.
  const I32 over = max_exponent + (31 - fraction_bits + format.bias - 1) - zeros;
  const I32 none{};
  I32 below = none - over, normal = over;
  raise_to(below, none);
  raise_to(normal, none);
  I32 code;
  if constexpr (output == Format::f16) {
    // One bit in place of the lowest eight says whether any of them is set. Ties to even; less than half of the last
    // place is nothing.
    const U32 sticky = (magnitude >> 8) | ((magnitude & 0xFF) == 0 ? U32{} : U32{} + 1);
    constexpr int normal_drop = 23 - mantissa_bits;
    limit_to(below, 25 - normal_drop);
    const U32 drop = reinterpret_cast<U32>(below + normal_drop);
    const U32 one = (U32{} + 1) << drop;
    code = reinterpret_cast<I32>((sticky + (one >> 1) - 1 + ((sticky >> drop) & 1)) >> drop);
  } else {
    code = reinterpret_cast<I32>(magnitude >> (31 - mantissa_bits));
    shift_right<bytes>(code, below);
    code &= static_cast<int32_t>(format.kept_mask);
  }
  // With the hidden bit inside, one addition makes normals, subnormals and carries alike. Exponents stay below 2^9, so
  // that 32 bits hold it.
  U32 finite = reinterpret_cast<U32>(code + (normal << mantissa_bits));
  limit_to(finite, static_cast<uint32_t>(format.infinity));
  d = code == 0 ? U32{} : finite | reinterpret_cast<U32>(sum.sign & format.sign_bit);  // a zero result is +0, always
}

/// How the signs of products are found: they cancel in pairs of words, a bit a term, or are taken from every product.
enum class Signs { counted, each };

/// One step of a sum for `rows` rows from `row` on and `vectors` vectors of columns from `first` on. What passes from
/// step to step lies in job.scratch, `block` numbers a row: columns are outside, rows inside, so that a block of B and
/// its sums stay in the nearest cache, and every step is a short loop whose constants stay in registers.
template <int bytes, int vectors_, bool dense, bool two_parts, Signs signs, Format output>
struct FusedSteps {
  using I32 = typename Vectors<bytes>::I32;
  using U32 = typename Vectors<bytes>::U32;
  static constexpr int vectors = vectors_, lanes = bytes / 4, block = vectors * lanes;

  using Narrow = typename Vectors<2 * block>::I16;  // all columns of the block
  using Half16 = typename Vectors<bytes>::Half16;   // those of one vector

  enum Kept { of_products, of_more_products, of_c, max_exponent_plus_1 };
  BITMMA_INLINE static int32_t* kept(const FusedSum& job, int row, Kept what) {
    return job.scratch + static_cast<size_t>(what * scratch_rows + row % scratch_rows) * block;
  }
  BITMMA_INLINE static size_t row_of_b(const FusedSum& job, int row, int term) {
    return static_cast<size_t>(dense ? term : job.selected_k[static_cast<size_t>(row) * job.terms + term]) *
           job.b.stride;
  }

  /// C of one vector truncated to a multiple of 2^(e_max - F), when e_max is raised to what it asks.
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

  /// e_max: the largest exponent of products, C and the floor; and C by it.
  template <int rows>
  BITMMA_INLINE static void find_max_exponents(const FusedSum& job, int row, int first, I32& largest_field) {
    Narrow largest[rows];
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
    const I32 floor = I32{} + job.floor_exponent;
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      std::array<int16_t, block> narrow;
      store(largest[r], narrow.data());
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        Half16 half;
        load(half, narrow.data() + v * lanes);
        I32 exponent;
        widen<bytes>(half, exponent);
        raise_to(exponent, floor);
        if (job.c) {
          I32 aligned;
          align_c(job, job.c + static_cast<size_t>(row + r) * job.d_stride + first + v * lanes, exponent, aligned,
                  largest_field);
          store(aligned, kept(job, row + r, of_c) + v * lanes);
        }
        exponent += 1;
        store(exponent, kept(job, row + r, max_exponent_plus_1) + v * lanes);
      }
    }
  }

  /// How many products of a row are negative. A word has a bit a term; up to 16 terms of two
  /// vectors share words.
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

  /// Every product truncated to a multiple of 2^(e_max - F), and added. The sum begins with what negative products
  /// lack: all of them, whichever part they are in.
  template <int rows>
  BITMMA_INLINE static void add_products(const FusedSum& job, int row, int first, int begin, int end, Kept what) {
    I32 max_exponent[rows][vectors];
    U32 sum[rows][vectors];
    const int32_t* a_exponent[rows];
    const Pair* a_pair[rows];
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      const size_t a = static_cast<size_t>(row + r) * job.a.stride;
      a_exponent[r] = job.a.exponent + a, a_pair[r] = job.a.pair + a;
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        load(max_exponent[r][v], kept(job, row + r, max_exponent_plus_1) + v * lanes);
        sum[r][v] = U32{};
      }
      if (signs == Signs::counted && begin == 0) count_negative(job, row + r, first, sum[r]);
    }
    for (int term = begin; term < end; ++term) {
      const size_t b = row_of_b(job, row, term) + first;
      I32 exponent[vectors], pair[vectors];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        load(exponent[v], job.b.exponent + b + v * lanes);
        load(pair[v], job.b.pair + b + v * lanes);
      }
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v) {
          const I32 drop = max_exponent[r][v] - exponent[v] - a_exponent[r][term];
          I32 product;
          multiply_pairs<bytes>(pair[v], I32{} + a_pair[r][term], product);
          if constexpr (signs == Signs::each) sum[r][v] += reinterpret_cast<U32>(product) >> 31;
          shift_right<bytes>(product, drop);
          sum[r][v] += reinterpret_cast<U32>(product);
        }
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) store(sum[r][v], kept(job, row + r, what) + v * lanes);
    }
  }

  template <int rows>
  BITMMA_INLINE static void add_products(const FusedSum& job, int row, int first) {
    add_products<rows>(job, row, first, 0, job.terms_per_part, of_products);
    if constexpr (two_parts) add_products<rows>(job, row, first, job.terms_per_part, job.terms, of_more_products);
  }

  /// C added, and the sum rounded.
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

  /// All steps for the columns from `first` on, some rows at a time.
  BITMMA_INLINE static void run(const FusedSum& job, int first, I32& largest_field) {
    constexpr int four = dense ? 4 : 1, together = !dense         ? 1
                                                   : vectors == 1 ? 4
                                                                  : 2;  // rows that meet the same rows of B
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

template <int bytes, bool dense, bool two_parts, Signs signs, Format output>
BITMMA_INLINE bool sum_fused(const FusedSum& given) {
  const FusedSum job = given;  // a copy: stores cannot change it, so that it stays in registers
  using Two = FusedSteps<bytes, 2, dense, two_parts, signs, output>;
  using One = FusedSteps<bytes, 1, dense, two_parts, signs, output>;
  typename Vectors<bytes>::I32 largest_field{};
  constexpr int small_bytes = bytes == 64 ? 32 : bytes;  // eight columns, which no vector may pass
  using Eight = FusedSteps<small_bytes, 1, dense, two_parts, signs, output>;
  typename Vectors<small_bytes>::I32 small_field{};
  int first = 0;
  for (; job.cols - first >= Two::block; first += Two::block) Two::run(job, first, largest_field);
  for (; job.cols - first >= One::block; first += One::block) One::run(job, first, largest_field);
  for (; first < job.cols; first += Eight::block) Eight::run(job, first, small_field);
  if (contains(small_field, static_cast<int32_t>(info(output).exponent_mask()))) return true;
  return contains(largest_field, static_cast<int32_t>(info(output).exponent_mask()));
}

template <int bytes, Format output>
BITMMA_INLINE bool sum_fused(const FusedSum& job) {
  const bool two_parts = job.terms_per_part < job.terms;
  if (job.selected_k)
    return two_parts ? sum_fused<bytes, false, true, Signs::each, output>(job)
                     : sum_fused<bytes, false, false, Signs::each, output>(job);
  if (job.terms > 32)
    return two_parts ? sum_fused<bytes, true, true, Signs::each, output>(job)
                     : sum_fused<bytes, true, false, Signs::each, output>(job);
  return two_parts ? sum_fused<bytes, true, true, Signs::counted, output>(job)
                   : sum_fused<bytes, true, false, Signs::counted, output>(job);
}

/// Outputs (row, first ...) of one vector of 16-bit numbers.
template <int bytes>
BITMMA_INLINE void sum_groups_at(const GroupSum& job, int row, int first, typename Vectors<bytes>::I32& largest_field) {
  using I16 = typename Vectors<bytes>::I16;
  using I32 = typename Vectors<bytes>::I32;
  using U32 = typename Vectors<bytes>::U32;
  using I64 = typename Vectors<bytes>::I64;
  using U64 = typename Vectors<bytes>::U64;
  using Half16 = typename Vectors<bytes>::Half16;
  using Half32 = typename Vectors<bytes>::Half32;
  constexpr int lanes = bytes / 2, lanes32 = bytes / 4, lanes64 = bytes / 8;
  using Row32 = std::array<int32_t, lanes>;
  const int groups = job.terms / group_terms;

  // Products of halves are quarters of at most 144, sixteen of them fit 16 bits.
  std::array<Row32, most_groups> sums, any;
  const int16_t* const a = job.a + static_cast<size_t>(row) * job.terms;
  const uint16_t* const selected_k = job.selected_k ? job.selected_k + static_cast<size_t>(row) * job.terms : nullptr;
  for (int g = 0; g < groups; ++g) {
    const int begin = g * group_terms;
    if (selected_k) {
      I16 sum{}, bits{};
      for (int term = begin; term < begin + group_terms; ++term) {
        I16 b;
        load(b, job.b + static_cast<size_t>(selected_k[term]) * job.b_stride + first);
        sum += b * a[term];
        const int16_t counts = a[term] == 0 ? 0 : -1;
        bits |= b & counts;
      }
      for (const auto& [narrow, wide] : {std::pair(&sum, sums[g].data()), std::pair(&bits, any[g].data())}) {
        std::array<int16_t, lanes> numbers;
        store(*narrow, numbers.data());
        for (int at = 0; at < lanes; at += lanes32) {
          Half16 half;
          I32 whole;
          load(half, numbers.data() + at);
          widen<bytes>(half, whole);
          store(whole, wide + at);
        }
      }
    } else {
      I32 low{}, high{};
#pragma GCC unroll 8
      for (int term = begin; term < begin + group_terms; term += 2) {
        int32_t a_pair;
        std::memcpy(&a_pair, a + term, sizeof a_pair);
        const int32_t* const b_row = job.b_pairs + static_cast<size_t>(term / 2) * job.b_stride + first;
        I32 b, products;
        load(b, b_row);
        multiply_pairs<bytes>(b, I32{} + a_pair, products);
        low += products;
        load(b, b_row + lanes32);
        multiply_pairs<bytes>(b, I32{} + a_pair, products);
        high += products;
      }
      store(low, sums[g].data());
      store(high, sums[g].data() + lanes32);
    }
  }

  // Times both scales, and the maximum of their exponents. A group that cancels keeps its exponent; one with nothing in
  // it has none.
  std::array<Row32, most_groups + 1> numbers, exponents;  // the last row is c
  Row32 max_exponents, lacking;
  const Scale* const a_scales = job.a_scales + static_cast<size_t>(row) * groups;
  for (int at = 0; at < lanes; at += lanes32) {
    I32 max_exponent = I32{} + job.floor_exponent, negative{};
    if (job.c && first + at < job.cols) {
      U32 word;
      load(word, job.c + static_cast<size_t>(row) * job.d_stride + first + at);
      C<bytes> c;
      decode_c<Format::f32, bytes>(job.output, word, job.c_scale, c, largest_field);
      raise_to(max_exponent, c.exponent);
      const I32 number = (c.magnitude ^ c.sign) - c.sign;
      negative = number >> 31;  // not that of a negative zero
      store(number, numbers[static_cast<size_t>(groups)].data() + at);
      store(c.exponent, exponents[static_cast<size_t>(groups)].data() + at);
    }
    for (int g = 0; g < groups; ++g) {
      I32 sum, significand, exponent, bits;
      load(sum, sums[g].data() + at);
      load(significand, job.b_significands + static_cast<size_t>(g) * job.b_stride + first + at);
      load(exponent, job.b_exponents + static_cast<size_t>(g) * job.b_stride + first + at);
      exponent += a_scales[g].exponent;
      if (selected_k) {
        load(bits, any[g].data() + at);
      } else {
        load(bits, job.b_nonzero + static_cast<size_t>(g) * job.b_stride + first + at);
        bits &= job.a_nonzero[static_cast<size_t>(row) * groups + g];
      }
      const I32 counting = bits == 0 ? I32{} + exponent_of_zero : exponent;
      raise_to(max_exponent, counting);
      const I32 whole = sum * (significand * a_scales[g].significand);
      negative += whole >> 31;
      store(whole, numbers[g].data() + at);
      store(exponent, exponents[g].data() + at);
    }
    max_exponent += 1;  // because numbers count twice below
    store(max_exponent, max_exponents.data() + at);
    store(-negative, lacking.data() + at);
  }

  // Like products of pairs, numbers count twice and a negative one is one less than that: shifts then truncate toward
  // zero, and leave one less, which `lacking` makes up for. Every group truncated to a multiple of the last bit, and
  // added in 64 bits; what f32 needs of the sum fits 32 again.
  std::array<uint32_t, lanes> magnitudes;
  Row32 signs, leading;
  const auto take = [](I64& wide, const int32_t* from) BITMMA_INLINE_LAMBDA {
    Half32 narrow;
    load(narrow, from);
    widen<bytes>(narrow, wide);
  };
  for (int at = 0; at < lanes; at += lanes64) {
    I64 max_exponent, sum;
    take(max_exponent, max_exponents.data() + at);
    take(sum, lacking.data() + at);
    const auto add_truncated = [&](int g, int up) BITMMA_INLINE_LAMBDA {
      I64 number, exponent;
      take(number, numbers[static_cast<size_t>(g)].data() + at);
      take(exponent, exponents[static_cast<size_t>(g)].data() + at);
      number <<= up + 1;
      number += number >> 63;
      shift_right<bytes>(number, max_exponent - exponent);  // negative only where there is nothing in the group
      sum += number;
    };
    for (int g = 0; g < groups; ++g) add_truncated(g, job.fraction_bits - group_fraction_bits);
    if (job.c) add_truncated(groups, job.fraction_bits - info(Format::f32).mantissa_bits);

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

template <int bytes>
BITMMA_INLINE bool sum_groups(const GroupSum& given) {
  const GroupSum job = given;
  typename Vectors<bytes>::I32 largest_field{};
  for (int first = 0; first < job.cols; first += bytes / 2) {
    for (int row = 0; row < job.rows; ++row) sum_groups_at<bytes>(job, row, first, largest_field);
  }
  return contains(largest_field, static_cast<int32_t>(info(Format::f32).exponent_mask()));
}

/// C added to an exact sum, wrapped or clamped once.
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

template <int bytes>
BITMMA_INLINE void sum_integers(const IntegerSum& given) {
  const IntegerSum job = given;
  using I32 = typename Vectors<bytes>::I32;
  constexpr int lanes = bytes / 4;
  for (int first = 0; first < job.cols; first += lanes) {
    for (int row = 0; row < job.rows; ++row) {
      const int32_t* const a = job.a + static_cast<size_t>(row) * job.terms;
      const uint16_t* const selected_k =
          job.selected_k ? job.selected_k + static_cast<size_t>(row) * job.terms : nullptr;
      I32 sum{};
      for (int term = 0; term < job.terms; ++term) {
        I32 b;
        load(b, job.b + static_cast<size_t>(selected_k ? selected_k[term] : term) * job.b_stride + first);
        sum += b * a[term];
      }
      const size_t at = static_cast<size_t>(row) * job.d_stride + first;
      finish_integers<bytes>(sum, job.c ? job.c + at : nullptr, job.saturate, job.d + at);
    }
  }
}

template <int bytes>
BITMMA_INLINE void sum_popcounts(const PopcountSum& given) {
  const PopcountSum job = given;
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
        bits &= a[word];
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

// The table of one instruction set: every body once more, in functions that may use it.
#define BITMMA_KERNELS(space, name, target, bytes)                                               \
  namespace space {                                                                              \
  target bool decode(const Decoding& job) { return kernels::decode<bytes>(job); }                \
  target bool sum_fused_f32(const FusedSum& job) { return sum_fused<bytes, Format::f32>(job); }  \
  target bool sum_fused_f16(const FusedSum& job) { return sum_fused<bytes, Format::f16>(job); }  \
  target bool sum_groups(const GroupSum& job) { return kernels::sum_groups<bytes>(job); }        \
  target void sum_integers(const IntegerSum& job) { kernels::sum_integers<bytes>(job); }         \
  target void sum_popcounts(const PopcountSum& job) { kernels::sum_popcounts<bytes>(job); }      \
  target void pack_bits(const uint32_t* codes, int count, int bit, uint32_t* words) {            \
    kernels::pack_bits<bytes>(codes, count, bit, words);                                         \
  }                                                                                              \
  target void pack_row(const uint32_t* codes, int count, uint32_t* words) {                      \
    kernels::pack_row<bytes>(codes, count, words);                                               \
  }                                                                                              \
  constexpr Kernels table{name,         decode,        sum_fused_f32, sum_fused_f16, sum_groups, \
                          sum_integers, sum_popcounts, pack_bits,     pack_row};                 \
  }

#if defined(__x86_64__)
BITMMA_KERNELS(v4, "x86-64-v4", [[gnu::target("arch=x86-64-v4")]], 64)
BITMMA_KERNELS(v3, "x86-64-v3", [[gnu::target("arch=x86-64-v3")]], 32)
#endif
BITMMA_KERNELS(baseline, "baseline", , 16)

/// What the processor has, best first.
std::span<const Kernels* const> supported() {
  static const std::vector<const Kernels*> tables = [] {
    std::vector<const Kernels*> found;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("x86-64-v4")) found.push_back(&v4::table);
    if (__builtin_cpu_supports("x86-64-v3")) found.push_back(&v3::table);
#endif
    found.push_back(&baseline::table);
    return found;
  }();
  return tables;
}

std::atomic<const Kernels*>& in_use() {
  static std::atomic<const Kernels*> table{supported().front()};
  return table;
}

}  // namespace

const Kernels& kernels() { return *in_use().load(std::memory_order_relaxed); }

}  // namespace bitmma::kernels

namespace bitmma {

std::span<const std::string_view> cpu_targets() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> found;
    for (const kernels::Kernels* table : kernels::supported()) found.push_back(table->name);
    return found;
  }();
  return names;
}

std::string_view cpu_target() { return kernels::kernels().name; }

void use_cpu_target(std::string_view name) {
  for (const kernels::Kernels* table : kernels::supported()) {
    if (table->name == name) return kernels::in_use().store(table);
  }
  std::string legal;
  for (const std::string_view target : cpu_targets()) legal += (legal.empty() ? "" : ", ") + std::string(target);
  throw Error({.field = "cpu target", .seen = std::string(name), .legal = legal, .fix = "this processor has no other"});
}

}  // namespace bitmma
