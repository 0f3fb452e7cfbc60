// One output of a fused sum, every hypothesis included. The hot loop in kernels.cpp does the same for
// rows without deviations and operands without NaN and infinity; a test holds the two against each other.
#include <algorithm>
#include <bit>
#include <vector>

#include "bitmma/arithmetic/multiply_accumulate.hpp"

namespace bitmma {
namespace {

/// +-magnitude * 2^(exponent - fraction), the form in which terms are aligned.
struct Aligned {
  bool negative = false;
  uint64_t magnitude = 0;
  int exponent = 0;  // the one that e_max is taken over
  int fraction = 0;
};

/// `term` in units of 2^quantum, the rest dropped.
int64_t align(const Aligned& term, int quantum, bool toward_negative) {
  if (term.magnitude == 0) return 0;  // its exponent is not bounded by e_max
  const int shift = term.exponent - term.fraction - quantum;
  if (shift >= 0) {
    const auto exact = static_cast<int64_t>(term.magnitude << shift);
    return term.negative ? -exact : exact;
  }
  const int drop = std::min(-shift, 63);
  auto kept = static_cast<int64_t>(term.magnitude >> drop);
  if (toward_negative && term.negative && (term.magnitude & low_mask(drop)) != 0) ++kept;
  return term.negative ? -kept : kept;
}

/// The code that special operands force, if any: NaN, infinity times zero, infinities of both signs, infinity.
std::optional<uint32_t> special_result(const AccumulatorModel& model, std::span<const Term> terms, const Decoded& c,
                                       uint32_t c_bits) {
  const FormatInfo& output = info(model.output);
  bool nan = c.number == NumberClass::nan;
  bool positive = c.number == NumberClass::infinity && !c.negative;
  bool negative = c.number == NumberClass::infinity && c.negative;
  for (const Term& term : terms) {
    const bool infinite = term.a.number == NumberClass::infinity || term.b.number == NumberClass::infinity;
    nan |= term.a.number == NumberClass::nan || term.b.number == NumberClass::nan;
    nan |= infinite && (term.a.is_zero() || term.b.is_zero());
    if (infinite) (term.a.negative != term.b.negative ? negative : positive) = true;
  }
  if (nan || (positive && negative)) {
    if (model.deviations.c_nan_payload_passed && c.number == NumberClass::nan) {
      return c_bits | 1u << (output.mantissa_bits - 1);
    }
    return *output.canonical_nan();
  }
  if (positive) return *output.infinity();
  if (negative) return output.sign_bit() | *output.infinity();
  return std::nullopt;
}

uint32_t finite_sum(const AccumulatorModel& model, int product_fraction, std::span<const Term> terms,
                    const Decoded& c) {
  const FormatInfo& output = info(model.output);
  const Deviations& deviations = model.deviations;
  const Aligned c_term{
      .negative = c.negative, .magnitude = c.significand, .exponent = c.exponent, .fraction = output.mantissa_bits};

  std::vector<Aligned> products;
  bool all_negative_zero = c.negative;
  int max_exponent = model.floor_exponent;
  if (c.significand != 0) max_exponent = std::max(max_exponent, c.exponent);
  for (const Term& term : terms) {
    Aligned product{.negative = term.a.negative != term.b.negative,
                    .magnitude = uint64_t{term.a.significand} * term.b.significand,
                    .exponent = term.a.exponent + term.b.exponent,
                    .fraction = product_fraction};
    all_negative_zero &= product.negative;
    if (deviations.product_normalised && product.magnitude != 0) {
      const int raise = 63 - std::countl_zero(product.magnitude) - product_fraction;
      product.exponent += raise;
      product.fraction += raise;
    }
    if (product.magnitude != 0 || deviations.zero_product_has_exponent) {
      max_exponent = std::max(max_exponent, product.exponent);
    }
    products.push_back(product);
  }

  const int quantum = max_exponent - model.fraction_bits;
  int64_t sum = 0;
  for (const Aligned& product : products) sum += align(product, quantum, deviations.align_toward_negative);
  const int64_t c_kept = align(c_term, quantum, deviations.align_toward_negative);
  sum += c_kept;
  if (deviations.c_after_sum && c.significand != 0) {
    // c exactly: one more unit toward zero when what was dropped of c points the other way than the sum.
    const int drop = quantum - (c.exponent - output.mantissa_bits);
    const bool dropped = drop > 0 && (c.significand & low_mask(std::min(drop, 63))) != 0;
    if (dropped && sum > 0 && c.negative) --sum;
    if (dropped && sum < 0 && !c.negative) ++sum;
  }

  Exact exact{.negative = sum < 0, .magnitude = static_cast<uint64_t>(std::abs(sum)), .exponent = quantum};
  if (sum == 0) exact.negative = all_negative_zero;
  if (deviations.f16_through_f32 && model.output == Format::f16) {
    const Decoded f32 = decode(Format::f32, round_to(Format::f32, exact, Rounding::toward_zero));
    exact = {.negative = f32.negative, .magnitude = f32.significand, .exponent = f32.exponent - 23};
  }
  const uint32_t code = round_to(output, exact, model.rounding, model.output_fraction_bits);
  // A zero result is +0, also from negative zeros and when a negative sum rounds to zero.
  if ((code & ~output.sign_bit()) == 0 && !deviations.zero_keeps_sign) return 0;
  return code;
}

}  // namespace

uint32_t fused_sum(const AccumulatorModel& model, Format a, Format b, std::span<const Term> terms,
                   std::optional<uint32_t> c, int scale_input_d) {
  if (model.deviations.two_chained_halves && terms.size() > 1) {
    AccumulatorModel half = model;
    half.deviations.two_chained_halves = false;
    const size_t middle = terms.size() / 2;
    return fused_sum(half, a, b, terms.subspan(middle), fused_sum(half, a, b, terms.first(middle), c, scale_input_d));
  }
  // Without C a zero stands in for it: it has no exponent and changes no sum. It is +0 only for the sign of zero.
  Decoded c_value = decode(model.output, c.value_or(0));
  c_value.exponent -= scale_input_d;
  if (const auto special = special_result(model, terms, c_value, c.value_or(0))) return *special;
  return finite_sum(model, info(a).mantissa_bits + info(b).mantissa_bits, terms, c_value);
}

uint32_t grouped_sum(const AccumulatorModel& model, std::span<const Term> terms, std::span<const GroupScales> scales,
                     std::optional<uint32_t> c, int scale_input_d) {
  const FormatInfo& output = info(model.output);
  Decoded c_value = decode(output, c.value_or(0));
  const auto is_nan = [](const Decoded& value) { return value.number == NumberClass::nan; };
  if (is_nan(c_value) ||
      std::ranges::any_of(scales, [&](const GroupScales& of) { return is_nan(of.a) || is_nan(of.b); }))
    return *output.canonical_nan();
  if (c_value.number == NumberClass::infinity) return *c;
  c_value.exponent -= scale_input_d;

  constexpr int value_fraction = 1;  // of e2m1, whose exponents begin at 0
  int max_exponent = model.floor_exponent;
  if (c_value.significand != 0) max_exponent = std::max(max_exponent, c_value.exponent);
  std::vector<Aligned> groups;
  for (size_t g = 0; g < scales.size(); ++g) {
    int64_t quarters = 0;
    bool something = false;
    for (const Term& term : terms.subspan(g * group_size, group_size)) {
      const auto product = static_cast<int64_t>(term.a.significand << term.a.exponent) *
                           static_cast<int64_t>(term.b.significand << term.b.exponent);
      something |= product != 0;
      quarters += term.a.negative != term.b.negative ? -product : product;
    }
    const Decoded &a = scales[g].a, &b = scales[g].b;
    const Aligned group{.negative = quarters < 0,
                        .magnitude = static_cast<uint64_t>(std::abs(quarters)) * a.significand * b.significand,
                        .exponent = a.exponent + b.exponent,
                        .fraction = 2 * value_fraction + scales[g].fraction_bits};
    // A group that cancels keeps its exponent; one with nothing in it has none.
    if (something && a.significand != 0 && b.significand != 0) max_exponent = std::max(max_exponent, group.exponent);
    groups.push_back(group);
  }
  const int quantum = max_exponent - model.fraction_bits;
  int64_t sum = align({.negative = c_value.negative,
                       .magnitude = c_value.significand,
                       .exponent = c_value.exponent,
                       .fraction = output.mantissa_bits},
                      quantum, false);
  for (const Aligned& group : groups) sum += align(group, quantum, false);
  const uint32_t code =
      round_to(output, {.negative = sum < 0, .magnitude = static_cast<uint64_t>(std::abs(sum)), .exponent = quantum},
               model.rounding, model.output_fraction_bits);
  return (code & ~output.sign_bit()) == 0 ? 0 : code;
}

}  // namespace bitmma
