// SPDX-License-Identifier: MIT
#include "warp_product.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "../core/cpu_level.hpp"
#include "../core/words.hpp"
#include "../formats/matrix_inside.hpp"
#include "../formats/sixteen_bits.hpp"
#include "../math/ieee_environment.hpp"
#include "budget.hpp"
#include "exact_steps.hpp"
#include "group_operands.hpp"
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

  void raise(int line, size_t column, int32_t by) {
    const size_t at = static_cast<size_t>(line) * stride + column;
    exponent[at] += by, narrow_exponent[at] = static_cast<int16_t>(narrow_exponent[at] + by);
  }
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
BITMMA_INLINE void add_all(Format output, const WarpProduct::Accumulator& c, WarpProduct::Accumulator& d) {
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

using Add = void (*)(Format, const WarpProduct::Accumulator&, WarpProduct::Accumulator&);
#define BITMMA_ADD_LOOPS(space, target)                                                   \
  namespace space {                                                                       \
  BITMMA_IN_ENVIRONMENT target void add(Format output, const WarpProduct::Accumulator& c, \
                                        WarpProduct::Accumulator& d) {                    \
    add_all(output, c, d);                                                                \
  }                                                                                       \
  }

BITMMA_AT_CPU_LEVELS(BITMMA_ADD_LOOPS)
constexpr std::array<Add, 3> add_by_level{v4::add, v3::add, baseline::add};

void add_c_last(Format output, const WarpProduct::Accumulator& c, WarpProduct::Accumulator& d) {
  const math::IeeeEnvironment environment;
  at_cpu_level(add_by_level)(output, c, d);
}

}  // namespace

std::optional<WarpProduct> WarpProduct::of(const AccumulatorModel& model, const WarpShape& shape) {
  const auto& [a, b, m, k, saturate, exclusive_or, scale_type, scales] = shape;
  if (model.quad_pairs || (m != 8 && m != cols) || k < 1 || scales > most_scales) return std::nullopt;
  if (model.step_order == StepOrder::byte_pairs && k % 4 != 0) return std::nullopt;
  for (const Format format : {a, b, model.output}) {
    if (info(format).bits > 32) return std::nullopt;  // f64
  }
  WarpProduct product(model, shape);
  if (product.places_ > most_places || k % product.packed_ != 0) return std::nullopt;
  const auto is_integer = [](Format format) { return info(format).bits <= 8 && format != Format::b1; };
  if (model.arithmetic == Arithmetic::integer)
    return is_integer(a) && is_integer(b) ? std::optional(product) : std::nullopt;
  if (model.arithmetic == Arithmetic::popcount) return product;
  const kernels::LoopId loop = kernels::loop_of(model);
  if (model.scaling == Scaling::exact_groups) {
    const int groups = k / group_size;
    const bool fits = a == Format::e2m1 && b == Format::e2m1 && m == cols && k % group_size == 0 &&
                      groups <= most_scales && model.group_terms == group_size && scales > 0 && groups % scales == 0 &&
                      groups_fit(model.fraction_bits, groups) && loop == kernels::LoopId::f32_toward_zero;
    return fits ? std::optional(product) : std::nullopt;
  }
  const int terms = terms_of_step(model, k);
  const std::optional<Budget> budget =
      find_budget(model.fraction_bits, step_input(model, b), step_input(model, a), terms);
  if (loop == kernels::LoopId::none || !budget || terms > kernels::most_dense_terms) return std::nullopt;
  const bool scales_fit = model.scaling == Scaling::none ? scales == 0
                                                         : scales == 1 && info(*scale_type).mantissa_bits == 0 &&
                                                               product.steps_.size() == 1 && product.places_ % 16 == 0;
  if (!scales_fit) return std::nullopt;
  // The loop multiplies B^T by A^T.
  const auto widening = [&](Format format) {
    return info(step_input(model, format)).mantissa_bits - info(format).mantissa_bits;
  };
  // Steps that widen to f16: subnormals of e4m3 are normal there, those of e5m2 are not. The rest stays the same.
  const auto becomes_normal = [&](Format stored) {
    const FormatInfo &from = info(stored), &to = info(step_input(model, stored));
    return widening(stored) > 0 && from.bias + from.mantissa_bits <= to.bias;
  };
  product.a_.normal = becomes_normal(a), product.b_.normal = becomes_normal(b);
  product.b_.shift = budget->a_shift + widening(b), product.a_.shift = budget->b_shift + widening(a);
  product.terms_per_part_ = budget->terms_per_part;
  product.may_be_exact_ = may_have_exact_steps(model, a, b, k);
  return product;
}

WarpProduct::WarpProduct(const AccumulatorModel& model, const WarpShape& shape)
    : model_(model),
      shape_(shape),
      a_{.constants = kernels::DecodeConstants(info(shape.a))},
      b_{.constants = kernels::DecodeConstants(info(shape.b))},
      packed_(model.arithmetic == Arithmetic::popcount ? 32
              : model.scaling == Scaling::exact_groups ? 2
                                                       : 1),
      places_of_k_(static_cast<size_t>(shape.k / packed_)),
      output_(info(model.output == Format::s32 ? Format::f32 : model.output), model.output_fraction_bits) {
  for_each_step(model, shape.k / packed_, [&](const KStep& step) {
    steps_.push_back(
        {.first = step.first, .terms = step.count, .at = places_, .number = static_cast<int>(steps_.size())});
    for (int i = 0; i < step.count; ++i) places_of_k_[static_cast<size_t>(step.term(i))] = places_ + i;
    places_ += kernels::round_up(step.count, kernels::fused_codes);
  });
}

bool WarpProduct::multiply(Codes& codes) const {
  switch (model_.arithmetic) {
    case Arithmetic::integer: return sum_integers(codes), true;
    case Arithmetic::popcount: return sum_bits(codes), true;
    default: return model_.scaling == Scaling::exact_groups ? sum_groups(codes) : sum_floats(codes);
  }
}

void WarpProduct::sum_integers(Codes& codes) const {
  constexpr int most_pairs = most_places / 2;
  alignas(64) std::array<int32_t, most_pairs * cols> of_a;
  alignas(64) std::array<int32_t, rows * most_pairs> of_b;
  const int pairs = places_ / 2;
  const FormatInfo &a = info(shape_.a), &b = info(shape_.b);
  (a.is_signed ? pair_rows<true> : pair_rows<false>)(32 - a.bits, codes.a.data(), pairs, of_a.data());
  (b.is_signed ? pair_neighbours<true> : pair_neighbours<false>)(32 - b.bits, codes.b.data(), rows * pairs,
                                                                 of_b.data());
  sum_pairs(of_b.data(), of_a.data(), pairs, codes.c.data(), shape_.saturate, codes.d.data());
}

void WarpProduct::sum_bits(Codes& codes) const {
  kernels::kernels().sum_popcounts({.a = codes.b.data(),
                                    .b = codes.a.data(),
                                    .b_stride = cols,
                                    .rows = rows,
                                    .cols = cols,
                                    .words = places_,
                                    .c = codes.c.data(),
                                    .saturate = shape_.saturate,
                                    .exclusive_or = shape_.exclusive_or,
                                    .d = codes.d.data(),
                                    .d_stride = cols});
}

bool WarpProduct::sum_groups(Codes& codes) const {
  constexpr int stride = kernels::decoded_numbers, most_terms = most_scales * group_size;
  const std::array<E2m1Pair, 256>& pairs = e2m1_pairs();
  const std::array<kernels::Scale, 256>& scales = scales_of(*shape_.scale_type);
  const int groups = shape_.k / group_size;
  alignas(64) std::array<int16_t, rows * most_terms> b;
  std::array<int32_t, rows * most_scales> b_nonzero{};
  std::array<kernels::Scale, rows * most_scales> b_scales;
  alignas(64) std::array<int32_t, most_terms / 2 * stride> a;  // of the 32 columns of a row only 16 are read
  alignas(64) std::array<int32_t, most_scales * stride> a_nonzero{}, a_significands, a_exponents;
  constexpr int pairs_of_group = group_size / 2;
  for (int n = 0; n < rows; ++n) {
    const uint32_t* const from = codes.b.data() + n * places_;
    for (int i = 0; i < places_; ++i) {
      const E2m1Pair& pair = pairs[from[i]];
      std::memcpy(b.data() + n * shape_.k + 2 * i, &pair.halves, sizeof pair.halves);
      b_nonzero[static_cast<size_t>(n * groups + i / pairs_of_group)] |= pair.nonzero << (2 * (i % pairs_of_group));
    }
  }
  for (int i = 0; i < places_; ++i) {
    const uint32_t* const from = codes.a.data() + i * cols;
    int32_t *const to = a.data() + i * stride, *const nonzero = a_nonzero.data() + i / pairs_of_group * stride;
    for (int m = 0; m < cols; ++m) {
      const E2m1Pair& pair = pairs[from[m]];
      to[m] = pair.halves;
      nonzero[m] |= pair.nonzero << (2 * (i % pairs_of_group));
    }
  }
  bool any_nan = false;
  for (int g = 0; g < groups; ++g) {
    const int j = g * shape_.scales / groups;
    for (int n = 0; n < rows; ++n) {
      const kernels::Scale& scale = scales[codes.scale_b[static_cast<size_t>(j * rows + n)]];
      b_scales[static_cast<size_t>(n * groups + g)] = scale;
      any_nan |= scale.nan;
    }
    for (int m = 0; m < cols; ++m) {
      const kernels::Scale& scale = scales[codes.scale_a[static_cast<size_t>(j * cols + m)]];
      const auto at = static_cast<size_t>(g * stride + m);
      a_significands[at] = scale.significand, a_exponents[at] = scale.exponent;
      any_nan |= scale.nan;
    }
  }
  return !any_nan && !kernels::kernels().sum_groups({.a = b.data(),
                                                     .b = nullptr,
                                                     .b_pairs = a.data(),
                                                     .b_stride = stride,
                                                     .selected_k = nullptr,
                                                     .a_nonzero = b_nonzero.data(),
                                                     .b_nonzero = a_nonzero.data(),
                                                     .a_scales = b_scales.data(),
                                                     .b_significands = a_significands.data(),
                                                     .b_exponents = a_exponents.data(),
                                                     .rows = rows,
                                                     .cols = cols,
                                                     .terms = shape_.k,
                                                     .c = codes.c.data(),
                                                     .c_scale = 0,
                                                     .fraction_bits = model_.fraction_bits,
                                                     .floor_exponent = kernels::floor_of(model_),
                                                     .output = output_,
                                                     .d = codes.d.data(),
                                                     .d_stride = cols});
}

bool WarpProduct::sum_floats(Codes& codes) const {
  const bool is_exact = may_be_exact_ && sum_exactly({.a_format = shape_.a,
                                                      .b_format = shape_.b,
                                                      .a = codes.a.data(),
                                                      .b = codes.b.data(),
                                                      .terms = places_,
                                                      .fraction_bits = model_.fraction_bits,
                                                      .d = codes.d.data()});
  if (!is_exact && !sum_in_steps(codes)) return false;
  if (model_.c_last) add_c_last(model_.output, codes.c, codes.d);
  return true;
}

/// Without codes and scales.
kernels::WarpSum WarpProduct::job() const {
  return {.of_rows = {b_.constants, b_.normal, nullptr, nullptr},
          .of_cols = {a_.constants, a_.normal, nullptr, nullptr},
          .places = places_,
          .steps = steps_,
          .c = nullptr,
          .plain = shape_.scales == 0 && have_small_exponents(shape_.a, shape_.b),
          .fraction_bits = model_.fraction_bits,
          .floor_exponent = kernels::floor_of(model_),
          .output = output_,
          .d = nullptr};
}

bool WarpProduct::takes_slots() const {
  const auto has_16_bits = [](Format format) { return info(format).bits == 16; };
  return has_16_bits(shape_.a) && has_16_bits(shape_.b) && !a_.normal && !b_.normal && shape_.m == cols &&
         shape_.k == kernels::WarpColumns::places && places_ == shape_.k && shape_.scales == 0 && packed_ == 1 &&
         model_.output == Format::f32 && !model_.c_last && !may_be_exact_ && std::ranges::is_sorted(places_of_k_) &&
         steps_.size() <= kernels::WarpColumns::most_steps;
}

bool WarpProduct::multiply(const Slots& slots, const Decoded& decoded) const {
  const kernels::SumWarp sum = kernels::kernels().sum_warp[kernels::loop_of(model_)];
  if (!sum) return false;
  kernels::WarpSum job = this->job();
  job.slots = &slots, job.columns = &decoded.a, job.decoded_rows = &decoded.b;
  job.format_of_cols = shape_.a, job.format_of_rows = shape_.b;
  return !sum(job);
}

bool WarpProduct::sum_in_steps(Codes& codes) const {
  std::array<int32_t, cols> a_exponents;
  std::array<int32_t, rows> b_exponents;
  if (shape_.scales > 0) {
    const std::array<kernels::Scale, 256>& scales = scales_of(*shape_.scale_type);
    bool any_nan = false;
    const auto take = [&](const auto& scale_codes, auto& exponents) {
      for (size_t i = 0; i < exponents.size(); ++i)
        exponents[i] = scales[scale_codes[i]].exponent, any_nan |= scales[scale_codes[i]].nan;
    };
    take(codes.scale_a, a_exponents), take(codes.scale_b, b_exponents);
    if (any_nan) return false;
  }
  const kernels::Kernels& loops = kernels::kernels();
  const uint32_t* c = model_.c_last ? nullptr : codes.c.data();
  if (const kernels::SumWarp sum = loops.sum_warp[kernels::loop_of(model_)]) {
    kernels::WarpSum job = this->job();
    job.of_rows.codes = codes.b.data(), job.of_cols.codes = codes.a.data();
    if (shape_.scales > 0) job.of_rows.exponents = b_exponents.data(), job.of_cols.exponents = a_exponents.data();
    job.c = c, job.d = codes.d.data();
    return !sum(job);
  }
  DecodedSide<kernels::most_dense_terms, cols, cols> a;
  DecodedSide<rows, kernels::most_dense_terms, rows> b;
  alignas(64) std::array<int32_t, kernels::scratch_numbers> scratch;
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
    if (shape_.scales > 0) {
      for (int k = 0; k < step.terms; ++k) {
        for (size_t m = 0; m < cols; ++m) a.raise(k, m, a_exponents[m]);
      }
      for (int n = 0; n < rows; ++n) {
        for (size_t k = 0; k < static_cast<size_t>(step.terms); ++k) b.raise(n, k, b_exponents[static_cast<size_t>(n)]);
      }
    }
    const bool c_special =
        loops.sum_fused[kernels::loop_of(model_)]({.a = numbers_of(b),
                                                   .b = numbers_of(a),
                                                   .selected_k = nullptr,
                                                   .rows = rows,
                                                   .cols = shape_.m,
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
  return true;
}

namespace {

/// The product that this thread prepared last: callers with many small products have one shape and rule.
const std::optional<WarpProduct>& prepared_for(const AccumulatorModel& model, const WarpShape& shape) {
  struct Last {
    AccumulatorModel model = {};
    WarpShape shape = {.m = 0};
    std::optional<WarpProduct> product = {};
  };
  thread_local Last last;
  if (last.shape != shape || last.model != model) last = {model, shape, WarpProduct::of(model, shape)};
  return last.product;
}

}  // namespace

std::optional<Matrix> warp_product(const AccumulatorModel& model, const Operands& operands) {
  const int m = operands.a.rows(), k = operands.a.cols();
  const bool is_plain = operands.selected_k.empty() && operands.c && operands.c->format() == model.output &&
                        !operands.scales && model.arithmetic != Arithmetic::popcount && !operands.negate_a &&
                        !operands.negate_b && !operands.swapped && operands.scale_input_d == 0;
  if (!is_plain || operands.b.cols() != WarpProduct::rows || (m != 8 && m != WarpProduct::cols) ||
      k > WarpProduct::most_places)
    return std::nullopt;
  const std::optional<WarpProduct>& product = prepared_for(
      model, {.a = operands.a.format(), .b = operands.b.format(), .m = m, .k = k, .saturate = operands.saturate});
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
