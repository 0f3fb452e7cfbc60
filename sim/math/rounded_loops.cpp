// SPDX-License-Identifier: MIT
#include <array>

#include "../core/cpu_level.hpp"
#include "f32.hpp"
#include "loops.hpp"

namespace bitmma::math {
namespace {

template <bool sat>
inline uint32_t result_of(float x) {
  if (!sat) return canonical(std::bit_cast<uint32_t>(x));
  const float least_one = x < 1.0F ? x : 1.0F;
  return std::bit_cast<uint32_t>(x > 0.0F ? least_one : 0.0F);
}

template <Flush flush, bool sat>
inline uint32_t add_words(uint32_t a, uint32_t b, uint32_t) {
  return result_of<sat>((F32<flush>::of(a) + F32<flush>::of(b)).value);
}
template <Flush flush, bool sat>
inline uint32_t sub_words(uint32_t a, uint32_t b, uint32_t) {
  return result_of<sat>((F32<flush>::of(a) - F32<flush>::of(b)).value);
}
template <Flush flush, bool sat>
inline uint32_t mul_words(uint32_t a, uint32_t b, uint32_t) {
  return result_of<sat>((F32<flush>::of(a) * F32<flush>::of(b)).value);
}
template <Flush flush, bool sat>
inline uint32_t fma_words(uint32_t a, uint32_t b, uint32_t c) {
  return result_of<sat>(fma(F32<flush>::of(a), F32<flush>::of(b), F32<flush>::of(c)).value);
}

// With two operands, the second one also serves as the third: the loops have no branches.
#define BITMMA_ROUNDED_LOOP(name, target, function, third)                                                      \
  template <Flush flush, bool sat>                                                                              \
  target void name(const uint32_t* a, const uint32_t* b, [[maybe_unused]] const uint32_t* c, uint32_t* results, \
                   std::size_t count) {                                                                         \
    for (std::size_t i = 0; i < count; ++i) results[i] = function<flush, sat>(a[i], b[i], third[i]);            \
  }

#define BITMMA_ROUNDED_LOOPS(space, target)                                                                       \
  namespace space {                                                                                               \
  BITMMA_ROUNDED_LOOP(add, target, add_words, b)                                                                  \
  BITMMA_ROUNDED_LOOP(sub, target, sub_words, b)                                                                  \
  BITMMA_ROUNDED_LOOP(mul, target, mul_words, b)                                                                  \
  BITMMA_ROUNDED_LOOP(fma, target, fma_words, c)                                                                  \
  template <Flush flush, bool sat>                                                                                \
  constexpr std::array<RoundedLoop, 4> table{add<flush, sat>, sub<flush, sat>, mul<flush, sat>, fma<flush, sat>}; \
  constexpr std::array all{table<Flush::none, false>, table<Flush::none, true>, table<Flush::all, false>,         \
                           table<Flush::all, true>};                                                              \
  }

BITMMA_AT_CPU_LEVELS(BITMMA_ROUNDED_LOOPS)
constexpr std::array by_level{v4::all, v3::all, baseline::all};

}  // namespace

RoundedLoop rounded_loop_of(const MathInstruction& instruction) {
  const auto operation = static_cast<std::size_t>(instruction.operation);
  static_assert(static_cast<int>(MathOperation::add) == 0 && static_cast<int>(MathOperation::fma) == 3);
  if (instruction.format != Format::f32 || instruction.accuracy != MathAccuracy::rounded || operation > 3 ||
      instruction.rounding != Rounding::nearest_even)
    return nullptr;
  const std::size_t row = 2 * std::size_t{instruction.ftz} + std::size_t{instruction.sat};
  return at_cpu_level(by_level)[row][operation];
}

void run(RoundedLoop loop, const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* results,
         std::size_t count) {
  const IeeeEnvironment environment;
  loop(a, b, c, results, count);
}

}  // namespace bitmma::math
