// SPDX-License-Identifier: MIT
// Loops over words for the functions that every kernel calls often. They use the best instruction set of
// arithmetic/cpu_target.hpp; each one gives the same words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "bitmma/math/math_instruction.hpp"

namespace bitmma::math {

/// Computes results[i] from words[i].
using Loop = void (*)(const uint32_t* words, uint32_t* results, std::size_t count);

/// The loop of an approximate instruction of f32 with .ftz, if it has one.
Loop loop_of(const MathInstruction& instruction);

/// Computes results[i] from a[i], b[i] and c[i]. Reads only the arrays for which the instruction has an operand.
using RoundedLoop = void (*)(const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* results,
                             std::size_t count);

/// The loop of an f32 add, sub, mul or fma to nearest even, or nullptr for other instructions. It uses the host's own
/// operations inside an IeeeEnvironment (f32.hpp).
RoundedLoop rounded_loop_of(const MathInstruction& instruction);

/// Calls the loop inside an IeeeEnvironment.
void run(RoundedLoop loop, const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* results,
         std::size_t count);

/// Like compute(), for an instruction from math_instructions(): skips the search for it.
uint64_t compute_known(const MathInstruction& instruction, uint64_t a, uint64_t b, uint64_t c);

/// The factors of f32 div.approx and div.full: the reciprocal of b, and a, both scaled.
std::pair<uint32_t, uint32_t> quotient_factors(const MathInstruction& instruction, uint32_t a, uint32_t b);

/// The result that ptxas computes for an approximate f32 instruction with a constant operand: ptxas does not have the
/// unit's tables and rounds the function itself, once, to nearest even. Nothing if ptxas leaves the operation to the
/// unit: tanh, a NaN result, or lg2 of zero.
std::optional<uint32_t> folded_result(const MathInstruction& instruction, uint32_t a);
/// The same for quotient_factors() with a constant divisor. The second word of the result is the factor of a.
std::optional<std::pair<uint32_t, uint32_t>> folded_divisor(const MathInstruction& instruction, uint32_t b);

}  // namespace bitmma::math
