// SPDX-License-Identifier: MIT
// The interface of the hot loops: one table of functions per instruction set, and the jobs for these functions.
// Operands are decoded arrays. The loops do not handle NaN and infinity: each returns whether any occurred, and its
// caller replaces the affected outputs.
#pragma once

#include <array>
#include <cstdint>
#include <new>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "../budget.hpp"

namespace bitmma::kernels {

/// Exponent of a zero: far below every floor, so that a zero product never determines e_max.
inline constexpr int32_t exponent_of_zero = -4096;

/// Exponents fit in 16 bits, and a floor must too. A lower floor has no effect, and would not fit with the exponent of
/// zeros plus a scale.
inline constexpr int32_t lowest_floor = -16384;
static_assert(lowest_floor < 2 * exponent_of_zero - 512);
constexpr int32_t floor_of(const AccumulatorModel& model) {
  return std::max(model.floor_exponent.value_or(lowest_floor), lowest_floor);
}

/// The loops, by their final rounding. Only roundings of real hardware have a loop; refuted hypotheses do not.
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

  /// nullptr if there is none.
  constexpr Sum operator[](LoopId id) const {
    return id == LoopId::f32_toward_zero ? f32 : id == LoopId::f16_nearest_even ? f16 : nullptr;
  }
};

/// The units that the loops read and write: decoding and fused sums process eight codes (every hardware N is a multiple
/// of eight), the other loops sixteen. Rows of decoded numbers hold vectors of 32 16-bit numbers.
inline constexpr int fused_codes = 8, other_codes = 16, decoded_numbers = 32;
constexpr int round_up(int cols, int multiple) { return (cols + multiple - 1) / multiple * multiple; }

/// Arrays for whole vectors: aligned to a cache line, and uninitialised.
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
  int32_t hidden_bit_of_zero, exponent_of_zero_field;  // for a code whose exponent field is 0
  int32_t exponent_mask, mantissa_mask, sign_shift;
  int32_t special_mask, special_code;  // a code is NaN or infinity if it equals special_code under the mask

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
        // ieee: every code with the largest exponent; nan_only: only with all mantissa bits set; none: no code is -1
        special_mask(format.non_finite == NonFinite::nan_only ? exponent_mask << mantissa_bits | mantissa_mask
                                                              : exponent_mask << mantissa_bits),
        special_code(format.non_finite == NonFinite::none ? -1 : special_mask) {}
};

/// The same for C and D: run-time numbers, because loops keep them in registers but rebuild constants.
struct OutputConstants {
  int32_t mantissa_mask, exponent_mask, hidden_bit, bias, infinity, sign_bit;
  uint32_t kept_mask;  // bits of a truncated result that may be set

  OutputConstants(const FormatInfo& format, int fraction_bits)
      : mantissa_mask(static_cast<int32_t>(format.mantissa_mask())),
        exponent_mask(static_cast<int32_t>(format.exponent_mask())),
        hidden_bit(1 << format.mantissa_bits),
        bias(format.bias),
        infinity(static_cast<int32_t>(*format.infinity())),
        sign_bit(static_cast<int32_t>(format.sign_bit())),
        kept_mask(~0u << (format.mantissa_bits - fraction_bits)) {}
};

/// A number for multiplication: the significand with its sign in the lower 16 bits, and 1 or -1 in the upper ones. If
/// one significand carries a factor of two, the product of two such pairs is 2 x + 1 or -(2 x + 1): an arithmetic right
/// shift truncates x toward zero, and leaves one less if the product is negative. The sign bits, one per term, give the
/// number of negative products.
using Pair = int32_t;

/// Converts codes to pairs, with significands shifted left by `shift`, and exponents. Rows of the arrays are `stride`
/// apart, in whole vectors.
struct Decoding {
  DecodeConstants format;
  const uint32_t* codes;
  int codes_stride, rows, cols, stride, shift;
  int32_t flip;  // -1: negate
  bool normal;   // subnormal numbers get the exponents of normal ones, as in a wider format
  Pair* pair;
  int32_t* exponent;
  int16_t* narrow_exponent;  // the same exponents in 16 bits, for the search of the largest
  // Bit k: number k of the row or column is negative; only the first 32. The words must be 0 before. Either pointer may
  // be nullptr.
  uint32_t *negative_of_row, *negative_of_col;
};

/// Returns true if any code is NaN or infinity.
using Decode = bool (*)(const Decoding& job);

/// One decoded operand; strides are in elements.
struct Numbers {
  const Pair* pair;
  const int32_t* exponent;
  const int16_t* narrow_exponent;
  const uint32_t* negative;  // one word per row of A or column of B
  int stride;
};

/// Most terms of a dense sum: one sign bit each, so that a word holds the signs of a row or a column.
inline constexpr int most_dense_terms = 32;

/// D = A * B + C by aligned sums. A is rows x terms and B is K x cols.
struct FusedSum {
  Numbers a, b;
  const uint16_t* selected_k;  // rows x terms; nullptr: term j multiplies row j of B
  int rows, cols, terms;
  int terms_per_part;  // terms whose sum fits in 31 bits; the sum has at most two parts
  const uint32_t* c;   // codes of the output, or nullptr; rows are d_stride apart, like those of d
  int c_scale;         // c * 2^-c_scale is added
  int fraction_bits, floor_exponent;
  OutputConstants output;
  uint32_t* d;
  int d_stride;
  int32_t* scratch;  // scratch_numbers
};
/// Rows that pass through the steps together, so that intermediate results stay in the L1 cache.
inline constexpr int scratch_rows = 16, scratch_numbers = scratch_rows * 4 * 32;

/// Returns true if any code of C is NaN or infinity.
using SumFused = bool (*)(const FusedSum& job);

/// One aligned sum of a chain: terms [first, first + terms) of K, which start at `at` in the decoded arrays and are
/// those of decoded step `number`.
struct ChainStep {
  int64_t first;
  int terms, at = 0, number = 0;
};
/// Most terms of all steps of one decoding: a strip of B stays in the L1 cache.
inline constexpr int most_chain_terms = 256;
/// Number of rows of A that pass through a chain together.
inline constexpr int chain_rows = 4;

/// The range of exponents without zeros: it decides which checks a chain can skip.
struct ExponentRange {
  int32_t lowest, highest;
};

/// Converts codes of A or B to numbers, exponents and signs for some steps.
struct ChainDecoding {
  DecodeConstants format;
  const uint32_t* codes;  // the first row of A, or the first column of B
  size_t codes_stride;
  int lines;                // rows of A, columns of B
  bool pairs_rows = false;  // A: the order of rows is 0 8 1 9 ... 7 15 16 24 ..., as a fragment holds them
  const int32_t* scales;    // the exponent of every line's block scale, up to whole strips; nullptr: there are none
  std::span<const ChainStep> steps;  // at most most_chain_terms
  int decoded_steps;                 // for which the arrays have room
  int shift;                         // of pairs
  // A: rows of `stride`; the last row is repeated up to a multiple of chain_rows. A word holds an exponent in both of
  // its halves. Each step and row has a word of signs.

  // B: strips of columns with `stride` terms each, one more than needed, so that strips do not compete for a cache set.
  // A word holds the exponent of the left half of a strip in its lower half and that of the right half in its upper
  // half. Each step has as many words of signs as a strip has columns.

  // In fma_chain.hpp a number takes number_words words, and there are sign_words times as many words of signs. Loops
  // with exponents of 8 bits keep those of two rows in one word.
  int stride;
  int32_t* number;  // pairs, or the bits of numbers
  int32_t* exponent;
  uint32_t* negative;
  uint32_t* special;  // a line's word becomes non-zero if it has a NaN or infinity
  ExponentRange* range;
};
using DecodeChain = void (*)(const ChainDecoding& job);

/// D of one strip of columns after some steps; D of a step is C of the next. Rows first_row ... first_row + rows - 1 of
/// A, both multiples of chain_rows; C and D begin with the first of them.
struct ChainSum {
  const int32_t* a_number;
  const int32_t* a_exponent;
  const uint32_t* a_negative;
  int a_stride;
  const int32_t* b_number;
  const int32_t* b_exponent;
  const uint32_t* b_negative;
  std::span<const ChainStep> steps;
  int decoded_steps;  // of which `steps` are some
  int first_row, rows;
  const uint32_t* c;   // codes of C, may be d; nullptr: there is none. Rows are d_stride apart
  bool plain;          // no result is infinite, subnormal, or non-zero and below every floor
  bool any_c = false;  // plain, but for C, which is of any size
  int terms_per_part;  // as in FusedSum
  bool two_parts;      // some step needs two parts
  int fraction_bits, floor_exponent;
  OutputConstants output;
  uint32_t* d;  // codes
  int d_stride;
  // Only f32 of fma_chain.hpp: c and d are registers of 2 * rows threads, d_stride apart, for rows that pairs_rows
  // orders.
  bool in_fragment = false;
  bool in_place = false;  // C is D: a group with a special C keeps it
  uint8_t* special;       // per chain_rows rows of A: non-zero if C of a step was NaN or infinity
};
using SumChain = void (*)(const ChainSum& job);

/// The decoding for one kind of loop, and the loops.
struct ChainLoop {
  DecodeChain decode_a, decode_b;
  LoopsById<SumChain> sum;
  int number_words, sign_words;
};

/// Loops for strips of one width: for any sum within the budget, for small exponents (have_small_exponents), and for
/// small exponents and few bits (fits_floats). They are all the same one where an instruction set has nothing better.
struct ChainLoops {
  int strip;  // in columns
  ChainLoop any, small, few_bits;
  bool win_single_steps = false;  // faster than sum_fused for single steps, too
};

inline constexpr int warp_rows = 8, warp_cols = 16, most_warp_places = 64, most_warp_steps = 8;

/// The registers of an m16n8k16 of 16-bit types with f32, as a kernel keeps them: the words of 32 lanes side by side.
struct WarpSlots {
  static constexpr size_t lanes = 32;
  std::array<const uint32_t*, 4> a;
  std::array<const uint32_t*, 2> b;
  std::array<const uint32_t*, 4> c;
  std::array<uint32_t*, 4> d;  // may be slots of the others
};
/// The registers of A or B of WarpSlots, decoded. Kernels multiply the same A by one B after another, and warps of a
/// block the same B by one A after another.
template <size_t registers, int lines, int lines_of_word>
struct DecodedSlots {
  static constexpr int places = 16, most_steps = 2;
  Format format = Format::f16;
  size_t steps = 0;  // 0: nothing is decoded
  bool has_special = false;
  alignas(64) std::array<uint32_t, registers * WarpSlots::lanes> words;
  // As in warp.hpp.
  alignas(64) std::array<int32_t, 2 * lines * places> number;
  alignas(64) std::array<int32_t, lines / lines_of_word * places> exponent;
  alignas(64) std::array<uint32_t, 2 * lines / lines_of_word * most_steps> negative;
};
using WarpColumns = DecodedSlots<4, warp_cols, 1>;
using WarpRows = DecodedSlots<2, warp_rows, 2>;

/// All steps of one mma.sync: eight rows of B^T, `places` codes each, times A^T, which has a row of sixteen codes for
/// each place. A step begins at place `at`, a multiple of eight, and at most 64 places are in use.
struct WarpSum {
  struct Side {
    DecodeConstants format;
    bool normal;  // as in Decoding
    const uint32_t* codes;
    // Those of the scale of each row or column; nullptr: there are no scales. With scales, `places` is a multiple
    // of 16.
    const int32_t* exponents;
  };
  Side of_rows, of_cols;
  int places;
  std::span<const ChainStep> steps;
  const uint32_t* c;  // 8 x 16 codes, like d; or nullptr
  bool plain;         // as in ChainSum, but for C
  int fraction_bits, floor_exponent;
  OutputConstants output;
  uint32_t* d;
  // If set, the codes of all operands are those of the slots, K is places in order, and there are no scales.
  const WarpSlots* slots = nullptr;
  WarpColumns* columns = nullptr;  // what `slots` may have again
  WarpRows* decoded_rows = nullptr;
  Format format_of_cols = Format::f16, format_of_rows = Format::f16;
};
/// Returns true if a code, or C of a step, is NaN or infinity.
using SumWarp = bool (*)(const WarpSum& job);

/// A scale as a power of two times a multiple of 2^-3. A zero has exponent_of_zero.
struct Scale {
  int32_t significand = 0;
  int32_t exponent = 0;
  bool nan = false;
};

/// Exact groups of 16 e2m1 products, in quarters, aligned by the exponents of their scales.
struct GroupSum {
  const int16_t* a;        // rows x terms, in halves
  const int16_t* b;        // K x b_stride, in halves; only with selected_k
  const int32_t* b_pairs;  // K / 2 x b_stride, rows 2 j and 2 j + 1 in the lower and upper 16 bits; only without it
  int b_stride;
  const uint16_t* selected_k;                   // rows x terms, or nullptr
  const int32_t* a_nonzero;                     // rows x groups: bit j is set if term 16 g + j is not zero
  const int32_t* b_nonzero;                     // groups x b_stride, the same for columns; both unused with selected_k
  const Scale* a_scales;                        // rows x groups
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

/// Exact integer sums: every term fits in 17 bits, and the sum of most_integer_terms in 31.
inline constexpr int most_integer_terms = 1 << 14;
struct IntegerSum {
  const int32_t* a;  // rows x terms
  const int32_t* b;  // K x b_stride
  int b_stride;
  const uint16_t* selected_k;  // rows x terms, or nullptr
  int rows, cols, terms;
  bool pairs;  // a term is two, of 16 bits each: k = 2 * term in the lower halves
  const uint32_t* c;
  bool saturate;
  uint32_t* d;
  int d_stride;
};
using SumIntegers = void (*)(const IntegerSum& job);

/// Counts the positions where both operands have a bit. Bit k % 32 of word k / 32 is element k.
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

/// Packs `count` codes of element k into bit k % 32 of their columns' words.
using PackBits = void (*)(const uint32_t* codes, int count, int bit, uint32_t* words);

/// Packs `count` codes of a row into bits of its words, all of which it writes.
using PackRow = void (*)(const uint32_t* codes, int count, uint32_t* words);

struct Kernels {
  std::string_view name;
  Decode decode;
  LoopsById<SumFused> sum_fused;
  LoopsById<SumWarp> sum_warp;  // nullptr where sum_fused is the best for it
  SumGroups sum_groups;         // f32, toward zero
  SumIntegers sum_integers;
  SumPopcounts sum_popcounts;
  PackBits pack_bits;
  PackRow pack_row;
  ChainLoops chain, narrow_chain;  // the second for products of few columns
};

/// The loops of the instruction set in use.
const Kernels& kernels();

/// One table per instruction set that the processor supports, best first.
std::span<const Kernels* const> supported_kernels();
/// Selects another one for all threads. Do not call it while another thread computes.
void use_kernels(const Kernels& kernels);

}  // namespace bitmma::kernels
