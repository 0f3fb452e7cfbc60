// SPDX-License-Identifier: MIT
// What a GPU says about itself.
#pragma once

#include <optional>

#include "bitmma/driver/gpus.hpp"

namespace bitmma::driver {

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

/// The attribute with this number; nothing for a number that CUDA 13.0 does not know.
std::optional<int> attribute(const Gpu& gpu, int id);

}  // namespace bitmma::driver
