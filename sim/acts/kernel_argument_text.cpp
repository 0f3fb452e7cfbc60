// SPDX-License-Identifier: MIT
#include "bitmma/acts/kernel_argument_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>

#include "bitmma/core/numbers.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/dataset.hpp"
#include "bitmma/files/vector_file.hpp"
#include "bitmma/formats/round.hpp"

namespace bitmma {
namespace {

const ArgumentType& argument_type_named(std::string_view name) {
  const auto row = std::ranges::find(argument_types, name, &ArgumentType::name);
  if (row != argument_types.end()) return *row;
  throw Error({.code = ViolationCode::unknown_name,
               .field = "argument",
               .seen = shortened(printable(name)),
               .legal = row_names(argument_types),
               .fix = "write a number as f32:0.125, memory as zeros:f16[2,64], data as x.npy"});
}

std::vector<int64_t> shape_of_argument(const std::string& text, const std::string& shape) {
  std::vector<int64_t> extents;
  int64_t elements = 1;
  for (const std::string& part : split_list(shape)) {
    const auto number = parse_whole(part);
    if (!number || *number > uint64_t{1} << 33 ||
        (*number > 0 && elements > (int64_t{1} << 33) / static_cast<int64_t>(*number))) {
      throw Error({.code = ViolationCode::malformed,
                   .field = "argument",
                   .seen = shortened(text),
                   .expected = "extents as in zeros:f16[2,64], of at most 2^33 elements"});
    }
    extents.push_back(static_cast<int64_t>(*number));
    elements *= extents.back();
  }
  return extents;
}

uint64_t number_of_argument(const ArgumentType& type, const std::string& text) {
  const bool is_hex = text.starts_with("0x") || text.starts_with("0X");
  if (is_hex) {
    if (const auto word = parse_integer(text, 8 * type.bytes, false)) return *word;
  } else if (type.format) {
    if (const auto number = parse_decimal(text))
      return convert(Format::f64, std::bit_cast<uint64_t>(*number), *type.format, Rounding::nearest_even,
                     Overflow::infinity);
  } else if (const auto number = parse_integer(text, 8 * type.bytes, type.is_signed)) {
    return *number;
  }
  throw Error({.code = ViolationCode::malformed,
               .field = "argument",
               .seen = shortened(printable(text)),
               .expected = fmt::format("a number of {}, or its bits as 0x...", type.name)});
}

ParsedArgument tensor_argument(Tensor tensor) {
  ParsedArgument argument;
  argument.memory = tensor.bytes.copy();
  argument.tensor = std::move(tensor);
  return argument;
}

/// A file in an argument, and its tensor.
struct ArgumentFile {
  std::string path, tensor;
};

/// Nothing for memory and numbers.
std::optional<ArgumentFile> file_of_argument(const std::string& text) {
  const bool is_dataset = text.starts_with(dataset_prefix);
  const size_t colon = text.find(':', is_dataset ? dataset_prefix.size() : 0);
  const std::string before = text.substr(0, colon), after = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (before == "zeros" || before == "empty") return std::nullopt;
  const bool has_tensors = is_dataset || before.ends_with(".safetensors") || before.ends_with(".npz");
  if (!std::filesystem::exists(text) && !text.ends_with(".npy") && !has_tensors) return std::nullopt;
  const bool names_tensor = has_tensors && !after.empty();
  return ArgumentFile{.path = names_tensor ? before : text, .tensor = names_tensor ? after : ""};
}

}  // namespace

MapText parse_map(const std::string& text) {
  const size_t close = text.find(']');
  const std::string inside = text.substr(4, std::min(close, text.size()) - 4);
  const size_t slash = inside.find('/');
  const auto swizzle = swizzle_named(slash == std::string::npos ? "none" : inside.substr(slash + 1));
  if (close == std::string::npos || text.substr(close + 1, 1) != ":" || !swizzle)
    throw Error({.code = ViolationCode::malformed,
                 .field = "argument",
                 .seen = shortened(printable(text)),
                 .expected = "map[BOX]:MEMORY or map[BOX/SWIZZLE]:MEMORY, such as map[64,64/128]:x.npy"});
  return {.whole = text, .box = inside.substr(0, slash), .swizzle = *swizzle, .over = text.substr(close + 2)};
}

TensorMap map_of(const MapText& text, const Tensor& tensor) {
  TensorMap map{.element_bytes = dtype_bytes(tensor.dtype),
                .sizes = {tensor.shape.rbegin(), tensor.shape.rend()},
                .box = shape_of_argument(text.whole, text.box),
                .swizzle = text.swizzle};
  std::ranges::reverse(map.box);
  int64_t stride = map.element_bytes;
  for (size_t i = 0; i + 1 < map.sizes.size(); ++i) map.strides_bytes.push_back(stride *= map.sizes[i]);
  return map;
}

namespace {

ParsedArgument map_argument(const std::string& text, int64_t& memory_bytes) {
  const MapText map = parse_map(text);
  ParsedArgument argument = parse_kernel_argument(map.over, memory_bytes);
  if (!argument.tensor || argument.map)
    throw Error({.code = ViolationCode::wrong_type,
                 .field = "argument",
                 .seen = shortened(printable(text)),
                 .expected = "a tensor map over memory"});
  argument.map = map_of(map, *argument.tensor);
  return argument;
}

}  // namespace

/// The file that an argument names, also in a tensor map.
std::vector<std::string> paths_of_argument(const std::string& text) {
  const size_t close = text.starts_with("map[") ? text.find("]:") : std::string::npos;
  const auto file = file_of_argument(close == std::string::npos ? text : text.substr(close + 2));
  return file ? std::vector{file->path} : std::vector<std::string>{};
}

/// "x.npy", "file.safetensors:x", "zeros:f16[2,64]", "empty:f32[8]", "f32:0.125", or a tensor map.
ParsedArgument parse_kernel_argument(const std::string& text, int64_t& memory_bytes) {
  if (text.starts_with("map[")) return map_argument(text, memory_bytes);
  const size_t colon = text.find(':');
  const std::string before = text.substr(0, colon), after = colon == std::string::npos ? "" : text.substr(colon + 1);
  const bool zeros = before == "zeros", empty = before == "empty";
  if (zeros || empty) {
    const size_t open = after.find('[');
    if (open == std::string::npos || !after.ends_with(']'))
      throw Error({.code = ViolationCode::malformed,
                   .field = "argument",
                   .seen = shortened(printable(text)),
                   .expected = fmt::format("{}:TYPE[EXTENTS], such as {}:f16[2,64]", before, before)});
    const ArgumentType& type = argument_type_named(after.substr(0, open));
    const std::vector<int64_t> shape = shape_of_argument(text, after.substr(open + 1, after.size() - open - 2));
    int64_t bytes = type.bytes;
    for (const int64_t extent : shape) bytes *= extent;
    if (bytes > memory_bytes)
      throw Error({.code = ViolationCode::too_large,
                   .field = "argument",
                   .seen = fmt::format("{}, {} bytes", shortened(text), bytes),
                   .expected = fmt::format("at most {} bytes, which are left of the limit of memory", memory_bytes),
                   .fix = "raise `memory_bytes`"});
    memory_bytes -= bytes;
    ParsedArgument argument = tensor_argument(
        Tensor::from_bytes("", std::string(type.dtype), shape, std::vector<uint8_t>(static_cast<size_t>(bytes))));
    argument.is_unwritten = empty;
    return argument;
  }
  if (const auto named = file_of_argument(text)) {
    const TensorFile file = read_tensor_file(named->path);
    if (!named->tensor.empty()) {
      if (const Tensor* const tensor = file.find(named->tensor)) return tensor_argument(*tensor);
    } else if (file.tensors.size() == 1) {
      return tensor_argument(file.tensors.front());
    }
    throw Error({.code = ViolationCode::not_found,
                 .field = "tensor",
                 .seen = shortened(named->tensor.empty() ? text : named->tensor),
                 .legal = row_names(file.tensors),
                 .fix = "to select one, use FILE:TENSOR"});
  }
  if (colon == std::string::npos) {
    throw Error({.code = ViolationCode::malformed,
                 .field = "argument",
                 .seen = shortened(printable(text)),
                 .expected = "a file, zeros:TYPE[EXTENTS], empty:TYPE[EXTENTS] or TYPE:NUMBER",
                 .fix = "for example x.npy, zeros:f16[2,64] or f32:0.125"});
  }
  const ArgumentType& type = argument_type_named(before);
  return {.value = scalar_argument(number_of_argument(type, after), type.bytes).value};
}

}  // namespace bitmma
