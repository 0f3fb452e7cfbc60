// SPDX-License-Identifier: MIT
// Tensor maps of TMA: what cuTensorMapEncodeTiled makes, as an argument of a kernel.
//
//   // x has 128 rows of 256 f16; a copy moves 64 x 64 of them, swizzled for wgmma.
//   const TensorMap map{.element_bytes = 2, .sizes = {256, 128}, .strides_bytes = {512}, .box = {64, 64},
//                       .swizzle = Swizzle::b128};
//   launch(kernel, {.arguments = {tensor_map_argument(x, map)}});
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "bitmma/layout/swizzle.hpp"

namespace bitmma {

/// The dimensions are in the driver's order: the innermost first. Source: CUDA driver API, cuTensorMapEncodeTiled.
struct TensorMap {
  int element_bytes = 2;                    // 1, 2, 4 or 8
  std::vector<int64_t> sizes = {};          // elements of each of 1 to 5 dimensions
  std::vector<int64_t> strides_bytes = {};  // of all dimensions but the innermost, multiples of 16
  std::vector<int64_t> box = {};            // elements that one copy spans, at most 256 of a dimension
  std::vector<int64_t> element_strides =
      {};                           // 1 to 8, the innermost 1: of n in the box, ceil(n / stride) are moved; empty: 1
  Swizzle swizzle = Swizzle::none;  // of the box in shared memory, where a row then has its width; not 128-atom32
  bool fills_with_nan = false;      // elements outside of the tensor: words 0x7FF7, otherwise zero

  bool operator==(const TensorMap&) const = default;
};

/// Throws Error for a map that the driver refuses, and for memory that does not hold the tensor.
void require_tensor_map(const TensorMap& map, int64_t memory_bytes);

}  // namespace bitmma
