// SPDX-License-Identifier: MIT
// Makes an instruction of a warp from a function of words: map<f> calls f for every active lane.
//
//   inline uint32_t add_words(uint32_t a, uint32_t b) { return a + b; }
//   op.run = map<add_words>;                            d = a + b in the lanes of the mask
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "../core/cpu_level.hpp"
#include "../core/words.hpp"
#include "machine.hpp"

namespace bitmma::kernel {

/// The word that holds a value of type T.
template <typename T>
using RegisterWord = std::conditional_t<(sizeof(T) > 4), uint64_t, uint32_t>;

/// A value as its register stores it: narrow values are zero-extended.
template <typename T>
constexpr RegisterWord<T> to_word(T value) {
  return static_cast<RegisterWord<T>>(static_cast<std::make_unsigned_t<T>>(value));
}

template <typename W>
BITMMA_INLINE void set_lanes(W* to, Mask mask, const W (&results)[lanes]) {
  if (mask == all_lanes) {
    for (int lane = 0; lane < lanes; ++lane) to[lane] = results[lane];
  } else {
    for (int lane = 0; lane < lanes; ++lane) to[lane] = (mask >> lane & 1) != 0 ? results[lane] : to[lane];
  }
}

template <auto f, typename D, typename... A, std::size_t... i>
BITMMA_INLINE void map_lanes(Warp& warp, const Op& op, Mask mask, D (*)(A...), std::index_sequence<i...>) {
  const uint32_t slots[] = {op.a, op.b, op.c, op.e};
  D* const to = warp.lanes_of<D>(op.d);
  constexpr int few = 8;  // lanes that take no longer one by one than all together
  if (mask != all_lanes && __builtin_popcount(mask) <= few) {
    for_each_lane(mask, [&](int lane) { to[lane] = f(warp.lanes_of<const A>(slots[i])[lane]...); });
    return;
  }
  D results[lanes];
  for (int lane = 0; lane < lanes; ++lane) results[lane] = f(warp.lanes_of<const A>(slots[i])[lane]...);
  set_lanes(to, mask, results);
}
template <auto f, typename D, typename... A>
BITMMA_INLINE void map_with(Warp& warp, const Op& op, Mask mask, D (*pointer)(A...)) {
  map_lanes<f>(warp, op, mask, pointer, std::index_sequence_for<A...>());
}

/// The mask of the lanes that are true.
BITMMA_INLINE Mask mask_of(const bool (&holds)[lanes]) {
#if defined(__SSE2__)
  Mask mask = 0;
  for (int half = 0; half < 2; ++half) {
    using Chars [[gnu::vector_size(16)]] = char;
    const auto none = static_cast<Chars>(load<Bytes>(holds + 16 * half) == Bytes{});
    mask |= static_cast<Mask>(~__builtin_ia32_pmovmskb128(none) & 0xFFFF) << 16 * half;
  }
  return mask;
#else
  Mask mask = 0;
  for (int lane = 0; lane < lanes; ++lane) mask |= Mask{holds[lane]} << lane;
  return mask;
#endif
}

template <auto f, typename... A, std::size_t... i>
BITMMA_INLINE Mask test_lanes(const Warp& warp, const Op& op, bool (*)(A...), std::index_sequence<i...>) {
  const uint32_t slots[] = {op.a, op.b};
  bool holds[lanes];
  for (int lane = 0; lane < lanes; ++lane) holds[lane] = f(warp.lanes_of<const A>(slots[i])[lane]...);
  return mask_of(holds);
}
template <auto f, typename... A>
BITMMA_INLINE Mask test_with(const Warp& warp, const Op& op, bool (*pointer)(A...)) {
  return test_lanes<f>(warp, op, pointer, std::index_sequence_for<A...>());
}

/// The mask of the lanes, out of all 32, for which f holds.
template <auto f>
BITMMA_INLINE Mask test(const Warp& warp, const Op& op) {
  return test_with<f>(warp, op, f);
}

/// A step that is compiled for each level of processors. As a Run it is that of the level in use.
struct RunAtLevels {
  std::array<Run, cpu_levels.size()> by_level = {};
  operator Run() const { return at_cpu_level(by_level); }
};
namespace steps {
#define BITMMA_STEPS(space, target)                      \
  namespace space {                                      \
  template <auto step>                                   \
  target void run(Warp& warp, const Op& op, Mask mask) { \
    step(warp, op, mask);                                \
  }                                                      \
  }
BITMMA_AT_CPU_LEVELS(BITMMA_STEPS)
#undef BITMMA_STEPS
}  // namespace steps
/// `step` is a function that is always inlined.
template <auto step>
constexpr RunAtLevels at_levels{{steps::v4::run<step>, steps::v3::run<step>, steps::baseline::run<step>}};

template <auto f>
BITMMA_INLINE void map_words(Warp& warp, const Op& op, Mask mask) {
  map_with<f>(warp, op, mask, f);
}
template <auto f>
constexpr RunAtLevels map = at_levels<map_words<f>>;

inline void set_mask(Warp& warp, uint32_t slot, Mask mask, Mask value) {
  Mask& to = warp.mask_of(slot);
  to = (to & ~mask) | (value & mask);
}

/// Writes a comparison of setp to d, and `other`, its complement or that of the second half, to d2 if the instruction
/// has one: each combined with the predicate in slot c.
inline void set_comparison(Warp& warp, const Op& op, Mask mask, Mask holds, Mask other) {
  const auto combined = [&](Mask outcome) -> Mask {
    switch (op.combine) {
      case Combine::and_: return outcome & warp.mask_of(op.c);
      case Combine::or_: return outcome | warp.mask_of(op.c);
      case Combine::xor_: return outcome ^ warp.mask_of(op.c);
      case Combine::none: break;
    }
    return outcome;
  };
  const Mask first = combined(holds), second = op.d2 == Op::no_slot ? 0 : combined(other);
  set_mask(warp, op.d, mask, first);
  if (op.d2 != Op::no_slot) set_mask(warp, op.d2, mask, second);
}

}  // namespace bitmma::kernel
