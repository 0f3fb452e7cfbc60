// SPDX-License-Identifier: MIT
// Tensor Memory: 128 lanes x 512 columns of 32-bit cells per CTA, and the places of tcgen05's matrices in it.
//
//   address 0x0010'0020: lane 16, column 32
//
// D has six layouts, selected by M, cta_group and .ws (PTX calls them layouts A to G; C is sparse). One rule covers
// all: rows of a CTA map to lanes one by one, or in groups of 16 to the lower halves of the four 32-lane partitions; N
// is split into 1, 2 or 4 parts side by side in lanes. Sources: PTX ISA 9.7.16.10.5 and CUTLASS, checked in
// data/oracle; layout C, and A of layouts E, F and G, from TVM and the PTX text.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/error.hpp"

namespace bitmma {

inline constexpr int tmem_lanes = 128, tmem_columns = 512;

/// The bits of an address that hold lane and column. CUTLASS leaves other bits above them in addresses of
/// scales.
inline constexpr uint32_t tmem_address_mask = 0x007F01FF;

struct TmemAddress {
  int lane = 0;
  int column = 0;

  bool operator==(const TmemAddress&) const = default;
};

/// Bits 31:16 lane, 15:0 column.
constexpr uint32_t encode(const TmemAddress& address) {
  return static_cast<uint32_t>(address.lane) << 16 | static_cast<uint32_t>(address.column);
}
/// Throws Error if lane or column is outside Tensor Memory; the hardware's behaviour there is unknown.
TmemAddress decode_tmem_address(uint32_t address);

/// One of PTX's data-path layouts.
struct TmemLayoutInfo {
  char name = 0;
  int m = 0;
  int cta_group = 1;
  bool plain = true, ws = false;     // valid without .ws, with .ws
  bool dense = true, sparse = true;  // valid for a dense A, for a sparse A
  int rows_per_cta = 0;
  bool half_lanes = false;  // 16 rows in each 32-lane partition, from lane base 0 or 16
  int n_parts = 1;          // parts of N side by side in lanes
};

// one row a layout
// clang-format off
inline constexpr auto tmem_layouts = std::to_array<TmemLayoutInfo>({
    {.name = 'A', .m = 256, .cta_group = 2, .rows_per_cta = 128},
    {.name = 'B', .m = 128, .cta_group = 2, .sparse = false, .rows_per_cta = 64, .n_parts = 2},
    {.name = 'C', .m = 128, .cta_group = 2, .dense = false, .rows_per_cta = 64, .half_lanes = true},
    {.name = 'D', .m = 128, .cta_group = 1, .ws = true, .rows_per_cta = 128},
    {.name = 'E', .m = 64, .cta_group = 1, .plain = false, .ws = true, .rows_per_cta = 64, .n_parts = 2},
    {.name = 'F', .m = 64, .cta_group = 1, .rows_per_cta = 64, .half_lanes = true},
    {.name = 'G', .m = 32, .cta_group = 1, .plain = false, .ws = true, .rows_per_cta = 32, .n_parts = 4},
});
// clang-format on

/// The layout of D for a form. Throws Error if there is none.
const TmemLayoutInfo& find_tmem_layout(int m, int cta_group, bool ws, bool sparse);

/// A cell, or a part of one, relative to column 0: `cta` 0 is the even CTA of a pair.
struct TmemPlace {
  int cta = 0;
  int lane = 0;
  int column = 0;
  int bit = 0;

  bool operator==(const TmemPlace&) const = default;
};

/// The lane of a CTA's row in part `part` of N, relative to the first lane of the layout.
constexpr int lane_of(const TmemLayoutInfo& layout, int row_of_cta, int part) {
  return layout.half_lanes ? 32 * (row_of_cta / 16) + row_of_cta % 16 : row_of_cta + part * layout.rows_per_cta;
}

/// D (m x n) at `address`. f16 is not packed: one element per cell, in its lower half.
struct TmemD {
  TmemLayoutInfo layout = tmem_layouts[0];
  int n = 0;
  TmemAddress address = {};

  int columns() const { return n / layout.n_parts; }
  TmemPlace place_of(int row, int col) const;
};

/// CuTe's notation of D, (row, col) -> lane, column and CTA as basis vectors:
/// "((16,4),32):((1@lane,32@lane),1@column)".
std::string print_cute(const TmemD& d);

/// A (m x k, stored k) at `address`, always row-major, with containers of `element_bits` packed into cells. Layouts
/// with several parts of N need a copy for each part: copy p feeds part p.
struct TmemA {
  TmemLayoutInfo layout = tmem_layouts[0];
  int element_bits = 16;
  TmemAddress address = {};

  int copies() const { return layout.n_parts; }
  TmemPlace place_of(int row, int k, int copy = 0) const;
};

/// Sparse metadata of A at `address`: the four bits of every chunk. For f16 and tf32 rows m and m + 8 share a cell and
/// the selector selects the column; for 8- and 4-bit types a row has a cell for every 32 columns of 8 bits and 64 of
/// pairs of fp4. Copies as for A. Sources: CUTLASS (layouts A, D, E, G); C and F, and more than two cells, by extension
/// (model choice).
struct TmemMetadata {
  TmemLayoutInfo layout = tmem_layouts[0];
  int element_bits = 16;  // of A's container
  TmemAddress address = {};
  int selector = 0;
  int k = 0;                     // logical columns, if there are more than two cells
  bool single_elements = false;  // fp4 of sparsity version 1: four bits for four columns instead of eight

  int k_per_cell() const { return element_bits == 4 && !single_elements ? 64 : 32; }
  int columns() const {
    return element_bits >= 16 ? 1 : k <= 2 * k_per_cell() ? 2 : (k + k_per_cell() - 1) / k_per_cell();
  }
  /// The place of the nibble for the chunk that starts at logical column `column_k`; its lowest bit.
  TmemPlace place_of(int row, int column_k, int copy = 0) const;
};

/// Block scales, one byte each, for the rows of A in a CTA or for all columns of B. Each 32-lane partition has the same
/// data (half of them with two_by_two: B of layout B); D's lanes read the replica in their own partition. Sources: PTX
/// ISA 9.7.16.10.7 and CUTLASS; checked in data/oracle as far as CUTLASS prints them.
struct TmemScales {
  TmemAddress address = {};
  int id = 0;  // byte of the first scale, from the instruction descriptor
  /// Columns from four scales of all rows to the next four: tcgen05.cp copies each tile to four columns (a tile for 64
  /// lanes in two copies), and B with more than 128 columns has two tiles side by side.
  int group_columns = 4;
  int parts = 1;          // 2: columns n >= half are in lanes 64 and up
  int rows_per_part = 0;  // with parts = 2

  int replicas() const { return 4 / parts; }
  /// The byte of scale `j` of row `row`: `bit` is 0, 8, 16 or 24.
  TmemPlace place_of(int row, int j, int replica) const;
};

/// Scales of A, for the rows of one CTA. `address` may have other bits above lane and column, as CUTLASS leaves
/// them.
TmemScales scales_of_a(const TmemLayoutInfo& layout, uint32_t address, int id);
/// Scales of B, for all n columns, in each CTA. Layout B keeps the halves of N in different lanes.
TmemScales scales_of_b(const TmemLayoutInfo& layout, int n, uint32_t address, int id);

/// Throws Error unless N, lane base and columns fit: lane 0, or 0 and 16 for half-lane layouts; 512 columns.
void require_fits(const TmemD& d);
void require_fits(const TmemA& a, int k);
void require_fits(const TmemMetadata& metadata);
/// `count` scales of `rows` rows.
void require_fits(const TmemScales& scales, int rows, int count, std::string_view operand);

/// The lane that tcgen05.shift moves to `lane`, and that .ashift reads instead of it: rows move by one within every 32
/// lanes, and the last one stays. (Model choice: the sources say "all rows except the last".)
constexpr int shifted_lane(int lane) { return lane % 32 == 31 ? lane : lane + 1; }

/// Shapes of tcgen05.ld and .st, one row each; a single formula in the .cpp gives lanes and columns.
enum class LdStShape : uint8_t { s32x32b, s16x64b, s16x128b, s16x256b, s16x32bx2 };

struct LdStInfo {
  LdStShape id;
  std::string_view name;
  int registers_per_num = 1;
  int max_num = 128;
};

inline constexpr auto ldst_shapes = std::to_array<LdStInfo>({
    {LdStShape::s32x32b, "32x32b", 1, 128},
    {LdStShape::s16x64b, "16x64b", 1, 128},
    {LdStShape::s16x128b, "16x128b", 2, 64},
    {LdStShape::s16x256b, "16x256b", 4, 32},
    {LdStShape::s16x32bx2, "16x32bx2", 1, 128},
});

/// A shape of tcgen05.cp: `rows` rows of `row_bytes` bytes. Row r is copied to lane lane_of(row) and its copies.
struct CpShape {
  std::string_view name;       // "64x128b"
  std::string_view multicast;  // ".warpx2::02_13", mandatory if the shape has one
  int rows = 0, row_bytes = 0;
  int copies = 1;
};
inline constexpr auto cp_shapes = std::to_array<CpShape>({
    {.name = "128x256b", .multicast = "", .rows = 128, .row_bytes = 32},
    {.name = "128x128b", .multicast = "", .rows = 128, .row_bytes = 16},
    {.name = "4x256b", .multicast = "", .rows = 4, .row_bytes = 32},
    {.name = "64x128b", .multicast = ".warpx2::02_13", .rows = 64, .row_bytes = 16, .copies = 2},
    {.name = "64x128b", .multicast = ".warpx2::01_23", .rows = 64, .row_bytes = 16, .copies = 2},
    {.name = "32x128b", .multicast = ".warpx4", .rows = 32, .row_bytes = 16, .copies = 4},
});

/// Lane of copy `copy` of row `row`, relative to the address.
int lane_of(const CpShape& shape, int row, int copy);

/// What one tcgen05.ld or .st moves for one warp.
struct LdSt {
  LdStShape shape = LdStShape::s32x32b;
  int num = 1;
  bool pack_16b = false;  // .pack::16b of ld, .unpack::16b of st: two 16-bit cells per register
  int split_columns = 0;  // 16x32bx2: columns from the first to the second piece

  bool operator==(const LdSt&) const = default;
  int registers() const;
  /// The cell for bits 16*half and up of register `reg` of `thread` (its lower half; without packing the whole cell),
  /// relative to the address: lane 0..31 of the warp's partition, column from 0.
  TmemAddress place_of(int thread, int reg, int half) const;
};

/// Throws Error if the shape does not have this .num.
void require_legal(const LdSt& move);

/// The move whose shape has this name, such as "32x32b". With `split_columns` 0 the second piece of a 16x32bx2 follows
/// the first: .pack::16b takes two columns per register. Throws Error for a shape or .num that does not exist.
LdSt ldst_of(std::string_view shape, int num, bool pack_16b, int split_columns = 0);

}  // namespace bitmma
