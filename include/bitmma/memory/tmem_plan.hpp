// SPDX-License-Identifier: MIT
// Which columns of Tensor Memory a kernel needs, what to allocate, and how many CTAs of it fit an SM.
//
//   D 128 x 256, scales of one K step       D 0..255 | scale_A 256..259 | scale_B 260..267      268 of 512: allocate
//   512
//
// D comes first, each further piece on the next multiple of four columns: tcgen05.cp writes whole groups of four, and
// CUTLASS keeps metadata on them too. tcgen05.alloc gives a power of two from 32 to 512 columns, all 128 lanes of them.
// Which ones it gives is not documented: addresses count from what it returned. tcgen05.alloc.exclusive gives a
// multiple of 32, while no other allocation lives; on sm_107a up to 576. Sources: PTX
// ISA 9.7.16.7, 9.7.16.10.5, 9.7.16.10.7, 9.7.16.10.8; PTX ISA 9.4, 9.7.18.7.1 and Table 58; CUTLASS.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bitmma/memory/tmem.hpp"

namespace bitmma {

/// Columns that an exclusive allocation of sm_107a and sm_107f may have.
inline constexpr int tmem_columns_exclusive = 576;

/// The columns that an instruction needs in Tensor Memory for each kind of operand; zero if it has none.
struct TmemNeeds {
  TmemLayoutInfo layout = tmem_layouts[3];
  int n = 64;
  int accumulators = 1;      // Ds at a time
  int k_blocks = 1;          // instructions along K whose A, scales and metadata stand there at a time
  int a_row_bits = 0;        // of A's stored row of one instruction
  int scale_count = 0;       // scales of a row of one instruction
  int metadata_columns = 0;  // of one instruction
  bool exclusive = false;    // tcgen05.alloc.exclusive of sm_107a
};

struct TmemPiece {
  std::string name = {};  // "D 0", "scale_A"
  int column = 0, columns = 0;
  std::uint32_t address = 0;

  bool operator==(const TmemPiece&) const = default;
};

struct TmemPlan {
  std::vector<TmemPiece> pieces = {};
  int columns = 0;     // up to the last piece's end
  int allocation = 0;  // for tcgen05.alloc; 0 when the pieces do not fit
  int ctas_per_sm = 0;
};

/// The plan; `base_column` is where the allocation begins. Throws Error for N, counts and a base that no kernel has.
TmemPlan plan_tmem(const TmemNeeds& needs, int base_column = 0);

}  // namespace bitmma
