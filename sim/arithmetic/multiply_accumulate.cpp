#include "bitmma/arithmetic/multiply_accumulate.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <limits>

// One source, compiled for three generations of x86-64 and chosen when the program starts.
// Not a language feature, hence the only macro: other processors and compilers take the plain loop.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define BITMMA_TARGET_CLONES [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#else
#define BITMMA_TARGET_CLONES
#endif

namespace bitmma {
namespace {

/// Exponent of a zero operand: far below every floor, so that a zero product never sets e_max.
constexpr int32_t exponent_of_zero = -4096;

constexpr int lane_count = 16;     // outputs of one row in one vector
constexpr int max_lanes = 256;     // of one row: N
constexpr int terms_per_part = 8;  // products summed in 32 bits before they are widened

// Sixteen numbers side by side. The compiler maps them to whatever registers the processor has.
using Lanes = int32_t __attribute__((vector_size(4 * lane_count)));
using WideLanes = int64_t __attribute__((vector_size(8 * lane_count)));

/// What a loop over codes needs of a format: uniform numbers, no branches.
struct DecodeConstants {
  uint32_t mantissa_mask, exponent_mask, special_mantissa, sign_shift;
  int32_t ignored_bits, mantissa_bits, bias, hidden_always, has_special;

  explicit DecodeConstants(const FormatInfo& format)
      : mantissa_mask(format.mantissa_mask()), exponent_mask(format.exponent_mask()),
        // ieee: every code of the largest exponent; nan_only: the one with all mantissa bits
        special_mantissa(format.non_finite == NonFinite::nan_only ? format.mantissa_mask() : 0), sign_shift(static_cast<uint32_t>(format.bits - 1)),
        ignored_bits(format.ignored_bits), mantissa_bits(format.mantissa_bits), bias(format.bias), hidden_always(!format.has_zero),
        has_special(format.non_finite != NonFinite::none) {}
};

/// The loop form of decode() for `count` codes: significands and signs, exponents (exponent_of_zero for zeros), and whether
/// each is NaN or infinity; those count as zero here, and outputs they reach are computed by the slow path.
BITMMA_TARGET_CLONES
void decode_codes(const DecodeConstants& format, const uint32_t* codes, int count, bool negate, int32_t* significand, int32_t* sign, int32_t* exponent, uint8_t* special) {
  for (int i = 0; i < count; ++i) {
    const uint32_t code = codes[i] >> format.ignored_bits;
    const uint32_t mantissa = code & format.mantissa_mask, field = code >> format.mantissa_bits & format.exponent_mask;
    const uint32_t is_special = static_cast<uint32_t>(format.has_special) & (field == format.exponent_mask) & ((mantissa & format.special_mantissa) == format.special_mantissa);
    const uint32_t hidden = static_cast<uint32_t>(field != 0) | static_cast<uint32_t>(format.hidden_always);
    const auto magnitude = static_cast<int32_t>((mantissa | hidden << format.mantissa_bits) & (is_special - 1));
    significand[i] = magnitude;
    sign[i] = -static_cast<int32_t>((codes[i] >> format.sign_shift & 1) ^ static_cast<uint32_t>(negate));
    const int32_t finite_exponent = static_cast<int32_t>(hidden ? field : 1) - format.bias;
    exponent[i] = magnitude == 0 ? exponent_of_zero : finite_exponent;
    special[i] = static_cast<uint8_t>(is_special);
  }
}

/// An operand decoded once, as arrays. Row-major: A as M x L, B as K x N with N rounded up to whole vectors.
struct DecodedMatrix {
  int stride = 0;
  std::vector<int32_t> significand;  // magnitude
  std::vector<int32_t> sign;         // 0, or -1 for negative numbers
  std::vector<int32_t> exponent;     // exponent_of_zero for zeros
  std::vector<uint8_t> row_special;  // NaN or infinity somewhere in the row (A)
  std::vector<uint8_t> col_special;  // ... in the column (B)
  bool any_special = false;

  size_t at(int row, int col) const { return static_cast<size_t>(row) * stride + col; }
};

/// `scales`: one power of two a row (`by_row`) or a column of the matrix, or nothing.
DecodedMatrix decode_matrix(const BitMatrix& matrix, bool negate, const BitMatrix* scales = nullptr, bool by_row = true) {
  const DecodeConstants constants(info(matrix.format));
  const bool is_signed = info(matrix.format).is_signed;
  assert(is_signed);
  static_cast<void>(is_signed);
  const int rows = matrix.rows(), cols = matrix.cols();
  DecodedMatrix decoded{.stride = (cols + lane_count - 1) / lane_count * lane_count, .significand = {}, .sign = {}, .exponent = {},
                        .row_special = {}, .col_special = {}};
  const size_t count = static_cast<size_t>(rows) * decoded.stride;
  decoded.significand.resize(count);
  decoded.sign.resize(count);
  decoded.exponent.resize(count, exponent_of_zero);
  decoded.row_special.resize(rows);
  decoded.col_special.resize(cols);
  std::vector<uint8_t> special(static_cast<size_t>(cols));
  for (int row = 0; row < rows; ++row) {
    const size_t first = decoded.at(row, 0);
    decode_codes(constants, &matrix.bits(row, 0), cols, negate, decoded.significand.data() + first, decoded.sign.data() + first, decoded.exponent.data() + first, special.data());
    uint8_t any = 0;
    for (int col = 0; col < cols; ++col) any |= special[col], decoded.col_special[col] |= special[col];
    decoded.row_special[row] = any;
    decoded.any_special |= any != 0;
  }
  if (!scales) return decoded;
  for (int outer = 0; outer < (by_row ? rows : cols); ++outer) {
    const Decoded scale = decode(scales->format, by_row ? (*scales)(outer, 0) : (*scales)(0, outer));
    if (scale.number == NumberClass::nan) {
      (by_row ? decoded.row_special : decoded.col_special)[outer] = 1;
      decoded.any_special = true;
    }
    for (int inner = 0; inner < (by_row ? cols : rows); ++inner) decoded.exponent[by_row ? decoded.at(outer, inner) : decoded.at(inner, outer)] += scale.exponent;
  }
  return decoded;
}

/// One row of D before C and rounding: in `max_exponent` what the floor and C ask for, out with the products too;
/// out in `sum` the truncated products in units of 2^(max_exponent - fraction_bits).
struct RowSums {
  std::array<int32_t, max_lanes> max_exponent;
  std::array<int64_t, max_lanes> sum;
};

/// One row of A against all columns of B: maximum exponent, align and truncate, sum. A's significands are shifted up so
/// that products end at the fraction bits of the model.
BITMMA_TARGET_CLONES
void sum_row(const int32_t* a_significand, const int32_t* a_sign, const int32_t* a_exponent, const DecodedMatrix& b, const uint16_t* selected_k, int terms, RowSums& row) {
  const auto load = [](Lanes& lanes, const int32_t* from) { std::memcpy(&lanes, from, sizeof lanes); };
  const int32_t* const b_significand = b.significand.data();
  const int32_t* const b_sign = b.sign.data();
  const int32_t* const b_exponent = b.exponent.data();
  for (int first = 0; first < b.stride; first += lane_count) {
    Lanes max_exponent;
    load(max_exponent, row.max_exponent.data() + first);
    for (int term = 0; term < terms; ++term) {
      Lanes exponent;
      load(exponent, b_exponent + b.at(selected_k[term], first));
      exponent += a_exponent[term];
      max_exponent = exponent > max_exponent ? exponent : max_exponent;
    }
    WideLanes sum{};
    for (int part = 0; part < terms; part += terms_per_part) {
      Lanes partial{};
      const int end = std::min(terms, part + terms_per_part);
      for (int term = part; term < end; ++term) {
        const size_t at = b.at(selected_k[term], first);
        Lanes exponent, significand, sign;
        load(exponent, b_exponent + at);
        load(significand, b_significand + at);
        load(sign, b_sign + at);
        Lanes drop = max_exponent - a_exponent[term] - exponent;
        drop = drop < 31 ? drop : Lanes{} + 31;
        const Lanes aligned = (significand * a_significand[term]) >> drop;  // magnitudes, so toward zero, as measured
        sign ^= a_sign[term];
        partial += (aligned ^ sign) - sign;
      }
      sum += __builtin_convertvector(partial, WideLanes);
    }
    std::memcpy(row.max_exponent.data() + first, &max_exponent, sizeof max_exponent);
    std::memcpy(row.sum.data() + first, &sum, sizeof sum);
  }
}

/// The terms of output (row, col), for the slow path.
std::vector<Term> terms_of(const Operands& operands, int row, int col) {
  std::vector<Term> terms(operands.a.cols());
  for (int j = 0; j < operands.a.cols(); ++j) {
    const int k = operands.selected_k.empty() ? j : operands.selected_k[static_cast<size_t>(row) * operands.a.cols() + j];
    terms[j] = {.a = decode(operands.a.format, operands.a(row, j)), .b = decode(operands.b.format, operands.b(k, col))};
  }
  const auto [first, last] = std::ranges::equal_range(operands.mixed, row, {}, &MixedTerm::row);
  for (auto mixed = first; mixed != last; ++mixed) {
    const auto half = [&](int h) { return operands.b(h / 2, col) >> 16 * (h % 2) & 0xFFFF; };
    terms[mixed->stored].b = decode(operands.b.format, half(mixed->high_half) << 16 | half(mixed->low_half));
  }
  for (Term& term : terms) {
    term.a.negative ^= operands.negate_a;
    term.b.negative ^= operands.negate_b;
    if (!operands.scales) continue;
    for (const auto& [value, scale] : {std::pair(&term.a, decode(operands.scales->a.format, operands.scales->a(row, 0))),
                                       std::pair(&term.b, decode(operands.scales->b.format, operands.scales->b(0, col)))}) {
      if (scale.number == NumberClass::nan) value->number = NumberClass::nan;
      value->exponent += scale.exponent;
    }
  }
  return terms;
}

uint32_t slow_output(const AccumulatorModel& model, const Operands& operands, int row, int col) {
  const std::vector<Term> terms = terms_of(operands, row, col);
  return fused_sum(model, operands.a.format, operands.b.format, terms,
                   operands.c ? std::optional((*operands.c)(row, col)) : std::nullopt, operands.scale_input_d);
}

std::vector<uint16_t> row_numbers(int count) {
  std::vector<uint16_t> k(count);
  for (int i = 0; i < count; ++i) k[i] = static_cast<uint16_t>(i);
  return k;
}

/// C of one row, decoded: what aligns and what it is worth.
struct RowOfC {
  std::array<int32_t, max_lanes> significand;  // magnitude
  std::array<int32_t, max_lanes> sign;         // 0 or -1
  std::array<int32_t, max_lanes> exponent;     // exponent_of_zero for zeros and for what is not finite
  std::array<uint8_t, max_lanes> special;
};

/// What is left of one row of D: C aligned and added, the sum rounded. The slow form, for any rounding: round_to is called.
template <Format output, Rounding rounding>
void finish_row_by_round_to(const AccumulatorModel& model, const RowOfC& c, const RowSums& sums, int cols, uint32_t* d) {
  constexpr const FormatInfo& format = info(output);
  for (int col = 0; col < cols; ++col) {
    const int max_exponent = sums.max_exponent[col];
    int64_t sum = sums.sum[col];
    // C is aligned like the products; its exponent has been in the maximum already.
    const int drop = std::min(max_exponent - c.exponent[col] + format.mantissa_bits, 63);
    const auto kept = static_cast<int64_t>(static_cast<uint64_t>(c.significand[col]) << model.fraction_bits >> drop);
    sum += c.sign[col] < 0 ? -kept : kept;
    const uint32_t code = round_to(format,
                                   {.negative = sum < 0,
                                    .magnitude = static_cast<uint64_t>(sum < 0 ? -sum : sum),
                                    .exponent = max_exponent - model.fraction_bits},
                                   rounding, model.output_fraction_bits);
    d[col] = (code & ~format.sign_bit()) == 0 ? 0 : code;  // a zero result is +0, always
  }
}

/// The same without a branch, for the two roundings that hardware has: f32 truncated and f16 to nearest even. It is
/// round_to spelled out for a loop that the compiler can vectorise; a test holds the two against each other.
template <Format output>
[[gnu::always_inline]] inline void finish_lanes(const AccumulatorModel& model, const RowOfC& c, const RowSums& sums, int cols, uint32_t* d) {
  constexpr const FormatInfo& format = info(output);
  constexpr int mantissa_bits = format.mantissa_bits, smallest = format.min_exponent();
  constexpr bool nearest = output == Format::f16;
  constexpr uint64_t infinity = *format.infinity(), half = uint64_t{1} << 63;
  const int fraction_bits = model.fraction_bits;
  const uint64_t kept_mask = ~low_mask(mantissa_bits - model.output_fraction_bits);
  const int32_t* const max_exponents = sums.max_exponent.data();
  const int32_t* const c_significands = c.significand.data();
  const int32_t* const c_signs = c.sign.data();
  const int32_t* const c_exponents = c.exponent.data();
  const int64_t* const row_sums = sums.sum.data();
  // Everything in 64 bits, and one plain loop: mixed widths keep the compiler from vectorising it.
  std::array<uint64_t, max_lanes> codes;
  for (int col = 0; col < cols; ++col) {
    const int64_t max_exponent = max_exponents[col], c_sign = c_signs[col], c_drop = max_exponent - c_exponents[col] + mantissa_bits;
    const int64_t c_kept = int64_t{c_significands[col]} << fraction_bits >> (c_drop < 63 ? c_drop : 63);
    const int64_t sum = row_sums[col] + ((c_kept ^ c_sign) - c_sign);
    const int64_t sign = sum >> 63;
    // Leading one to bit 63, in six steps.
    uint64_t magnitude = static_cast<uint64_t>((sum ^ sign) - sign);
    int64_t leading = max_exponent + (63 - fraction_bits);  // exponent of bit 63
    const bool is_zero = magnitude == 0;
    const auto move_up = [&](int step) __attribute__((always_inline)) {
      const bool is_low = magnitude < uint64_t{1} << (64 - step);
      magnitude = is_low ? magnitude << step : magnitude;
      leading = is_low ? leading - step : leading;
    };
    move_up(32), move_up(16), move_up(8), move_up(4), move_up(2), move_up(1);
    // Below the smallest exponent the last place stays where it is, and more bits go: up to all 64.
    constexpr int64_t normal_drop = 63 - mantissa_bits;  // 40 for f32, 53 for f16
    const int64_t below = leading < smallest ? smallest - leading : 0;
    const int64_t drop = below < 64 - normal_drop ? below + normal_drop : 64;
    uint64_t code = magnitude >> (drop - 1) >> 1;  // in two shifts, as 64 in one is undefined
    if constexpr (nearest) {
      const uint64_t rest = magnitude << (64 - drop);
      const uint64_t at_tie = rest == half ? code & 1 : 0;
      const uint64_t up = rest > half ? 1 : at_tie;
      code += below > 64 - normal_drop ? 0 : up;  // less than half of the last place
    } else {
      code &= kept_mask;
    }
    // With the hidden bit inside, one addition makes normals, subnormals and carries alike.
    code += static_cast<uint64_t>(leading < smallest ? 0 : leading - smallest) << mantissa_bits;
    code = code > infinity ? infinity : code;
    code = is_zero ? 0 : code;
    codes[col] = code | (code != 0 ? static_cast<uint64_t>(sign) & format.sign_bit() : 0);  // a zero result is +0, always
  }
  for (int col = 0; col < cols; ++col) d[col] = static_cast<uint32_t>(codes[col]);
}

BITMMA_TARGET_CLONES
void finish_f32_truncated(const AccumulatorModel& model, const RowOfC& c, const RowSums& sums, int cols, uint32_t* d) { finish_lanes<Format::f32>(model, c, sums, cols, d); }
BITMMA_TARGET_CLONES
void finish_f16_nearest(const AccumulatorModel& model, const RowOfC& c, const RowSums& sums, int cols, uint32_t* d) { finish_lanes<Format::f16>(model, c, sums, cols, d); }

using FinishRow = void (*)(const AccumulatorModel&, const RowOfC&, const RowSums&, int, uint32_t*);

/// The finisher of a row's output, or nullptr where the table has none.
FinishRow find_finish_row(const AccumulatorModel& model) {
  if (model.output == Format::f32 && model.rounding == Rounding::toward_zero) return finish_f32_truncated;
  if (model.output == Format::f16 && model.rounding == Rounding::nearest_even && model.output_fraction_bits == 10) return finish_f16_nearest;
  // Hardware has none of these; they are hypotheses to be refuted.
  if (model.output == Format::f32 && model.rounding == Rounding::nearest_even) return finish_row_by_round_to<Format::f32, Rounding::nearest_even>;
  if (model.output == Format::f16 && model.rounding == Rounding::toward_zero) return finish_row_by_round_to<Format::f16, Rounding::toward_zero>;
  return nullptr;
}

/// C of row `row` and what it asks of the maximum exponent. Returns whether any of it is NaN or infinity.
bool take_c(const AccumulatorModel& model, const Operands& operands, int row, int cols, RowOfC& c, RowSums& sums) {
  if (!operands.c) {
    c.significand.fill(0), c.sign.fill(0), c.exponent.fill(exponent_of_zero), c.special.fill(0);
    sums.max_exponent.fill(model.floor_exponent);
    return false;
  }
  static const DecodeConstants f32(info(Format::f32)), f16(info(Format::f16));
  decode_codes(model.output == Format::f32 ? f32 : f16, &operands.c->bits(row, 0), cols, false, c.significand.data(), c.sign.data(), c.exponent.data(), c.special.data());
  uint8_t special = 0;
  sums.max_exponent.fill(model.floor_exponent);
  for (int col = 0; col < cols; ++col) {
    c.exponent[col] -= operands.scale_input_d;
    sums.max_exponent[col] = std::max(model.floor_exponent, c.exponent[col]);
    special |= c.special[col];
  }
  return special != 0;
}

BitMatrix fused_sums(const AccumulatorModel& model, const Operands& operands) {
  const int rows = operands.a.rows(), cols = operands.b.cols(), terms = operands.a.cols();
  BitMatrix d(model.output, rows, cols);
  const FinishRow finish = find_finish_row(model);
  if (model.deviations != Deviations{} || !finish || cols > max_lanes) {
    for (int row = 0; row < rows; ++row) {
      for (int col = 0; col < cols; ++col) d(row, col) = slow_output(model, operands, row, col);
    }
    return d;
  }

  DecodedMatrix a = decode_matrix(operands.a, operands.negate_a, operands.scales ? &operands.scales->a : nullptr, true);
  const DecodedMatrix b = decode_matrix(operands.b, operands.negate_b, operands.scales ? &operands.scales->b : nullptr, false);
  const int product_shift =
      model.fraction_bits - info(operands.a.format).mantissa_bits - info(operands.b.format).mantissa_bits;
  assert(product_shift >= 0);
  for (int32_t& significand : a.significand) significand <<= product_shift;
  const std::vector<uint16_t> every_k = row_numbers(terms);
  RowOfC c;
  RowSums sums;
  for (int row = 0; row < rows; ++row) {
    const bool row_special = a.row_special[row] || std::ranges::binary_search(operands.mixed, row, {}, &MixedTerm::row);
    const uint16_t* const selected_k =
        operands.selected_k.empty() ? every_k.data() : operands.selected_k.data() + static_cast<size_t>(row) * terms;
    const bool c_special = take_c(model, operands, row, cols, c, sums);
    sum_row(a.significand.data() + a.at(row, 0), a.sign.data() + a.at(row, 0), a.exponent.data() + a.at(row, 0), b, selected_k, terms, sums);
    finish(model, c, sums, cols, &d.bits(row, 0));
    if (!row_special && !b.any_special && !c_special) continue;
    for (int col = 0; col < cols; ++col) {
      if (row_special || b.col_special[col] || c.special[col]) d(row, col) = slow_output(model, operands, row, col);
    }
  }
  return d;
}

/// mxf4 and mxf4nvf4. A value of e2m1 is a multiple of 1/2, so a product one of 1/4; a scale's significand is one of
/// 2^-3 (ue4m3) or 1 (ue8m0). All of a group is an integer of group_bits bits, in units of 2^-8 of its scales' power.
constexpr int e2m1_fraction_bits = 1, scale_fraction_bits = 3;
constexpr int group_fraction_bits = 2 * e2m1_fraction_bits + 2 * scale_fraction_bits;
static_assert(16 * 12 * 12 * 15 * 15 < 1 << group_bits);

/// Values of an e2m1 matrix in halves.
Eigen::Array<int32_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> halves_of(const BitMatrix& matrix, bool negate) {
  Eigen::Array<int32_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> halves(matrix.rows(), matrix.cols());
  for (int row = 0; row < matrix.rows(); ++row) {
    for (int col = 0; col < matrix.cols(); ++col) {
      const Decoded value = decode(matrix.format, matrix(row, col));
      const auto magnitude = static_cast<int32_t>(value.significand << value.exponent);
      halves(row, col) = value.negative != negate ? -magnitude : magnitude;
    }
  }
  return halves;
}

/// A scale as a multiple of 2^-scale_fraction_bits of a power of two.
struct Scale {
  int32_t significand = 0;
  int exponent = 0;
  bool nan = false;
};

std::vector<Scale> scales_of(const BitMatrix& matrix) {
  std::vector<Scale> scales;
  const FormatInfo& format = info(matrix.format);
  for (int row = 0; row < matrix.rows(); ++row) {
    for (int col = 0; col < matrix.cols(); ++col) {
      const Decoded value = decode(format, matrix(row, col));
      scales.push_back({.significand = static_cast<int32_t>(value.significand << (scale_fraction_bits - format.mantissa_bits)),
                        .exponent = value.exponent, .nan = value.number == NumberClass::nan});
    }
  }
  return scales;
}

/// One row of A against all columns of B: for every group its exact sum in quarters, and whether anything is in it.
BITMMA_TARGET_CLONES
void sum_groups(const int32_t* a, const int32_t* b, int stride, const uint16_t* selected_k, int groups, int32_t* sums, int32_t* any) {
  for (int g = 0; g < groups; ++g) {
    int32_t* const sum = sums + g * max_lanes;
    int32_t* const bits = any + g * max_lanes;
    for (int col = 0; col < stride; ++col) sum[col] = bits[col] = 0;
    for (int j = g * group_size; j < (g + 1) * group_size; ++j) {
      const int32_t factor = a[j], counts = factor == 0 ? 0 : -1;
      const int32_t* const row = b + static_cast<size_t>(selected_k[j]) * stride;
      for (int col = 0; col < stride; ++col) {
        sum[col] += factor * row[col];
        bits[col] |= counts & row[col];
      }
    }
  }
}

/// Scales of every column for one group, as arrays.
struct ColumnScales {
  std::array<int32_t, max_lanes> significand, exponent;
};

/// The maximum exponent, then every group truncated to a multiple of its last bit and added.
BITMMA_TARGET_CLONES
void align_groups(const Scale* scale_a, const ColumnScales* scale_b, const int32_t* group_sums, const int32_t* any, int groups, int cols, int fraction_bits, RowSums& row) {
  for (int g = 0; g < groups; ++g) {
    const int32_t significand = scale_a[g].significand, exponent = scale_a[g].exponent;
    for (int col = 0; col < cols; ++col) {
      // A group that cancels keeps its exponent; one with nothing in it has none.
      const bool counts = any[g * max_lanes + col] != 0 && significand * scale_b[g].significand[col] != 0;
      const int32_t of_scales = exponent + scale_b[g].exponent[col];
      row.max_exponent[col] = counts && of_scales > row.max_exponent[col] ? of_scales : row.max_exponent[col];
    }
  }
  for (int col = 0; col < cols; ++col) row.sum[col] = 0;
  for (int g = 0; g < groups; ++g) {
    const int32_t significand = scale_a[g].significand, exponent = scale_a[g].exponent;
    for (int col = 0; col < cols; ++col) {
      const int64_t sum = int64_t{group_sums[g * max_lanes + col]} * (significand * scale_b[g].significand[col]);
      const int64_t sign = sum >> 63;
      const int32_t drop = row.max_exponent[col] - exponent - scale_b[g].exponent[col];  // negative only where the sum is zero
      const int32_t shift = drop < 0 ? 0 : drop < 63 ? drop : 63;
      const int64_t kept = ((sum ^ sign) - sign) << (fraction_bits - group_fraction_bits) >> shift;
      row.sum[col] += (kept ^ sign) - sign;
    }
  }
}

BitMatrix group_sums(const AccumulatorModel& model, const Operands& operands) {
  const int rows = operands.a.rows(), cols = operands.b.cols(), stored = operands.a.cols();
  const int groups = stored / group_size, chunks = operands.scales->a.cols();
  const auto a = halves_of(operands.a, operands.negate_a), b = halves_of(operands.b, operands.negate_b);
  const std::vector<Scale> scale_a = scales_of(operands.scales->a), scale_b = scales_of(operands.scales->b);
  const FormatInfo& output = info(model.output);
  const FinishRow finish = find_finish_row(model);
  BitMatrix d(model.output, rows, cols);
  // NaN scales, by row and by column.
  std::vector<uint8_t> col_nan(static_cast<size_t>(cols));
  std::vector<ColumnScales> of_group(static_cast<size_t>(groups));
  for (int g = 0; g < groups; ++g) {
    const int chunk = g * chunks / groups;
    for (int col = 0; col < cols; ++col) {
      const Scale& scale = scale_b[static_cast<size_t>(chunk) * cols + col];
      of_group[g].significand[col] = scale.significand, of_group[g].exponent[col] = scale.exponent;
      col_nan[col] |= scale.nan;
    }
  }
  const bool any_col_nan = std::ranges::any_of(col_nan, [](uint8_t nan) { return nan != 0; });
  const std::vector<uint16_t> every_k = row_numbers(stored);
  std::vector<int32_t> sums(static_cast<size_t>(groups) * max_lanes), any(sums.size());
  std::vector<Scale> of_row(static_cast<size_t>(groups));
  RowOfC c;
  RowSums row_sums;
  for (int row = 0; row < rows; ++row) {
    const uint16_t* const selected_k = operands.selected_k.empty() ? every_k.data() : operands.selected_k.data() + static_cast<size_t>(row) * stored;
    bool row_nan = false;
    for (int g = 0; g < groups; ++g) {
      of_row[g] = scale_a[static_cast<size_t>(row) * chunks + g * chunks / groups];
      row_nan |= of_row[g].nan;
    }
    const bool c_special = take_c(model, operands, row, cols, c, row_sums);
    sum_groups(&a(row, 0), b.data(), cols, selected_k, groups, sums.data(), any.data());
    align_groups(of_row.data(), of_group.data(), sums.data(), any.data(), groups, cols, model.fraction_bits, row_sums);
    finish(model, c, row_sums, cols, &d.bits(row, 0));
    if (!row_nan && !any_col_nan && !c_special) continue;
    for (int col = 0; col < cols; ++col) {
      const Decoded of_c = operands.c ? decode(output, (*operands.c)(row, col)) : Decoded{};
      if (row_nan || col_nan[col] || of_c.number == NumberClass::nan) d(row, col) = *output.canonical_nan();
      else if (of_c.number == NumberClass::infinity) d(row, col) = (*operands.c)(row, col);
    }
  }
  return d;
}

uint32_t finish_integer(int64_t sum, bool saturate) {
  if (saturate) {
    sum = std::clamp<int64_t>(sum, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
  }
  return static_cast<uint32_t>(sum);  // modulo 2^32
}

/// One row of A against all columns of B: 64 terms of 255 * 255 fit 32 bits.
BITMMA_TARGET_CLONES
void sum_integers(const int32_t* a, const int32_t* b, int cols, const uint16_t* selected_k, int terms, int32_t* sums) {
  for (int col = 0; col < cols; ++col) sums[col] = 0;
  for (int j = 0; j < terms; ++j) {
    const int32_t factor = a[j];
    const int32_t* const row = b + static_cast<size_t>(selected_k[j]) * cols;
    for (int col = 0; col < cols; ++col) sums[col] += factor * row[col];
  }
}

/// C added in 64 bits, then the wrap or the clamp.
BITMMA_TARGET_CLONES
void finish_integers(const int32_t* sums, const uint32_t* c, int cols, bool saturate, uint32_t* d) {
  constexpr int64_t low = std::numeric_limits<int32_t>::min(), high = std::numeric_limits<int32_t>::max();
  for (int col = 0; col < cols; ++col) {
    const int64_t sum = int64_t{sums[col]} + (c ? static_cast<int32_t>(c[col]) : 0);
    const int64_t clamped = sum < low ? low : sum > high ? high : sum;
    d[col] = static_cast<uint32_t>(saturate ? clamped : sum);  // otherwise modulo 2^32
  }
}

std::vector<int32_t> values_of(const BitMatrix& matrix) {
  std::vector<int32_t> values(static_cast<size_t>(matrix.bits.size()));
  const bool is_signed = matrix.format == Format::s8;
  const uint32_t* const codes = matrix.bits.data();
  for (size_t i = 0; i < values.size(); ++i) values[i] = is_signed ? static_cast<int8_t>(codes[i]) : static_cast<uint8_t>(codes[i]);
  return values;
}

BitMatrix integer_sums(const AccumulatorModel& model, const Operands& operands) {
  const int rows = operands.a.rows(), cols = operands.b.cols(), terms = operands.a.cols();
  BitMatrix d(model.output, rows, cols);
  const std::vector<int32_t> a = values_of(operands.a), b = values_of(operands.b);
  const std::vector<uint16_t> every_k = row_numbers(terms);
  std::vector<int32_t> sums(static_cast<size_t>(cols));
  for (int row = 0; row < rows; ++row) {
    const uint16_t* const selected_k = operands.selected_k.empty() ? every_k.data() : operands.selected_k.data() + static_cast<size_t>(row) * terms;
    sum_integers(a.data() + static_cast<size_t>(row) * terms, b.data(), cols, selected_k, terms, sums.data());
    finish_integers(sums.data(), operands.c ? &operands.c->bits(row, 0) : nullptr, cols, operands.saturate, &d.bits(row, 0));
  }
  return d;
}

BitMatrix popcount_sums(const AccumulatorModel& model, const Operands& operands) {
  const int rows = operands.a.rows(), cols = operands.b.cols(), terms = operands.a.cols();
  BitMatrix d(model.output, rows, cols);
  const int words = (terms + 63) / 64;
  std::vector<uint64_t> a(static_cast<size_t>(rows) * words), b(static_cast<size_t>(cols) * words);
  for (int k = 0; k < terms; ++k) {
    for (int row = 0; row < rows; ++row) {
      a[static_cast<size_t>(row) * words + k / 64] |= uint64_t{operands.a(row, k) & 1} << k % 64;
    }
    for (int col = 0; col < cols; ++col) {
      b[static_cast<size_t>(col) * words + k / 64] |= uint64_t{operands.b(k, col) & 1} << k % 64;
    }
  }
  for (int row = 0; row < rows; ++row) {
    for (int col = 0; col < cols; ++col) {
      int64_t sum = operands.c ? decode_integer(model.output, (*operands.c)(row, col)) : 0;
      for (int word = 0; word < words; ++word) {
        sum += std::popcount(a[static_cast<size_t>(row) * words + word] & b[static_cast<size_t>(col) * words + word]);
      }
      d(row, col) = finish_integer(sum, operands.saturate);
    }
  }
  return d;
}

}  // namespace

BitMatrix multiply_accumulate(const AccumulatorModel& model, const Operands& operands) {
  switch (model.arithmetic) {
    case Arithmetic::integer: return integer_sums(model, operands);
    case Arithmetic::popcount: return popcount_sums(model, operands);
    default: return model.scaling == Scaling::groups_of_16 ? group_sums(model, operands) : fused_sums(model, operands);
  }
}

}  // namespace bitmma
