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

/// An operand decoded once, as arrays. Row-major: A as M x L, B as K x N with N rounded up to whole vectors.
struct DecodedMatrix {
  int stride = 0;
  std::vector<int32_t> significand;  // signed
  std::vector<int32_t> exponent;     // exponent_of_zero for zeros
  std::vector<uint8_t> row_special;  // NaN or infinity somewhere in the row (A)
  std::vector<uint8_t> col_special;  // ... in the column (B)

  size_t at(int row, int col) const { return static_cast<size_t>(row) * stride + col; }
};

/// `scales`: one power of two a row (`by_row`) or a column of the matrix, or nothing.
DecodedMatrix decode_matrix(const BitMatrix& matrix, bool negate, const BitMatrix* scales = nullptr, bool by_row = true) {
  const FormatInfo format = info(matrix.format);
  const int rows = matrix.rows(), cols = matrix.cols();
  DecodedMatrix decoded{.stride = (cols + lane_count - 1) / lane_count * lane_count, .significand = {}, .exponent = {},
                        .row_special = {}, .col_special = {}};
  const size_t count = static_cast<size_t>(rows) * decoded.stride;
  decoded.significand.resize(count);
  decoded.exponent.resize(count, exponent_of_zero);
  decoded.row_special.resize(rows);
  decoded.col_special.resize(cols);
  for (int row = 0; row < rows; ++row) {
    for (int col = 0; col < cols; ++col) {
      Decoded value = decode(format, matrix(row, col));
      if (scales) {
        const Decoded scale = decode(scales->format, by_row ? (*scales)(row, 0) : (*scales)(0, col));
        if (scale.number == NumberClass::nan) value.number = NumberClass::nan;
        value.exponent += scale.exponent;
      }
      if (value.number != NumberClass::finite) {
        decoded.row_special[row] = decoded.col_special[col] = 1;  // the vector loop's result is replaced later
        continue;
      }
      const auto significand = static_cast<int32_t>(value.significand);
      decoded.significand[decoded.at(row, col)] = value.negative != negate ? -significand : significand;
      if (significand != 0) decoded.exponent[decoded.at(row, col)] = value.exponent;
    }
  }
  return decoded;
}

/// One row of D before C and rounding: in `max_exponent` what the floor and C ask for, out with the products too;
/// out in `sum` the truncated products in units of 2^(max_exponent - fraction_bits).
struct RowSums {
  std::array<int32_t, max_lanes> max_exponent;
  std::array<int64_t, max_lanes> sum;
};

/// One row of A against all columns of B: maximum exponent, align and truncate, sum.
BITMMA_TARGET_CLONES
void sum_row(const int32_t* a_significand, const int32_t* a_exponent, const DecodedMatrix& b,
             const uint16_t* selected_k, int terms, int product_shift, RowSums& row) {
  const auto load = [](Lanes& lanes, const int32_t* from) { std::memcpy(&lanes, from, sizeof lanes); };
  for (int first = 0; first < b.stride; first += lane_count) {
    Lanes max_exponent;
    load(max_exponent, row.max_exponent.data() + first);
    for (int term = 0; term < terms; ++term) {
      Lanes exponent;
      load(exponent, b.exponent.data() + b.at(selected_k[term], first));
      exponent += a_exponent[term];
      max_exponent = exponent > max_exponent ? exponent : max_exponent;
    }
    WideLanes sum{};
    for (int part = 0; part < terms; part += terms_per_part) {
      Lanes partial{};
      const int end = std::min(terms, part + terms_per_part);
      for (int term = part; term < end; ++term) {
        Lanes exponent, significand;
        load(exponent, b.exponent.data() + b.at(selected_k[term], first));
        load(significand, b.significand.data() + b.at(selected_k[term], first));
        const Lanes product = significand * a_significand[term];
        const Lanes sign = product >> 31;
        Lanes drop = max_exponent - exponent - a_exponent[term];
        drop = drop < 31 ? drop : Lanes{} + 31;
        const Lanes aligned = (((product ^ sign) - sign) << product_shift) >> drop;  // toward zero, as measured
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

/// What is left of one row of D: C aligned and added, the sum rounded. The output's format and rounding are template
/// arguments so that the compiler folds them into round_to and decode; there is still one piece of rounding code.
template <Format output, Rounding rounding>
void finish_row(const AccumulatorModel& model, const std::array<Decoded, max_lanes>& c, const RowSums& sums, int cols, uint32_t* d) {
  constexpr const FormatInfo& format = info(output);
  for (int col = 0; col < cols; ++col) {
    const int max_exponent = sums.max_exponent[col];
    int64_t sum = sums.sum[col];
    // C is aligned like the products; its exponent has been in the maximum already.
    const int drop = std::min(max_exponent - c[col].exponent + format.mantissa_bits, 63);
    const auto kept = c[col].significand == 0 ? 0 : static_cast<int64_t>(uint64_t{c[col].significand} << model.fraction_bits >> drop);
    sum += c[col].negative ? -kept : kept;
    const uint32_t code = round_to(format,
                                   {.negative = sum < 0,
                                    .magnitude = static_cast<uint64_t>(sum < 0 ? -sum : sum),
                                    .exponent = max_exponent - model.fraction_bits},
                                   rounding, model.output_fraction_bits);
    d[col] = (code & ~format.sign_bit()) == 0 ? 0 : code;  // a zero result is +0, always
  }
}

using FinishRow = void (*)(const AccumulatorModel&, const std::array<Decoded, max_lanes>&, const RowSums&, int, uint32_t*);

/// The finisher of a row's output, or nullptr where the table has none.
FinishRow find_finish_row(const AccumulatorModel& model) {
  if (model.output == Format::f32 && model.rounding == Rounding::toward_zero) return finish_row<Format::f32, Rounding::toward_zero>;
  if (model.output == Format::f32 && model.rounding == Rounding::nearest_even) return finish_row<Format::f32, Rounding::nearest_even>;
  if (model.output == Format::f16 && model.rounding == Rounding::nearest_even) return finish_row<Format::f16, Rounding::nearest_even>;
  if (model.output == Format::f16 && model.rounding == Rounding::toward_zero) return finish_row<Format::f16, Rounding::toward_zero>;
  return nullptr;
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

  const FormatInfo output = info(model.output);
  const DecodedMatrix a = decode_matrix(operands.a, operands.negate_a, operands.scales ? &operands.scales->a : nullptr, true);
  const DecodedMatrix b = decode_matrix(operands.b, operands.negate_b, operands.scales ? &operands.scales->b : nullptr, false);
  const int product_shift =
      model.fraction_bits - info(operands.a.format).mantissa_bits - info(operands.b.format).mantissa_bits;
  assert(product_shift >= 0);
  const std::vector<uint16_t> every_k = row_numbers(terms);
  std::array<Decoded, max_lanes> c;
  RowSums sums;
  for (int row = 0; row < rows; ++row) {
    const bool row_special = a.row_special[row] || std::ranges::binary_search(operands.mixed, row, {}, &MixedTerm::row);
    const uint16_t* const selected_k =
        operands.selected_k.empty() ? every_k.data() : operands.selected_k.data() + static_cast<size_t>(row) * terms;
    sums.max_exponent.fill(model.floor_exponent);
    for (int col = 0; col < cols; ++col) {
      c[col] = operands.c ? decode(output, (*operands.c)(row, col)) : Decoded{};
      c[col].exponent -= operands.scale_input_d;
      const bool counts = c[col].number == NumberClass::finite && c[col].significand != 0;
      if (counts) sums.max_exponent[col] = std::max(model.floor_exponent, c[col].exponent);
    }
    sum_row(a.significand.data() + a.at(row, 0), a.exponent.data() + a.at(row, 0), b, selected_k, terms, product_shift, sums);
    finish(model, c, sums, cols, &d.bits(row, 0));
    for (int col = 0; col < cols; ++col) {
      if (row_special || b.col_special[col] || c[col].number != NumberClass::finite) d(row, col) = slow_output(model, operands, row, col);
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

/// Exact sum of one group and how its terms line up with the others.
struct Group {
  int64_t sum = 0;
  int exponent = 0;
};

BitMatrix group_sums(const AccumulatorModel& model, const Operands& operands) {
  const int rows = operands.a.rows(), cols = operands.b.cols(), stored = operands.a.cols();
  const int groups = stored / group_size, chunks = operands.scales->a.cols();
  const auto a = halves_of(operands.a, operands.negate_a), b = halves_of(operands.b, operands.negate_b);
  const std::vector<Scale> scale_a = scales_of(operands.scales->a), scale_b = scales_of(operands.scales->b);
  const FormatInfo& output = info(model.output);
  BitMatrix d(model.output, rows, cols);
  Eigen::Array<int32_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> sums(groups, cols), any(groups, cols);
  std::vector<Group> terms(static_cast<size_t>(groups));
  for (int row = 0; row < rows; ++row) {
    sums.setZero();
    any.setZero();
    for (int j = 0; j < stored; ++j) {
      if (a(row, j) == 0) continue;
      const int k = operands.selected_k.empty() ? j : operands.selected_k[static_cast<size_t>(row) * stored + j];
      sums.row(j / group_size) += a(row, j) * b.row(k);
      for (int col = 0; col < cols; ++col) any(j / group_size, col) |= b(k, col);
    }
    for (int col = 0; col < cols; ++col) {
      Decoded c = operands.c ? decode(output, (*operands.c)(row, col)) : Decoded{};
      bool nan = c.number == NumberClass::nan;
      int max_exponent = c.number == NumberClass::finite && c.significand != 0 ? std::max(model.floor_exponent, c.exponent) : model.floor_exponent;
      for (int g = 0; g < groups; ++g) {
        const int chunk = g * chunks / groups;
        const Scale& x = scale_a[static_cast<size_t>(row) * chunks + chunk];
        const Scale& y = scale_b[static_cast<size_t>(chunk) * cols + col];
        nan |= x.nan || y.nan;
        const int32_t scale = x.significand * y.significand;
        terms[g] = {.sum = int64_t{sums(g, col)} * scale, .exponent = x.exponent + y.exponent};
        // A group that cancels keeps its exponent; one with nothing in it has none.
        if (any(g, col) != 0 && scale != 0) max_exponent = std::max(max_exponent, terms[g].exponent);
      }
      if (nan) {
        d(row, col) = *output.canonical_nan();
        continue;
      }
      if (c.number == NumberClass::infinity) {
        d(row, col) = (*operands.c)(row, col);
        continue;
      }
      const auto align = [&](uint64_t magnitude, int exponent, int fraction) {
        return static_cast<int64_t>(magnitude << (model.fraction_bits - fraction) >> std::min(max_exponent - exponent, 63));
      };
      int64_t sum = c.significand == 0 ? 0 : align(c.significand, c.exponent, output.mantissa_bits);
      if (c.negative) sum = -sum;
      for (const Group& term : terms) {
        if (term.sum == 0) continue;  // its exponent may lie above e_max
        const int64_t kept = align(static_cast<uint64_t>(std::abs(term.sum)), term.exponent, group_fraction_bits);
        sum += term.sum < 0 ? -kept : kept;
      }
      const uint32_t code = round_to(output, {.negative = sum < 0, .magnitude = static_cast<uint64_t>(std::abs(sum)), .exponent = max_exponent - model.fraction_bits},
                                     model.rounding, model.output_fraction_bits);
      d(row, col) = (code & ~output.sign_bit()) == 0 ? 0 : code;  // a zero result is +0, always
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

BitMatrix integer_sums(const AccumulatorModel& model, const Operands& operands) {
  const int rows = operands.a.rows(), cols = operands.b.cols(), terms = operands.a.cols();
  BitMatrix d(model.output, rows, cols);
  Eigen::Array<int32_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> b(operands.b.rows(), cols);
  for (int k = 0; k < operands.b.rows(); ++k) {
    for (int col = 0; col < cols; ++col) {
      b(k, col) = static_cast<int32_t>(decode_integer(operands.b.format, operands.b(k, col)));
    }
  }
  Eigen::Array<int32_t, 1, Eigen::Dynamic, Eigen::RowMajor> sums(cols);
  for (int row = 0; row < rows; ++row) {
    sums.setZero();  // 64 terms of 255 * 255 fit 32 bits; c does not, and is added in 64
    for (int j = 0; j < terms; ++j) {
      const int k = operands.selected_k.empty() ? j : operands.selected_k[static_cast<size_t>(row) * terms + j];
      sums += static_cast<int32_t>(decode_integer(operands.a.format, operands.a(row, j))) * b.row(k);
    }
    for (int col = 0; col < cols; ++col) {
      const int64_t c = operands.c ? decode_integer(model.output, (*operands.c)(row, col)) : 0;
      d(row, col) = finish_integer(sums(col) + c, operands.saturate);
    }
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
