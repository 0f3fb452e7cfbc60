// SPDX-License-Identifier: MIT
// The GPUs that a program under `bitmma exec` can have.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "bitmma/core/target.hpp"

namespace bitmma::driver {

struct Gpu {
  std::string_view name = {};         // as `bitmma exec --gpu` takes it
  std::string_view device_name = {};  // as the driver calls it
  Target target = Target::sm_90a;
  int64_t memory_bytes = 0;
};

// Attributes were recorded on an H200; what is published of the others differs from them (sim/driver/attributes.cpp).
inline constexpr auto gpus = std::to_array<Gpu>({
    {.name = "H100",
     .device_name = "NVIDIA H100 80GB HBM3",
     .target = Target::sm_90a,
     .memory_bytes = int64_t{80} << 30},
    {.name = "H200", .device_name = "NVIDIA H200", .target = Target::sm_90a, .memory_bytes = 150109880320},
    {.name = "B200", .device_name = "NVIDIA B200", .target = Target::sm_100a, .memory_bytes = int64_t{180} << 30},
    {.name = "B300", .device_name = "NVIDIA B300", .target = Target::sm_103a, .memory_bytes = int64_t{270} << 30},
    {.name = "RTX 5090",
     .device_name = "NVIDIA GeForce RTX 5090",
     .target = Target::sm_120a,
     .memory_bytes = int64_t{32} << 30},
});

/// nullptr for a name that no GPU has.
constexpr const Gpu* gpu_named(std::string_view name) {
  for (const Gpu& gpu : gpus) {
    if (gpu.name == name) return &gpu;
  }
  return nullptr;
}

}  // namespace bitmma::driver
