// SPDX-License-Identifier: MIT
#include "hypotheses.hpp"

#include <algorithm>

namespace bitmma {
namespace {

constexpr int lowest_fraction_bits = 8, highest_fraction_bits = 45;
constexpr std::array roundings{Rounding::toward_zero, Rounding::nearest_even, Rounding::nearest_away,
                               Rounding::toward_positive, Rounding::toward_negative};
constexpr size_t override_bits = 5;

bool is_float(const Mma& mma) { return info(mma.a).kind == NumberKind::floating && info(mma.d).bits <= 32; }

Overrides overrides_of(size_t bits) {
  return {.product_normalised = (bits & 1) != 0,
          .zero_product_has_exponent = (bits & 2) != 0,
          .align_toward_negative = (bits & 4) != 0,
          .c_after_sum = (bits & 8) != 0,
          .f16_through_f32 = (bits & 16) != 0};
}

/// A step covers whole scale blocks, or whole fractions of one.
bool fits_blocks(int step, const Mma& mma) {
  if (mma.scale_count == 0) return true;
  const int block = mma.stored_k() / mma.scale_count;
  return step % block == 0 || block % step == 0;
}

/// Removes and returns the lowest base-`count` digit of `number`.
size_t take_digit(size_t& number, size_t count) {
  const size_t digit = number % count;
  number /= count;
  return digit;
}

}  // namespace

AccumulatorModel blank_model(const Instruction& instruction) {
  const Mma mma = mma_of(instruction);
  return {.targets = {},
          .family = mma.family,
          .inputs = {mma.a, mma.b},
          .output = mma.d,
          .scaling = mma.scaling,
          .quad_pairs = mma.products > 1,
          .output_fraction_bits = info(mma.d).kind == NumberKind::floating ? info(mma.d).mantissa_bits : 0};
}

std::vector<std::optional<int>> floors_of(Format output) {
  const bool narrow = info(output).bits < 32;
  std::vector<std::optional<int>> floors{std::nullopt};
  for (int floor = narrow ? -45 : -160; floor <= (narrow ? -5 : -100); ++floor) floors.push_back(floor);
  return floors;
}

std::vector<int> group_terms_of(Format a, Format b, int terms, int scales) {
  std::vector<int> groups;
  if (scales == 0 || a != Format::e2m1 || b != Format::e2m1) return groups;
  for (int group = 2; group <= terms / scales; group *= 2) groups.push_back(group);
  return groups;
}

FusedGrid::FusedGrid(const Instruction& instruction, int least_bits)
    : blank_(blank_model(instruction)), least_bits_(least_bits) {
  const Mma mma = mma_of(instruction);
  if (!is_float(mma)) return;
  blank_.arithmetic = Arithmetic::fused_sum;
  const int terms = mma.stored_k();
  terms_ = {{.scaling = mma.scaling == Scaling::none ? Scaling::none : Scaling::whole_k}};
  for (const int group : group_terms_of(mma.a, mma.b, terms, mma.scale_count))
    terms_.push_back({.scaling = Scaling::exact_groups, .group = group});
  steps_.push_back({});
  steps_.push_back({.c_last = true});
  for (int step = terms / 2; step >= 2; --step) {
    if (terms % step != 0 || !fits_blocks(step, mma)) continue;
    for (const bool c_last : {false, true}) steps_.push_back({.terms = step, .c_last = c_last});
  }
  if (mma.scaling == Scaling::none && terms % 4 == 0) {
    for (const bool c_last : {false, true}) steps_.push_back({.order = StepOrder::byte_pairs, .c_last = c_last});
  }
  const auto kept = static_cast<size_t>(info(mma.d).mantissa_bits + 1);
  size_ = terms_.size() * steps_.size() * (highest_fraction_bits - lowest_fraction_bits + 1) * roundings.size() * kept
          << override_bits;
}

std::optional<AccumulatorModel> FusedGrid::at(size_t index) const {
  AccumulatorModel model = blank_;
  const int mantissa_bits = info(model.output).mantissa_bits;
  model.overrides = overrides_of(take_digit(index, size_t{1} << override_bits));
  model.output_fraction_bits =
      mantissa_bits - static_cast<int>(take_digit(index, static_cast<size_t>(mantissa_bits) + 1));
  model.rounding = roundings[take_digit(index, roundings.size())];
  model.fraction_bits =
      lowest_fraction_bits + static_cast<int>(take_digit(index, highest_fraction_bits - lowest_fraction_bits + 1));
  const Steps& steps = steps_[take_digit(index, steps_.size())];
  model.step_order = steps.order, model.terms_per_step = steps.terms, model.c_last = steps.c_last;
  model.scaling = terms_[index].scaling, model.group_terms = terms_[index].group;

  const Overrides& overrides = model.overrides;
  const bool grouped = model.scaling == Scaling::exact_groups;
  if (grouped && (overrides.product_normalised || overrides.zero_product_has_exponent)) return std::nullopt;
  if (grouped && model.terms_per_step % model.group_terms != 0) return std::nullopt;
  if (overrides.f16_through_f32 && model.output != Format::f16) return std::nullopt;
  // The only step has C = 0.
  if (overrides.c_after_sum && model.c_last && model.terms_per_step == 0 && model.step_order == StepOrder::ascending)
    return std::nullopt;
  if (model.output_fraction_bits < least_bits_) return std::nullopt;
  return model;
}

std::vector<OtherRule> other_rules(const Instruction& instruction) {
  const Mma mma = mma_of(instruction);
  std::vector<OtherRule> rules;
  AccumulatorModel model = blank_model(instruction);
  if (mma.d == Format::s32) {
    const bool bits = mma.a == Format::b1;
    model.arithmetic = bits ? Arithmetic::popcount : Arithmetic::integer;
    for (const bool other : {false, true}) {
      if (other && !bits) continue;
      for (const auto overflow : {IntegerOverflow::as_told, IntegerOverflow::wraps, IntegerOverflow::clamps}) {
        const bool told = overflow == (mma.saturate ? IntegerOverflow::clamps : IntegerOverflow::wraps);
        if (!told) rules.push_back({.model = model, .overflow = overflow, .other_bits = other});
      }
    }
    for (int step = mma.stored_k() / 2; step >= 4 && !bits; step /= 2) {
      AccumulatorModel stepped = model;
      stepped.terms_per_step = step;
      rules.push_back({.model = stepped, .overflow = IntegerOverflow::clamps_every_step});
    }
    return rules;
  }
  model.rounding = Rounding::nearest_even;
  if (mma.d == Format::f64) {
    model.arithmetic = Arithmetic::fma_chain;
    for (const NanRule nan : {NanRule::payload, NanRule::canonical}) {
      model.nan = nan;
      rules.push_back({.model = model});
    }
  } else if (mma.a == Format::f16 && mma.b == Format::f16 && mma.stored_k() == 4) {
    model.arithmetic = Arithmetic::fma_pairs;
    rules.push_back({.model = model});
  }
  return rules;
}

}  // namespace bitmma
