// SPDX-License-Identifier: MIT
// Files of kernel launches that were recorded on a GPU: PTX, arguments, and memory before and after. See
// docs/run_your_kernel.md for the layout; `python -m bitmma.record_triton` records them.
//
//   const LaunchFile file = as_launch_file(read_tensor_file("launches.safetensors"));
//   for (const LaunchComparison& one : verify(file, 8)) ... one.differing_bytes
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/core/target.hpp"
#include "bitmma/files/tensor_file.hpp"
#include "bitmma/kernel/tensor_map.hpp"

namespace bitmma {

/// The value of a parameter.
struct RecordedArgument {
  std::vector<uint8_t> value = {};      // the bytes of a number
  std::optional<int> memory = {};       // index of the launch's memory to which the parameter pointed
  int64_t offset_bytes = 0;             // from the start of that memory
  std::optional<TensorMap> map = {};    // the parameter was a tensor map over that memory, from the offset on
  std::optional<int64_t> scratch = {};  // size of a zeroed scratch buffer, which verify does not compare
};

struct [[nodiscard]] RecordedLaunch {
  std::string entry = {}, label = {};
  int module = 0;  // index of the tensor ptx.MODULE
  std::array<int64_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  std::optional<std::array<int64_t, 3>> cluster = {};  // as in Launch
  int64_t dynamic_shared_bytes = 0;
  bool cooperative = false;  // as in Launch
  bool fmad = true;          // as in KernelOptions
  std::vector<RecordedArgument> arguments = {};
  int memories = 0;  // number of tensors before.LAUNCH.0 and so on
};

struct [[nodiscard]] LaunchFile {
  TensorFile file = {};
  Target target = Target::sm_90a;
  std::vector<RecordedLaunch> launches = {};
};

/// True if the file has launches, even malformed ones.
bool has_launches(const TensorFile& file);

/// Throws Error, which names the key or tensor, for anything that docs/run_your_kernel.md does not allow.
LaunchFile as_launch_file(TensorFile file);

/// Bounds for launches of files that others wrote. What exceeds them is refused before it is allocated or run.
struct LaunchLimits {
  int64_t memory_bytes = int64_t{4} << 30;    // all memory of a launch, scratch included
  uint64_t instructions = uint64_t{1} << 32;  // of a warp; also the most threads of a grid

  static constexpr int64_t most_memory_bytes = int64_t{1} << 46;
};

/// The result of running a launch again.
struct [[nodiscard]] LaunchComparison {
  int64_t compared_bytes = 0;   // in all its memories; at least 1 unless it was refused
  int64_t changed_bytes = 0;    // in all its memories, changed by the GPU
  int64_t differing_bytes = 0;  // that differ between the GPU and bitmma
  struct First {
    int memory = 0;
    int64_t offset = 0;
    uint8_t expected = 0, actual = 0;
  };
  std::optional<First> first = {};  // the first byte that differs
  uint64_t thread_instructions = 0;
  int unsure_fusions = 0;               // pairs of product and sum for which no measured row decides if ptxas joins
  bool order_matters = false;           // see PtxEntry::order_matters
  std::vector<Violation> refused = {};  // why the launch did not run to its end; nothing was compared then
};

/// Runs each launch of the file again, on up to `threads` threads, and compares all memory. A launch that cannot be
/// run, that exceeds the limits or that has no memory to compare is refused; the others are run. Calls `progress` with
/// the number of finished launches.
std::vector<LaunchComparison> verify(const LaunchFile& file, int threads = 1,
                                     const std::function<void(int64_t)>& progress = {},
                                     const LaunchLimits& limits = {});

}  // namespace bitmma
