// The instructions that move data to, from and inside Tensor Memory: tcgen05.ld, .st, .cp and .shift.
//
//   tcgen05.ld.sync.aligned.16x64b.x4.b32          registers of one warp <- its 32 lanes
//   tcgen05.cp.cta_group::1.32x128b.warpx4         shared memory -> Tensor Memory, all four partitions
//
// Not here: tcgen05.ld.red (sm_103a). Sources: PTX ISA 9.7.16.8 and 9.7.16.9, CUTLASS, TVM; ptxas 13.0 for what may be
// written. No Blackwell GPU was measured for this project.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/memory/smem.hpp"
#include "bitmma/memory/tmem.hpp"

namespace bitmma {

enum class MoveKind : uint8_t { ld, st, cp, shift };

/// A shape of tcgen05.cp: `rows` rows of `row_bytes` bytes. Row r goes to lane lane_of(row) and its copies.
struct CpShape {
  std::string_view name;       // "64x128b"
  std::string_view multicast;  // ".warpx2::02_13", mandatory where it stands
  int rows = 0, row_bytes = 0;
  int copies = 1;
};
std::span<const CpShape> cp_shapes();

/// Lane of copy `copy` of row `row`, relative to the address.
int lane_of(const CpShape& shape, int row, int copy);

struct TmemMove {
  MoveKind kind = MoveKind::ld;
  int cta_group = 1;  // cp and shift
  LdSt ldst;          // ld and st
  uint32_t half_split_offset =
      0;                      // 16x32bx2: added to the address of threads 16..31: lanes in bits 31:16, columns below
  int cp_shape = 0;           // cp: index into cp_shapes()
  std::string source_format;  // cp: "b4x16_p64" or "b6x16_p32": unpacked into bytes on the way

  bool operator==(const TmemMove&) const;
  const CpShape& shape() const { return cp_shapes()[static_cast<size_t>(cp_shape)]; }
  bool has_registers() const { return kind == MoveKind::ld || kind == MoveKind::st; }
};

/// True when `text` begins like one of these instructions.
bool is_tmem_move(std::string_view text);

/// The mnemonic with all qualifiers, without operands.
std::string print(const TmemMove& move);

/// Reads a mnemonic. Throws Error naming what is unknown, missing or illegal.
TmemMove parse_tmem_move(std::string_view text);

/// Every legal mnemonic.
std::vector<TmemMove> all_legal_moves();

/// What a move reads. Views; the owner outlives the call.
struct TmemMoveMachine {
  uint32_t taddr = 0;
  uint64_t s_desc = 0;                           // cp
  int warp = 0;                                  // ld, st: index in its warpgroup
  std::array<std::span<const uint8_t>, 2> smem;  // cp
  std::span<const uint32_t> regs;                // st: [32][registers], thread-major
  std::span<const uint32_t> tmem;                // [cta_group][128][columns]
  int columns = 0;
};

/// What it leaves: registers of ld, or Tensor Memory of the others; the other one is empty.
struct TmemMoveResult {
  std::vector<uint32_t> regs;
  std::vector<uint32_t> tmem;
};

/// Throws Error when the address, the warp or the descriptor reaches outside what it may.
/// .unpack::16b keeps the upper halves of its cells, and .shift moves the 32 lanes of its address alone (model
/// choices).
TmemMoveResult simulate(const TmemMove& move, const TmemMoveMachine& machine);

/// Legal but suspicious.
std::vector<Violation> warnings(const TmemMove& move, const TmemMoveMachine& machine);

/// Owner of what a TmemMoveMachine looks at.
struct TmemMoveState {
  TmemMoveMachine machine;  // its views are set by view()
  std::array<std::vector<uint8_t>, 2> smem;
  std::vector<uint32_t> regs, tmem;

  TmemMoveMachine view() const {
    TmemMoveMachine result = machine;
    result.smem = {std::span(smem[0]), std::span(smem[1])};
    result.regs = regs;
    result.tmem = tmem;
    return result;
  }
};

/// A random machine for the move: every warp, lane base and column that it may have.
TmemMoveState random_machine(const TmemMove& move, Swizzle swizzle, RandomStream random);

}  // namespace bitmma
