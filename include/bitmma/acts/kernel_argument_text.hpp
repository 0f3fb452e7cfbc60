// SPDX-License-Identifier: MIT
// Arguments of kernels as text: x.npy, file.safetensors:x, zeros:f16[2,64], empty:f32[8], f32:0.125, and tensor maps
// over memory, map[64,64/128]:x.npy. Errors name the field `argument`.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/analysis/report.hpp"
#include "bitmma/files/tensor_file.hpp"
#include "bitmma/formats/format.hpp"
#include "bitmma/kernel/kernel.hpp"
#include "bitmma/kernel/tensor_map.hpp"

namespace bitmma {

/// The names of a type in arguments, in safetensors and in vector notation.
struct ArgumentType {
  std::string_view name, dtype;
  std::optional<Format> format;  // only for floating-point types
  int bytes;
  bool is_signed = false;
};
constexpr ArgumentType argument_type(Format format) {
  return {info(format).name, info(format).dtype, format, info(format).bits / 8};
}
inline constexpr auto argument_types = std::to_array<ArgumentType>({
    argument_type(Format::f64),
    argument_type(Format::f32),
    argument_type(Format::f16),
    argument_type(Format::bf16),
    argument_type(Format::e4m3),
    argument_type(Format::e5m2),
    {"s64", "I64", {}, 8, true},
    {"s32", "I32", {}, 4, true},
    {"s16", "I16", {}, 2, true},
    {"s8", "I8", {}, 1, true},
    {"u64", "U64", {}, 8},
    {"u32", "U32", {}, 4},
    {"u16", "U16", {}, 2},
    {"u8", "U8", {}, 1},
});

/// The bytes of a number, or a tensor that the kernel reads and writes.
struct ParsedArgument {
  std::vector<uint8_t> value = {};
  std::optional<Tensor> tensor = {};
  std::vector<uint8_t> memory = {};
  bool is_unwritten = false;
  std::optional<TensorMap> map = {};  // the parameter is a tensor map over the tensor
};

/// Reads an argument. `memory_bytes` is the size of the memory that arguments may still ask for. Throws Error.
ParsedArgument parse_kernel_argument(const std::string& text, int64_t& memory_bytes);

/// "map[64,64/128]:x": the box in the order of the tensor's extents, the swizzle in bytes, and what the map is over.
struct MapText {
  std::string whole = {};
  std::string box = {};
  Swizzle swizzle = Swizzle::none;
  std::string over = {};
};
/// Throws Error for text that begins with "map[" and is no such map.
MapText parse_map(const std::string& text);
/// The map of a tensor with contiguous elements.
TensorMap map_of(const MapText& text, const Tensor& tensor);

/// The file that an argument names, also in a tensor map.
std::vector<std::string> paths_of_argument(const std::string& text);

}  // namespace bitmma
