// SPDX-License-Identifier: MIT
// Fetches: which texels a coordinate means, what they are as numbers, and linear filters of them, as an H200 computes
// them: data/kernels/textures.tar.xz. docs/kernel_semantics.md has what is not measured.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "bitmma/kernel/texture.hpp"

namespace bitmma::kernel {

constexpr size_t most_texel_bytes = 16, most_corners = 8;

/// Whether it is known how many bits of a normalized coordinate a linear filter has. Measured: 21 of x and y for up to
/// 8,192 texels, 22 for up to 65,536 and 23 for up to 131,072; 21 of z for up to 2,049 and 22 from 3,001 to 16,384.
constexpr bool is_coordinate_measured(int64_t size, size_t dimension) {
  if (dimension < 2) return size <= 131072;
  return size <= 2049 || (size >= 3001 && size <= 16384);
}

/// The coordinates of a fetch: bits of f32, or s32.
struct TexturePoint {
  std::array<uint32_t, 3> coordinates = {};
  uint32_t layer = 0;
  bool are_integers = false;
};

/// The texels that a fetch reads: one, or the 4 or 8 around a point, or none beyond the reach of integers, where a
/// fetch is zeros. Texel i is the second one of dimension d if bit d of i is set.
struct Corners {
  int count = 1;
  std::array<std::optional<int64_t>, most_corners> offsets = {};  // in bytes from the first texel; nothing: the border
  std::array<uint32_t, 3> fractions = {};                         // weight of the second texel, in 1/256
};
/// `gathers`: the texels that a linear filter reads, whatever the texture's filter is.
Corners corners_of(const Texture& texture, const TexturePoint& point, bool gathers);

using TexelBytes = std::array<uint8_t, most_texel_bytes>;
/// The words of the four channels that a fetch returns, of the texels at its corners. Those of the border are not read.
/// Channels that texels do not have are 0.
std::array<uint32_t, 4> fetched(const Texture& texture, const Corners& corners,
                                std::span<const TexelBytes, most_corners> texels);
/// What tld4 returns: a channel of each of the four texels, in its order.
std::array<uint32_t, 4> gathered(const Texture& texture, const Corners& corners,
                                 std::span<const TexelBytes, most_corners> texels, size_t channel);

/// Where the bytes of a surface are, from its first texel on: x counts bytes. Nothing outside of the surface.
enum class SurfaceMode : uint8_t { trap, clamp, zero };
std::optional<int64_t> surface_offset(const Texels& texels, std::array<int32_t, 3> coordinates, uint32_t layer,
                                      int bytes, SurfaceMode mode);

}  // namespace bitmma::kernel
