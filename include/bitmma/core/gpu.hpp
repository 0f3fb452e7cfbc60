// SPDX-License-Identifier: MIT
// GPUs whose properties were recorded. A target says how a GPU adds; what a library's choice also needs, such as the
// number of multiprocessors, differs between the GPUs of a target.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "bitmma/core/target.hpp"

namespace bitmma {

struct GpuInfo {
  std::string_view name;  // as the driver calls it
  Target target;
  int multiprocessors;
  std::string_view source;
};

// Not recorded: the H100 PCIe, H20 and GH200, and all GPUs of other targets.
inline constexpr auto recorded_gpus = std::to_array<GpuInfo>({
    {.name = "NVIDIA H100 80GB HBM3",
     .target = Target::sm_90a,
     .multiprocessors = 132,
     .source = "data/captures/tiny_llama/graph.json: machine.multiprocessors"},
    {.name = "NVIDIA H200",
     .target = Target::sm_90a,
     .multiprocessors = 132,
     .source = "docs/operators.md: blocks of reduce_kernel"},
});

/// The number of multiprocessors of the recorded GPUs of this target; nothing if none was recorded, or if they differ.
constexpr std::optional<int> multiprocessors_of(Target target) {
  std::optional<int> count;
  for (const GpuInfo& gpu : recorded_gpus) {
    if (info(gpu.target).chip != info(target).chip) continue;
    if (count && *count != gpu.multiprocessors) return std::nullopt;
    count = gpu.multiprocessors;
  }
  return count;
}

}  // namespace bitmma
