// SPDX-License-Identifier: MIT
// Textures and surfaces: texels in global memory, and how kernels look at them. A kernel gets the handle of an object
// as an argument, as CUDA's cudaTextureObject_t and cudaSurfaceObject_t.
//
//   Texture texture;
//   texture.texels = {.address = x, .format = TexelFormat::f32, .dimensions = 2, .extent = {64, 32, 1},
//                     .row_bytes = 256, .slice_bytes = 8192};
//   const uint64_t handle = memory.add_texture(texture);
#pragma once

#include <array>
#include <cstdint>

namespace bitmma {

enum class TexelFormat : uint8_t { u8, u16, u32, s8, s16, s32, f16, f32 };

/// Texels in an allocation of a Memory, row by row. A GPU's arrays have an order of their own, which no program sees.
struct Texels {
  uint64_t address = 0;
  TexelFormat format = TexelFormat::f32;
  int channels = 1;                           // 1, 2 or 4
  int dimensions = 1;                         // 1 to 3, without the layers
  std::array<int64_t, 3> extent = {1, 1, 1};  // in texels; 1 in dimensions that they do not have
  int64_t layers = 0;                         // 0: no array of layers, each of 1 or 2 dimensions
  int64_t row_bytes = 0, slice_bytes = 0;     // from a row to the next, from a slice or layer to the next

  int channel_bytes() const;
  int texel_bytes() const { return channels * channel_bytes(); }
  /// Integers of 8 and 16 bits, which a texture may map to [0, 1] or [-1, 1].
  bool can_be_normalized() const;
};

/// What a texture has outside of its texels: itself again, its last texel, its mirror image, or a border's colour.
/// CUDA's numbers.
enum class AddressMode : uint8_t { wrap, clamp, mirror, border };

struct Texture {
  Texels texels = {};
  bool is_buffer = false;  // memory of one dimension, cudaResourceTypeLinear: fetched by integers
  std::array<AddressMode, 3> modes = {AddressMode::clamp, AddressMode::clamp, AddressMode::clamp};
  bool is_linear = false;         // filters linearly; otherwise a fetch is one texel
  bool reads_normalized = false;  // of texels that can be normalized
  bool has_normalized_coordinates = false;
  std::array<uint32_t, 4> border = {};  // of each channel: the bits of its f32
};

}  // namespace bitmma
