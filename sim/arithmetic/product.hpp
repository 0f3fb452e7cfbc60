// SPDX-License-Identifier: MIT
// The parts of multiply_accumulate: its checks, its steps, and one function for each arithmetic.
//
//   multiply_accumulate -> checks -> A and B swapped, if N is small -> steps of K -> fused, groups, integers, bits,
//   fma
#pragma once

#include <functional>

#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "steps.hpp"

namespace bitmma {

/// multiply_accumulate for inputs that the model's row lacks but its arithmetic supports, to compute the result of
/// another type. Everything else is checked.
Matrix multiply_accumulate_unchecked(const AccumulatorModel& model, const Operands& operands);

// One function per arithmetic, without swapping A and B. Shapes and formats are already checked.

/// Products aligned and summed in one step (fused.cpp).
Matrix fused_product(const AccumulatorModel& model, const Operands& operands);
/// Exact groups of 16, aligned and summed in one step (groups.cpp).
Matrix grouped_product(const AccumulatorModel& model, const Operands& operands);
/// Chains of IEEE operations (fma.cpp).
Matrix fma_product(const AccumulatorModel& model, const Operands& operands);
/// Exact sums of integers, and of positions where both have a bit or where bits differ (integers.cpp).
Matrix integer_product(const Operands& operands);
Matrix popcount_product(const Operands& operands);

/// True if each row and each column has one power of two as scale, or none: the loops of fused sums add its exponent.
bool scales_fit(const Operands& operands);

/// True if M fills vectors of this many numbers and N does not.
inline bool fills_better_swapped(int m, int n, int numbers) { return n < numbers && m >= numbers; }

/// The same product as D^T.
Operands swapped(const Operands& operands);

/// These columns of A and the matching rows of B, without C: the operands of one step of the model.
Operands step_of(const AccumulatorModel& model, const Operands& operands, std::span<const int> columns);
/// D by steps of K, where `product` computes D of one step from its operands. A single step gets all of `operands`.
using StepProduct = std::function<Matrix(const Operands& operands, const KStep& step)>;
Matrix product_by_steps(const AccumulatorModel& model, const Operands& operands, const StepProduct& product);
/// Adds C after the last step for all of D, if the model does so (fused_sum.hpp).
Matrix with_c_last(const AccumulatorModel& model, Matrix sum, const std::optional<Matrix>& c);

}  // namespace bitmma
