// SPDX-License-Identifier: MIT
// Copies between accumulators and rows of codes, in the widest vectors of the processor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bitmma {

/// `cols` columns, a multiple of 8, of a D fragment of 32-bit elements with 16 rows per warp: 4 * fours threads with
/// `count` registers each. Rows of `codes` are `stride` apart.
///
///   threads 0..3, 32 columns   registers q0: g 0 1, g+8 0 1, g 8 9, g+8 8 9 ... | q1: g 2 3, g+8 2 3, g 10 11 ...
///                              codes     row g: 0 1 2 3 4 5 6 7 8 ...; row g + 8: 0 1 2 3 4 5 6 7 8 ...
struct FragmentCopy {
  int fours, count, cols;
  uint32_t* registers;  // only read by a gather
  uint32_t* codes;      // only read by a scatter
  int stride;
};

/// Rows of `cols` cells, which begin at cells + first[row] + offset. Codes have the bits `used`; a scatter keeps the
/// others, and leaves out rows with the word no_row.
struct CellCopy {
  static constexpr uint32_t no_row = ~0u;
  const uint32_t* first;
  uint32_t* cells;
  uint32_t* codes;
  int stride;
  int rows = 0, offset = 0, cols = 0;
  uint32_t used = ~0u;
};

struct WideCopies {
  void (*gather_fragment)(const FragmentCopy&);
  void (*scatter_fragment)(const FragmentCopy&);
  void (*gather_cells)(const CellCopy&);
  void (*scatter_cells)(const CellCopy&);
};

/// Those of the instruction set in use.
const WideCopies& wide_copies();

}  // namespace bitmma
