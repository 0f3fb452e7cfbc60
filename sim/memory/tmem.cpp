// SPDX-License-Identifier: MIT
#include "bitmma/memory/tmem.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <limits>

namespace bitmma {
namespace {

void require_place(const TmemLayoutInfo& layout, const TmemAddress& address, int columns, std::string_view operand) {
  std::vector<Violation> violations;
  const bool lane_fits = address.lane == 0 || (layout.half_lanes && address.lane == 16);
  if (!lane_fits) {
    violations.push_back({.field = fmt::format("{} lane", operand),
                          .seen = std::to_string(address.lane),
                          .expected = layout.half_lanes ? "0 or 16" : "0",
                          .fix = fmt::format("layout {} begins there", layout.name),
                          .source = "PTX ISA 9.7.16.10.5"});
  }
  if (address.column + columns > tmem_columns) {
    violations.push_back({.field = fmt::format("{} columns", operand),
                          .seen = fmt::format("{}..{}", address.column, address.column + columns - 1),
                          .expected = fmt::format("0..{}", tmem_columns - 1),
                          .fix = "allocate at a lower column, or use a smaller N",
                          .source = "PTX ISA 9.7.16.1"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
}

/// Checks the divisors of the formulas below: a layout is a row of the table.
void require_sound(const TmemLayoutInfo& layout) {
  if (layout.rows_per_cta >= 1 && layout.n_parts >= 1) return;
  throw Error({.field = "Tensor Memory layout",
               .seen = fmt::format("{} rows, {} parts", layout.rows_per_cta, layout.n_parts),
               .expected = "one of A to G"});
}

/// Checks indices, in the order of places; no sum of them overflows.
void require_indices(std::initializer_list<int> indices) {
  for (const int index : indices) {
    if (index >= 0 && index < 1 << 16) continue;
    throw Error({.field = "element", .seen = std::to_string(index), .expected = "indices of 0 or more"});
  }
}

void require_container(int element_bits) {
  if (element_bits >= 1 && element_bits <= 32) return;
  throw Error({.field = "element bits", .seen = std::to_string(element_bits), .legal = {"4", "8", "16", "32"}});
}

const LdStInfo& require_known(LdStShape shape) {
  const auto index = static_cast<size_t>(shape);
  if (index < ldst_shapes.size()) return ldst_shapes[index];
  throw Error({.field = "shape of ld and st", .seen = std::to_string(index), .expected = "one of the shapes"});
}

}  // namespace

TmemAddress decode_tmem_address(uint32_t address) {
  const TmemAddress decoded{.lane = static_cast<int>(address >> 16), .column = static_cast<int>(address & 0xFFFF)};
  if (decoded.lane >= tmem_lanes || decoded.column >= tmem_columns) {
    throw Error({.field = "Tensor Memory address",
                 .seen = fmt::format("{:#010x} (lane {}, column {})", address, decoded.lane, decoded.column),
                 .expected = "lane 0..127 in bits 31:16, column 0..511 in bits 15:0",
                 .fix = "",
                 .source = "PTX ISA 9.7.16.1"});
  }
  return decoded;
}

const TmemLayoutInfo& find_tmem_layout(int m, int cta_group, bool ws, bool sparse) {
  for (const TmemLayoutInfo& row : tmem_layouts) {
    const bool fits = (ws ? row.ws : row.plain) && (sparse ? row.sparse : row.dense);
    if (row.m == m && row.cta_group == cta_group && fits) return row;
  }
  std::vector<Violation> violations{
      {.field = "M",
       .seen = fmt::format("{} with cta_group::{}{}", m, cta_group, ws ? " and .ws" : ""),
       .expected = ws ? "32, 64 or 128 with cta_group::1" : "64 or 128 with cta_group::1, 128 or 256 with cta_group::2",
       .fix = "",
       .source = "PTX ISA 9.7.16.2.1, Table 39"}};
  throw Error(std::move(violations));
}

std::string print_cute(const TmemD& d) {
  const TmemLayoutInfo& layout = d.layout;
  require_sound(layout);
  const int ctas = layout.m / layout.rows_per_cta;
  std::vector<std::string> shape, stride;
  if (layout.half_lanes) shape = {"16", std::to_string(layout.rows_per_cta / 16)}, stride = {"1@lane", "32@lane"};
  else shape = {std::to_string(layout.rows_per_cta)}, stride = {"1@lane"};
  if (ctas > 1) shape.push_back(std::to_string(ctas)), stride.push_back("1@cta");
  const auto mode = [](const std::vector<std::string>& parts) {
    return parts.size() == 1 ? parts[0] : fmt::format("({})", fmt::join(parts, ","));
  };
  const std::string cols =
      layout.n_parts == 1 ? std::to_string(d.n) : fmt::format("({},{})", d.columns(), layout.n_parts);
  const std::string col_strides =
      layout.n_parts == 1 ? "1@column" : fmt::format("(1@column,{}@lane)", layout.rows_per_cta);
  return fmt::format("({},{}):({},{})", mode(shape), cols, mode(stride), col_strides);
}

TmemPlace TmemD::place_of(int row, int col) const {
  require_sound(layout);
  require_indices({row, col});
  if (columns() < 1) throw Error({.field = "N", .seen = std::to_string(n), .expected = "8..256"});
  const int part = col / columns();
  return {.cta = row / layout.rows_per_cta,
          .lane = address.lane + lane_of(layout, row % layout.rows_per_cta, part),
          .column = address.column + col % columns(),
          .bit = 0};
}

TmemPlace TmemA::place_of(int row, int k, int copy) const {
  require_sound(layout);
  require_indices({row, k, copy});
  require_container(element_bits);
  const int bits = k * element_bits;
  return {.cta = row / layout.rows_per_cta,
          .lane = address.lane + lane_of(layout, row % layout.rows_per_cta, copy),
          .column = address.column + bits / 32,
          .bit = bits % 32};
}

TmemPlace TmemMetadata::place_of(int row, int column_k, int copy) const {
  require_sound(layout);
  require_indices({row, column_k, copy, selector});
  const int in_cta = row % layout.rows_per_cta;
  TmemPlace place{.cta = row / layout.rows_per_cta,
                  .lane = address.lane + lane_of(layout, in_cta, copy),
                  .column = address.column,
                  .bit = 0};
  if (element_bits >= 16) {  // rows m and m + 8 share a cell, the halves of K are in lanes m % 8 and m % 8 + 8
    const int half_k = element_bits == 16 ? 16 : 8, bits_per_k = element_bits == 16 ? 1 : 2;
    place.lane += in_cta % 8 - in_cta % 16 + 8 * (column_k / half_k);
    place.column += selector;
    place.bit = 16 * (in_cta / 8 % 2) + column_k % half_k * bits_per_k;
  } else {
    const int per_cell = k_per_cell();
    place.column += column_k / per_cell;
    place.bit = column_k % per_cell * 32 / per_cell;
  }
  return place;
}

TmemPlace TmemScales::place_of(int row, int j, int replica) const {
  require_indices({row, j, replica, id});
  if (parts == 2 && rows_per_part < 1)
    throw Error({.field = "rows of a part", .seen = std::to_string(rows_per_part), .expected = "1 or more"});
  const int part = parts == 2 ? row / rows_per_part : 0, in_part = parts == 2 ? row % rows_per_part : row;
  const int byte = id + j;
  return {.cta = 0,
          .lane = 64 * part + 32 * replica + in_part % 32,
          .column = address.column + in_part / 32 + group_columns * (byte / 4),
          .bit = 8 * (byte % 4)};
}

TmemScales scales_of_a(const TmemLayoutInfo& layout, uint32_t address, int id) {
  static_cast<void>(layout);
  return {.address = decode_tmem_address(address & tmem_address_mask), .id = id};
}

TmemScales scales_of_b(const TmemLayoutInfo& layout, int n, uint32_t address, int id) {
  TmemScales scales{
      .address = decode_tmem_address(address & tmem_address_mask), .id = id, .group_columns = n <= 128 ? 4 : 8};
  if (layout.n_parts == 2) {
    const int half = n / 2;
    scales.parts = 2, scales.rows_per_part = half, scales.group_columns = 4;
  }
  return scales;
}

int lane_of(const CpShape& shape, int row, int copy) {
  constexpr int partition_lanes = 32;
  if (shape.rows == 4) return partition_lanes * row;
  if (shape.multicast == ".warpx2::02_13") return row + 64 * copy;
  if (shape.multicast == ".warpx2::01_23") return 64 * (row / 32) + row % 32 + 32 * copy;
  return row + 32 * copy;  // .warpx4; without multicast there is only copy 0
}

void require_fits(const TmemD& d) {
  require_sound(d.layout);
  if (d.n < 8 || d.n > 256 || d.n % (8 * d.layout.n_parts) != 0) {
    throw Error({.field = "N",
                 .seen = std::to_string(d.n),
                 .expected = fmt::format("8..256 in steps of {} in layout {}", 8 * d.layout.n_parts, d.layout.name),
                 .fix = "",
                 .source = "PTX ISA 9.7.16.2.1, Table 39"});
  }
  require_place(d.layout, d.address, d.columns(), "D");
}

void require_fits(const TmemA& a, int k) {
  require_indices({k});
  require_container(a.element_bits);
  require_place(a.layout, a.address, (k * a.element_bits + 31) / 32, "A");
}

void require_fits(const TmemMetadata& metadata) {
  require_indices({metadata.selector});
  require_place(metadata.layout, metadata.address, metadata.selector + metadata.columns(), "sparse metadata");
}

void require_fits(const TmemScales& scales, int rows, int count, std::string_view operand) {
  require_indices({rows, count});  // then minus one: there must be at least one
  require_indices({rows - 1, count - 1});
  const TmemPlace last = scales.place_of(rows - 1, count - 1, 0);
  std::vector<Violation> violations;
  if (scales.address.lane != 0) {
    violations.push_back({.field = fmt::format("{} lane", operand),
                          .seen = std::to_string(scales.address.lane),
                          .expected = "0",
                          .fix = "scales occupy all 128 lanes",
                          .source = "PTX ISA 9.7.16.10.7"});
  }
  if (last.column >= tmem_columns) {
    violations.push_back({.field = fmt::format("{} columns", operand),
                          .seen = fmt::format("{}..{}", scales.address.column, last.column),
                          .expected = fmt::format("0..{}", tmem_columns - 1),
                          .fix = "allocate lower",
                          .source = "PTX ISA 9.7.16.1"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
}

int LdSt::registers() const {
  // require_legal refuses a .num that no shape has.
  const int64_t count = int64_t{num} * require_known(shape).registers_per_num;
  return static_cast<int>(std::clamp<int64_t>(count, 0, std::numeric_limits<int>::max()));
}

TmemAddress LdSt::place_of(int thread, int reg, int half) const {
  require_indices({thread, reg, half, split_columns});
  TmemAddress place;
  int split = 0;
  switch (shape) {
    case LdStShape::s32x32b: place = {thread, reg}; break;
    case LdStShape::s16x64b: place = {thread / 4 + 8 * (thread % 2), thread / 2 % 2 + 2 * reg}; break;
    case LdStShape::s16x128b: place = {thread / 4 + 8 * (reg % 2), thread % 4 + 4 * (reg / 2)}; break;
    case LdStShape::s16x256b:
      place = {thread / 4 + 8 * (reg / 2 % 2), 2 * (thread % 4) + reg % 2 + 8 * (reg / 4)};
      break;
    case LdStShape::s16x32bx2:
      place = {thread % 16, reg};
      split = thread >= 16 ? split_columns : 0;  // an address, so packing does not stretch it
      break;
  }
  if (pack_16b) place.column = 2 * place.column + half;
  place.column += split;
  return place;
}

void require_legal(const LdSt& move) {
  const LdStInfo& row = require_known(move.shape);
  if (move.num < 1 || move.num > row.max_num || !std::has_single_bit(static_cast<unsigned>(move.num))) {
    throw Error({.field = ".num",
                 .seen = fmt::format("x{}", move.num),
                 .expected = fmt::format("a power of two, x1..x{} for {}", row.max_num, row.name),
                 .fix = "at most 128 registers per thread",
                 .source = "PTX ISA 9.7.16.8; ptxas 13.0"});
  }
  const bool may_split = move.shape == LdStShape::s16x32bx2;
  if (move.split_columns < 0 || move.split_columns > (may_split ? tmem_columns : 0)) {
    throw Error({.field = "split",
                 .seen = std::to_string(move.split_columns),
                 .expected = may_split ? "0..512 columns" : "0: only 16x32bx2 has two pieces",
                 .source = "PTX ISA 9.7.16.8"});
  }
}

LdSt ldst_of(std::string_view shape, int num, bool pack_16b, int split_columns) {
  const auto row = std::ranges::find(ldst_shapes, shape, &LdStInfo::name);
  if (row == ldst_shapes.end()) {
    throw Error(
        {.code = ViolationCode::unknown_name,
         .field = "shape",
         .seen = std::string(shape),
         .legal = row_names(ldst_shapes),
         .fix = shape.find(".x") == std::string_view::npos ? "" : "the number after .x is another argument, num"});
  }
  LdSt move{.shape = row->id, .num = num, .pack_16b = pack_16b, .split_columns = split_columns};
  require_legal(move);
  if (row->id == LdStShape::s16x32bx2 && split_columns == 0) move.split_columns = pack_16b ? 2 * num : num;
  return move;
}

}  // namespace bitmma
