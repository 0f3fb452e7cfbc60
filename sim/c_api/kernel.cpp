// SPDX-License-Identifier: MIT
#include "bitmma/kernel/kernel.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "bitmma/kernel/memory.hpp"
#include "c_api.hpp"

using namespace bitmma;
using namespace bitmma::c_api;

struct bitmma_kernel {
  PtxEntry value;
};
struct bitmma_module {
  PtxModule value;
};
struct bitmma_memory {
  Memory value;
};

namespace {

TensorMap tensor_map_of(const bitmma_tensor_map& from) {
  if (from.rank < 1 || from.rank > 5)
    throw Error({.field = "map.rank", .seen = std::to_string(from.rank), .expected = "1 to 5"});
  const auto rank = static_cast<size_t>(from.rank);
  const auto swizzle = std::ranges::find_if(swizzles, [&](const SwizzleInfo& swizzle_info) {
    return swizzle_info.id != Swizzle::b128_atom32 &&
           (swizzle_info.bits == 0 ? 0 : swizzle_info.width_bytes) == from.swizzle_bytes;
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

std::string print_lines(const std::vector<Violation>& violations) {
  std::vector<std::string> lines;
  for (const Violation& violation : violations) lines.push_back(print(violation));
  return fmt::format("{}", fmt::join(lines, "\n"));
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

KernelOptions options_of(const bitmma_kernel_options* options) {
  KernelOptions wanted;
  if (!options) return wanted;
  if (options->entry) wanted.entry = options->entry;
  if (options->target) wanted.target = target_of(options->target, wanted.target.value_or(Target::sm_90a));
  if (options->sass) wanted.sass = options->sass;
  wanted.fmad = options->no_fmad == 0;
  return wanted;
}

RaceCheck race_check_of(bitmma_races races) {
  switch (races) {
    case BITMMA_RACES_ARE_FAULTS: return RaceCheck::fault;
    case BITMMA_RACES_ARE_WARNINGS: return RaceCheck::warning;
    case BITMMA_RACES_OFF: return RaceCheck::off;
    default: break;
  }
  throw Error({.field = "launch.races", .seen = std::to_string(races), .expected = "0 to 2"});
}

/// The bytes of an argument that names memory of the caller.
template <typename Byte, typename Pointer>
std::span<Byte> bytes_given(Pointer* data, int64_t bytes) {
  if (bytes < 0) throw Error({.field = "bytes", .seen = std::to_string(bytes), .expected = "0 or more"});
  if (bytes > 0 && !data) refuse_null("data");
  return {static_cast<Byte*>(data), static_cast<size_t>(bytes)};
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
    bitmma_kernel*& to = pointee(kernel, "kernel");
    to = new bitmma_kernel{PtxEntry(text_given(ptx, "ptx"), options_of(options))};
  });
}

bitmma_status bitmma_kernel_of_module(const bitmma_module* module, const bitmma_kernel_options* options,
                                      bitmma_kernel** kernel) {
  return guarded([&] {
    bitmma_kernel*& to = pointee(kernel, "kernel");
    to = new bitmma_kernel{PtxEntry(pointee(module, "module").value, options_of(options))};
  });
}

bitmma_status bitmma_module_create(const char* ptx, bitmma_module** module) {
  return guarded([&] {
    bitmma_module*& to = pointee(module, "module");
    to = new bitmma_module{PtxModule(text_given(ptx, "ptx"))};
  });
}

void bitmma_module_destroy(bitmma_module* module) { delete module; }

const char* bitmma_module_entry(const bitmma_module* module, size_t index) {
  if (!module || index >= module->value.entries().size()) return nullptr;
  return module->value.entries()[index].name.c_str();
}

void bitmma_kernel_destroy(bitmma_kernel* kernel) { delete kernel; }

size_t bitmma_kernel_parameter_count(const bitmma_kernel* kernel) {
  return kernel ? kernel->value.parameters().size() : 0;
}

size_t bitmma_kernel_parameter_bytes(const bitmma_kernel* kernel, size_t index) {
  if (!kernel || index >= kernel->value.parameters().size()) return 0;
  return static_cast<size_t>(kernel->value.parameters()[index].bytes);
}

size_t bitmma_kernel_parameter_offset(const bitmma_kernel* kernel, size_t index) {
  if (!kernel || index >= kernel->value.parameters().size()) return 0;
  return static_cast<size_t>(kernel->value.parameters()[index].offset);
}

size_t bitmma_kernel_all_parameter_bytes(const bitmma_kernel* kernel) {
  return kernel ? static_cast<size_t>(kernel->value.info().parameter_bytes()) : 0;
}

int64_t bitmma_kernel_shared_bytes(const bitmma_kernel* kernel) { return kernel ? kernel->value.shared_bytes() : 0; }

bitmma_status bitmma_kernel_warnings(const bitmma_kernel* kernel, char* text, size_t size, size_t* length) {
  return guarded(
      [&] { write_text(print_lines(kernel_warnings(pointee(kernel, "kernel").value)), text, size, length); });
}

bitmma_status bitmma_kernel_launch(const bitmma_kernel* kernel, const bitmma_launch* launch,
                                   uint64_t* thread_instructions) {
  return guarded([&] {
    const PtxEntry& entry = pointee(kernel, "kernel").value;
    const bitmma_launch& from = pointee(launch, "launch");
    if (from.argument_count > 0 && !from.arguments) refuse_null("launch.arguments");
    Launch call{.grid = extents_of(from.grid),
                .block = extents_of(from.block),
                .dynamic_shared_bytes = from.dynamic_shared_bytes,
                .cooperative = from.cooperative != 0,
                .threads = threads_of(from.threads),
                .checks = from.no_checks == 0,
                .races = race_check_of(from.races)};
    if (from.memory) call.memory = &from.memory->value;
    if (std::ranges::any_of(from.cluster, [](int64_t extent) { return extent != 0; }))
      call.cluster = extents_of(from.cluster);
    if (from.parameters) {
      const auto* const bytes = static_cast<const uint8_t*>(from.parameters);
      call.parameter_bytes = {bytes, bytes + from.parameter_bytes};
    } else if (from.parameter_bytes > 0) {
      refuse_null("launch.parameters");
    }
    if (!from.parameters && from.argument_count != entry.parameters().size())
      throw Error({.code = ViolationCode::wrong_shape,
                   .field = "launch.argument_count",
                   .seen = std::to_string(from.argument_count),
                   .expected = std::to_string(entry.parameters().size())});
    if (from.parameters && from.argument_count > 0)
      throw Error({.code = ViolationCode::not_together, .field = "launch.arguments", .seen = "launch.parameters"});
    for (size_t i = 0; i < from.argument_count; ++i)
      call.arguments.push_back(argument_of(from.arguments[i], i, entry.parameters()[i].bytes));
    if (!from.warnings && from.warnings_size > 0) refuse_null("launch.warnings");
    const LaunchReport done = bitmma::launch(entry, call);
    write_text(print_lines(done.warnings), from.warnings, from.warnings_size, from.warnings_length);
    if (thread_instructions) *thread_instructions = done.thread_instructions;
  });
}

bitmma_status bitmma_memory_create(bitmma_memory** memory) {
  return guarded([&] {
    bitmma_memory*& to = pointee(memory, "memory");
    to = new bitmma_memory;
  });
}

void bitmma_memory_destroy(bitmma_memory* memory) { delete memory; }

bitmma_status bitmma_memory_allocate(bitmma_memory* memory, int64_t bytes, uint64_t* address) {
  return guarded([&] {
    uint64_t& to = pointee(address, "address");
    to = pointee(memory, "memory").value.allocate(bytes);
  });
}

bitmma_status bitmma_memory_allocate_at(bitmma_memory* memory, uint64_t address, int64_t bytes) {
  return guarded([&] { pointee(memory, "memory").value.allocate_at(address, bytes); });
}

bitmma_status bitmma_memory_map(bitmma_memory* memory, uint64_t address, void* data, int64_t bytes, int is_unwritten) {
  return guarded(
      [&] { pointee(memory, "memory").value.map(address, bytes_given<uint8_t>(data, bytes), is_unwritten == 0); });
}

bitmma_status bitmma_memory_free(bitmma_memory* memory, uint64_t address) {
  return guarded([&] { pointee(memory, "memory").value.free(address); });
}

bitmma_status bitmma_memory_write(bitmma_memory* memory, uint64_t address, const void* data, int64_t bytes) {
  return guarded([&] { pointee(memory, "memory").value.write(address, bytes_given<const uint8_t>(data, bytes)); });
}

bitmma_status bitmma_memory_read(const bitmma_memory* memory, uint64_t address, void* data, int64_t bytes) {
  return guarded([&] { pointee(memory, "memory").value.read(address, bytes_given<uint8_t>(data, bytes)); });
}

bitmma_status bitmma_memory_variable(bitmma_memory* memory, const bitmma_module* module, const char* name,
                                     uint64_t* address, int64_t* bytes, void** data) {
  return guarded([&] {
    const Allocation variable =
        pointee(memory, "memory").value.variable(pointee(module, "module").value, text_given(name, "name"));
    if (address) *address = variable.address;
    if (bytes) *bytes = variable.bytes;
    if (data) *data = variable.data.data();
  });
}

bitmma_status bitmma_tensor_map_encode(const bitmma_tensor_map* map, uint64_t address, uint8_t encoded[128]) {
  return guarded([&] {
    uint8_t& to = pointee(encoded, "encoded");
    const auto bytes = encode_tensor_map(tensor_map_of(pointee(map, "map")), address);
    std::ranges::copy(bytes, &to);
  });
}

}  // extern "C"
