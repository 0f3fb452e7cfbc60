// SPDX-License-Identifier: MIT
// Loops over words of the functions that every kernel calls often. The processor's instruction set is that of
// arithmetic/cpu_target.hpp's best; each gives the same words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "bitmma/math/math_instruction.hpp"

namespace bitmma::math {

/// results[i] of words[i].
using Loop = void (*)(const uint32_t* words, uint32_t* results, std::size_t count);

/// The loop of an approximate instruction of f32 with .ftz, if it has one.
Loop loop_of(const MathInstruction& instruction);

/// results[i] of a[i], b[i] and c[i]. Each array is read where the instruction has the operand.
using RoundedLoop = void (*)(const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* results,
                             std::size_t count);

/// The loop of add, sub, mul or fma of f32 to nearest even, if the instruction is one: the host's own operations,
/// inside an IeeeEnvironment (f32.hpp).
RoundedLoop rounded_loop_of(const MathInstruction& instruction);

/// Calls the loop inside an IeeeEnvironment.
void run(RoundedLoop loop, const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* results,
         std::size_t count);

/// compute() of an instruction that is one of math_instructions(), without looking for it.
uint64_t compute_known(const MathInstruction& instruction, uint64_t a, uint64_t b, uint64_t c);

/// What div.approx and div.full of f32 multiply: the reciprocal of b, and a, both scaled.
std::pair<uint32_t, uint32_t> quotient_factors(const MathInstruction& instruction, uint32_t a, uint32_t b);

/// What ptxas computes of an approximate instruction of f32 whose operand is a constant: it knows nothing of the unit's
/// tables, and rounds the function itself, once, to nearest even. Nothing where ptxas leaves it to the unit: tanh, and
/// a result that is NaN, or lg2 of zero.
std::optional<uint32_t> folded_result(const MathInstruction& instruction, uint32_t a);
/// quotient_factors() of a divisor that is a constant, the same way. The result's second is what a is multiplied by.
std::optional<std::pair<uint32_t, uint32_t>> folded_divisor(const MathInstruction& instruction, uint32_t b);

}  // namespace bitmma::math
