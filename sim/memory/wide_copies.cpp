// SPDX-License-Identifier: MIT
#include "wide_copies.hpp"

#include "../core/cpu_level.hpp"
#include "../core/pairs.hpp"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"  // functions that are only ever inlined pass no vectors
#endif

namespace bitmma {
namespace {

/// bytes / 2 columns of rows g and g + 8, which four threads hold.
template <int bytes, bool gathers>
BITMMA_INLINE void copy_columns(uint32_t* registers, int count, uint32_t* upper, uint32_t* lower) {
  typename Pairs<bytes>::V thread[4], above[2], below[2];
  if constexpr (gathers) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) std::memcpy(&thread[i], registers + i * count, bytes);
    rows_of_threads<bytes>(thread, above, below);
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) store(above[i], upper + i * (bytes / 4)), store(below[i], lower + i * (bytes / 4));
  } else {
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i)
      std::memcpy(&above[i], upper + i * (bytes / 4), bytes), std::memcpy(&below[i], lower + i * (bytes / 4), bytes);
    threads_of_rows<bytes>(above, below, thread);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) store(thread[i], registers + i * count);
  }
}

template <int bytes, bool gathers>
BITMMA_INLINE void copy_fragment(const FragmentCopy& args) {
  const FragmentCopy of = args;  // a copy that stores cannot alias
  for (int four = 0; four < of.fours; ++four) {
    uint32_t* const registers = of.registers + static_cast<ptrdiff_t>(4 * four) * of.count;
    uint32_t* const upper = of.codes + static_cast<ptrdiff_t>(16 * (four / 8) + four % 8) * of.stride;
    uint32_t* const lower = upper + static_cast<ptrdiff_t>(8) * of.stride;
    int col = 0;
    for (; col + bytes / 2 <= of.cols; col += bytes / 2)
      copy_columns<bytes, gathers>(registers + col / 2, of.count, upper + col, lower + col);
    for (; col < of.cols; col += 8) copy_columns<16, gathers>(registers + col / 2, of.count, upper + col, lower + col);
  }
}

template <bool gathers>
BITMMA_INLINE void copy_cells(const CellCopy& args) {
  const CellCopy of = args;
  for (int row = 0; row < of.rows; ++row) {
    if (of.first[row] == CellCopy::no_row) continue;
    uint32_t* const __restrict cells = of.cells + of.first[row] + of.offset;
    uint32_t* const __restrict codes = of.codes + static_cast<ptrdiff_t>(row) * of.stride;
    for (int i = 0; i < of.cols; ++i) {
      if constexpr (gathers) codes[i] = cells[i] & of.used;
      else cells[i] = (cells[i] & ~of.used) | codes[i];
    }
  }
}

#define BITMMA_WIDE_COPIES(space, target, bytes)                                               \
  namespace space {                                                                            \
  target void gather_fragment(const FragmentCopy& of) { copy_fragment<bytes, true>(of); }      \
  target void scatter_fragment(const FragmentCopy& of) { copy_fragment<bytes, false>(of); }    \
  target void gather_cells(const CellCopy& of) { copy_cells<true>(of); }                       \
  target void scatter_cells(const CellCopy& of) { copy_cells<false>(of); }                     \
  constexpr WideCopies copies{gather_fragment, scatter_fragment, gather_cells, scatter_cells}; \
  }

#if defined(__x86_64__)
BITMMA_WIDE_COPIES(v4, [[gnu::target("arch=x86-64-v4")]], 64)
BITMMA_WIDE_COPIES(v3, [[gnu::target("arch=x86-64-v3")]], 32)
#endif
BITMMA_WIDE_COPIES(baseline, , 16)

}  // namespace

const WideCopies& wide_copies() {
#if defined(__x86_64__)
  if (cpu_level() == CpuLevel::v4) return v4::copies;
  if (cpu_level() == CpuLevel::v3) return v3::copies;
#endif
  return baseline::copies;
}

}  // namespace bitmma
