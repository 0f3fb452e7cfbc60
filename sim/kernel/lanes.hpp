// SPDX-License-Identifier: MIT
// Makes an instruction of a warp from a function of words: map<f> calls f for every active lane.
//
//   inline uint32_t add_words(uint32_t a, uint32_t b) { return a + b; }
//   op.run = map<add_words>;                            d = a + b in the lanes of the mask
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

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

template <auto f, typename D, typename... A, std::size_t... i>
void map_lanes(Warp& warp, const Op& op, Mask mask, D (*)(A...), std::index_sequence<i...>) {
  const uint32_t slots[] = {op.a, op.b, op.c, op.e};
  D* const to = warp.lanes_of<D>(op.d);
  if (mask == all_lanes) {
    D results[lanes];
    for (int lane = 0; lane < lanes; ++lane) results[lane] = f(warp.lanes_of<const A>(slots[i])[lane]...);
    for (int lane = 0; lane < lanes; ++lane) to[lane] = results[lane];
    return;
  }
  for_each_lane(mask, [&](int lane) { to[lane] = f(warp.lanes_of<const A>(slots[i])[lane]...); });
}

template <auto f, typename D, typename... A>
void map_with(Warp& warp, const Op& op, Mask mask, D (*pointer)(A...)) {
  map_lanes<f>(warp, op, mask, pointer, std::index_sequence_for<A...>());
}

template <auto f>
void map(Warp& warp, const Op& op, Mask mask) {
  map_with<f>(warp, op, mask, f);
}

template <auto f, typename... A, std::size_t... i>
Mask test_lanes(Warp& warp, const Op& op, bool (*)(A...), std::index_sequence<i...>) {
  const uint32_t slots[] = {op.a, op.b};
  Mask result = 0;
  for (int lane = 0; lane < lanes; ++lane) result |= Mask{f(warp.lanes_of<const A>(slots[i])[lane]...)} << lane;
  return result;
}
template <auto f, typename... A>
Mask test_with(Warp& warp, const Op& op, bool (*pointer)(A...)) {
  return test_lanes<f>(warp, op, pointer, std::index_sequence_for<A...>());
}
/// The mask of the lanes, out of all 32, for which f holds.
template <auto f>
Mask test(Warp& warp, const Op& op) {
  return test_with<f>(warp, op, f);
}

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
