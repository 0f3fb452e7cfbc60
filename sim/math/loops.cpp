// SPDX-License-Identifier: MIT
#include "loops.hpp"

#include <array>

#include "../core/cpu_level.hpp"
#include "mufu.hpp"

namespace bitmma::math {
namespace {

// With optimisation for speed, every level vectorises the loop: its body has no branches.
#define BITMMA_MATH_LOOP(name, target, function)                                  \
  target void name(const uint32_t* words, uint32_t* results, std::size_t count) { \
    for (std::size_t i = 0; i < count; ++i) results[i] = function(words[i]);      \
  }

#define BITMMA_MATH_LOOPS(space, target)                \
  namespace space {                                     \
  BITMMA_MATH_LOOP(ex2, target, mufu_ex2)               \
  BITMMA_MATH_LOOP(rcp, target, mufu_rcp)               \
  BITMMA_MATH_LOOP(rsq, target, mufu_rsq)               \
  BITMMA_MATH_LOOP(sqrt, target, mufu_sqrt)             \
  BITMMA_MATH_LOOP(lg2, target, mufu_lg2)               \
  constexpr std::array table{ex2, rcp, rsq, sqrt, lg2}; \
  }

BITMMA_AT_CPU_LEVELS(BITMMA_MATH_LOOPS)
constexpr std::array by_level{v4::table, v3::table, baseline::table};

}  // namespace

Loop loop_of(const MathInstruction& instruction) {
  if (instruction.format != Format::f32 || instruction.accuracy != MathAccuracy::approx) return nullptr;
  const std::array<Loop, 5>& loops = at_cpu_level(by_level);
  switch (instruction.operation) {
    case MathOperation::ex2: return loops[0];
    case MathOperation::rcp: return loops[1];
    case MathOperation::rsqrt: return loops[2];
    case MathOperation::sqrt: return loops[3];
    case MathOperation::lg2: return loops[4];
    default: return nullptr;
  }
}

}  // namespace bitmma::math
