// SPDX-License-Identifier: MIT
// The 128 bytes of a tensor map as kernels pass them. NVIDIA does not publish its encoding; this one is bitmma's.
#pragma once

#include "bitmma/kernel/tensor_map.hpp"
#include "type.hpp"

namespace bitmma::kernel {

using bitmma::tensor_map_bytes;

struct PackedTensorMap {
  static constexpr uint64_t mark_of_ours = 0x70616d20'616d7469;  // "itma map"
  uint64_t mark = mark_of_ours;
  uint64_t address = 0;
  std::array<uint64_t, 5> sizes{};
  std::array<uint64_t, 4> strides_bytes{};
  std::array<uint16_t, 5> box{};
  std::array<uint8_t, 5> element_strides{};
  uint8_t rank = 0, element_bytes = 0, swizzle = 0, fills_with_nan = 0;
  uint8_t type = 0;      // index in map_types
  uint8_t has_type = 0;  // 0: only the byte size of an element is known
  std::array<uint8_t, 19> unused{};
};
static_assert(sizeof(PackedTensorMap) == tensor_map_bytes);

/// Types by the numbers of .elemtype. Source: PTX ISA, tensormap.replace.
inline constexpr std::array map_types{Type::u8,  Type::u16, Type::u32, Type::s32,  Type::u64, Type::s64, Type::f16,
                                      Type::f32, Type::f32, Type::f64, Type::bf16, Type::b32, Type::b32};

PackedTensorMap pack(const TensorMap& map, uint64_t address);
/// Decodes the bytes; a kernel may have overwritten any of them. Throws Error for fields that the driver would refuse.
void require_usable(const PackedTensorMap& map);

}  // namespace bitmma::kernel
