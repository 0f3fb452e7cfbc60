// SPDX-License-Identifier: MIT
// The points that no source settles. For each of them bitmma chooses an answer by analogy with known facts; a survey of
// a GPU can settle it. Code compares enumerators; the sentences may change.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "bitmma/core/table.hpp"

namespace bitmma {

enum class Choice : uint8_t {
  sparse_as_dense_mma_sync,
  sparse_as_dense_tcgen05,
  scale_input_d_exact,
  k_96_groups,
  fp4_longer_k_groups,
  f8f6f4_twice_k,
  mxf8f6f4_twice_k,
  ti16_wraps,
  one_clamp,
  redval_ignores_nan,
  redval_absolute,
  redval_negative_zero,
  undefined_metadata_mma_sync,
  undefined_metadata_mma_sync_fp4,
  undefined_metadata_tcgen05,
  padding_of_e2m1,
  f64_nan_words,
  f16_d_upper_half,
  e2m1_in_tmem,
  ashift_rows,
  zero_column_mask,
  metadata_half_partitions,
  metadata_selectors_2_3,
  scales_of_b_over_two_ctas,
  scales_behind_byte_3,
  base_offset,
  rows_wider_than_swizzle,
  absolute_leading_dim,
  shift_lanes,
  unpack_upper_halves,
  fp4_codes_of_cp,
};

struct ChoiceInfo {
  Choice id = Choice::one_clamp;
  std::string_view name = {};  // as in data/surveys/confirmed.json
  std::string_view text = {};  // the answer that bitmma chose
  bool is_arithmetic = false;  // true if it affects values, false if it affects places
};

/// In the order of the enumeration.
inline constexpr auto choice_table = std::to_array<ChoiceInfo>({
    {.id = Choice::sparse_as_dense_mma_sync,
     .name = "sparse_as_dense_mma_sync",
     .text = "sparse A: the rule of the dense instruction, applied to the stored elements in order",
     .is_arithmetic = true},
    {.id = Choice::sparse_as_dense_tcgen05,
     .name = "sparse_as_dense_tcgen05",
     .text = "sparse tcgen05 sums the selected products as the dense instruction does",
     .is_arithmetic = true},
    {.id = Choice::scale_input_d_exact,
     .name = "scale_input_d_exact",
     .text = "scale_input_d: D * 2^-s enters the sum exactly",
     .is_arithmetic = true},
    {.id = Choice::k_96_groups,
     .name = "k_96_groups",
     .text = "K = 96: six groups, each summed by the rule for K = 64",
     .is_arithmetic = true},
    {.id = Choice::fp4_longer_k_groups,
     .name = "fp4_longer_k_groups",
     .text = "fp4 with K = 128 or a sparse K = 192: all groups are summed by the rule for K = 64",
     .is_arithmetic = true},
    {.id = Choice::f8f6f4_twice_k,
     .name = "f8f6f4_twice_k",
     .text = "kind::f8f6f4 with doubled K: all products enter one sum, by the rule for the usual K",
     .is_arithmetic = true},
    {.id = Choice::mxf8f6f4_twice_k,
     .name = "mxf8f6f4_twice_k",
     .text = "kind::mxf8f6f4 with doubled K: each half of K has its own scale, and all products enter one sum",
     .is_arithmetic = true},
    {.id = Choice::ti16_wraps,
     .name = "ti16_wraps",
     .text = "ti16: a sum that exceeds 32 bits wraps modulo 2^32",
     .is_arithmetic = true},
    {.id = Choice::one_clamp, .name = "one_clamp", .text = "the exact sum is clamped once", .is_arithmetic = true},
    {.id = Choice::redval_ignores_nan,
     .name = "redval_ignores_nan",
     .text = "without .NaN, redval ignores NaN; if all values are NaN, it is 0x7fffffff",
     .is_arithmetic = true},
    {.id = Choice::redval_absolute,
     .name = "redval_absolute",
     .text = ".abs: redval is the absolute value, without the sign",
     .is_arithmetic = true},
    {.id = Choice::redval_negative_zero,
     .name = "redval_negative_zero",
     .text = "redval treats -0 as less than +0",
     .is_arithmetic = true},
    {.id = Choice::undefined_metadata_mma_sync,
     .name = "undefined_metadata_mma_sync",
     .text = "undefined metadata selects the same elements as on an H200"},
    {.id = Choice::undefined_metadata_mma_sync_fp4,
     .name = "undefined_metadata_mma_sync_fp4",
     .text = "undefined metadata of fp4 selects the same elements as on an RTX PRO 6000"},
    {.id = Choice::undefined_metadata_tcgen05,
     .name = "undefined_metadata_tcgen05",
     .text = "undefined metadata of tcgen05 selects the same elements as on an H200"},
    {.id = Choice::padding_of_e2m1,
     .name = "padding_of_e2m1",
     .text = "the padding bits below e2m1 count as mantissa, as in kind::f8f6f4"},
    {.id = Choice::f64_nan_words, .name = "f64_nan_words", .text = "NaN results have the same bits as on an H100"},
    {.id = Choice::f16_d_upper_half,
     .name = "f16_d_upper_half",
     .text = "the upper half of a cell with an f16 element of D is kept"},
    {.id = Choice::e2m1_in_tmem,
     .name = "e2m1_in_tmem",
     .text = "an e2m1 code of A in Tensor Memory is in bits 5:2 of its byte"},
    {.id = Choice::ashift_rows,
     .name = "ashift_rows",
     .text = ".ashift moves rows within each group of 32 lanes; the last row stays"},
    {.id = Choice::zero_column_mask,
     .name = "zero_column_mask",
     .text = "the zero-column mask applies to the columns of D, after the shift; infinity times a zeroed column is "
             "still NaN"},
    {.id = Choice::metadata_half_partitions,
     .name = "metadata_half_partitions",
     .text = "sparse metadata of rows in half partitions, extrapolated from documented layouts"},
    {.id = Choice::metadata_selectors_2_3,
     .name = "metadata_selectors_2_3",
     .text = "sparse metadata of tf32, and of f16 with selectors 2 and 3, extrapolated from documented layouts"},
    {.id = Choice::scales_of_b_over_two_ctas,
     .name = "scales_of_b_over_two_ctas",
     .text = "two-by-two scales of B over two CTAs are placed as in CUTLASS"},
    {.id = Choice::scales_behind_byte_3,
     .name = "scales_behind_byte_3",
     .text = "scales beyond byte 3 of a cell continue four columns further (eight for B with N > 128), where "
             "tcgen05.cp puts the next tile"},
    {.id = Choice::base_offset, .name = "base_offset", .text = "the base offset has the effect measured on Hopper"},
    {.id = Choice::rows_wider_than_swizzle,
     .name = "rows_wider_than_swizzle",
     .text = "a row of K wider than the swizzle continues at LBO, as measured on Hopper"},
    {.id = Choice::absolute_leading_dim,
     .name = "absolute_leading_dim",
     .text = "an absolute leading dimension (bit 52) works for rows of any length as for the 48-byte rows of K = 96"},
    {.id = Choice::shift_lanes,
     .name = "shift_lanes",
     .text = "only the 32 lanes at the address move, down by one; the last lane stays"},
    {.id = Choice::unpack_upper_halves,
     .name = "unpack_upper_halves",
     .text = ".unpack::16b keeps the upper halves of its cells"},
    {.id = Choice::fp4_codes_of_cp,
     .name = "fp4_codes_of_cp",
     .text = "4-bit codes are written to bits 5:2 of their bytes, where those of A are read"},
});

static_assert(are_in_enum_order(choice_table));

constexpr const ChoiceInfo& info(Choice choice) { return choice_table[static_cast<std::size_t>(choice)]; }
constexpr std::string_view print(Choice choice) { return info(choice).text; }
constexpr bool is_arithmetic(Choice choice) { return info(choice).is_arithmetic; }

}  // namespace bitmma
