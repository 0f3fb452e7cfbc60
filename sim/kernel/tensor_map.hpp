// SPDX-License-Identifier: MIT
// The 128 bytes of a tensor map as kernels pass and change them: the driver's own. cuTensorMapEncodeTiled of driver 580
// on an H200 gave these bytes for each of 3,055 maps, and cuTensorMapEncodeIm2col for each of 2,638:
// data/kernels/tensor_maps.tar.xz.
//
//   word 0, 1     address
//   word 2        bit 0 im2col, 4-6 rank - 1, 7-10 element type, 11-12 interleave, 13-14 swizzle, 15 fill, 16 tf32,
//   17-18
//                 promotion; bitmma's choice: 19-20 swizzle atomicity, 31 only the size of the elements is known
//   word 3-6      strides / 16 of dimensions 1 to 4, their bits 32-35 in word 7
//   word 8-12     sizes - 1
//   word 13       element strides - 1, three bits each, and box[0] - 1 in bits 24-31
//   word 14       box[1] - 1 to box[4] - 1, eight bits each; of im2col the lower corners from bit 0 on and the upper
//                 ones from bit 16 on: 16 bits of a map of 3 dimensions, 8 of 4, 5 of 5
//   word 15       of im2col the pixels of a column - 1
//   word 16, 18   bytes of a box, and the alignment of its place in shared memory: only the driver reads them
#pragma once

#include <span>

#include "bitmma/kernel/tensor_map.hpp"
#include "type.hpp"

namespace bitmma::kernel {

using bitmma::tensor_map_bytes;
/// Bytes that have fields which a copy reads: kernels copy only these.
constexpr size_t used_map_bytes = 64;

/// The type of a map's elements by its number in .elemtype. Source: PTX ISA, tensormap.replace. Elements of 4 and 6
/// bits are copied in groups, which are padded to 16 bytes in shared memory with _p64 and _p32.
struct MapType {
  Type type;             // of reductions; of the same size if there are none
  int group = 1;         // elements that are copied together
  int global_bytes = 0;  // of a group
  int shared_bytes = 0;
};
inline constexpr auto map_types = std::to_array<MapType>({
    {Type::u8, 1, 1, 1},
    {Type::u16, 1, 2, 2},
    {Type::u32, 1, 4, 4},
    {Type::s32, 1, 4, 4},
    {Type::u64, 1, 8, 8},
    {Type::s64, 1, 8, 8},
    {Type::f16, 1, 2, 2},
    {Type::f32, 1, 4, 4},
    {Type::f32, 1, 4, 4},
    {Type::f64, 1, 8, 8},
    {Type::bf16, 1, 2, 2},
    {Type::b32, 1, 4, 4},
    {Type::b32, 1, 4, 4},
    {Type::b8, 2, 1, 1},
    {Type::b8, 16, 8, 16},
    {Type::b8, 16, 12, 16},
});

/// The fields of a map.
struct PackedTensorMap {
  std::array<uint32_t, tensor_map_bytes / 4> words{};  // as they were read: bits without a field here stay
  uint64_t address = 0;
  std::array<uint64_t, 5> sizes{1, 1, 1, 1, 1};
  std::array<uint64_t, 4> strides_bytes{};
  std::array<uint16_t, 5> box{1, 1, 1, 1, 1};
  std::array<uint8_t, 5> element_strides{1, 1, 1, 1, 1};
  uint8_t rank = 1, type = 0, interleave = 0;
  uint8_t swizzle = 0;            // bytes of a row: 0 any, 1 32, 2 64, 3 128
  uint8_t swizzle_atomicity = 0;  // 0 16 bytes, 1 32 bytes, 3 64 bytes
  bool fills_with_nan = false;
  bool is_im2col = false;
  std::array<int16_t, 3> lower{}, upper{};  // corners of the pixels' box, of dimensions 1 to rank - 2
  uint32_t pixels = 1;                      // that an im2col copy moves; box[0] channels of each
  bool has_type = true;  // false: bitmma made the map of a memory whose element's size alone is known

  static PackedTensorMap of(std::span<const uint8_t, tensor_map_bytes> bytes);
  std::array<uint8_t, tensor_map_bytes> bytes() const;
  const MapType& elements() const { return map_types[type]; }
};

PackedTensorMap pack(const TensorMap& map, uint64_t address);
/// Throws Error for fields that the driver would refuse; a kernel may have overwritten any of them.
void require_usable(const PackedTensorMap& map);
/// The swizzle of a map; nullptr if none has its mode and atoms.
const SwizzleInfo* swizzle_of(const PackedTensorMap& map);

}  // namespace bitmma::kernel
