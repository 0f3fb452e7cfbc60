// SPDX-License-Identifier: MIT
// TMA writes: cp.async.bulk.tensor copies a box of a matrix to shared memory with the swizzle of its tensor map.
//
//   box of 64 x 8 f16, CU_TENSOR_MAP_SWIZZLE_128B at byte 0      element (row 1, column 0) is at byte 128 ^ 16
//
// Rows of the box, along its innermost dimension, follow each other without gaps; the swizzle then acts on the address.
// A row of a swizzled box is as wide as the swizzle, so a wider matrix takes several boxes, one after another. Source:
// CUDA Driver API, CUtensorMapSwizzle and cuTensorMapEncodeTiled; the swizzles are those of PTX ISA 5.5.7. Not
// supported: CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B and _ATOM_64B, whose patterns are published only as figures;
// interleaved layouts; rows narrower than the swizzle.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "bitmma/memory/map.hpp"

namespace bitmma {

/// An M x K or N x K matrix that boxes copy to shared memory.
struct TmaTile {
  Swizzle swizzle = Swizzle::b128;
  Major major = Major::k;  // rows of the box run along K, or along M or N
  int element_bits = 16;
  int64_t rows = 8, cols = 64;
  int64_t box_inner = 0;  // elements per row of a box; 0: the swizzle's width, or the whole row
  int64_t box_outer = 0;  // rows per box; 0: all rows
  int64_t start_bytes = 0;
};

/// The tile with its box. Throws Error for a box or a start that is illegal in a tensor map.
TmaTile checked(TmaTile tile);
/// Byte of an element. The tile must have passed `checked`.
int64_t byte_of(const TmaTile& tile, int64_t row, int64_t col);
/// row, col -> byte, bit. Throws Error like `checked`.
Map map_of(const TmaTile& tile);

/// Elements that a descriptor reads from another place than where they are.
struct PlaceDifference {
  int64_t elements = 0;  // number of elements that differ
  struct Element {
    int64_t row = 0, col = 0, byte = 0, descriptor_byte = 0;
  };
  std::optional<Element> first = {};
};
/// Compares the descriptor's place of every element with its actual byte, `byte_of(row, col)`.
PlaceDifference difference_of(const SmemMatrix& matrix, const std::function<int64_t(int, int)>& byte_of);
/// Compares every element of the matrix with the tile. If the descriptor starts inside a row, it reads from there on;
/// the tile starts at the beginning of that row's 128 bytes.
PlaceDifference difference_of(const TmaTile& tile, const SmemMatrix& matrix);

}  // namespace bitmma
