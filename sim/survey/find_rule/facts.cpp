// SPDX-License-Identifier: MIT
#include "facts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "../../arithmetic/steps.hpp"

namespace bitmma {
namespace {

std::string_view print(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::integer: return "exact sum of integers";
    case Arithmetic::popcount: return "popcount";
    case Arithmetic::fma_chain: return "c, then one IEEE multiply-add a k";
    case Arithmetic::fma_pairs: return "IEEE operations instead of a tensor core's sum";
    default: return "aligned sum";
  }
}

std::string_view print(Rounding rounding) {
  switch (rounding) {
    case Rounding::toward_zero: return "toward zero";
    case Rounding::nearest_even: return "to nearest even";
    case Rounding::nearest_away: return "to nearest, ties away";
    case Rounding::toward_positive: return "toward plus infinity";
    default: return "toward minus infinity";
  }
}

FactValue number(std::string_view name, int value) {
  return {.name = name, .text = std::to_string(value), .number = value};
}

FactValue choice(std::string_view name, bool second, std::string_view first_text, std::string_view second_text) {
  return {.name = name, .text = std::string(second ? second_text : first_text)};
}

}  // namespace

std::vector<FactValue> facts_of(const AccumulatorModel& model, int terms) {
  std::vector<FactValue> facts{{.name = "arithmetic", .text = std::string(print(model.arithmetic))}};
  if (model.arithmetic == Arithmetic::fma_chain)
    facts.push_back(choice("NaN", model.nan == NanRule::payload, "one word", "the payload of b, else of c, else of a"));
  if (model.arithmetic != Arithmetic::fused_sum) return facts;
  const Overrides& overrides = model.overrides;
  const bool in_pairs = model.step_order == StepOrder::byte_pairs;
  if (model.scaling != Scaling::none)
    facts.push_back({.name = "aligned terms",
                     .text = model.scaling == Scaling::exact_groups
                                 ? fmt::format("exact groups of {}, by their scales", model.group_terms)
                                 : "products with their scales"});
  facts.push_back(number("terms per step", terms_of_step(model, terms)));
  facts.push_back(choice("order of steps", in_pairs, "k ascending", "k % 4 < 2, then the others, fp8 as f16"));
  facts.push_back(choice("c", model.c_last, "in the first step", "added last, by an IEEE addition"));
  facts.push_back(number("fraction bits", model.fraction_bits));
  if (!model.floor_exponent) facts.push_back({.name = "floor", .text = "none"});
  else facts.push_back(number("floor", *model.floor_exponent));
  facts.push_back({.name = "rounding", .text = std::string(print(model.rounding))});
  facts.push_back(number("mantissa bits kept", model.output_fraction_bits));
  if (model.scaling != Scaling::exact_groups) {
    facts.push_back(
        choice("exponent of a product", overrides.product_normalised, "its factors'", "its own, normalised"));
    facts.push_back(choice("zero products", overrides.zero_product_has_exponent, "have no exponent",
                           "have their factors' exponent"));
  }
  facts.push_back(choice("terms are aligned", overrides.align_toward_negative, "toward zero", "toward minus infinity"));
  facts.push_back(choice("c is truncated", overrides.c_after_sum, "like a term", "after the sum"));
  facts.push_back(choice("a zero result", overrides.zero_keeps_sign, "is +0", "keeps its sign"));
  facts.push_back(choice("NaN of c", overrides.c_nan_payload_passed, "becomes one word", "passes its payload"));
  if (model.output == Format::f16)
    facts.push_back(choice("f16 results", overrides.f16_through_f32, "are rounded once", "are truncated to f32 first"));
  return facts;
}

int distance(const AccumulatorModel& x, const AccumulatorModel& y, int terms) {
  const std::vector<FactValue> of_x = facts_of(x, terms), of_y = facts_of(y, terms);
  // A fact that only one model has counts as a difference too.
  const auto lacks = [](const std::vector<FactValue>& facts, const FactValue& fact) {
    return std::ranges::find(facts, fact) == facts.end();
  };
  int differing = 0;
  for (const FactValue& fact : of_x) differing += lacks(of_y, fact);
  for (const FactValue& fact : of_y) differing += std::ranges::find(of_x, fact.name, &FactValue::name) == of_x.end();
  return differing;
}

void FactValues::add(const FactValue& value) {
  Values& values = values_[std::string(value.name)];
  if (value.number) values.numbers.insert(*value.number);
  else values.texts.insert(value.text);
}

bool FactValues::contains(const FactValue& value) const {
  const auto entry = values_.find(value.name);
  if (entry == values_.end()) return false;
  return value.number ? entry->second.numbers.contains(*value.number) : entry->second.texts.contains(value.text);
}

std::vector<std::string> FactValues::without(const FactValue& own) const {
  std::vector<std::string> open;
  const auto entry = values_.find(own.name);
  if (entry == values_.end()) return open;
  for (const std::string& text : entry->second.texts) {
    if (own.number || text != own.text) open.push_back(text);
  }
  std::set<int> numbers = entry->second.numbers;
  if (own.number) numbers.erase(*own.number);
  for (auto first = numbers.begin(); first != numbers.end();) {
    auto last = first;
    for (auto next = std::next(last); next != numbers.end() && *next == *last + 1; ++next) last = next;
    open.push_back(first == last ? std::to_string(*first) : fmt::format("{}..{}", *first, *last));
    first = std::next(last);
  }
  return open;
}

}  // namespace bitmma
