// SPDX-License-Identifier: MIT
#include "fused_sum.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "bitmma/core/bits.hpp"
#include "bitmma/formats/ieee.hpp"
#include "special_values.hpp"
#include "steps.hpp"

namespace bitmma {
namespace {

/// `term` in units of 2^quantum, without the fraction.
int64_t align(const AlignedTerm& term, int quantum, bool toward_negative) {
  if (term.magnitude == 0) return 0;  // its exponent is not limited by e_max
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

AlignedTerm aligned_product(const Overrides& overrides, const ExactTerm& term) {
  AlignedTerm product{.negative = term.product.negative,
                      .magnitude = term.product.magnitude,
                      .exponent = term.exponent(),
                      .fraction = term.exponent() - term.product.exponent};
  if (overrides.product_normalised && product.magnitude != 0) {
    const int raise = 63 - std::countl_zero(product.magnitude) - product.fraction;
    product.exponent += raise;
    product.fraction += raise;
  }
  product.has_exponent = product.magnitude != 0 || overrides.zero_product_has_exponent;
  return product;
}

/// The exact sum of a group of e2m1 products, times both scales. Only the scales' exponents determine the alignment.
AlignedTerm aligned_group(std::span<const ExactTerm> terms) {
  int64_t sum = 0;
  bool something = false;
  for (const ExactTerm& term : terms) {
    something |= quarters(term) != 0;
    sum += quarters(term);
  }
  const ExactTerm& first = terms.front();
  const Decoded &scale_a = *first.scale_a, &scale_b = *first.scale_b;
  return {.negative = sum < 0,
          // A group that cancels keeps its exponent; an empty group has none.
          .has_exponent = something && scale_a.significand != 0 && scale_b.significand != 0,
          .magnitude = static_cast<uint64_t>(std::abs(sum)) * scale_a.significand * scale_b.significand,
          .exponent = scale_a.exponent + scale_b.exponent,
          .fraction = first.exponent() - first.product.exponent};  // mantissa bits of all four factors
}

/// The correction of a sum with which c counts exactly: one unit toward zero if the dropped part of c and the sum have
/// opposite signs.
int64_t correction_of_c(const AlignedTerm& c, int quantum, int64_t sum) {
  const int drop = quantum - (c.exponent - c.fraction);
  const bool dropped = drop > 0 && (c.magnitude & low_mask(std::min(drop, 63))) != 0;
  if (dropped && sum > 0 && c.negative) return -1;
  if (dropped && sum < 0 && !c.negative) return 1;
  return 0;
}

uint32_t round_sum(const AccumulatorModel& model, Exact sum) {
  const FormatInfo& output = info(model.output);
  const Overrides& overrides = model.overrides;
  if (overrides.f16_through_f32 && model.output == Format::f16) {
    const Decoded f32 = decode(Format::f32, round_to(Format::f32, sum, Rounding::toward_zero));
    sum = {.negative = f32.negative, .magnitude = f32.significand, .exponent = f32.exponent - 23};
  }
  const uint64_t code = round_to(output, sum, model.rounding, model.output_fraction_bits);
  // A zero result is +0, even from negative zeros, and if a negative sum rounds to zero.
  if ((code & ~output.sign_bit()) == 0 && !overrides.zero_keeps_sign) return 0;
  return static_cast<uint32_t>(code);
}

/// One step: all of its terms are fused.
uint32_t sum_of_step(const AccumulatorModel& model, std::span<const ExactTerm> terms, uint32_t c, int scale_input_d,
                     Format c_format) {
  Decoded c_value = decode_c(c_format, c, model.output);
  c_value.exponent -= scale_input_d;
  if (const auto special = special_result(model.output, terms, c_value)) {
    const bool passes_payload =
        model.overrides.c_nan_payload_passed && c_value.number == NumberClass::nan && c_format == model.output;
    return passes_payload ? c | 1u << (info(model.output).mantissa_bits - 1) : *special;
  }
  return sum_aligned(model, aligned_terms(model, terms), c_value).code;
}

}  // namespace

int64_t quarters(const ExactTerm& term) {
  const auto magnitude =
      static_cast<int64_t>((term.a.significand << term.a.exponent) * (term.b.significand << term.b.exponent));
  return term.product.negative ? -magnitude : magnitude;
}

std::vector<AlignedTerm> aligned_terms(const AccumulatorModel& model, std::span<const ExactTerm> terms) {
  std::vector<AlignedTerm> aligned;
  aligned.reserve(terms.size());
  if (model.scaling == Scaling::exact_groups) {
    const auto group = static_cast<size_t>(model.group_terms);
    for (size_t first = 0; first < terms.size(); first += group)
      aligned.push_back(aligned_group(terms.subspan(first, group)));
  } else {
    for (const ExactTerm& term : terms) aligned.push_back(aligned_product(model.overrides, term));
  }
  return aligned;
}

AlignedTerm aligned_c(const AccumulatorModel& model, const Decoded& c) {
  return {.negative = c.negative,
          .has_exponent = c.significand != 0,
          .magnitude = c.significand,
          .exponent = c.exponent,
          .fraction = info(model.output).mantissa_bits};
}

StepSum sum_aligned(const AccumulatorModel& model, std::span<const AlignedTerm> terms, const Decoded& c,
                    std::vector<int64_t>* kept) {
  const Overrides& overrides = model.overrides;
  const AlignedTerm c_term = aligned_c(model, c);
  constexpr int none = std::numeric_limits<int>::min();
  int own_max = none, by = StepSum::by_floor, lowest_unit = std::numeric_limits<int>::max();
  bool negative_zero = true;
  const auto take = [&](const AlignedTerm& term, int number) {
    if (term.has_exponent && term.exponent > own_max) own_max = term.exponent, by = number;
    if (term.magnitude != 0) lowest_unit = std::min(lowest_unit, term.exponent - term.fraction);
    negative_zero &= term.negative;
  };
  take(c_term, StepSum::by_c);
  for (size_t i = 0; i < terms.size(); ++i) take(terms[i], static_cast<int>(i));

  // Without a floor and an exponent every term is zero, in any unit.
  const int floor = model.floor_exponent.value_or(own_max == none ? 0 : none);
  StepSum step{.max_exponent = std::max(own_max, floor), .max_by = floor >= own_max ? StepSum::by_floor : by};
  step.quantum = step.max_exponent - model.fraction_bits;
  const auto add = [&](const AlignedTerm& term) {
    const int64_t units = align(term, step.quantum, overrides.align_toward_negative);
    if (kept) kept->push_back(units);
    step.sum += units;
  };
  if (kept) kept->clear();
  add(c_term);
  for (const AlignedTerm& term : terms) add(term);
  if (overrides.c_after_sum) step.sum += correction_of_c(c_term, step.quantum, step.sum);
  step.code = round_sum(model, {.negative = step.sum == 0 ? negative_zero : step.sum < 0,
                                .magnitude = static_cast<uint64_t>(std::abs(step.sum)),
                                .exponent = step.quantum});
  if (lowest_unit != std::numeric_limits<int>::max())
    step.highest_idle_floor = std::max(own_max, lowest_unit + model.fraction_bits);
  return step;
}

uint32_t with_c_last(const AccumulatorModel& model, uint32_t sum, std::optional<uint32_t> c, Format c_format) {
  if (!model.c_last || !c) return sum;
  const uint64_t addend =
      c_format == model.output ? *c : convert(c_format, *c, model.output, Rounding::nearest_even, Overflow::infinity);
  return static_cast<uint32_t>(ieee_add(model.output, sum, addend));
}

uint32_t fused_sum(const AccumulatorModel& model, std::span<const ExactTerm> terms, std::optional<uint32_t> c,
                   int scale_input_d, std::optional<Format> format_of_c) {
  const Format own_format = format_of_c.value_or(model.output);
  // Without C use zero: it has no exponent and changes no sum. It is +0 only because of the sign of a zero result.
  uint32_t sum = model.c_last ? 0 : c.value_or(0);
  Format c_format = own_format;
  for_each_step(model, static_cast<int>(terms.size()), [&](const KStep& step) {
    const auto count = static_cast<size_t>(step.count);
    sum = sum_of_step(model, terms.first(count), sum, scale_input_d, c_format);
    terms = terms.subspan(count);
    scale_input_d = 0, c_format = model.output;
  });
  return with_c_last(model, sum, c, own_format);
}

}  // namespace bitmma
