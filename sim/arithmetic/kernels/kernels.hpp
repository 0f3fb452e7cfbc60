// SPDX-License-Identifier: MIT
// The hot loops as their callers see them: one table of functions an instruction set, and the jobs that these are
// given. Operands come decoded, as arrays. NaN and infinity are not known here: a loop returns whether any were there,
// and its caller replaces the outputs that they reach.
#pragma once

#include <cstdint>
#include <new>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "../budget.hpp"

namespace bitmma::kernels {

/// Exponent of a zero: far below every floor, so that a zero product never sets e_max.
inline constexpr int32_t exponent_of_zero = -4096;

/// Exponents fit 16 bits, and so must a floor: one that lies below everything, as a product of zeros with a scale does
/// not.
inline constexpr int32_t lowest_floor = -16384;
static_assert(lowest_floor < 2 * exponent_of_zero - 512);
constexpr int32_t floor_of(const AccumulatorModel& model) {
  return std::max(model.floor_exponent.value_or(lowest_floor), lowest_floor);
}

/// The loops, by their final rounding. Only roundings of real hardware have a loop; refuted hypotheses have none.
enum class LoopId : uint8_t { none, f32_toward_zero, f16_nearest_even };
constexpr LoopId loop_of(const AccumulatorModel& model) {
  if (model.arithmetic != Arithmetic::fused_sum || model.overrides != Overrides{}) return LoopId::none;
  if (model.output == Format::f32 && model.rounding == Rounding::toward_zero) return LoopId::f32_toward_zero;
  if (model.output == Format::f16 && model.rounding == Rounding::nearest_even && model.output_fraction_bits == 10)
    return LoopId::f16_nearest_even;
  return LoopId::none;
}
template <typename Sum>
struct LoopsById {
  Sum f32, f16;

  /// nullptr where there is none.
  constexpr Sum operator[](LoopId id) const {
    return id == LoopId::f32_toward_zero ? f32 : id == LoopId::f16_nearest_even ? f16 : nullptr;
  }
};

/// Whole vectors, what the loops read and write: decoding and fused sums take codes by eight, as every N of the
/// hardware is, the other loops by sixteen. Rows of decoded numbers hold vectors of 32 16-bit numbers.
inline constexpr int fused_codes = 8, other_codes = 16, decoded_numbers = 32;
constexpr int round_up(int cols, int multiple) { return (cols + multiple - 1) / multiple * multiple; }

/// Arrays for whole vectors: from the start of a cache line, and not filled when they are made.
template <typename Number>
struct LineAllocator {
  using value_type = Number;
  static constexpr std::align_val_t line{64};

  LineAllocator() = default;
  template <typename Other>
  constexpr LineAllocator(const LineAllocator<Other>&) {}
  Number* allocate(size_t count) { return static_cast<Number*>(::operator new(count * sizeof(Number), line)); }
  void deallocate(Number* numbers, size_t) { ::operator delete(numbers, line); }
  template <typename Other>
  void construct(Other*) {}
  template <typename Other, typename... Arguments>
  void construct(Other* at, Arguments&&... arguments) {
    ::new (static_cast<void*>(at)) Other(std::forward<Arguments>(arguments)...);
  }
  bool operator==(const LineAllocator&) const = default;
};
template <typename Number>
using Array = std::vector<Number, LineAllocator<Number>>;

/// The properties of a format that a loop over codes needs: plain numbers, so the loop has no branches.
struct DecodeConstants {
  int32_t ignored_bits, mantissa_bits, bias, hidden_bit;
  int32_t hidden_bit_of_zero, exponent_of_zero_field;  // of a code whose exponent field is 0
  int32_t exponent_mask, mantissa_mask, sign_shift;
  int32_t special_mask, special_code;  // NaN and infinity are the codes that are special_code under the mask

  explicit DecodeConstants(const FormatInfo& format)
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
};

/// The same of C and D: numbers at run time, because loops keep those in registers and make constants anew.
struct OutputConstants {
  int32_t mantissa_mask, exponent_mask, hidden_bit, bias, infinity, sign_bit;
  uint32_t kept_mask;  // bits of a truncated result that are not zero

  OutputConstants(const FormatInfo& format, int fraction_bits)
      : mantissa_mask(static_cast<int32_t>(format.mantissa_mask())),
        exponent_mask(static_cast<int32_t>(format.exponent_mask())),
        hidden_bit(1 << format.mantissa_bits),
        bias(format.bias),
        infinity(static_cast<int32_t>(*format.infinity())),
        sign_bit(static_cast<int32_t>(format.sign_bit())),
        kept_mask(~0u << (format.mantissa_bits - fraction_bits)) {}
};

/// A number as the loops multiply it: its significand with its sign in the lower 16 bits, and 1 or -1 in the upper
/// ones. A product of two such pairs, of the halves, is 2 x + 1 or -(2 x + 1) when one significand carries the factor
/// two: shifting that right, arithmetically, truncates x toward zero, and leaves one less than that where the product
/// is negative. How often it is, the signs say, a bit a term.
using Pair = int32_t;

/// Codes -> pairs, significands moved up by `shift`, and exponents. Rows of the arrays are `stride` apart, whole
/// vectors.
struct Decoding {
  DecodeConstants format;
  const uint32_t* codes;
  int codes_stride, rows, cols, stride, shift;
  int32_t flip;  // -1 negates
  Pair* pair;
  int32_t* exponent;
  int16_t* narrow_exponent;  // the same exponents: the search for the largest takes twice as many at a time
  // Bit k: number k of the row or column is negative; the first 32. The bits are set in words that are 0 before. Either
  // may be nullptr.
  uint32_t *negative_of_row, *negative_of_col;
};

/// Returns whether any code is NaN or infinity.
using Decode = bool (*)(const Decoding& job);

/// One operand, decoded; strides count elements.
struct Numbers {
  const Pair* pair;
  const int32_t* exponent;
  const int16_t* narrow_exponent;
  const uint32_t* negative;  // a row's of A, a column's of B
  int stride;
};

/// Terms of a dense sum: a sign a bit, so that a word holds those of a row or a column.
inline constexpr int most_dense_terms = 32;

/// D = A * B + C of an aligned sum, whole. A is rows x terms and B is K x cols.
struct FusedSum {
  Numbers a, b;
  const uint16_t* selected_k;  // rows x terms, or nullptr: term j meets row j of B
  int rows, cols, terms;
  int terms_per_part;  // whose sum fits 31 bits; all of them make at most two parts
  const uint32_t* c;   // codes of the output, or nullptr; rows d_stride apart like those of d
  int c_scale;         // c counts c * 2^-c_scale
  int fraction_bits, floor_exponent;
  OutputConstants output;
  uint32_t* d;
  int d_stride;
  int32_t* scratch;  // scratch_numbers
};
/// Rows that pass through the steps of a sum together, so that what is kept between steps stays in the nearest cache.
inline constexpr int scratch_rows = 16, scratch_numbers = scratch_rows * 4 * 32;

/// Returns whether any code of C is NaN or infinity.
using SumFused = bool (*)(const FusedSum& job);

/// One aligned sum of a chain: terms [first, first + terms) of K, which lie from `at` on in the decoded arrays.
struct ChainStep {
  int64_t first;
  int terms, at;
};
/// Rows of A that pass through a chain together.
inline constexpr int chain_rows = 4;

/// The range of exponents, without those of zeros: it decides which checks a chain may skip.
struct ExponentRange {
  int32_t lowest, highest;
};

/// Codes of A or B -> pairs, exponents and signs of some steps.
struct ChainDecoding {
  DecodeConstants format;
  const uint32_t* codes;  // the first row of A, or the first column of B
  size_t codes_stride;
  int lines;  // rows of A, columns of B
  std::span<const ChainStep> steps;
  int shift;
  // A: rows of `stride`, an exponent in both halves of its word, a word of signs a step and row.
  // Loops over bytes: A has 16-bit numbers, first a row of magnitudes with 1 above, then as many of signs, 1 or -1, and
  //    16-bit exponents.
  // B: strips of columns, each with `stride` terms, one more than there are: no strips compete for one place in caches;
  // an exponent of the left half of a strip
  //    in the lower half of a word, of its right half in the upper one; two words of signs a step and word of
  //    exponents.
  int stride;
  Pair* pair;
  int32_t* exponent;
  uint32_t* negative;
  uint32_t* special;  // a line's word becomes not 0 where it has a NaN or infinity
  ExponentRange* range;
};
using DecodeChain = void (*)(const ChainDecoding& job);

/// D of one strip of columns after some steps, D of a step being C of the next. Rows are a multiple of chain_rows.
struct ChainSum {
  const Pair* a_pair;
  const int32_t* a_exponent;
  const uint32_t* a_negative;
  int a_stride;
  const Pair* b_pair;
  const int32_t* b_exponent;
  const uint32_t* b_negative;
  std::span<const ChainStep> steps;
  int rows;
  bool from_c;         // d holds C; otherwise there is none
  bool plain;          // no result is infinite, subnormal or, where it is not zero, below every floor
  int terms_per_part;  // as in FusedSum
  bool two_parts;      // whether any step needs them
  int fraction_bits, floor_exponent;
  OutputConstants output;
  uint32_t* d;  // codes
  int d_stride;
  uint8_t* special;  // of every chain_rows rows: not 0 where C of a step was NaN or infinity
};
using SumChain = void (*)(const ChainSum& job);

/// Decoding for one kind of loop, and the loops.
struct ChainLoop {
  DecodeChain decode_a, decode_b;
  LoopsById<SumChain> sum;
};

/// Loops for strips of one width.
struct ChainLoops {
  int strip;  // columns
  ChainLoop pairs;
  const ChainLoop* bytes;  // of 8-bit types with few fraction bits; nullptr where the instruction set has none
};

/// A scale as a multiple of 2^-3 of a power of two. A zero has exponent_of_zero.
struct Scale {
  int32_t significand = 0;
  int32_t exponent = 0;
  bool nan = false;
};

/// Exact groups of 16 products of e2m1, in quarters, aligned by the exponents of their scales.
struct GroupSum {
  const int16_t* a;        // rows x terms, halves
  const int16_t* b;        // K x b_stride, halves; with selected_k
  const int32_t* b_pairs;  // K / 2 x b_stride, rows 2 j and 2 j + 1 in the lower and upper 16 bits; without
  int b_stride;
  const uint16_t* selected_k;  // rows x terms, or nullptr
  const int32_t* a_nonzero;    // rows x groups: bit j is set when term 16 g + j is not zero
  const int32_t* b_nonzero;    // groups x b_stride, the same for columns; neither is looked at with selected_k
  const Scale* a_scales;       // rows x groups
  const int32_t *b_significands, *b_exponents;  // groups x b_stride
  int rows, cols, terms;
  const uint32_t* c;
  int c_scale;
  int fraction_bits, floor_exponent;
  OutputConstants output;
  uint32_t* d;
  int d_stride;
};
using SumGroups = bool (*)(const GroupSum& job);

/// Exact integer sums: every term fits 17 bits, and most_integer_terms of them 31.
inline constexpr int most_integer_terms = 1 << 14;
struct IntegerSum {
  const int32_t* a;  // rows x terms
  const int32_t* b;  // K x b_stride
  int b_stride;
  const uint16_t* selected_k;  // rows x terms, or nullptr
  int rows, cols, terms;
  const uint32_t* c;
  bool saturate;
  uint32_t* d;
  int d_stride;
};
using SumIntegers = void (*)(const IntegerSum& job);

/// Bits that both have, counted. Bit k % 32 of word k / 32 is element k.
struct PopcountSum {
  const uint32_t* a;  // rows x words
  const uint32_t* b;  // words x b_stride
  int b_stride;
  int rows, cols, words;
  const uint32_t* c;
  bool saturate, exclusive_or;
  uint32_t* d;
  int d_stride;
};
using SumPopcounts = void (*)(const PopcountSum& job);

/// `count` codes of element k -> bit k % 32 of their columns' words.
using PackBits = void (*)(const uint32_t* codes, int count, int bit, uint32_t* words);

/// `count` codes of a row -> bits of its words, all of which are written.
using PackRow = void (*)(const uint32_t* codes, int count, uint32_t* words);

struct Kernels {
  std::string_view name;
  Decode decode;
  LoopsById<SumFused> sum_fused;
  SumGroups sum_groups;  // f32 toward zero
  SumIntegers sum_integers;
  SumPopcounts sum_popcounts;
  PackBits pack_bits;
  PackRow pack_row;
  ChainLoops chain, narrow_chain;  // the second for products of few columns
};

/// Those of the instruction set in use.
const Kernels& kernels();

/// One table for every instruction set that the processor has, best first.
std::span<const Kernels* const> supported_kernels();
/// Takes another one for all threads. Not while another thread computes.
void use_kernels(const Kernels& kernels);

}  // namespace bitmma::kernels
