// SPDX-License-Identifier: MIT
// Fetches of single texels: which one a coordinate means, and what it is as a number. As the CUDA C++ Programming Guide
// (Texture Fetching) and the PTX ISA say; no GPU was measured. What they leave open is docs/kernel_semantics.md's.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "bitmma/kernel/texture.hpp"

namespace bitmma::kernel {

constexpr size_t most_texel_bytes = 16, most_corners = 8;

/// The coordinates of a fetch: bits of f32, or s32.
struct TexturePoint {
  std::array<uint32_t, 3> coordinates = {};
  uint32_t layer = 0;
  bool are_integers = false;
};

/// The texels that a fetch reads: one, or the 2, 4 or 8 around a point. Texel i is the second one of dimension d if bit
/// d of i is set.
struct Corners {
  int count = 1;
  std::array<std::optional<int64_t>, most_corners> offsets = {};  // in bytes from the first texel; nothing: the border
  std::array<uint32_t, 3> fractions = {};                         // weight of the second texel, in 1/256
};
/// `gathers`: the texels that a linear filter reads, whatever the texture's filter is.
Corners corners_of(const Texture& texture, const TexturePoint& point, bool gathers);

using TexelBytes = std::array<uint8_t, most_texel_bytes>;
/// The words of the four channels that a fetch returns, of the texels at its corners. Those of the border are not read.
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
