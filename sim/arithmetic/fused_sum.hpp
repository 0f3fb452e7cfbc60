// SPDX-License-Identifier: MIT
// One output of a floating-point row by the rule spelled out step by step: specials, exponents, alignment, sum,
// rounding, and every hypothesis of Overrides. The hot loops (kernels/) do the same for rows without overrides and
// operands without NaN and infinity; a test holds the two against each other.
//
//   e_max = the largest exponent of a non-zero term or c, or the floor
//   D = round(sum of trunc(term, 2^(e_max - F)) over all terms and c)
//
// A term is a product. With Scaling::exact_groups it is the exact sum of a group, times its scales. Where the model has
// several steps (steps.hpp), D of one is c of the next.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "bitmma/arithmetic/accumulator_model.hpp"
#include "terms.hpp"

namespace bitmma {

/// +-magnitude * 2^(exponent - fraction), the form in which terms are aligned.
struct AlignedTerm {
  bool negative = false;
  bool has_exponent = true;  // false for a term that e_max does not see
  uint64_t magnitude = 0;
  int exponent = 0;  // the one that e_max is taken over
  int fraction = 0;
};

/// The product of a term of e2m1, in quarters, which it is a multiple of.
int64_t quarters(const ExactTerm& term);

/// What the model aligns, C apart: a product each, or a group of them. Of the model only its scaling and what it
/// says of exponents of products count. The terms are finite.
std::vector<AlignedTerm> aligned_terms(const AccumulatorModel& model, std::span<const ExactTerm> terms);

/// C as it is aligned.
AlignedTerm aligned_c(const AccumulatorModel& model, const Decoded& c);

/// D of one step, and how it comes about.
struct StepSum {
  static constexpr int by_floor = -2, by_c = -1;

  uint32_t code = 0;
  int highest_idle_floor = std::numeric_limits<int>::max();  // no floor up to it changes D: e_max, or more where
                                                             // nothing is dropped
  int max_exponent = 0, max_by = by_floor;                   // e_max, and the number of the first term that has it
  int quantum = 0;                                           // terms are multiples of 2^quantum
  int64_t sum = 0;                                           // of them
};

/// One step: all `terms` and a finite `c`. Where `kept` is given it becomes what the sum has of C and of every term, in
/// units of 2^quantum.
StepSum sum_aligned(const AccumulatorModel& model, std::span<const AlignedTerm> terms, const Decoded& c,
                    std::vector<int64_t>* kept = nullptr);

/// The addition of C behind the last step, where the model has one: to the code `sum`, in D's format.
uint32_t with_c_last(const AccumulatorModel& model, uint32_t sum, std::optional<uint32_t> c, Format c_format);

/// The whole rule. `terms` are in the order in which the steps take them, byte pairs widened. `c` holds a code of
/// `c_format`, or of model.output without one, and counts c * 2^-scale_input_d in the first step.
uint32_t fused_sum(const AccumulatorModel& model, std::span<const ExactTerm> terms, std::optional<uint32_t> c,
                   int scale_input_d = 0, std::optional<Format> c_format = {});

}  // namespace bitmma
