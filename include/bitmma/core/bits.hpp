// SPDX-License-Identifier: MIT
// Bit fields as data. A register is a table of rows such as
//   {.name = "base_offset", .low_bit = 49, .width_bits = 3}
// and these functions are the only code that shifts and masks for it.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <span>
#include <string_view>

#include "bitmma/core/compiler.hpp"

namespace bitmma {

/// The lowest `width_bits` bits set; all ones for width 64.
constexpr uint64_t low_mask(int width_bits) {
  return width_bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << width_bits) - 1;
}

/// value / unit, rounded up.
constexpr auto ceil_div(std::integral auto value, std::integral auto unit) { return (value + unit - 1) / unit; }

/// The smallest multiple of `unit` that is at least `value`.
constexpr int64_t round_up(int64_t value, int64_t unit) { return ceil_div(value, unit) * unit; }

struct BitField {
  std::string_view name;
  int low_bit = 0;
  int width_bits = 0;

  constexpr uint64_t mask() const { return low_mask(width_bits) << low_bit; }
  constexpr uint64_t largest() const { return low_mask(width_bits); }
};

constexpr uint64_t extract(uint64_t word, const BitField& field) { return (word >> field.low_bit) & field.largest(); }

/// `word` with `field` set to `value`. Bits of `value` that do not fit are dropped; check the range first.
constexpr uint64_t insert(uint64_t word, const BitField& field, uint64_t value) {
  return (word & ~field.mask()) | ((value & field.largest()) << field.low_bit);
}

/// True if no two fields share a bit and all are inside a word of `word_bits` bits.
template <typename Rows>
constexpr bool disjoint(const Rows& rows, int word_bits) {
  uint64_t used = 0;
  for (const auto& row : rows) {
    const BitField& field = row.bits;
    if (field.width_bits <= 0 || field.low_bit < 0 || field.low_bit + field.width_bits > word_bits) return false;
    if (used & field.mask()) return false;
    used |= field.mask();
  }
  return true;
}

}  // namespace bitmma
