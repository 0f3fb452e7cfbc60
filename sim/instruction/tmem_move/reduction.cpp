// SPDX-License-Identifier: MIT
#include "reduction.hpp"

#include <algorithm>
#include <optional>

namespace bitmma::family {
namespace {

constexpr uint32_t sign_bit = 0x80000000;

bool is_nan(const LoadReduction& reduction, uint32_t word) {
  return reduction.type == Format::f32 && decode(Format::f32, word).number == NumberClass::nan;
}

/// A number in the order of the values, with -0 below +0. The word is not NaN.
uint32_t order_of(Format type, uint32_t word) {
  if (type == Format::u32) return word;
  if (type == Format::s32) return word ^ sign_bit;
  return (word & sign_bit) != 0 ? ~word : word | sign_bit;
}

}  // namespace

uint32_t reduced(const LoadReduction& reduction, std::span<const uint32_t> words) {
  const auto nan = static_cast<uint32_t>(*info(Format::f32).canonical_nan());
  std::optional<uint32_t> best;
  for (uint32_t word : words) {
    if (is_nan(reduction, word)) {
      if (reduction.propagate_nan) return nan;
      continue;
    }
    if (reduction.absolute) word &= ~sign_bit;
    const uint32_t order = order_of(reduction.type, word), least = order_of(reduction.type, best.value_or(word));
    if (!best || (reduction.operation == ReduceOperation::min ? order < least : order > least)) best = word;
  }
  return best.value_or(nan);
}

}  // namespace bitmma::family
