// SPDX-License-Identifier: MIT
// What TMA writes: cp.async.bulk.tensor puts a box of a matrix into shared memory as its tensor map's swizzle says.
//
//   box of 64 x 8 f16, CU_TENSOR_MAP_SWIZZLE_128B at byte 0      element (row 1, column 0) is at byte 128 ^ 16
//
// Rows of the box, its innermost dimension, follow each other without gaps; the swizzle then acts on the address. A row
// of a swizzled box is as wide as the swizzle, so a wider matrix takes several boxes, one after the other.
// Source: CUDA Driver API, CUtensorMapSwizzle and cuTensorMapEncodeTiled; the swizzles are those of PTX ISA 5.5.7.
// Not here: CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B and _ATOM_64B, whose patterns are published only in figures;
// interleaved layouts; rows narrower than the swizzle.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "bitmma/memory/map.hpp"

namespace bitmma {

/// A matrix of M or N by K that boxes bring to shared memory.
struct TmaTile {
  Swizzle swizzle = Swizzle::b128;
  Major major = Major::k;  // the box's rows run along K, or along M or N
  int element_bits = 16;
  int64_t rows = 8, cols = 64;
  int64_t box_inner = 0;  // elements of a row of a box; 0: as wide as the swizzle, or all
  int64_t box_outer = 0;  // rows of a box; 0: all
  int64_t start_bytes = 0;
};

/// The tile with its box. Throws Error for a box or a start that a tensor map cannot have.
TmaTile checked(TmaTile tile);
/// Byte of an element. The tile must be checked.
int64_t byte_of(const TmaTile& tile, int64_t row, int64_t col);
/// row, col -> byte, bit. Throws Error like `checked`.
Map map_of(const TmaTile& tile);

/// Where a descriptor looks for elements that are elsewhere.
struct PlaceDifference {
  int64_t elements = 0;  // that differ
  struct Element {
    int64_t row = 0, col = 0, byte = 0, descriptor_byte = 0;
  };
  std::optional<Element> first = {};
};
/// Compares every element of the matrix with the byte where it is, `byte_of(row, col)`.
PlaceDifference difference_of(const SmemMatrix& matrix, const std::function<int64_t(int, int)>& byte_of);
/// Compares every element of the matrix with the tile. A descriptor that begins inside of a row reads from there on:
/// the tile begins with its 128 bytes.
PlaceDifference difference_of(const TmaTile& tile, const SmemMatrix& matrix);

}  // namespace bitmma
