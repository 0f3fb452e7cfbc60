// SPDX-License-Identifier: MIT
// Scale factors for tcgen05.mma: a row-major matrix of bytes (row of A or column of B, block along K), and the image
// that CUTLASS and cuBLAS use in global and shared memory: tiles of 128 rows x 4 blocks, 512 bytes each.
//
//   row 37, block 2: tile 0, byte 16 * (37 % 32) + 4 * (37 / 32) + 2 = 86        32 lines of 16 bytes, 4 rows a line
//
// One tcgen05.cp .32x128b.warpx4 copies a tile into four columns of Tensor Memory, one line per lane, as the
// instruction reads it. Source: CUTLASS, Sm1xxBlockScaledConfig; every row checked in data/oracle.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "bitmma/core/compiler.hpp"

namespace bitmma {

/// A matrix of `rows` x `blocks` scales, padded to whole tiles.
struct [[nodiscard]] ScaleImage {
  int64_t rows = 0, blocks = 0;

  int64_t row_tiles() const { return (rows + 127) / 128; }
  int64_t block_tiles() const { return (blocks + 3) / 4; }
  int64_t bytes() const { return 512 * row_tiles() * block_tiles(); }
  /// The tile of (row, block): tiles are ordered along K first, then along the rows.
  int64_t tile_of(int64_t row, int64_t block) const { return row / 128 * block_tiles() + block / 4; }
  /// Byte of (row, block) in the image.
  int64_t offset_of(int64_t row, int64_t block) const {
    return 512 * tile_of(row, block) + 16 * (row % 32) + 4 * (row / 32 % 4) + block % 4;
  }
  /// Row and block of a byte; for padding, a row or block outside the matrix.
  std::pair<int64_t, int64_t> element_at(int64_t byte) const {
    const int64_t tile = byte / 512, inside = byte % 512;
    return {tile / block_tiles() * 128 + inside / 16 + 32 * (inside % 16 / 4), tile % block_tiles() * 4 + inside % 4};
  }
};

/// The image of a row-major matrix; padding bytes are zero. Throws Error if the size of `scales` is not rows *
/// blocks.
std::vector<uint8_t> pack_scales(const ScaleImage& image, std::span<const uint8_t> scales);

/// The inverse. Throws Error if the size of `packed` is not that of the image.
std::vector<uint8_t> unpack_scales(const ScaleImage& image, std::span<const uint8_t> packed);

}  // namespace bitmma
