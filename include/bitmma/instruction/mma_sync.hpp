// mma.sync ... block_scale of sm_120a: one warp, everything in registers, no descriptors and no Tensor Memory.
//
//   mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3
//     A 4 registers, B 2, C and D 4; scales of A in lanes 4 (m % 8) + 2 thread_id_a + m / 8, of B in 4 n + thread_id_b
//
// Sources: PTX ISA 9.7.14.3 and 9.7.14.5.14, CUTLASS for every lane and value; ptxas 13.0 for what may be written. No
// sm_120 GPU was measured for this project, and no result word of one is known: the arithmetic is tcgen05's, by choice.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/formats/format.hpp"
#include "bitmma/instruction/instruction.hpp"
#include "bitmma/memory/fragment.hpp"

namespace bitmma {

/// One row per form that assembles; K of the sparse form is twice as much.
struct MmaSyncForm {
  MmaKind kind;
  FormatSet inputs;
  int k_dense = 0;
  std::string_view scale_vec;       // as it may be written
  bool scale_vec_optional = false;  // it may be left out
  Format scale_type = Format::ue8m0;
  int scales = 1;  // of a row of A and a column of B
};
std::span<const MmaSyncForm> mma_sync_forms();

/// All violations of an mma.sync, none when it is legal.
std::vector<Violation> mma_sync_violations(const Instruction& instruction);

/// Every legal mnemonic.
std::vector<Instruction> all_mma_sync_instructions();

/// Where scale `j` of row `row` of A (or column of B) is: a byte of the scale register of a lane.
RegisterPlace scale_a_place(const Instruction& instruction, int row, int j);
RegisterPlace scale_b_place(const Instruction& instruction, int col, int j);

/// Where the metadata of a chunk of a row is: four bits of the register of a lane.
RegisterPlace ordered_metadata_place(int row, int chunk);

}  // namespace bitmma
