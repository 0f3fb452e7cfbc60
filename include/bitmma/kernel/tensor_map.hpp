// SPDX-License-Identifier: MIT
// TMA tensor maps as cuTensorMapEncodeTiled makes them, as arguments of a kernel.
//
//   // x has 128 rows of 256 f16; a copy moves 64 x 64 of them, swizzled for wgmma.
//   const TensorMap map{.element_bytes = 2, .sizes = {256, 128}, .strides_bytes = {512}, .box = {64, 64},
//                       .swizzle = Swizzle::b128};
//   launch(kernel, {.arguments = {tensor_map_argument(x, map)}});
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bitmma/layout/swizzle.hpp"

namespace bitmma {

/// The dimensions are in the driver's order: the innermost first. Source: CUDA driver API, cuTensorMapEncodeTiled.
struct TensorMap {
  int element_bytes = 2;                    // 1, 2, 4 or 8
  std::vector<int64_t> sizes = {};          // extents of 1 to 5 dimensions, in elements
  std::vector<int64_t> strides_bytes = {};  // of all dimensions except the innermost; multiples of 16
  std::vector<int64_t> box = {};            // elements that one copy spans, at most 256 per dimension
  std::vector<int64_t> element_strides =
      {};                           // 1 to 8, innermost 1: a copy moves ceil(n / stride) of n in the box; empty: 1
  Swizzle swizzle = Swizzle::none;  // of the box in shared memory; its rows then have this width; not 128-atom32
  bool fills_with_nan = false;      // value of elements outside the tensor: words 0x7FF7 if true, otherwise zero

  bool operator==(const TensorMap&) const = default;
};

/// Throws Error for a map that the driver refuses, and for memory that is too small for the tensor.
void require_tensor_map(const TensorMap& map, int64_t memory_bytes);

constexpr std::size_t tensor_map_bytes = 128;

/// The map of a tensor at an address of global memory, as kernels get it in a parameter or in memory. NVIDIA does not
/// publish its encoding; this one is bitmma's. Throws Error for a map that the driver refuses.
std::array<uint8_t, tensor_map_bytes> encode_tensor_map(const TensorMap& map, uint64_t address);

}  // namespace bitmma
