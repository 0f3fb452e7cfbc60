// SPDX-License-Identifier: MIT
// One output of a floating-point row by the rule in plain steps: special values, exponents, alignment, sum, rounding,
// and every hypothesis of Overrides. The hot loops (kernels/) do the same for rows without overrides and operands
// without NaN and infinity; a test compares both.
//
//   e_max = the largest exponent of a non-zero term or c, or the floor
//   D = round(sum of trunc(term, 2^(e_max - F)) over all terms and c)
//
// A term is a product. With Scaling::exact_groups it is the exact sum of a group, times its scales. If the model has
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

/// +-magnitude * 2^(exponent - fraction): the form for alignment.
struct AlignedTerm {
  bool negative = false;
  bool has_exponent = true;  // false for a term that does not contribute to e_max
  uint64_t magnitude = 0;
  int exponent = 0;  // the exponent for e_max
  int fraction = 0;
};

/// The product of an e2m1 term, in quarters.
int64_t quarters(const ExactTerm& term);

/// The terms to align, without C: one per product, or one per group. Uses only the model's scaling and its rules for
/// exponents of products. The terms are finite.
std::vector<AlignedTerm> aligned_terms(const AccumulatorModel& model, std::span<const ExactTerm> terms);

/// C in the form for alignment.
AlignedTerm aligned_c(const AccumulatorModel& model, const Decoded& c);

/// D of one step, with intermediate results.
struct StepSum {
  static constexpr int by_floor = -2, by_c = -1;

  uint32_t code = 0;
  int highest_idle_floor = std::numeric_limits<int>::max();  // no floor up to it changes D: e_max, or more if
                                                             // nothing is dropped
  int max_exponent = 0, max_by = by_floor;                   // e_max, and the index of the first term with it
  int quantum = 0;                                           // terms are multiples of 2^quantum
  int64_t sum = 0;                                           // of the terms
};

/// One step: all `terms` and a finite `c`. If `kept` is given, it receives the kept parts of C and of every term, in
/// units of 2^quantum.
StepSum sum_aligned(const AccumulatorModel& model, std::span<const AlignedTerm> terms, const Decoded& c,
                    std::vector<int64_t>* kept = nullptr);

/// Adds C after the last step, if the model does so: to the code `sum`, in D's format.
uint32_t with_c_last(const AccumulatorModel& model, uint32_t sum, std::optional<uint32_t> c, Format c_format);

/// The whole rule. `terms` are in step order, with byte pairs widened. `c` is a code of `c_format` (default:
/// model.output), and c * 2^-scale_input_d is added in the first step.
uint32_t fused_sum(const AccumulatorModel& model, std::span<const ExactTerm> terms, std::optional<uint32_t> c,
                   int scale_input_d = 0, std::optional<Format> c_format = {});

}  // namespace bitmma
