// One output of a floating-point row by the rule spelled out step by step: specials, exponents, alignment, sum,
// rounding, and every hypothesis of Overrides. The hot loops (kernels/) do the same for rows without overrides and
// operands without NaN and infinity; a test holds the two against each other.
//
//   e_max = the largest exponent of a non-zero term or c, or the floor
//   D = round(sum of trunc(term, 2^(e_max - F)) over all terms and c)
//
// A term is a product. With Scaling::exact_groups it is the exact sum of a group, times its scales. Where the model has
// terms_per_step, D of so many products is c of the next ones.
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

/// What the model aligns, C apart: a product each, or a group of them. Of the model only its scaling and what it
/// says of exponents of products count. The terms are finite.
std::vector<AlignedTerm> aligned_terms(const AccumulatorModel& model, std::span<const ExactTerm> terms);

/// D of one step, and the highest floor that changes nothing of it: e_max, or more where nothing is dropped.
struct StepSum {
  uint32_t code = 0;
  int highest_idle_floor = std::numeric_limits<int>::max();
};

/// One step: all `terms` and a finite `c`.
StepSum sum_aligned(const AccumulatorModel& model, std::span<const AlignedTerm> terms, const Decoded& c);

/// `c` holds a code of `c_format`, or of model.output without one, and counts c * 2^-scale_input_d.
uint32_t fused_sum(const AccumulatorModel& model, std::span<const ExactTerm> terms, std::optional<uint32_t> c,
                   int scale_input_d = 0, std::optional<Format> c_format = {});

}  // namespace bitmma
