// SPDX-License-Identifier: MIT
#include "bitmma/kernel/kernel.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "c_api.hpp"

using namespace bitmma;
using namespace bitmma::c_api;

struct bitmma_kernel {
  PtxEntry value;
};

namespace {

TensorMap tensor_map_of(const bitmma_tensor_map& from) {
  if (from.rank < 1 || from.rank > 5)
    throw Error({.field = "map.rank", .seen = std::to_string(from.rank), .expected = "1 to 5"});
  const auto rank = static_cast<size_t>(from.rank);
  const auto swizzle = std::ranges::find_if(swizzles, [&](const SwizzleInfo& one) {
    return one.id != Swizzle::b128_atom32 && (one.bits == 0 ? 0 : one.width_bytes) == from.swizzle_bytes;
  });
  if (swizzle == swizzles.end())
    throw Error(
        {.field = "map.swizzle_bytes", .seen = std::to_string(from.swizzle_bytes), .expected = "0, 32, 64 or 128"});
  TensorMap map{.element_bytes = from.element_bytes,
                .sizes = {from.sizes, from.sizes + rank},
                .strides_bytes = {from.strides_bytes, from.strides_bytes + rank - 1},
                .box = {from.box, from.box + rank},
                .element_strides = {from.element_strides, from.element_strides + rank},
                .swizzle = swizzle->id,
                .fills_with_nan = from.fills_with_nan != 0};
  std::ranges::replace(map.element_strides, 0, 1);
  return map;
}

KernelArgument argument_of(const bitmma_kernel_argument& from, size_t index, int64_t bytes) {
  const auto refuse_what_has_no_effect = [&](bool is_given, std::string_view member, std::string fix) {
    if (!is_given) return;
    throw Error({.code = ViolationCode::no_effect,
                 .field = fmt::format("launch.arguments[{}].{}", index, member),
                 .seen = "given",
                 .expected = "0",
                 .fix = std::move(fix)});
  };
  if (from.value) {
    refuse_what_has_no_effect(from.memory || from.map || from.memory_bytes != 0 || from.offset_bytes != 0, "memory",
                              "a value has no memory");
    refuse_what_has_no_effect(from.is_unwritten != 0, "is_unwritten", "a value has no memory");
    const auto* const value = static_cast<const uint8_t*>(from.value);
    return {.value = {value, value + bytes}};
  }
  refuse_what_has_no_effect(from.map && from.offset_bytes != 0, "offset_bytes", "a tensor map has its own sizes");
  refuse_what_has_no_effect(from.map && from.is_unwritten != 0, "is_unwritten", "memory of a tensor map is written");
  if (from.memory_bytes < 0)
    throw Error({.field = fmt::format("launch.arguments[{}].memory_bytes", index),
                 .seen = std::to_string(from.memory_bytes),
                 .expected = "0 or more"});
  if (from.memory_bytes > 0 && !from.memory) refuse_null(fmt::format("launch.arguments[{}].memory", index));
  const std::span memory(static_cast<uint8_t*>(from.memory), static_cast<size_t>(from.memory_bytes));
  if (!from.map) return memory_argument(memory, from.is_unwritten != 0, from.offset_bytes);
  return tensor_map_argument(memory, tensor_map_of(*from.map));
}

/// Extents, in which 0 means 1.
std::array<int64_t, 3> extents_of(const int64_t* from) {
  std::array<int64_t, 3> extents{from[0], from[1], from[2]};
  std::ranges::replace(extents, 0, 1);
  return extents;
}

}  // namespace

extern "C" {

bitmma_status bitmma_kernel_create(const char* ptx, const bitmma_kernel_options* options, bitmma_kernel** kernel) {
  return guarded([&] {
    bitmma_kernel*& to = given(kernel, "kernel");
    KernelOptions wanted;
    if (options) {
      if (options->entry) wanted.entry = options->entry;
      if (options->target) wanted.target = target_of(options->target, wanted.target.value_or(Target::sm_90a));
      if (options->sass) wanted.sass = options->sass;
      wanted.fmad = options->no_fmad == 0;
    }
    to = new bitmma_kernel{PtxEntry(text_given(ptx, "ptx"), wanted)};
  });
}

void bitmma_kernel_destroy(bitmma_kernel* kernel) { delete kernel; }

size_t bitmma_kernel_parameter_count(const bitmma_kernel* kernel) {
  return kernel ? kernel->value.parameters().size() : 0;
}

size_t bitmma_kernel_parameter_bytes(const bitmma_kernel* kernel, size_t index) {
  if (!kernel || index >= kernel->value.parameters().size()) return 0;
  return static_cast<size_t>(kernel->value.parameters()[index].bytes);
}

int64_t bitmma_kernel_shared_bytes(const bitmma_kernel* kernel) { return kernel ? kernel->value.shared_bytes() : 0; }

bitmma_status bitmma_kernel_warnings(const bitmma_kernel* kernel, char* text, size_t size, size_t* length) {
  return guarded([&] {
    std::vector<std::string> lines;
    for (const Violation& one : kernel_warnings(given(kernel, "kernel").value)) lines.push_back(print(one));
    write_text(fmt::format("{}", fmt::join(lines, "\n")), text, size, length);
  });
}

bitmma_status bitmma_kernel_launch(const bitmma_kernel* kernel, const bitmma_launch* launch,
                                   uint64_t* thread_instructions) {
  return guarded([&] {
    const PtxEntry& entry = given(kernel, "kernel").value;
    const bitmma_launch& from = given(launch, "launch");
    if (from.argument_count > 0 && !from.arguments) refuse_null("launch.arguments");
    Launch call{.grid = extents_of(from.grid),
                .block = extents_of(from.block),
                .dynamic_shared_bytes = from.dynamic_shared_bytes,
                .threads = threads_of(from.threads),
                .checks = from.no_checks == 0};
    if (std::ranges::any_of(from.cluster, [](int64_t one) { return one != 0; }))
      call.cluster = extents_of(from.cluster);
    if (from.argument_count != entry.parameters().size())
      throw Error({.field = "launch.argument_count",
                   .seen = std::to_string(from.argument_count),
                   .expected = std::to_string(entry.parameters().size())});
    for (size_t i = 0; i < from.argument_count; ++i)
      call.arguments.push_back(argument_of(from.arguments[i], i, entry.parameters()[i].bytes));
    const LaunchReport done = bitmma::launch(entry, call);
    if (thread_instructions) *thread_instructions = done.thread_instructions;
  });
}

}  // extern "C"
