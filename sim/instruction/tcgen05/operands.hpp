// SPDX-License-Identifier: MIT
// Where tcgen05.mma's operands are: A (rows of one CTA) and B (columns of one CTA, including those before a column
// shift) in shared memory; D, A, metadata and scales in Tensor Memory. Each function throws Error for operands that are
// illegal for the instruction.
#pragma once

#include "bitmma/descriptor/zero_column_mask.hpp"
#include "bitmma/instruction/state.hpp"
#include "bitmma/memory/smem.hpp"
#include "bitmma/memory/tmem.hpp"

namespace bitmma::family {

const TmemLayoutInfo& layout_of(const Tcgen05Mma& instruction);
SmemMatrix a_matrix(const Tcgen05Mma& instruction, const State& state);
SmemMatrix b_matrix(const Tcgen05Mma& instruction, const State& state);
TmemD d_in_tmem(const Tcgen05Mma& instruction, uint32_t d_tmem);
TmemA a_in_tmem(const Tcgen05Mma& instruction, uint32_t a_tmem);
TmemMetadata metadata_in_tmem(const Tcgen05Mma& instruction, uint32_t metadata_tmem);
TmemScales scale_a_in_tmem(const Tcgen05Mma& instruction, uint32_t scale_a_tmem);
TmemScales scale_b_in_tmem(const Tcgen05Mma& instruction, uint32_t scale_b_tmem);

/// The mask descriptor, checked against the form and the shift in the instruction descriptor.
ZeroColumnMask mask_of(const Tcgen05Mma& instruction, const State& state);

/// The index of a cell in a buffer of `columns` columns.
inline size_t cell_index(const TmemPlace& place, int columns) {
  return (static_cast<size_t>(place.cta) * tmem_lanes + static_cast<size_t>(place.lane)) *
             static_cast<size_t>(columns) +
         static_cast<size_t>(place.column);
}

/// Whether the output in this lane of this CTA is disabled.
bool is_disabled(std::span<const uint32_t> disable_output_lane, const TmemPlace& place);
/// Whether the form has disable-output-lane registers: .ws and block-scaled kinds do not.
bool has_lane_masks(const Tcgen05Mma& instruction);

}  // namespace bitmma::family
