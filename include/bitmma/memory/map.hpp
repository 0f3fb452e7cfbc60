// SPDX-License-Identifier: MIT
// One type for every map from matrix elements to places: registers, shared memory, Tensor Memory.
//
//   D of m64n16, f32: 64 x 16 elements in the registers of 128 threads
//   axes    row 64 | col 16 | thread 128 | register 8 | bit 32
//   entry     9        3        5            3           0        row 9, column 3 is register 3 of thread 5
//
// An entry has a value for every axis, so one filter answers both questions: where an element is, and which elements a
// place holds.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/layout/cute.hpp"
#include "bitmma/layout/scale_image.hpp"
#include "bitmma/memory/fragment.hpp"
#include "bitmma/memory/ldmatrix.hpp"
#include "bitmma/memory/metadata.hpp"
#include "bitmma/memory/metadata_order.hpp"
#include "bitmma/memory/smem.hpp"
#include "bitmma/memory/tmem.hpp"

namespace bitmma {

enum class AxisKind : uint8_t {
  element,     // a coordinate of the element, or the number of one of its copies
  place,       // a coordinate of the place
  derived,     // follows from the others
  json_only,   // derived, and shown only in JSON
  array_only,  // derived, and shown only in arrays
};

struct MapAxis {
  std::string_view name = {};
  AxisKind kind = AxisKind::place;
  int64_t extent = 0;   // values are 0 .. extent - 1; for places 0: the map sets no limit
  int64_t width = 1;    // values that an element occupies, from its own on: 2 bytes, 16 bits
  int64_t spacing = 0;  // from one element to the next, if that is more: a 4-bit code in its byte has 4 of 8 bits

  int64_t step() const { return spacing > 0 ? spacing : width; }
  bool operator==(const MapAxis&) const = default;
};

inline constexpr std::size_t most_map_axes = 9;
/// A value for every axis of a map, in axis order.
using MapEntry = std::array<int64_t, most_map_axes>;
/// The known values, by axis.
using MapQuestion = std::array<std::optional<int64_t>, most_map_axes>;

/// How analysis/draw.hpp draws a map.
enum class MapPicture : uint8_t {
  registers,      // rows down, columns across: thread and register
  shared_memory,  // lines of 128 bytes: rows and columns of every 16 bytes
  tensor_memory,  // 16 lanes at a time: rows and columns
  cells,          // lanes down, columns across: thread and register
  scales,         // 32 lanes and a column at a time: rows and block of every byte
  scale_image,    // lines of 16 bytes: rows and blocks of every four
  metadata,       // lines of 16 bytes: rows and columns of A of every two
};

/// A stride to draw: an arrow from the first element to another one.
struct MapArrow {
  std::string text = {};
  int64_t row = 0, col = 0;
};

struct [[nodiscard]] Map {
  std::string title = {};
  std::vector<std::string> notes = {};
  std::string cute = {};  // the layout in CuTe's notation, if it has one
  MapPicture picture = MapPicture::registers;
  std::vector<MapAxis> axes = {};
  std::function<void(MapEntry&)> locate = {};  // sets all values but those of the element's own axes
  /// Whether an element holds a place that the widths of the axes do not decide: a 6-bit code that crosses bytes.
  std::function<bool(const MapEntry&, const MapQuestion&)> holds = {};
  int64_t columns_per_cell = 1;  // for MapPicture::registers: adjacent columns in one register
  std::vector<MapArrow> arrows = {};

  /// The index of an axis; nothing if the map has no axis with this name.
  std::optional<std::size_t> find(std::string_view name) const;
  /// The same for an axis that must exist; throws Error if it does not.
  std::size_t axis(std::string_view name) const;
  /// Indices of the axes that identify an element, in order.
  std::vector<std::size_t> element_axes() const;
  /// Number of elements, including copies.
  int64_t size() const;
  /// The entry of an element. Throws Error unless all its coordinates are given and in range.
  MapEntry place_of(std::initializer_list<int64_t> element) const;
  /// The entries with all values of the question, ordered by element. Throws Error for a value out of range.
  std::vector<MapEntry> elements_at(const MapQuestion& question) const;
  /// Calls `visit` for the same entries, without building a list.
  void for_each(const MapQuestion& question, const std::function<void(const MapEntry&)>& visit) const;
};

/// The bits of a code in its container, from `first` on: bits 5:2 of the byte of an e2m1. Without bits the code fills
/// its container.
struct CodeBits {
  int first = 0, bits = 0;

  bool operator==(const CodeBits&) const = default;
};

/// row, col -> thread, register, bit. `is_b`: n and k instead, for B of mma.sync.
Map map_of(const Fragment& fragment, bool is_b = false, CodeBits code = {});
/// Sparse metadata in the registers of wgmma.sp and mma.sp: row and stored column of A. `a` is A's fragment.
Map map_of(const MetadataLayout& layout, const Fragment& a, int selector);
/// Block scales in the registers of mma.sync: a row of A or a column of B, and the number of the scale.
Map map_of_mma_scales(bool is_a, int rows, int scales, int byte_id, int thread_id);
/// matrix, row, col -> thread, register, bit.
Map map_of(const LdMatrix& move);
/// row, col -> byte, bit, with LBO and SBO as arrows; arrays also have the byte before the swizzle.
/// `code_bits`: of codes that are narrower than their bytes, which follow each other in every 16 bytes.
Map map_of(const SmemMatrix& matrix, int code_bits = 0);
/// The same for a layout in CuTe's notation. Throws Error unless elements have 1..128 bits.
Map map_of(const CuteLayout& cute);
/// row, col -> cta, lane, column, bit. Throws Error if D, or A, does not fit.
Map map_of(const TmemD& d);
Map map_of(const TmemA& a, int k, CodeBits code = {});
/// row, chunk of A's columns, copy if there are several -> cta, lane, column, lowest bit of four; k is the chunk's
/// first column. `k`: columns of A. Throws Error if it is not whole chunks, or the metadata does not fit.
Map map_of(const TmemMetadata& metadata, int k);
/// row, chunk -> byte, lowest bit of four in a library's order; k is the chunk's first column. Throws Error as
/// require_legal does.
Map map_of(const MetadataImage& image);
/// thread, register, half -> lane, column.
Map map_of(const LdSt& move);
/// row, block, replica -> byte of the image in shared memory; lane, column and byte of the cell.
Map map_of(const TmemScales& scales, const ScaleImage& image);
/// row, block -> byte of the image.
Map map_of(const ScaleImage& image);

}  // namespace bitmma
