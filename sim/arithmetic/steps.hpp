// SPDX-License-Identifier: MIT
// The steps in which a row adds the terms of K. D of a step is C of the next; with c_last the first step starts from
// zero, and C is added after the last.
//
//   terms_per_step = 8, K = 20                0..7, 8..15, 16..19
//   StepOrder::byte_pairs, K = 8              0 1 4 5, 2 3 6 7; both are summed as f16
#pragma once

#include <algorithm>

#include "bitmma/arithmetic/accumulator_model.hpp"

namespace bitmma {

/// Terms that are added at once: `count` consecutive ones from `first` on, or two of every four.
struct KStep {
  int first = 0, count = 0;
  bool two_of_four = false;

  constexpr int term(int i) const { return first + (two_of_four ? i / 2 * 4 + i % 2 : i); }
};

/// The number of terms of a step that the end of K does not shorten.
constexpr int terms_of_step(const AccumulatorModel& model, int terms) {
  if (model.step_order == StepOrder::byte_pairs) return terms / 2;
  return model.terms_per_step == 0 ? terms : std::min(terms, model.terms_per_step);
}

/// Calls f(step) for every step of K = `terms`, in order. K = 0 has one step without terms: its sum is C.
template <typename F>
constexpr void for_each_step(const AccumulatorModel& model, int terms, const F& f) {
  if (model.step_order == StepOrder::byte_pairs) {
    for (const int first : {0, 2})
      f(KStep{.first = first, .count = terms / 4 * 2 + std::clamp(terms % 4 - first, 0, 2), .two_of_four = true});
    return;
  }
  const int step = std::max(terms_of_step(model, terms), 1);
  for (int first = 0; first == 0 || first < terms; first += step)
    f(KStep{.first = first, .count = std::min(step, terms - first)});
}

/// The rule of one step.
constexpr AccumulatorModel step_model(AccumulatorModel model) {
  model.terms_per_step = 0, model.step_order = StepOrder::ascending, model.c_last = false;
  return model;
}

/// The format that a step multiplies if the instruction has `input`: byte pairs are widened to f16.
constexpr Format step_input(const AccumulatorModel& model, Format input) {
  return model.step_order == StepOrder::byte_pairs && info(input).bits <= 8 ? Format::f16 : input;
}

}  // namespace bitmma
