// One output of a floating-point row by the rule spelled out step by step: specials, exponents, alignment, sum,
// rounding, and every hypothesis of Deviations. The hot loops (kernels/) do the same for rows without deviations and
// operands without NaN and infinity; a test holds the two against each other.
//
//   e_max = the largest exponent of a non-zero term or c, or the floor
//   D = round(sum of trunc(term, 2^(e_max - F)) over all terms and c)
//
// A term is a product. With Scaling::groups_of_16 it is the exact sum of sixteen, times its scales. Where the model has
// terms_per_step, D of so many products is c of the next ones.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "bitmma/arithmetic/accumulator_model.hpp"
#include "terms.hpp"

namespace bitmma {

/// `c` holds a code of model.output and counts c * 2^-scale_input_d.
uint32_t fused_sum(const AccumulatorModel& model, std::span<const ExactTerm> terms, std::optional<uint32_t> c,
                   int scale_input_d = 0);

}  // namespace bitmma
