// SPDX-License-Identifier: MIT
#include "warp_product.hpp"

#include <algorithm>
#include <bit>

#include "../core/words.hpp"
#include "../formats/matrix_inside.hpp"
#include "../formats/sixteen_bits.hpp"
#include "../math/ieee_environment.hpp"
#include "budget.hpp"
#include "exact_steps.hpp"
#include "steps.hpp"
#include "whole_rows.hpp"

namespace bitmma {
namespace {

/// One decoded side.
template <int lines, int columns, int words_of_signs>
struct DecodedSide {
  static constexpr int stride = columns;
  alignas(64) std::array<kernels::Pair, lines * stride> pair;
  alignas(64) std::array<int32_t, lines * stride> exponent;
  alignas(64) std::array<int16_t, lines * stride> narrow_exponent;
  alignas(64) std::array<uint32_t, words_of_signs> negative;
};

using SignedWords [[gnu::vector_size(16)]] = int32_t;

/// Four pairs of integers of up to 8 bits, one in each half.
template <bool is_signed>
Words pairs_of(const Words& low, const Words& high, int unused_bits) {
  if (!is_signed) return low | high << 16;
  const auto left = [unused_bits](const Words& codes) { return reinterpret_cast<SignedWords>(codes << unused_bits); };
  const auto in_low = reinterpret_cast<Words>(left(low) >> unused_bits),
             in_high = reinterpret_cast<Words>(left(high) >> (unused_bits - 16));
  return (in_low & 0xFFFF) | (in_high & 0xFFFF0000);
}

/// Codes of k = 2 i and 2 i + 1 become pair i: in A^T they are in two rows, in B^T side by side.
template <bool is_signed>
void pair_rows(int unused_bits, const uint32_t* codes, int pairs, int32_t* to) {
  constexpr int cols = WarpProduct::cols;
  for (int i = 0; i < pairs; ++i, codes += 2 * cols, to += cols) {
    for (int col = 0; col < cols; col += 4)
      store(pairs_of<is_signed>(load<Words>(codes + col), load<Words>(codes + cols + col), unused_bits), to + col);
  }
}
template <bool is_signed>
void pair_neighbours(int unused_bits, const uint32_t* codes, int pairs, int32_t* to) {
  for (int i = 0; i < pairs; i += 4) {
    const auto first = load<Words>(codes + 2 * i), second = load<Words>(codes + 2 * i + 4);
    store(pairs_of<is_signed>(__builtin_shufflevector(first, second, 0, 2, 4, 6),
                              __builtin_shufflevector(first, second, 1, 3, 5, 7), unused_bits),
          to + i);
  }
}

/// sum + c: one IEEE operation of the host, never contracted. A sum of two f16, rounded to f32 and then to f16, is
/// rounded as if once, because f32 has more than twice the bits.
BITMMA_IN_ENVIRONMENT void add(Format output, const WarpProduct::Accumulator& c, WarpProduct::Accumulator& d) {
  const auto sum_of = [](uint32_t x, uint32_t y) {
    const float sum = std::bit_cast<float>(x) + std::bit_cast<float>(y);
    return sum != sum ? 0x7FFFFFFF : std::bit_cast<uint32_t>(sum);
  };
  if (output == Format::f32) {
    for (size_t i = 0; i < d.size(); ++i) d[i] = sum_of(d[i], c[i]);
  } else {
    for (size_t i = 0; i < d.size(); ++i) d[i] = f16_code(sum_of(f32_of_f16(d[i]), f32_of_f16(c[i])));
  }
}

void add_c_last(Format output, const WarpProduct::Accumulator& c, WarpProduct::Accumulator& d) {
  const math::IeeeEnvironment environment;
  add(output, c, d);
}

}  // namespace

std::optional<WarpProduct> WarpProduct::of(const AccumulatorModel& model, Format a, Format b, int m, int k,
                                           bool saturate) {
  if (model.quad_pairs || model.scaling != Scaling::none || (m != 8 && m != cols) || k < 1) return std::nullopt;
  if (model.step_order == StepOrder::byte_pairs && k % 4 != 0) return std::nullopt;
  for (const Format format : {a, b, model.output}) {
    if (info(format).bits > 32) return std::nullopt;  // f64
  }
  WarpProduct product(model, a, b, m, k, saturate);
  if (product.places_ > most_places) return std::nullopt;
  const auto is_integer = [](Format format) { return info(format).bits <= 8 && format != Format::b1; };
  if (model.arithmetic == Arithmetic::integer)
    return is_integer(a) && is_integer(b) ? std::optional(product) : std::nullopt;
  const int terms = terms_of_step(model, k);
  const std::optional<Budget> budget =
      find_budget(model.fraction_bits, step_input(model, b), step_input(model, a), terms);
  if (kernels::loop_of(model) == kernels::LoopId::none || !budget || terms > kernels::most_dense_terms)
    return std::nullopt;
  // The loop multiplies B^T by A^T.
  const auto widening = [&](Format given) {
    return info(step_input(model, given)).mantissa_bits - info(given).mantissa_bits;
  };
  // Steps that widen to f16: subnormals of e4m3 are normal there, those of e5m2 are not. The rest stays the same.
  const auto becomes_normal = [&](Format given) {
    const FormatInfo &from = info(given), &to = info(step_input(model, given));
    return widening(given) > 0 && from.bias + from.mantissa_bits <= to.bias;
  };
  product.a_.normal = becomes_normal(a), product.b_.normal = becomes_normal(b);
  product.b_.shift = budget->a_shift + widening(b), product.a_.shift = budget->b_shift + widening(a);
  product.terms_per_part_ = budget->terms_per_part;
  product.may_be_exact_ = may_have_exact_steps(model, a, b, k);
  return product;
}

WarpProduct::WarpProduct(const AccumulatorModel& model, Format a, Format b, int m, int k, bool saturate)
    : model_(model),
      a_{.format = a, .constants = kernels::DecodeConstants(info(a))},
      b_{.format = b, .constants = kernels::DecodeConstants(info(b))},
      m_(m),
      saturate_(saturate),
      places_of_k_(static_cast<size_t>(k)),
      output_(info(model.output == Format::s32 ? Format::f32 : model.output), model.output_fraction_bits) {
  for_each_step(model, k, [&](const KStep& step) {
    steps_.push_back({.first = step.first, .terms = step.count, .at = places_});
    for (int i = 0; i < step.count; ++i) places_of_k_[static_cast<size_t>(step.term(i))] = places_ + i;
    places_ += kernels::round_up(step.count, kernels::fused_codes);
  });
}

bool WarpProduct::multiply(Codes& codes) const {
  if (model_.arithmetic != Arithmetic::integer) return sum_floats(codes);
  sum_integers(codes);
  return true;
}

void WarpProduct::sum_integers(Codes& codes) const {
  constexpr int most_pairs = most_places / 2;
  alignas(64) std::array<int32_t, most_pairs * cols> of_a;
  alignas(64) std::array<int32_t, rows * most_pairs> of_b;
  const int pairs = places_ / 2;
  const FormatInfo &a = info(a_.format), &b = info(b_.format);
  (a.is_signed ? pair_rows<true> : pair_rows<false>)(32 - a.bits, codes.a.data(), pairs, of_a.data());
  (b.is_signed ? pair_neighbours<true> : pair_neighbours<false>)(32 - b.bits, codes.b.data(), rows * pairs,
                                                                 of_b.data());
  sum_pairs(of_b.data(), of_a.data(), pairs, codes.c.data(), saturate_, codes.d.data());
}

bool WarpProduct::sum_floats(Codes& codes) const {
  if (may_be_exact_ && sum_exactly({.a_format = a_.format,
                                    .b_format = b_.format,
                                    .a = codes.a.data(),
                                    .b = codes.b.data(),
                                    .terms = places_,
                                    .fraction_bits = model_.fraction_bits,
                                    .d = codes.d.data()})) {
    add_c_last(model_.output, codes.c, codes.d);
    return true;
  }
  const kernels::Kernels& loops = kernels::kernels();
  if (const kernels::SumWarp sum = loops.sum_warp[kernels::loop_of(model_)]) {
    if (sum({.of_rows = {b_.constants, b_.normal, codes.b.data()},
             .of_cols = {a_.constants, a_.normal, codes.a.data()},
             .places = places_,
             .steps = steps_,
             .c = model_.c_last ? nullptr : codes.c.data(),
             .fraction_bits = model_.fraction_bits,
             .floor_exponent = kernels::floor_of(model_),
             .output = output_,
             .d = codes.d.data()}))
      return false;
    if (model_.c_last) add_c_last(model_.output, codes.c, codes.d);
    return true;
  }
  DecodedSide<kernels::most_dense_terms, cols, cols> a;
  DecodedSide<rows, kernels::most_dense_terms, rows> b;
  alignas(64) std::array<int32_t, kernels::scratch_numbers> scratch;
  const uint32_t* c = model_.c_last ? nullptr : codes.c.data();
  for (const kernels::ChainStep& step : steps_) {
    a.negative.fill(0), b.negative.fill(0);
    const bool a_special = loops.decode({.format = a_.constants,
                                         .codes = codes.a.data() + step.at * cols,
                                         .codes_stride = cols,
                                         .rows = step.terms,
                                         .cols = cols,
                                         .stride = cols,
                                         .shift = a_.shift,
                                         .flip = 0,
                                         .normal = a_.normal,
                                         .pair = a.pair.data(),
                                         .exponent = a.exponent.data(),
                                         .narrow_exponent = a.narrow_exponent.data(),
                                         .negative_of_row = nullptr,
                                         .negative_of_col = a.negative.data()});
    const bool b_special = loops.decode({.format = b_.constants,
                                         .codes = codes.b.data() + step.at,
                                         .codes_stride = places_,
                                         .rows = rows,
                                         .cols = kernels::round_up(step.terms, kernels::fused_codes),
                                         .stride = kernels::most_dense_terms,
                                         .shift = b_.shift,
                                         .flip = 0,
                                         .normal = b_.normal,
                                         .pair = b.pair.data(),
                                         .exponent = b.exponent.data(),
                                         .narrow_exponent = b.narrow_exponent.data(),
                                         .negative_of_row = b.negative.data(),
                                         .negative_of_col = nullptr});
    const bool c_special =
        loops.sum_fused[kernels::loop_of(model_)]({.a = numbers_of(b),
                                                   .b = numbers_of(a),
                                                   .selected_k = nullptr,
                                                   .rows = rows,
                                                   .cols = m_,
                                                   .terms = step.terms,
                                                   .terms_per_part = std::min(terms_per_part_, step.terms),
                                                   .c = c,
                                                   .c_scale = 0,
                                                   .fraction_bits = model_.fraction_bits,
                                                   .floor_exponent = kernels::floor_of(model_),
                                                   .output = output_,
                                                   .d = codes.d.data(),
                                                   .d_stride = cols,
                                                   .scratch = scratch.data()});
    if (a_special || b_special || c_special) return false;
    c = codes.d.data();
  }
  if (model_.c_last) add_c_last(model_.output, codes.c, codes.d);
  return true;
}

namespace {

/// The product that this thread prepared last: callers with many small products have one shape and rule.
const std::optional<WarpProduct>& prepared_for(const AccumulatorModel& model, const Operands& operands) {
  struct Last {
    AccumulatorModel model = {};
    Format a = Format::f16, b = Format::f16;
    int m = 0, k = 0;
    bool saturate = false;
    std::optional<WarpProduct> product = {};
  };
  thread_local Last last;
  const int m = operands.a.rows(), k = operands.a.cols();
  const Format a = operands.a.format(), b = operands.b.format();
  if (last.m != m || last.k != k || last.a != a || last.b != b || last.saturate != operands.saturate ||
      last.model != model)
    last = {model, a, b, m, k, operands.saturate, WarpProduct::of(model, a, b, m, k, operands.saturate)};
  return last.product;
}

}  // namespace

std::optional<Matrix> warp_product(const AccumulatorModel& model, const Operands& operands) {
  const int m = operands.a.rows(), k = operands.a.cols();
  const bool is_plain = operands.selected_k.empty() && operands.c && operands.c->format() == model.output &&
                        !operands.scales && !operands.negate_a && !operands.negate_b && !operands.swapped &&
                        operands.scale_input_d == 0;
  if (!is_plain || operands.b.cols() != WarpProduct::rows || (m != 8 && m != WarpProduct::cols) ||
      k > WarpProduct::most_places)
    return std::nullopt;
  const std::optional<WarpProduct>& product = prepared_for(model, operands);
  if (!product) return std::nullopt;
  WarpProduct::Codes codes;
  if (product->has_gaps()) codes.a.fill(0), codes.b.fill(0);
  if (m < WarpProduct::cols) codes.a.fill(0), codes.c.fill(0);
  for (int j = 0; j < k; ++j) {
    uint32_t* const of_a = codes.a.data() + product->place(j) * WarpProduct::cols;
    for (int row = 0; row < m; ++row) of_a[row] = operands.a(row, j);
    uint32_t* const of_b = codes.b.data() + product->place(j);
    for (int col = 0; col < WarpProduct::rows; ++col) of_b[col * product->places()] = operands.b(j, col);
  }
  for (int col = 0; col < WarpProduct::rows; ++col) {
    uint32_t* const of_c = codes.c.data() + col * WarpProduct::cols;
    for (int row = 0; row < m; ++row) of_c[row] = (*operands.c)(row, col);
  }
  if (!product->multiply(codes)) return std::nullopt;
  Matrix d = unfilled_matrix(model.output, m, WarpProduct::rows);
  for (int row = 0; row < m; ++row) {
    for (int col = 0; col < WarpProduct::rows; ++col)
      d(row, col) = codes.d[static_cast<size_t>(col * WarpProduct::cols + row)];
  }
  return d;
}

}  // namespace bitmma
