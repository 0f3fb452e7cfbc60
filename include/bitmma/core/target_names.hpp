// SPDX-License-Identifier: MIT
// Targets as people name them: by PTX's name in any spelling, by a GPU, by a compute capability, by an architecture.
//
//   sm_90a, SM_90A, sm90a, compute_90a   the PTX name
//   H100, NVIDIA H100 80GB HBM3          the GPU: sm_90a, the name with every feature that the GPU has
//   9.0, (9, 0), 90                      its compute capability, as CUDA and torch.cuda.get_device_capability() say it
//   hopper                               an architecture of a single target; "blackwell" means five, and is refused
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/target.hpp"

namespace bitmma {

/// The GPUs of a target, by the names under which they are sold.
struct GpuNames {
  Target target;
  std::vector<std::string> names;
};

/// Every GPU that has a name here, a row a target, in the order of the targets.
const std::vector<GpuNames>& gpu_names();

/// The PTX names of the targets in the set: "sm_90a", in the order of the targets.
std::vector<std::string> names_of(const TargetSet& set);

/// All targets that `text` can mean: none for an unknown name, several for a name that several GPUs have.
TargetSet targets_meant_by(std::string_view text);

/// The one target that `text` means, or nothing.
std::optional<Target> target_meant_by(std::string_view text);

/// The same. Throws Error, with the nearest names and `field` as what was given, when `text` means none or several.
Target target_from(std::string_view text, std::string_view field = "target");

}  // namespace bitmma
