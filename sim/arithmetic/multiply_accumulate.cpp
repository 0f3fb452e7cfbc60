// What the hot loops are given and what they leave over: operands are decoded into arrays, outputs that NaN and
// infinity reach are computed again by the rule spelled out.
#include "bitmma/arithmetic/multiply_accumulate.hpp"

#include <algorithm>
#include <cassert>
#include <limits>

#include "bitmma/core/bits.hpp"
#include "kernels.hpp"

namespace bitmma {
namespace {

/// The terms of output (row, col), for the slow path.
std::vector<Term> terms_of(const AccumulatorModel& model, const Operands& operands, int row, int col) {
  std::vector<Term> terms(operands.a.cols());
  for (int j = 0; j < operands.a.cols(); ++j) {
    const int k =
        operands.selected_k.empty() ? j : operands.selected_k[static_cast<size_t>(row) * operands.a.cols() + j];
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
    if (model.scaling != Scaling::whole_k) continue;
    for (const auto& [value, scale] :
         {std::pair(&term.a, decode(operands.scales->a.format, operands.scales->a(row, 0))),
          std::pair(&term.b, decode(operands.scales->b.format, operands.scales->b(0, col)))}) {
      if (scale.number == NumberClass::nan) value->number = NumberClass::nan;
      value->exponent += scale.exponent;
    }
  }
  return terms;
}

uint32_t slow_output(const AccumulatorModel& model, const Operands& operands, int row, int col) {
  const std::vector<Term> terms = terms_of(model, operands, row, col);
  const std::optional<uint32_t> c = operands.c ? std::optional((*operands.c)(row, col)) : std::nullopt;
  if (model.scaling != Scaling::groups_of_16)
    return fused_sum(model, operands.a.format, operands.b.format, terms, c, operands.scale_input_d);
  const BlockScales& scales = *operands.scales;
  std::vector<GroupScales> of_group(terms.size() / group_size);
  for (size_t g = 0; g < of_group.size(); ++g) {
    const auto chunk = static_cast<int>(g * static_cast<size_t>(scales.a.cols()) / of_group.size());
    of_group[g] = {.a = decode(scales.a.format, scales.a(row, chunk)),
                   .b = decode(scales.b.format, scales.b(chunk, col)),
                   .fraction_bits = info(scales.a.format).mantissa_bits + info(scales.b.format).mantissa_bits};
  }
  return grouped_sum(model, terms, of_group, c, operands.scale_input_d);
}

BitMatrix slow_sums(const AccumulatorModel& model, const Operands& operands) {
  BitMatrix d = BitMatrix::unfilled(model.output, operands.a.rows(), operands.b.cols());
  for (int row = 0; row < d.rows(); ++row) {
    for (int col = 0; col < d.cols(); ++col) d(row, col) = slow_output(model, operands, row, col);
  }
  return d;
}

/// Codes in rows of whole vectors: those of a matrix that has such rows, otherwise a copy.
class WholeRows {
 public:
  WholeRows(const BitMatrix& matrix, int multiple)
      : stride_(kernels::round_up(matrix.cols(), multiple)), codes_(matrix.bits.data()) {
    if (stride_ == matrix.cols()) return;
    copy_.assign(static_cast<size_t>(matrix.rows()) * stride_, 0);
    for (int row = 0; row < matrix.rows(); ++row)
      std::copy_n(&matrix.bits(row, 0), matrix.cols(), copy_.data() + static_cast<size_t>(row) * stride_);
    codes_ = copy_.data();
  }
  const uint32_t* codes() const { return codes_; }
  int stride() const { return stride_; }

 private:
  int stride_;
  const uint32_t* codes_;
  kernels::Array<uint32_t> copy_;
};

/// C and D of a job: rows of whole vectors, whatever N is.
class Accumulator {
 public:
  Accumulator(Format format, int rows, int cols, const std::optional<BitMatrix>& c, int multiple)
      : cols_(cols), d_(BitMatrix::unfilled(format, rows, kernels::round_up(cols, multiple))) {
    if (c) c_.emplace(*c, multiple);
  }
  const uint32_t* c() const { return c_ ? c_->codes() : nullptr; }
  uint32_t* d() { return d_.bits.data(); }
  int stride() const { return d_.cols(); }
  /// D without the columns that N does not have.
  BitMatrix take_d() {
    if (cols_ != d_.cols()) d_.bits = d_.bits.leftCols(cols_).eval();
    return std::move(d_);
  }

 private:
  int cols_;
  BitMatrix d_;
  std::optional<WholeRows> c_;
};

/// An operand decoded once, as arrays, row by row. Rows are padded with zeros.
struct DecodedMatrix {
  int stride = 0;
  kernels::Array<kernels::Pair> pair;
  kernels::Array<int32_t> exponent;         // exponent_of_zero for zeros, scale included
  kernels::Array<int16_t> narrow_exponent;  // the same
  kernels::Array<uint32_t> negative;        // a word a row of A, a column of B
  bool any_special = false;                 // NaN or infinity, or a scale that is NaN

  size_t at(int row) const { return static_cast<size_t>(row) * stride; }
  kernels::Numbers numbers() const {
    return {.pair = pair.data(),
            .exponent = exponent.data(),
            .narrow_exponent = narrow_exponent.data(),
            .negative = negative.data(),
            .stride = stride};
  }
};

enum class Side : uint8_t { a, b };

void decode_matrix(Side side, const BitMatrix& matrix, int shift, bool negate, DecodedMatrix& decoded) {
  assert(info(matrix.format).is_signed);
  const int rows = matrix.rows(), cols = matrix.cols();
  decoded.stride = kernels::round_up(cols, kernels::decoded_numbers);
  const size_t count = decoded.at(rows);
  decoded.pair.resize(count);
  decoded.exponent.resize(count);
  decoded.narrow_exponent.resize(count);
  decoded.negative.resize(static_cast<size_t>(side == Side::a ? rows : decoded.stride));
  const WholeRows whole(matrix, kernels::fused_codes);
  decoded.any_special =
      kernels::kernels().decode({.format = kernels::DecodeConstants(info(matrix.format)),
                                 .codes = whole.codes(),
                                 .codes_stride = whole.stride(),
                                 .rows = rows,
                                 .cols = cols,
                                 .stride = decoded.stride,
                                 .shift = shift,
                                 .flip = negate ? -1 : 0,
                                 .pair = decoded.pair.data(),
                                 .exponent = decoded.exponent.data(),
                                 .narrow_exponent = decoded.narrow_exponent.data(),
                                 .negative_of_row = side == Side::a ? decoded.negative.data() : nullptr,
                                 .negative_of_col = side == Side::b ? decoded.negative.data() : nullptr});
}

/// What one product after the other needs, of every thread its own: nothing is allocated for a case of a shape seen
/// before.
struct Workspace {
  DecodedMatrix a, b;
  kernels::Array<int32_t> scratch;
};

/// One power of two a row or a column.
void scale_rows(DecodedMatrix& decoded, const BitMatrix& scales) {
  for (int row = 0; row < scales.rows(); ++row) {
    const Decoded scale = decode(scales.format, scales(row, 0));
    decoded.any_special |= scale.number == NumberClass::nan;
    int32_t* const exponent = decoded.exponent.data() + decoded.at(row);
    int16_t* const narrow = decoded.narrow_exponent.data() + decoded.at(row);
    for (int col = 0; col < decoded.stride; ++col)
      exponent[col] += scale.exponent, narrow[col] = static_cast<int16_t>(narrow[col] + scale.exponent);
  }
}

void scale_cols(DecodedMatrix& decoded, const BitMatrix& scales, int rows) {
  kernels::Array<int16_t> raise(static_cast<size_t>(decoded.stride), 0);
  for (int col = 0; col < scales.cols(); ++col) {
    const Decoded scale = decode(scales.format, scales(0, col));
    decoded.any_special |= scale.number == NumberClass::nan;
    raise[static_cast<size_t>(col)] = static_cast<int16_t>(scale.exponent);
  }
  const int16_t* const by = raise.data();
  for (int row = 0; row < rows; ++row) {
    int32_t* const exponent = decoded.exponent.data() + decoded.at(row);
    int16_t* const narrow = decoded.narrow_exponent.data() + decoded.at(row);
    for (int col = 0; col < decoded.stride; ++col) exponent[col] += by[col];
    for (int col = 0; col < decoded.stride; ++col) narrow[col] = static_cast<int16_t>(narrow[col] + by[col]);
  }
}

bool is_special(const BitMatrix& matrix, int row, int col) {
  return decode(matrix.format, matrix(row, col)).number != NumberClass::finite;
}

/// What special values depend on: a bit for every term of a row of A or a column of B.
struct SpecialTerms {
  uint64_t nan = 0, infinite = 0, zero = 0, negative = 0;

  void add(const Decoded& value, int term) {
    nan |= uint64_t{value.number == NumberClass::nan} << term;
    infinite |= uint64_t{value.number == NumberClass::infinity} << term;
    zero |= uint64_t{value.is_zero()} << term;
    negative |= uint64_t{value.negative} << term;
  }
};

/// D where NaN or infinity reaches it, with every term at once: what fused_sum finds term by term.
uint32_t special_code(const FormatInfo& output, const SpecialTerms& a, const SpecialTerms& b, bool flip,
                      const Decoded& c) {
  const uint64_t infinite = a.infinite | b.infinite,
                 negative = flip ? ~(a.negative ^ b.negative) : a.negative ^ b.negative;
  const bool c_infinite = c.number == NumberClass::infinity;
  const bool to_negative = (infinite & negative) != 0 || (c_infinite && c.negative),
             to_positive = (infinite & ~negative) != 0 || (c_infinite && !c.negative);
  const bool undefined = ((a.infinite & b.zero) | (a.zero & b.infinite)) != 0;
  if ((a.nan | b.nan) != 0 || c.number == NumberClass::nan || undefined || (to_negative && to_positive))
    return *output.canonical_nan();
  return (to_negative ? output.sign_bit() : 0) | *output.infinity();
}

/// Outputs that the hot loop may not compute: those that a NaN, an infinity or a mixed term reaches.
void replace_special_outputs(const AccumulatorModel& model, const Operands& operands, BitMatrix& d) {
  const int rows = d.rows(), cols = d.cols(), terms = operands.a.cols(),
            chunks = operands.scales ? operands.scales->a.cols() : 0;
  // Sparse rows meet rows of B of their own, and groups have other rules: these go term by term.
  const bool at_once =
      operands.selected_k.empty() && operands.mixed.empty() && terms <= 64 && model.scaling != Scaling::groups_of_16;
  std::vector<SpecialTerms> row_terms(static_cast<size_t>(rows)), col_terms(static_cast<size_t>(cols));
  std::vector<uint8_t> row_special(static_cast<size_t>(rows)), col_special(static_cast<size_t>(cols));
  for (int row = 0; row < rows; ++row) {
    SpecialTerms& of_row = row_terms[row];
    for (int term = 0; term < terms; ++term) of_row.add(decode(operands.a.format, operands.a(row, term)), term % 64);
    for (int chunk = 0; chunk < chunks; ++chunk) of_row.nan |= is_special(operands.scales->a, row, chunk);
    row_special[row] =
        (of_row.nan | of_row.infinite) != 0 || std::ranges::binary_search(operands.mixed, row, {}, &MixedTerm::row);
  }
  for (int k = 0; k < operands.b.rows(); ++k) {
    for (int col = 0; col < cols; ++col) col_terms[col].add(decode(operands.b.format, operands.b(k, col)), k % 64);
  }
  for (int col = 0; col < cols; ++col) {
    for (int chunk = 0; chunk < chunks; ++chunk) col_terms[col].nan |= is_special(operands.scales->b, chunk, col);
    col_special[col] = (col_terms[col].nan | col_terms[col].infinite) != 0;
  }
  const FormatInfo& output = info(model.output);
  for (int row = 0; row < rows; ++row) {
    for (int col = 0; col < cols; ++col) {
      const Decoded c = operands.c ? decode(output, (*operands.c)(row, col)) : Decoded{};
      if (!row_special[row] && !col_special[col] && c.number == NumberClass::finite) continue;
      d(row, col) =
          at_once ? special_code(output, row_terms[row], col_terms[col], operands.negate_a != operands.negate_b, c)
                  : slow_output(model, operands, row, col);
    }
  }
}

/// What the hot loop asks of a sum: how far significands move up so that products count twice the last bit of e_max,
/// and how many products may be added in 31 bits. All of them and C fit 32.
struct Budget {
  int a_shift, b_shift, terms_per_part;
};

/// Nothing where bits do not suffice.
std::optional<Budget> find_budget(const AccumulatorModel& model, const Operands& operands) {
  const int a_bits = info(operands.a.format).mantissa_bits + 1, b_bits = info(operands.b.format).mantissa_bits + 1;
  const int product_shift = model.fraction_bits - (a_bits - 1) - (b_bits - 1);
  if (product_shift < 0 || model.fraction_bits > 27) return std::nullopt;
  const int a_shift = std::min(product_shift + 1, kernels::pair_bits - 1 - a_bits),
            b_shift = product_shift + 1 - a_shift;
  if (a_shift < 0 || b_bits + b_shift > kernels::pair_bits) return std::nullopt;
  const auto largest = [](int bits) { return (int64_t{1} << bits) - 1; };
  const int64_t product = largest(a_bits) * largest(b_bits) << product_shift;
  // A part may be off by one a term before it is corrected.
  const int64_t terms = operands.a.cols(), c = int64_t{2} << model.fraction_bits,
                per_part = (std::numeric_limits<int32_t>::max() - terms) / product;
  if (2 * per_part < terms || terms * product + c > int64_t{std::numeric_limits<uint32_t>::max()}) return std::nullopt;
  return Budget{.a_shift = a_shift, .b_shift = b_shift, .terms_per_part = static_cast<int>(std::min(per_part, terms))};
}

/// The loop for the model's rounding, or nullptr: hypotheses that hardware has refuted take the slow path.
kernels::SumFused find_loop(const AccumulatorModel& model) {
  if (model.deviations != Deviations{}) return nullptr;
  if (model.output == Format::f32 && model.rounding == Rounding::toward_zero) return kernels::kernels().sum_fused_f32;
  if (model.output == Format::f16 && model.rounding == Rounding::nearest_even && model.output_fraction_bits == 10)
    return kernels::kernels().sum_fused_f16;
  return nullptr;
}

BitMatrix fused_sums(const AccumulatorModel& model, const Operands& operands) {
  const int rows = operands.a.rows(), cols = operands.b.cols(), terms = operands.a.cols();
  const kernels::SumFused loop = find_loop(model);
  const std::optional<Budget> budget = find_budget(model, operands);
  if (!loop || !budget) return slow_sums(model, operands);

  thread_local Workspace workspace;
  auto& [a, b, scratch] = workspace;
  decode_matrix(Side::a, operands.a, budget->a_shift, operands.negate_a, a);
  decode_matrix(Side::b, operands.b, budget->b_shift, operands.negate_b, b);
  if (operands.scales) {
    scale_rows(a, operands.scales->a);
    scale_cols(b, operands.scales->b, operands.b.rows());
  }
  Accumulator accumulator(model.output, rows, cols, operands.c, kernels::fused_codes);
  scratch.resize(kernels::scratch_numbers);
  const bool c_special = loop({.a = a.numbers(),
                               .b = b.numbers(),
                               .selected_k = operands.selected_k.empty() ? nullptr : operands.selected_k.data(),
                               .rows = rows,
                               .cols = cols,
                               .terms = terms,
                               .terms_per_part = budget->terms_per_part,
                               .c = accumulator.c(),
                               .c_scale = operands.scale_input_d,
                               .fraction_bits = model.fraction_bits,
                               .floor_exponent = std::max(model.floor_exponent, kernels::lowest_floor),
                               .output = kernels::OutputConstants(info(model.output), model.output_fraction_bits),
                               .d = accumulator.d(),
                               .d_stride = accumulator.stride(),
                               .scratch = scratch.data()});
  BitMatrix d = accumulator.take_d();
  if (a.any_special || b.any_special || c_special || !operands.mixed.empty())
    replace_special_outputs(model, operands, d);
  return d;
}

/// What sums of groups need, of every thread its own.
struct GroupWorkspace {
  kernels::Array<int16_t> a, b;
  kernels::Array<int32_t> b_pairs, a_nonzero, b_nonzero, b_significands, b_exponents;
  std::vector<kernels::Scale> a_scales;
};

/// Values of an e2m1 matrix in halves, rows padded with zeros.
void take_halves(const BitMatrix& matrix, int stride, bool negate, kernels::Array<int16_t>& halves) {
  static_assert(info(Format::e2m1).bits == 4 && info(Format::e2m1).bias == 1 && info(Format::e2m1).mantissa_bits == 1);
  halves.resize(static_cast<size_t>(matrix.rows()) * stride);
  const int cols = matrix.cols();
  const uint32_t flip = negate ? 8 : 0;
  for (int row = 0; row < matrix.rows(); ++row) {
    int16_t* const to = halves.data() + static_cast<size_t>(row) * stride;
    const uint32_t* const codes = &matrix.bits(row, 0);
    for (int col = 0; col < cols; ++col) {
      const auto number = static_cast<int32_t>(codes[col] & 7);
      const int32_t magnitude = number < 4   ? number
                                : number < 6 ? 2 * (number - 2)
                                             : 4 * (number - 4);  // 0 1 2 3 4 6 8 12
      to[col] = static_cast<int16_t>(((codes[col] ^ flip) & 8) != 0 ? -magnitude : magnitude);
    }
    std::fill(to + cols, to + stride, int16_t{0});
  }
}

/// Two rows side by side in 32 bits.
void take_pairs(const kernels::Array<int16_t>& rows, int count, int stride, kernels::Array<int32_t>& pairs) {
  pairs.resize(static_cast<size_t>(count / 2) * stride);
  for (int row = 0; row < count; row += 2) {
    const int16_t *const lower = rows.data() + static_cast<size_t>(row) * stride, *const upper = lower + stride;
    int32_t* const to = pairs.data() + static_cast<size_t>(row / 2) * stride;
    for (int col = 0; col < stride; ++col) to[col] = (lower[col] & 0xFFFF) | upper[col] * 0x10000;
  }
}

/// Which terms of a group are not zero, a bit each.
void find_nonzero_of_rows(const kernels::Array<int16_t>& halves, int rows, int groups, kernels::Array<int32_t>& masks) {
  masks.resize(static_cast<size_t>(rows) * groups);
  const int16_t* term = halves.data();
  for (int32_t& mask : masks) {
    mask = 0;
    for (int bit = 0; bit < group_size; ++bit) mask |= static_cast<int32_t>(*term++ != 0) << bit;
  }
}

void find_nonzero_of_cols(const kernels::Array<int16_t>& halves, int stride, int groups,
                          kernels::Array<int32_t>& masks) {
  masks.assign(static_cast<size_t>(groups) * stride, 0);
  for (int k = 0; k < groups * group_size; ++k) {
    const int16_t* const row = halves.data() + static_cast<size_t>(k) * stride;
    int32_t* const to = masks.data() + static_cast<size_t>(k / group_size) * stride;
    for (int col = 0; col < stride; ++col) to[col] |= static_cast<int32_t>(row[col] != 0) << k % group_size;
  }
}

constexpr int scale_fraction_bits = 3;  // of ue4m3; a product of e2m1 is a multiple of 1/4
static_assert(kernels::group_fraction_bits == 2 * info(Format::e2m1).mantissa_bits + 2 * scale_fraction_bits);
static_assert(kernels::group_terms * 12 * 12 * 15 * 15 < 1 << kernels::group_bits &&
              kernels::group_terms == group_size && kernels::group_bits == group_bits);

kernels::Scale scale_of(const FormatInfo& format, uint32_t code) {
  const Decoded value = decode(format, code);
  return {.significand = static_cast<int32_t>(value.significand << (scale_fraction_bits - format.mantissa_bits)),
          .exponent = value.significand == 0 ? kernels::exponent_of_zero : value.exponent,
          .nan = value.number == NumberClass::nan};
}

BitMatrix group_sums(const AccumulatorModel& model, const Operands& operands) {
  const int rows = operands.a.rows(), cols = operands.b.cols(), terms = operands.a.cols();
  const int groups = terms / group_size, chunks = operands.scales->a.cols(),
            stride = kernels::round_up(cols, kernels::decoded_numbers);
  const FormatInfo& output = info(model.output);
  // Hypotheses that hardware has refuted take the slow path. 2^62 is more than eight groups and C.
  const bool fits = groups <= kernels::most_groups && model.fraction_bits >= info(Format::f32).mantissa_bits &&
                    model.fraction_bits - kernels::group_fraction_bits + kernels::group_bits <= 58;
  if (!fits || model.output != Format::f32 || model.rounding != Rounding::toward_zero ||
      model.deviations != Deviations{})
    return slow_sums(model, operands);
  thread_local GroupWorkspace workspace;
  auto& [a, b, b_pairs, a_nonzero, b_nonzero, b_significands, b_exponents, a_scales] = workspace;
  take_halves(operands.a, terms, operands.negate_a, a);
  take_halves(operands.b, stride, operands.negate_b, b);
  const bool dense = operands.selected_k.empty();
  find_nonzero_of_rows(a, dense ? rows : 0, groups, a_nonzero);
  find_nonzero_of_cols(b, stride, dense ? groups : 0, b_nonzero);
  take_pairs(b, dense ? terms : 0, stride, b_pairs);
  a_scales.resize(static_cast<size_t>(rows) * groups);
  b_significands.assign(static_cast<size_t>(groups) * stride, 0), b_exponents.assign(b_significands.size(), 0);
  bool special = false;
  const FormatInfo &a_format = info(operands.scales->a.format), &b_format = info(operands.scales->b.format);
  for (int g = 0; g < groups; ++g) {
    const int chunk = g * chunks / groups;
    for (int row = 0; row < rows; ++row) {
      const kernels::Scale scale = scale_of(a_format, operands.scales->a(row, chunk));
      a_scales[static_cast<size_t>(row) * groups + g] = scale;
      special |= scale.nan;
    }
    for (int col = 0; col < cols; ++col) {
      const kernels::Scale scale = scale_of(b_format, operands.scales->b(chunk, col));
      b_significands[static_cast<size_t>(g) * stride + col] = scale.significand,
                                                       b_exponents[static_cast<size_t>(g) * stride + col] =
                                                           scale.exponent;
      special |= scale.nan;
    }
  }
  Accumulator accumulator(model.output, rows, cols, operands.c, kernels::other_codes);
  special |=
      kernels::kernels().sum_groups({.a = a.data(),
                                     .b = b.data(),
                                     .b_pairs = b_pairs.data(),
                                     .b_stride = stride,
                                     .selected_k = operands.selected_k.empty() ? nullptr : operands.selected_k.data(),
                                     .a_nonzero = a_nonzero.data(),
                                     .b_nonzero = b_nonzero.data(),
                                     .a_scales = a_scales.data(),
                                     .b_significands = b_significands.data(),
                                     .b_exponents = b_exponents.data(),
                                     .rows = rows,
                                     .cols = cols,
                                     .terms = terms,
                                     .c = accumulator.c(),
                                     .c_scale = operands.scale_input_d,
                                     .fraction_bits = model.fraction_bits,
                                     .floor_exponent = model.floor_exponent,
                                     .output = kernels::OutputConstants(output, model.output_fraction_bits),
                                     .d = accumulator.d(),
                                     .d_stride = accumulator.stride()});
  BitMatrix d = accumulator.take_d();
  if (special) replace_special_outputs(model, operands, d);
  return d;
}

/// Integers as they are multiplied; rows padded with zeros.
void take_values(const BitMatrix& matrix, int stride, kernels::Array<int32_t>& values) {
  values.resize(static_cast<size_t>(matrix.rows()) * stride);
  const int cols = matrix.cols(), unused_bits = matrix.format == Format::s8 ? 24 : 0;  // of signed numbers
  assert(matrix.format == Format::s8 || matrix.format == Format::u8);
  for (int row = 0; row < matrix.rows(); ++row) {
    const uint32_t* const codes = &matrix.bits(row, 0);
    int32_t* const to = values.data() + static_cast<size_t>(row) * stride;
    for (int col = 0; col < cols; ++col)
      to[col] = static_cast<int32_t>((codes[col] & 0xFF) << unused_bits) >> unused_bits;
    std::fill(to + cols, to + stride, 0);
  }
}

BitMatrix integer_sums(const AccumulatorModel& model, const Operands& operands) {
  const int rows = operands.a.rows(), cols = operands.b.cols(), terms = operands.a.cols(),
            stride = kernels::round_up(cols, kernels::decoded_numbers);
  assert(terms <= 1 << 14);
  Accumulator accumulator(model.output, rows, cols, operands.c, kernels::other_codes);
  thread_local kernels::Array<int32_t> a, b;
  take_values(operands.a, terms, a);
  take_values(operands.b, stride, b);
  kernels::kernels().sum_integers({.a = a.data(),
                                   .b = b.data(),
                                   .b_stride = stride,
                                   .selected_k = operands.selected_k.empty() ? nullptr : operands.selected_k.data(),
                                   .rows = rows,
                                   .cols = cols,
                                   .terms = terms,
                                   .c = accumulator.c(),
                                   .saturate = operands.saturate,
                                   .d = accumulator.d(),
                                   .d_stride = accumulator.stride()});
  return accumulator.take_d();
}

/// Whether M fills vectors of so many numbers and N does not.
bool fill_better_turned(int m, int n, int numbers) { return n < numbers && m >= numbers; }

/// Bits of rows of A and of columns of B as words: rows x words and words x cols.
BitMatrix sum_words(const BitMatrix& a, const BitMatrix& b, const std::optional<BitMatrix>& c, bool saturate) {
  const WholeRows whole_b(b, kernels::other_codes);
  Accumulator accumulator(Format::s32, a.rows(), b.cols(), c, kernels::other_codes);
  kernels::kernels().sum_popcounts({.a = a.bits.data(),
                                    .b = whole_b.codes(),
                                    .b_stride = whole_b.stride(),
                                    .rows = a.rows(),
                                    .cols = b.cols(),
                                    .words = a.cols(),
                                    .c = accumulator.c(),
                                    .saturate = saturate,
                                    .d = accumulator.d(),
                                    .d_stride = accumulator.stride()});
  return accumulator.take_d();
}

BitMatrix popcount_sums(const Operands& operands) {
  const int rows = operands.a.rows(), cols = operands.b.cols(), terms = operands.a.cols(), words = (terms + 31) / 32;
  BitMatrix a = BitMatrix::unfilled(Format::s32, rows, words), b(Format::s32, words, cols);
  for (int row = 0; row < rows; ++row) kernels::kernels().pack_row(&operands.a.bits(row, 0), terms, &a.bits(row, 0));
  for (int k = 0; k < terms; ++k)
    kernels::kernels().pack_bits(&operands.b.bits(k, 0), cols, k % 32, &b.bits(k / 32, 0));
  if (!fill_better_turned(rows, cols, kernels::other_codes)) return sum_words(a, b, operands.c, operands.saturate);
  // Words are turned instead of bits: there are 32 times fewer.
  return transposed(sum_words(transposed(b), transposed(a),
                              operands.c ? std::optional(transposed(*operands.c)) : std::nullopt, operands.saturate));
}

Operands turned(const Operands& operands) {
  assert(operands.selected_k.empty() && operands.mixed.empty());
  Operands result{.a = transposed(operands.b),
                  .b = transposed(operands.a),
                  .c = std::nullopt,
                  .selected_k = {},
                  .negate_a = operands.negate_b,
                  .negate_b = operands.negate_a,
                  .saturate = operands.saturate,
                  .scale_input_d = operands.scale_input_d};
  if (operands.c) result.c = transposed(*operands.c);
  if (operands.scales)
    result.scales = BlockScales{.a = transposed(operands.scales->b), .b = transposed(operands.scales->a)};
  return result;
}

}  // namespace

bool is_better_turned(const AccumulatorModel& model, int m, int n) {
  if (model.arithmetic == Arithmetic::popcount) return false;  // turns words, not bits
  return fill_better_turned(m, n,
                            model.scaling == Scaling::groups_of_16
                                ? kernels::decoded_numbers
                                : kernels::other_codes);  // groups: vectors of 16-bit numbers
}

BitMatrix multiply_accumulate(const AccumulatorModel& model, const Operands& operands) {
  if (operands.selected_k.empty() && is_better_turned(model, operands.a.rows(), operands.b.cols()))
    return transposed(multiply_accumulate(model, turned(operands)));
  switch (model.arithmetic) {
    case Arithmetic::integer:
      return integer_sums(model, operands);
    case Arithmetic::popcount:
      return popcount_sums(operands);
    default:
      return model.scaling == Scaling::groups_of_16 ? group_sums(model, operands) : fused_sums(model, operands);
  }
}

}  // namespace bitmma
