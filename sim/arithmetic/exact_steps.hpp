// SPDX-License-Identifier: MIT
// fp8 in two steps (StepOrder::byte_pairs) to f32, if alignment drops no bit of a product: the steps are then exact
// sums of integers, each truncated to f32.
//
//   all of A are multiples of 2^u below 2^(u + x + 1), all of B of 2^v below 2^(v + y + 1)
//   x + y <= F                         e_max - F <= u + v: no product loses a bit, and 16 products fit in 32 bits
//   |first sum| < 2^(u + v + F + 1)    nor does it as C of the second step
//
// Normally distributed numbers are like that, whatever their scale; numbers over the whole range of e5m2 are not.
#pragma once

#include <cstdint>
#include <optional>

#include "bitmma/arithmetic/accumulator_model.hpp"

namespace bitmma {

/// True for rows and types whose steps can be such sums. `terms` of K are at most 32.
bool may_have_exact_steps(const AccumulatorModel& model, Format a, Format b, int terms);

/// D^T of eight rows and sixteen columns.
struct ExactSteps {
  Format a_format, b_format;
  const uint32_t* a;  // codes of A^T: terms x 16, those of the first step first
  const uint32_t* b;  // codes of B^T: 8 x terms, likewise
  int terms, fraction_bits;
  uint32_t* d;
};

/// Exact sums of pairs of 16-bit integers for eight rows and sixteen columns: a is 8 x pairs, b pairs x 16, c (or
/// nullptr) and d 8 x 16.
void sum_pairs(const int32_t* a, const int32_t* b, int pairs, const uint32_t* c, bool saturate, uint32_t* d);

/// Returns false, and leaves d undefined, if a bit may be dropped, or with NaN or infinity.
bool sum_exactly(const ExactSteps& job);

}  // namespace bitmma
