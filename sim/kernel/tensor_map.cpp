// SPDX-License-Identifier: MIT
#include "tensor_map.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <limits>

#include "bitmma/core/error.hpp"

namespace bitmma {

void require_tensor_map(const TensorMap& map, int64_t memory_bytes) {
  const auto refuse = [](std::string field, std::string seen, std::string expected) {
    throw Error({.field = "tensor map: " + field, .seen = std::move(seen), .expected = std::move(expected)});
  };
  const size_t rank = map.sizes.size();
  const int64_t bytes = map.element_bytes;
  if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)
    refuse("element_bytes", std::to_string(bytes), "1, 2, 4 or 8");
  if (rank < 1 || rank > 5) refuse("sizes", fmt::format("{} dimensions", rank), "1 to 5");
  if (map.strides_bytes.size() != rank - 1)
    refuse("strides_bytes", fmt::format("{}", fmt::join(map.strides_bytes, ",")), fmt::format("{} strides", rank - 1));
  if (map.box.size() != rank) refuse("box", fmt::format("{}", fmt::join(map.box, ",")), fmt::format("{} sizes", rank));
  if (!map.element_strides.empty() && map.element_strides.size() != rank)
    refuse("element_strides", fmt::format("{}", fmt::join(map.element_strides, ",")), fmt::format("{} strides", rank));
  int64_t last = bytes;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t size = map.sizes[i], stride = i == 0 ? bytes : map.strides_bytes[i - 1];
    if (size < 1 || size > int64_t{1} << 32)
      refuse(fmt::format("sizes[{}]", i), std::to_string(size), "1 to 2^32 elements");
    if (map.box[i] < 1 || map.box[i] > 256)
      refuse(fmt::format("box[{}]", i), std::to_string(map.box[i]), "1 to 256 elements");
    if (i > 0 && (stride < 0 || stride % 16 != 0 || stride >= int64_t{1} << 40))
      refuse(fmt::format("strides_bytes[{}]", i - 1), std::to_string(stride), "a multiple of 16 below 2^40");
    if (!map.element_strides.empty() && (map.element_strides[i] < 1 || map.element_strides[i] > 8))
      refuse(fmt::format("element_strides[{}]", i), std::to_string(map.element_strides[i]), "1 to 8");
    if (stride > 0 && size - 1 > (memory_bytes - last) / stride)
      refuse("sizes", fmt::format("{}", fmt::join(map.sizes, ",")),
             fmt::format("a tensor in {} bytes of memory", memory_bytes));
    last += (size - 1) * stride;
  }
  if (!map.element_strides.empty() && map.element_strides[0] != 1)
    refuse("element_strides[0]", std::to_string(map.element_strides[0]), "1: the driver ignores other values");
  if (map.fills_with_nan && bytes == 1) refuse("fill", "nan with elements of one byte", "zero");
  if (map.box[0] * bytes % 16 != 0)
    refuse("box[0]", fmt::format("{} bytes", map.box[0] * bytes), "a multiple of 16 bytes");
  if (map.swizzle == Swizzle::b128_atom32) refuse("swizzle", "128-atom32", "none, 32, 64 or 128");
  const int width = info(map.swizzle).width_bytes;
  if (map.swizzle != Swizzle::none && map.box[0] * bytes > width)
    refuse("box[0]", fmt::format("{} bytes", map.box[0] * bytes),
           fmt::format("at most the {} bytes of the swizzle", width));
}

std::array<uint8_t, tensor_map_bytes> encode_tensor_map(const TensorMap& map, uint64_t address) {
  require_tensor_map(map, std::numeric_limits<int64_t>::max());
  if (address % 16 != 0)
    throw Error(
        {.field = "tensor map: address", .seen = fmt::format("{:#x}", address), .expected = "a multiple of 16"});
  return std::bit_cast<std::array<uint8_t, tensor_map_bytes>>(kernel::pack(map, address));
}

namespace kernel {

PackedTensorMap pack(const TensorMap& map, uint64_t address) {
  PackedTensorMap packed{.address = address};
  const size_t rank = map.sizes.size();
  for (size_t i = 0; i < rank; ++i) {
    packed.sizes[i] = static_cast<uint64_t>(map.sizes[i]);
    if (i > 0) packed.strides_bytes[i - 1] = static_cast<uint64_t>(map.strides_bytes[i - 1]);
    packed.box[i] = static_cast<uint16_t>(map.box[i]);
    packed.element_strides[i] = static_cast<uint8_t>(map.element_strides.empty() ? int64_t{1} : map.element_strides[i]);
  }
  packed.rank = static_cast<uint8_t>(rank);
  packed.element_bytes = static_cast<uint8_t>(map.element_bytes);
  packed.swizzle = static_cast<uint8_t>(map.swizzle);
  packed.fills_with_nan = map.fills_with_nan;
  return packed;
}

void require_usable(const PackedTensorMap& packed) {
  const auto require = [](std::string_view field, int value, size_t end) {
    if (static_cast<size_t>(value) >= end)
      throw Error({.field = fmt::format("tensor map: {}", field),
                   .seen = std::to_string(value),
                   .expected = fmt::format("below {}", end)});
  };
  require("rank", packed.rank, 6);
  require("swizzle", packed.swizzle, swizzles.size());
  require("type", packed.type, map_types.size());
  const auto rank = static_cast<std::ptrdiff_t>(packed.rank);
  TensorMap map{.element_bytes = packed.element_bytes,
                .sizes = {packed.sizes.begin(), packed.sizes.begin() + rank},
                .box = {packed.box.begin(), packed.box.begin() + rank},
                .element_strides = {packed.element_strides.begin(), packed.element_strides.begin() + rank},
                .swizzle = static_cast<Swizzle>(packed.swizzle),
                .fills_with_nan = packed.fills_with_nan != 0};
  if (rank > 0) map.strides_bytes = {packed.strides_bytes.begin(), packed.strides_bytes.begin() + rank - 1};
  require_tensor_map(map, std::numeric_limits<int64_t>::max());
}

}  // namespace kernel
}  // namespace bitmma
