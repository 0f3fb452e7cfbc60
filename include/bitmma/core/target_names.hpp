// SPDX-License-Identifier: MIT
// Names for targets: PTX's name in any spelling, a GPU, a compute capability, or an architecture.
//
//   sm_90a, SM_90A, sm90a, compute_90a   the PTX name
//   H100, NVIDIA H100 80GB HBM3          the GPU: sm_90a, the name with every feature that the GPU has
//   9.0, (9, 0), 90                      its compute capability, as in CUDA and torch.cuda.get_device_capability()
//   hopper                               an architecture with one target; "blackwell" has five, and is refused
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/target.hpp"

namespace bitmma {

/// The GPUs of a target by their product names.
struct GpuNames {
  Target target;
  std::vector<std::string> names;
};

/// Every named GPU, one row per target, in the order of the targets.
const std::vector<GpuNames>& gpu_names();

/// The PTX names of the targets in the set: "sm_90a", in the order of the targets.
std::vector<std::string> names_of(const TargetSet& set);

/// All targets that `text` can mean: none for an unknown name, several for an ambiguous one.
TargetSet targets_meant_by(std::string_view text);

/// The target that `text` means, or nothing if it is unknown or ambiguous.
std::optional<Target> target_meant_by(std::string_view text);

/// The same, but throws Error if `text` is unknown or ambiguous; the error names `field` and the nearest names.
Target target_from(std::string_view text, std::string_view field = "target");

}  // namespace bitmma
