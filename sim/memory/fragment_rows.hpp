// SPDX-License-Identifier: MIT
// Some rows of an accumulator in registers.
#pragma once

#include <cstdint>

#include "bitmma/memory/fragment.hpp"

namespace bitmma {

/// Rows row .. row + rows - 1, both multiples of 16, of a D fragment with 16 rows per warp and elements of 16 or 32
/// bits. Rows of `values` are `stride` apart.
void gather_rows(const uint32_t* registers, const Fragment& fragment, int row, int rows, uint32_t* values, int stride);
void scatter_rows(const uint32_t* values, int stride, const Fragment& fragment, int row, int rows, uint32_t* registers);

}  // namespace bitmma
