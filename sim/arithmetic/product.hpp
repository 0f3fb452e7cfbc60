// SPDX-License-Identifier: MIT
// What multiply_accumulate is made of: its checks, its steps, and one function for every arithmetic.
//
//   multiply_accumulate -> checks -> A and B swapped, where N is small -> steps of K -> fused, groups, integers, bits,
//   fma
#pragma once

#include <functional>

#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "steps.hpp"

namespace bitmma {

/// multiply_accumulate for inputs that the model's row does not have, but which its arithmetic can take: for what
/// another type would have given. Everything else is checked.
Matrix multiply_accumulate_unchecked(const AccumulatorModel& model, const Operands& operands);

// One arithmetic each, A and B as they are. Shapes and formats are known good.

/// Products aligned and summed at once (fused.cpp).
Matrix fused_product(const AccumulatorModel& model, const Operands& operands);
/// Exact groups of 16, aligned and summed at once (groups.cpp).
Matrix grouped_product(const AccumulatorModel& model, const Operands& operands);
/// Chains of IEEE operations (fma.cpp).
Matrix fma_product(const AccumulatorModel& model, const Operands& operands);
/// Exact sums of integers, and of bits that both have or that differ (integers.cpp).
Matrix integer_product(const Operands& operands);
Matrix popcount_product(const Operands& operands);

/// True when M fills vectors of so many numbers and N does not.
inline bool fills_better_swapped(int m, int n, int numbers) { return n < numbers && m >= numbers; }

/// The same product as D^T.
Operands swapped(const Operands& operands);

/// These columns of A and what they meet, without C: as a step of the model multiplies them.
Operands step_of(const AccumulatorModel& model, const Operands& operands, std::span<const int> columns);
/// D by steps of K, `product` giving D of one from its operands. Where there is one step it has all of `operands`.
using StepProduct = std::function<Matrix(const Operands& operands, const KStep& step)>;
Matrix product_by_steps(const AccumulatorModel& model, const Operands& operands, const StepProduct& product);
/// The addition of C behind the last step, where the model has one (fused_sum.hpp), for all of D.
Matrix with_c_last(const AccumulatorModel& model, Matrix sum, const std::optional<Matrix>& c);

}  // namespace bitmma
