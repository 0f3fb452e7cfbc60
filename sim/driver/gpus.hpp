// SPDX-License-Identifier: MIT
// The GPUs that a program can have, and what they say about themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "bitmma/core/target.hpp"

namespace bitmma::driver {

/// An attribute by its number in CUdevice_attribute.
struct Attribute {
  int id = 0, value = 0;
};

/// A row: its attributes are those that were recorded on an H200, except for `differences`, which are published.
struct Gpu {
  std::string_view name = {};         // of --gpu
  std::string_view device_name = {};  // as the driver calls it
  Target target = Target::sm_90a;
  int64_t memory_bytes = 0;
  std::span<const Attribute> differences = {};
  std::string_view source = {};
};

/// Numbers of attributes that the library itself uses, or that GPUs differ in. Source: CUDA Driver API,
/// CUdevice_attribute.
enum AttributeId : int {
  max_threads_of_block = 1,
  shared_of_block = 8,
  clock_rate = 13,
  multiprocessors = 16,
  memory_clock = 36,
  bus_width = 37,
  l2_bytes = 38,
  threads_of_multiprocessor = 39,
  major_capability = 75,
  minor_capability = 76,
  shared_of_multiprocessor = 81,
  registers_of_multiprocessor = 82,
  shared_of_block_optin = 97,
  blocks_of_multiprocessor = 106,
  persisting_l2_bytes = 108,
  reserved_shared_of_block = 111,
};

std::span<const Gpu> gpus();
/// Nothing for a name that no row has.
const Gpu* gpu_named(std::string_view name);
/// Nothing for a number that CUDA 13.0 does not know.
std::optional<int> attribute(const Gpu& gpu, int id);

}  // namespace bitmma::driver
