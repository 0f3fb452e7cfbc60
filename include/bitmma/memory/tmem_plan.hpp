// SPDX-License-Identifier: MIT
// The columns of Tensor Memory that a kernel needs, the allocation for them, and the number of its CTAs that fit an SM.
//
//   D 128 x 256, scales of one K step       D 0..255 | scale_A 256..259 | scale_B 260..267
//                                           268 of 512: allocate 512
//
// D comes first, and each further piece starts at the next multiple of four columns: tcgen05.cp writes groups of four,
// and CUTLASS aligns metadata to them too. tcgen05.alloc returns a power of two from 32 to 512 columns with all 128
// lanes. Which columns it returns is undocumented, so addresses are relative to them. tcgen05.alloc.exclusive returns a
// multiple of 32, up to 576 on sm_107a, while no other allocation exists. Sources: PTX ISA 9.7.16.7, 9.7.16.10.5,
// 9.7.16.10.7, 9.7.16.10.8; PTX ISA 9.4, 9.7.18.7.1 and Table 58; CUTLASS.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bitmma/memory/tmem.hpp"

namespace bitmma {

/// The most columns of an exclusive allocation on sm_107a and sm_107f.
inline constexpr int tmem_columns_exclusive = 576;

/// The columns that an instruction needs in Tensor Memory for each kind of operand; zero if it has none.
struct TmemNeeds {
  TmemLayoutInfo layout = tmem_layouts[3];
  int n = 64;
  int accumulators = 1;      // number of Ds at a time
  int k_blocks = 1;          // instructions along K whose A, scales and metadata are in Tensor Memory at a time
  int a_row_bits = 0;        // bits of A's stored row for one instruction
  int scale_count = 0;       // scales per row for one instruction
  int metadata_columns = 0;  // for one instruction
  bool exclusive = false;    // tcgen05.alloc.exclusive of sm_107a
};

struct TmemPiece {
  std::string name = {};  // "D 0", "scale_A"
  int column = 0, columns = 0;
  std::uint32_t address = 0;

  bool operator==(const TmemPiece&) const = default;
};

struct [[nodiscard]] TmemPlan {
  std::vector<TmemPiece> pieces = {};
  int columns = 0;     // up to the end of the last piece
  int allocation = 0;  // for tcgen05.alloc; 0 if the pieces do not fit
  int ctas_per_sm = 0;
};

/// The plan; `base_column` is the start of the allocation. Throws Error if N, a count or the base is illegal.
TmemPlan plan_tmem(const TmemNeeds& needs, int base_column = 0);

}  // namespace bitmma
