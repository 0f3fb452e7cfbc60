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
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "bitmma/layout/swizzle.hpp"

namespace bitmma {

/// The type of the elements, by its number in .elemtype. b4x16 are 4 bits, packed also in shared memory; b4x16_p64 and
/// b6x16_p32 are 4 and 6 bits, of which 16 take 16 bytes in shared memory. Source: PTX ISA, tensormap.replace.
enum class TensorMapType : uint8_t {
  // clang-format off
  u8, u16, u32, s32, u64, s64, f16, f32, f32_ftz, f64, bf16, tf32, tf32_ftz, b4x16, b4x16_p64, b6x16_p32,
  // clang-format on
};

/// In the order of the enumeration.
inline constexpr std::array<std::string_view, 16> tensor_map_types{
    "u8",      "u16", "u32",  "s32",  "u64",      "s64",   "f16",       "f32",
    "f32_ftz", "f64", "bf16", "tf32", "tf32_ftz", "b4x16", "b4x16_p64", "b6x16_p32"};
/// Nothing for a name that no type has.
constexpr std::optional<TensorMapType> tensor_map_type_named(std::string_view name) {
  for (std::size_t i = 0; i < tensor_map_types.size(); ++i) {
    if (tensor_map_types[i] == name) return static_cast<TensorMapType>(i);
  }
  return std::nullopt;
}

/// A copy of pixels for convolutions: of consecutive positions in a box of dimensions 1 to rank - 2 (W, H, D), which
/// begins at `lower` and ends before the tensor's extents + `upper`, then of the next image. Source: CUDA driver API,
/// cuTensorMapEncodeIm2col.
struct Im2colBox {
  std::vector<int64_t> lower = {}, upper = {};  // a corner for each of these dimensions, W first
  int64_t pixels = 1;                           // that one copy moves, 1 to 1024

  bool operator==(const Im2colBox&) const = default;
};

/// The dimensions are in the driver's order: the innermost first. Source: CUDA driver API, cuTensorMapEncodeTiled.
struct TensorMap {
  int element_bytes = 2;                    // 1, 2, 4 or 8; not read if `type` is there
  std::vector<int64_t> sizes = {};          // extents of 1 to 5 dimensions, in elements
  std::vector<int64_t> strides_bytes = {};  // of all dimensions except the innermost; multiples of 16
  std::vector<int64_t> box = {};            // elements that one copy spans, at most 256 per dimension; of im2col the
                                            // channels alone
  std::vector<int64_t> element_strides =
      {};                                // 1 to 8, innermost 1: a copy moves ceil(n / stride) of n in the box; empty: 1
  Swizzle swizzle = Swizzle::none;       // of the box in shared memory; its rows then have this width
  bool fills_with_nan = false;           // value of elements outside the tensor: words 0x7FF7 if true, otherwise zero
  std::optional<Im2colBox> im2col = {};  // for copies in mode .im2col, of tensors of 3 to 5 dimensions
  std::optional<TensorMapType> type = {};  // nothing: only the size is known, and reductions by the map are refused

  bool operator==(const TensorMap&) const = default;
};

/// Throws Error for a map that the driver refuses, and for memory that is too small for the tensor.
void require_tensor_map(const TensorMap& map, int64_t memory_bytes);

constexpr std::size_t tensor_map_bytes = 128;

/// The map of a tensor at an address of global memory, as kernels get it in a parameter or in memory: the bytes that
/// the driver gives, except those of elements of 4 and 6 bits and of a 128-atom32 swizzle, which no GPU here accepts.
/// Throws Error for a map that the driver refuses.
std::array<uint8_t, tensor_map_bytes> encode_tensor_map(const TensorMap& map, uint64_t address);

}  // namespace bitmma
