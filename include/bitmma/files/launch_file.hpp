// SPDX-License-Identifier: MIT
// Files of launches that were recorded on a GPU: PTX, arguments, and memory before and after. docs/recorded_launches.md
// has the layout, `python -m bitmma.record_triton` records them.
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

/// What a parameter got.
struct RecordedArgument {
  std::vector<uint8_t> value = {};      // the bytes of a number
  std::optional<int> memory = {};       // which memory of the launch the parameter pointed to
  int64_t offset_bytes = 0;             // from the start of that memory
  std::optional<TensorMap> map = {};    // the parameter was a tensor map over that memory, from there on
  std::optional<int64_t> scratch = {};  // bytes of zeros, which verify does not compare
};

struct RecordedLaunch {
  std::string entry = {}, label = {};
  int module = 0;  // the tensor ptx.MODULE
  std::array<int64_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  std::optional<std::array<int64_t, 3>> cluster = {};  // as of a Launch
  int64_t dynamic_shared_bytes = 0;
  bool fmad = true;  // as KernelOptions
  std::vector<RecordedArgument> arguments = {};
  int memories = 0;  // the tensors before.LAUNCH.0 and so on
};

struct LaunchFile {
  TensorFile file = {};
  Target target = Target::sm_90a;
  std::vector<RecordedLaunch> launches = {};
};

/// Whether a file has launches, well or badly written.
bool has_launches(const TensorFile& file);

/// Throws Error, with the key or tensor, for what is not as docs/recorded_launches.md says.
LaunchFile as_launch_file(TensorFile file);

/// What running a launch again gave.
struct LaunchComparison {
  int64_t changed_bytes = 0;    // of all its memories, by the GPU
  int64_t differing_bytes = 0;  // between the GPU's and ours
  struct First {
    int memory = 0;
    int64_t offset = 0;
    uint8_t expected = 0, actual = 0;
  };
  std::optional<First> first = {};  // byte that differs
  uint64_t thread_instructions = 0;
  int unsure_fusions = 0;               // products and sums of which no measured row says whether ptxas joins them
  bool order_matters = false;           // see PtxEntry::order_matters
  std::vector<Violation> refused = {};  // why it did not run to its end; nothing was compared
};

/// Runs each launch of the file again, with up to `threads` threads, and compares all memory. `progress` is called with
/// the launches done. Throws Error when the file cannot be read.
std::vector<LaunchComparison> verify(const LaunchFile& file, int threads = 1,
                                     const std::function<void(int64_t)>& progress = {});

}  // namespace bitmma
