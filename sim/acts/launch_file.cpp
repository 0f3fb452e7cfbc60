// SPDX-License-Identifier: MIT
#include "bitmma/acts/launch_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <new>

#include "../files/known_names.hpp"
#include "../files/system.hpp"
#include "bitmma/core/target_names.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/kernel/kernel.hpp"
#include "launch_json.hpp"

namespace bitmma {
namespace {

constexpr int64_t most_launch_bytes = int64_t{1} << 40;
constexpr int most_launch_depth = 8;

std::string tensor_name(std::string_view what, size_t launch, int memory) {
  return fmt::format("{}.{}.{}", what, launch, memory);
}

/// Throws Error unless the tensor is a list of bytes.
const Tensor& require_bytes(const Tensor& tensor) {
  if (tensor.dtype == "U8" && tensor.shape.size() == 1) return tensor;
  throw Error({.code = ViolationCode::wrong_type,
               .field = tensor.name,
               .seen = fmt::format("{} {}", tensor.dtype, print_shape(tensor.shape)),
               .expected = "U8 of one extent: bytes"});
}

const Tensor& tensor_of(const TensorFile& file, const std::string& name) {
  if (const Tensor* const tensor = file.find(name)) return require_bytes(*tensor);
  throw Error(
      {.code = ViolationCode::missing_input, .field = name, .seen = "(missing)", .expected = "a tensor of bytes"});
}

std::vector<uint8_t> bytes_of(const JsonReader& reader, const char* key) {
  const std::string text = reader.text(key);
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < text.size(); i += 2) {
    const auto byte = hash_in(std::string_view(text).substr(i, 2), "", 2);
    if (!byte) reader.refuse(key, "bytes in hexadecimal, the lowest first");
    bytes.push_back(static_cast<uint8_t>(*byte));
  }
  return bytes;
}

TensorMap map_of(const JsonReader& reader) {
  reader.require_keys({"element_bytes", "sizes", "strides_bytes", "box", "element_strides", "swizzle", "fill"});
  TensorMap map{.element_bytes = static_cast<int>(reader.number("element_bytes", 8)),
                .sizes = reader.numbers("sizes", 5, most_launch_bytes),
                .strides_bytes = reader.numbers("strides_bytes", 4, most_launch_bytes),
                .box = reader.numbers("box", 5, most_launch_extent),
                .element_strides = reader.numbers("element_strides", 5, most_launch_extent)};
  const auto swizzle = swizzle_named(reader.text("swizzle"));
  if (!swizzle) reader.refuse("swizzle", "none, 32, 64 or 128");
  const std::string fill = reader.text("fill");
  if (fill != "zero" && fill != "nan") reader.refuse("fill", "zero or nan");
  map.swizzle = *swizzle, map.fills_with_nan = fill == "nan";
  return map;
}

RecordedArgument argument_of(const JsonReader& reader, int memories) {
  reader.require_keys({"value", "memory", "offset", "map", "scratch"});
  RecordedArgument argument;
  if (reader.has("value") + reader.has("memory") + reader.has("scratch") != 1)
    reader.refuse("", "one of value, memory and scratch");
  if (reader.has("value")) argument.value = bytes_of(reader, "value");
  if (reader.has("scratch")) argument.scratch = reader.number("scratch", most_launch_bytes);
  if (reader.has("memory")) {
    if (memories == 0)
      reader.refuse("memory", "a tensor before.LAUNCH.0, which the file does not have for this launch");
    argument.memory = static_cast<int>(reader.number("memory", memories - 1));
    if (reader.has("offset")) argument.offset_bytes = reader.number("offset", most_launch_bytes);
    if (reader.has("map")) argument.map = map_of(reader.object("map"));
  } else if (reader.has("offset") || reader.has("map")) {
    reader.refuse(reader.has("map") ? "map" : "offset", "absent: only memory has it");
  }
  return argument;
}

RecordedLaunch launch_of(const JsonReader& reader, int modules, int memories) {
  reader.require_keys(
      {"entry", "label", "ptx", "grid", "block", "cluster", "shared_bytes", "cooperative", "fmad", "arguments"});
  RecordedLaunch launch{.entry = reader.text("entry"),
                        .module = static_cast<int>(reader.number("ptx", modules - 1)),
                        .grid = launch_extents(reader, "grid"),
                        .block = launch_extents(reader, "block"),
                        .memories = memories};
  if (reader.has("label")) launch.label = printable(reader.text("label"));
  if (reader.has("cluster")) launch.cluster = launch_extents(reader, "cluster");
  if (reader.has("shared_bytes")) launch.dynamic_shared_bytes = reader.number("shared_bytes", most_launch_extent);
  if (reader.has("cooperative")) launch.cooperative = reader.flag("cooperative");
  if (reader.has("fmad")) launch.fmad = reader.flag("fmad");
  const std::vector<Json> arguments = reader.list("arguments", most_launch_arguments);
  for (size_t i = 0; i < arguments.size(); ++i) {
    launch.arguments.push_back(argument_of({arguments[i], fmt::format("{}.arguments[{}]", launch.entry, i)}, memories));
  }
  return launch;
}

/// The number of tensors what.LAUNCH.0, what.LAUNCH.1, ... up to the first gap.
int memories_of(const TensorFile& file, size_t launch) {
  int count = 0;
  while (file.find(tensor_name("before", launch, count))) ++count;
  return count;
}

/// Every tensor that the launches name, and no others.
KnownNames names_of(const std::vector<std::string>& tensors) {
  return {.kind = "a file of launches", .keys = {"launches", "target"}, .tensors = {tensors.begin(), tensors.end()}};
}

/// Throws Error for a launch that exceeds the limits, and for one without memory to compare.
void require_within(const LaunchFile& file, size_t index, const LaunchLimits& limits) {
  const RecordedLaunch& launch = file.launches[index];
  const std::string where = fmt::format("launches[{}]", index);
  uint64_t threads = 1;
  for (const std::array<int64_t, 3>& extents : {launch.grid, launch.block}) {
    for (const int64_t extent : extents) {
      if (__builtin_mul_overflow(threads, static_cast<uint64_t>(extent), &threads)) threads = ~uint64_t{0};
    }
  }
  if (threads > limits.instructions)
    throw Error({.code = ViolationCode::too_large,
                 .field = where + ".grid",
                 .seen = fmt::format("{} by blocks of {}: {} threads", fmt::join(launch.grid, ","),
                                     fmt::join(launch.block, ","), threads),
                 .expected = fmt::format("at most {} threads, one instruction of each", limits.instructions),
                 .fix = "`instructions` sets the limit"});
  int64_t compared = 0;
  for (int j = 0; j < launch.memories; ++j)
    compared += static_cast<int64_t>(tensor_of(file.file, tensor_name("before", index, j)).bytes.size());
  int64_t left = limits.memory_bytes - compared;
  for (size_t i = 0; i < launch.arguments.size() && left >= 0; ++i) {
    const int64_t bytes = launch.arguments[i].scratch.value_or(0);
    if (bytes > left)
      throw Error(
          {.code = ViolationCode::too_large,
           .field = fmt::format("{}.arguments[{}].scratch", where, i),
           .seen = fmt::format("{}", bytes),
           .expected = fmt::format("at most {} bytes: {} of the {} for a launch", left, left, limits.memory_bytes),
           .fix = "`memory_bytes` sets the limit"});
    left -= bytes;
  }
  if (left < 0)
    throw Error({.code = ViolationCode::too_large,
                 .field = where,
                 .seen = fmt::format("{} bytes of memory", compared),
                 .expected = fmt::format("at most {}", limits.memory_bytes),
                 .fix = "`memory_bytes` sets the limit"});
  if (compared == 0)
    throw Error({.code = ViolationCode::not_found,
                 .field = fmt::format("tensor {} with a byte to compare", tensor_name("before", index, 0)),
                 .seen = where,
                 .fix = "a launch that compares nothing proves nothing"});
}

LaunchComparison compared(const LaunchFile& file, size_t index, const PtxEntry& kernel, int threads,
                          const LaunchLimits& limits) {
  const RecordedLaunch& recorded = file.launches[index];
  LaunchComparison result{.order_matters = kernel.order_matters()};
  result.unsure_fusions = static_cast<int>(
      std::ranges::count_if(kernel.fusions(), [](const KernelFusion& fusion) { return !fusion.is_sure; }));
  std::vector<std::vector<uint8_t>> before, scratch;
  for (int j = 0; j < recorded.memories; ++j)
    before.push_back(tensor_of(file.file, tensor_name("before", index, j)).bytes.copy());
  std::vector<std::vector<uint8_t>> memory = before;
  Launch call{.grid = recorded.grid,
              .block = recorded.block,
              .cluster = recorded.cluster,
              .dynamic_shared_bytes = recorded.dynamic_shared_bytes,
              .cooperative = recorded.cooperative,
              .threads = threads,
              .most_steps = limits.instructions};
  scratch.reserve(recorded.arguments.size());  // arguments point into it
  for (const RecordedArgument& argument : recorded.arguments) {
    if (argument.scratch) {
      call.arguments.push_back(
          memory_argument(scratch.emplace_back(memory_size(static_cast<uint64_t>(*argument.scratch)))));
    } else if (argument.memory) {
      const std::span<uint8_t> whole = memory[static_cast<size_t>(*argument.memory)];
      const auto offset = static_cast<size_t>(std::min<int64_t>(argument.offset_bytes, std::ssize(whole)));
      call.arguments.push_back(argument.map ? tensor_map_argument(whole.subspan(offset), *argument.map)
                                            : memory_argument(whole, false, argument.offset_bytes));
    } else {
      call.arguments.push_back({.value = argument.value});
    }
  }
  result.thread_instructions = launch(kernel, call).thread_instructions;
  for (int j = 0; j < recorded.memories; ++j) {
    const std::vector<uint8_t>&old = before[static_cast<size_t>(j)], &ours = memory[static_cast<size_t>(j)];
    const Tensor* const tensor = file.file.find(tensor_name("after", index, j));
    const std::vector<uint8_t> after = tensor ? tensor->bytes.copy() : old;
    result.compared_bytes += std::ssize(after);
    for (size_t at = 0; at < after.size(); ++at) {
      result.changed_bytes += old[at] != after[at];
      if (after[at] == ours[at]) continue;
      ++result.differing_bytes;
      if (!result.first)
        result.first = {.memory = j, .offset = static_cast<int64_t>(at), .expected = after[at], .actual = ours[at]};
    }
  }
  return result;
}

}  // namespace

bool has_launches(const TensorFile& file) { return file.find_metadata("launches") != nullptr; }

LaunchFile as_launch_file(TensorFile file) {
  return naming(file.path, [&] {
    LaunchFile read;
    const std::string* const text = file.find_metadata("launches");
    const std::string* const target = file.find_metadata("target");
    if (!text || !target)
      throw Error({.code = ViolationCode::missing_input,
                   .field = text ? "target" : "launches",
                   .seen = "(missing)",
                   .expected = text ? "the name of a GPU, such as sm_90a or H100" : "a list of launches"});
    read.target = target_from(*target);
    std::vector<std::string> tensors;
    int modules = 0;
    while (file.find(fmt::format("ptx.{}", modules))) {
      tensors.push_back(fmt::format("ptx.{}", modules));
      require_bytes(*file.find(tensors.back()));
      ++modules;
    }
    if (modules == 0) tensor_of(file, "ptx.0");
    Json all = Json::object();
    all["launches"] = parse_json(*text, most_launch_depth);
    if (!all["launches"].is_array())
      throw Error({.code = ViolationCode::malformed,
                   .field = "launches",
                   .seen = shortened(printable(*text)),
                   .expected = "JSON, a list of launches"});
    const std::vector<Json> launches = JsonReader(all, "file").list("launches", most_launches);
    for (size_t i = 0; i < launches.size(); ++i) {
      const int memories = memories_of(file, i);
      read.launches.push_back(launch_of({launches[i], fmt::format("launches[{}]", i)}, modules, memories));
      for (int j = 0; j < memories; ++j) {
        tensors.push_back(tensor_name("before", i, j));
        const Tensor& before = tensor_of(file, tensors.back());
        const Tensor* const after = file.find(tensor_name("after", i, j));
        if (!after) continue;  // unchanged
        tensors.push_back(after->name);
        if (require_bytes(*after).shape != before.shape)
          throw Error({.code = ViolationCode::wrong_shape,
                       .field = after->name,
                       .seen = print_shape(after->shape),
                       .expected = fmt::format("{}, as {} has", print_shape(before.shape), before.name)});
      }
    }
    require_known_names(file, names_of(tensors));
    read.file = std::move(file);
    return read;
  });
}

std::vector<LaunchComparison> verify(const LaunchFile& file, int threads, const std::function<void(int64_t)>& progress,
                                     const LaunchLimits& limits) {
  std::vector<LaunchComparison> results;
  std::map<std::tuple<int, std::string, bool>, PtxEntry> kernels;  // each decoded once
  for (size_t i = 0; i < file.launches.size(); ++i) {
    const RecordedLaunch& launch = file.launches[i];
    try {
      require_within(file, i, limits);
      const std::tuple name(launch.module, launch.entry, launch.fmad);
      auto kernel = kernels.find(name);
      if (kernel == kernels.end()) {
        const std::vector<uint8_t> text = tensor_of(file.file, fmt::format("ptx.{}", launch.module)).bytes.copy();
        kernel = kernels
                     .emplace(name, PtxEntry({reinterpret_cast<const char*>(text.data()), text.size()},
                                             {.entry = launch.entry, .target = file.target, .fmad = launch.fmad}))
                     .first;
      }
      results.push_back(compared(file, i, kernel->second, threads, limits));
    } catch (const Error& error) {
      results.push_back({.refused = error.violations()});
    } catch (const std::bad_alloc&) {
      results.push_back({.refused = {{.code = ViolationCode::out_of_memory,
                                      .field = fmt::format("launches[{}]", i),
                                      .seen = "more memory than this process can have",
                                      .expected = "a launch that fits, or a lower `memory_bytes`"}}});
    }
    if (progress) progress(static_cast<int64_t>(i) + 1);
  }
  return results;
}

}  // namespace bitmma
