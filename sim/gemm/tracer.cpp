// SPDX-License-Identifier: MIT
#include "tracer.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "bitmma/core/error.hpp"
#include "bitmma/formats/format.hpp"
#include "bitmma/instruction/execute.hpp"

namespace bitmma {
namespace {

/// A number as significand times power of two.
struct Scaled {
  bool finite = true, negative = false;
  uint64_t significand = 0;
  int exponent = 0;
};

Scaled exact_of(Format format, uint64_t code) {
  // tf32 operands are f32 words: dropping bits in the instruction counts as error.
  const FormatInfo& row = info(format == Format::tf32 ? Format::f32 : format);
  const Decoded number = decode(row, code);
  return {.finite = number.number == NumberClass::finite,
          .negative = number.negative,
          .significand = number.significand,
          .exponent = number.exponent - row.mantissa_bits};
}

Scaled product_of(const Scaled& x, const Scaled& y) {
  return {.finite = x.finite && y.finite,
          .negative = x.negative != y.negative,
          .significand = x.significand * y.significand,
          .exponent = x.exponent + y.exponent};
}

/// Adds x * factor, whose significand has up to 72 bits, in two parts. False if it is not finite, or if its magnitude
/// is outside the range of the sum.
bool add_to(ExactSum& sum, const Scaled& x, const Scaled& factor) {
  const int exponent = x.exponent + factor.exponent;
  const bool fits = exponent >= ExactSum::lowest && exponent + 80 < ExactSum::lowest + 32 * (ExactSum::digits - 1);
  if (x.significand == 0 || factor.significand == 0 || !fits)
    return x.finite && factor.finite && (fits || x.significand == 0 || factor.significand == 0);
  const Scaled low{.negative = x.negative, .significand = x.significand & 0xFFFFFF, .exponent = x.exponent},
      high{.negative = x.negative, .significand = x.significand >> 24, .exponent = x.exponent + 24};
  for (const Scaled& part : {low, high}) {
    const Scaled product = product_of(part, factor);
    sum.add(product.negative, product.significand, product.exponent);
  }
  return x.finite && factor.finite;
}

constexpr Scaled unscaled{.significand = 1};
bool add_to(ExactSum& sum, Format format, uint64_t code) { return add_to(sum, exact_of(format, code), unscaled); }

}  // namespace

Tracer::Tracer(const GemmPlan& plan, const GemmInputs& inputs, int row, int col) : inputs_(inputs) {
  const auto require = [](bool holds, std::string field, std::string seen, std::string expected) {
    if (!holds) throw Error({.field = std::move(field), .seen = std::move(seen), .expected = std::move(expected)});
  };
  const int m = inputs.a.rows(), n = inputs.b.cols();
  require(row >= 0 && row < m, "row", std::to_string(row), fmt::format("0..{}", m - 1));
  require(col >= 0 && col < n, "col", std::to_string(col), fmt::format("0..{}", n - 1));
  const FormatInfo& a = info(inputs.a.format());
  require(a.kind == NumberKind::floating && a.bits <= 32, "a", std::string(a.name),
          "a floating-point type of at most 32 bits");
  trace_.plan = plan, trace_.row = row, trace_.col = col, trace_.k = inputs.a.cols();
  if (const TensorCoreChain* const chain = plan.tensor_cores()) {
    const Mma mma = mma_of(chain->instruction);
    if (mma.scale_count > 0) k_of_scale_ = mma.k / mma.scale_count;
  }
}

bool Tracer::add_exact(ExactSum& sum, int64_t first, int64_t last) const {
  bool finite = true;
  for (int64_t k = first; k < last; ++k) {
    const int at = static_cast<int>(k);
    Scaled product = product_of(exact_of(inputs_.a.format(), inputs_.a.code(trace_.row, at)),
                                exact_of(inputs_.b.format(), inputs_.b.code(at, trace_.col)));
    Scaled scale = unscaled;
    if (k_of_scale_ > 0) {
      const Matrix &sfa = *inputs_.sfa, &sfb = *inputs_.sfb;
      const int block = at / k_of_scale_;
      scale = product_of(exact_of(sfa.format(), sfa.code(trace_.row, block)),
                         exact_of(sfb.format(), sfb.code(block, trace_.col)));
    }
    finite = product.finite && scale.finite && finite;
    finite = finite && add_to(sum, product, scale);
  }
  return finite;
}

void Tracer::note(TraceStep step, ExactSum exact, bool finite) {
  // error = after - exact; only the last step rounds.
  const Scaled after = exact_of(step.format, step.after);
  if (finite && after.finite) {
    Scaled less = after;
    less.negative = !after.negative;
    add_to(exact, less, unscaled);
    step.error = -exact.value();
    if (*step.error == 0) step.error = 0.0;
    trace_.error += *step.error;
    const bool is_worst =
        *step.error != 0 &&
        (trace_.worst < 0 || std::abs(*step.error) > std::abs(*trace_.steps[static_cast<size_t>(trace_.worst)].error));
    if (is_worst) trace_.worst = static_cast<int64_t>(trace_.steps.size());
  }
  step.slice = slice;
  step.error_so_far = trace_.error;
  trace_.steps.push_back(std::move(step));
}

void Tracer::add_products(TraceKind kind, int64_t first, int64_t last, Format format, uint64_t before, uint64_t after) {
  ExactSum exact;
  const bool finite = add_to(exact, format, before) && add_exact(exact, first, last);
  note({.kind = kind, .first = first, .last = last, .format = format, .before = before, .after = after}, exact, finite);
}

void Tracer::add_sum(TraceKind kind, uint32_t before, uint32_t addend, uint32_t after) {
  ExactSum exact;
  const bool finite = add_to(exact, Format::f32, before) && add_to(exact, Format::f32, addend);
  note({.kind = kind, .before = before, .after = after}, exact, finite);
}

void Tracer::add_scaled(uint32_t before, uint32_t addend, uint32_t scale_a, uint32_t scale_b, uint32_t after) {
  ExactSum exact;
  const Scaled factors = product_of(exact_of(Format::f32, addend), exact_of(Format::f32, scale_a));
  const bool finite =
      add_to(exact, Format::f32, before) && factors.finite && add_to(exact, factors, exact_of(Format::f32, scale_b));
  note({.kind = TraceKind::promotion, .before = before, .after = after}, exact, finite);
}

void Tracer::round(uint32_t before, Format to, uint64_t after) {
  ExactSum exact;
  const bool finite = add_to(exact, Format::f32, before);
  note({.kind = TraceKind::round, .format = to, .before = before, .after = after}, exact, finite);
}

void Tracer::epilogue(std::string_view what, uint32_t before, uint32_t after) {
  note({.kind = TraceKind::epilogue, .what = std::string(what), .before = before, .after = after}, {}, false);
}

void Tracer::skip(int64_t first, int64_t last) {
  ExactSum exact;
  const bool finite = add_exact(exact, first, last);
  note({.kind = TraceKind::not_added, .first = first, .last = last}, exact, finite);
}

ProductTrace Tracer::finish(Format format, uint64_t d) {
  ExactSum exact;
  if (add_exact(exact, 0, trace_.k)) trace_.exact = exact.value();
  trace_.format = format, trace_.d = d;
  return std::move(trace_);
}

}  // namespace bitmma
