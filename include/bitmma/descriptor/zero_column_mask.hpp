// SPDX-License-Identifier: MIT
// The zero-column-mask descriptor of tcgen05.mma.ws: which columns of B count as zero, and which columns it uses.
//
//   61..56 column shift | 55..48 use span | 47..40 skip span | 39 non-zero mask | 35..32 first spans
//   31..0 start counts
//
//   skip span 2, use span 3, non-zero mask 1:  ... 111 0000 111 0000
//   (1: the column counts as zero; the rightmost bit is column 0)
//
// The mask repeats runs of use_span + 1 used and skip_span + 1 zeroed columns. Source: PTX ISA 9.7.16.4.3, Table 45,
// and its examples. The table's wording exchanges the two spans; its examples and CUTLASS agree with this
// implementation.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"

namespace bitmma {

struct [[nodiscard]] ZeroColumnMask {
  std::array<int, 4> start_count{};  // columns of the pattern to skip before each sub-mask
  std::array<int, 4> first_span{};   // 1: the pattern starts with the zeroed run
  bool non_zero_mask = false;        // false: every column is used, whatever the other fields
  int skip_span = 0, use_span = 0;   // lengths minus one
  int column_shift = 0;              // the instruction uses columns shift .. shift + N - 1 of the stored B

  bool operator==(const ZeroColumnMask&) const = default;
};

struct ZeroColumnMaskField {
  BitField bits = {};
  std::string_view meaning = {};
};
std::span<const ZeroColumnMaskField> zero_column_mask_fields();

/// Throws Error if reserved bits are set.
ZeroColumnMask decode_zero_column_mask(uint64_t word);

/// The inverse of decode. Throws Error if a value does not fit its field.
uint64_t encode(const ZeroColumnMask& mask);

/// True for the columns of D whose column of B counts as zero. N is split into 1, 2 or 4 sub-masks for M = 128, 64, 32.
/// Throws Error if N is not in 1..256, the sub-masks do not divide it, or a value of `mask` does not fit its field.
std::vector<bool> zeroed_columns(const ZeroColumnMask& mask, int m, int n);

/// The largest column shift for max-shift codes 0..3 of the instruction descriptor: 0, 8, 16, 32.
constexpr int max_shift_columns(int code) { return code == 0 ? 0 : 4 << code; }

}  // namespace bitmma
