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

// Of other GPUs no attributes have been recorded.
inline constexpr auto gpus = std::to_array<Gpu>({
    {.name = "H100",
     .device_name = "NVIDIA H100 80GB HBM3",
     .target = Target::sm_90a,
     .memory_bytes = int64_t{80} << 30},
    {.name = "H200", .device_name = "NVIDIA H200", .target = Target::sm_90a, .memory_bytes = 150109880320},
});

/// nullptr for a name that no GPU has.
constexpr const Gpu* gpu_named(std::string_view name) {
  for (const Gpu& gpu : gpus) {
    if (gpu.name == name) return &gpu;
  }
  return nullptr;
}

}  // namespace bitmma::driver
