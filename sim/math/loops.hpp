// SPDX-License-Identifier: MIT
// Loops over words of the functions that every kernel calls often. The processor's instruction set is that of
// arithmetic/cpu_target.hpp's best; each gives the same words.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bitmma/math/math_instruction.hpp"

namespace bitmma::math {

/// results[i] of words[i].
using Loop = void (*)(const uint32_t* words, uint32_t* results, std::size_t count);

/// The loop of an approximate instruction of f32 with .ftz, if it has one.
Loop loop_of(const MathInstruction& instruction);

}  // namespace bitmma::math
