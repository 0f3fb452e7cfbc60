// SPDX-License-Identifier: MIT
// A real GPU, through the CUDA driver loaded at run time: the program also builds and runs without a GPU.
//
//   Gpu gpu;
//   std::vector<State> after = gpu.run(instruction, Target::sm_90a, cases);    what the instruction wrote, case by case
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/hardware/ptx_kernel.hpp"

namespace bitmma {

/// Executes cases of one instruction and returns the states after it, at least the buffers that it writes.
/// A GPU, or a stand-in in tests. May be called from several threads at once.
using Executor = std::function<std::vector<State>(const Instruction&, Target, std::span<const State>)>;

struct WordFunction;  // word_campaign.hpp
struct WordArguments;

class Gpu {
 public:
  /// Opens device `ordinal`. Throws Error if there is no driver, no such device, or the driver fails.
  explicit Gpu(int ordinal = 0);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  std::string name() const;            // "NVIDIA H200"
  std::string driver_version() const;  // "580.159.04", or "unknown"
  std::string cuda_version() const;    // "13.0"
  int capability() const;              // 90 of sm_90a

  /// Runs every case in one launch and returns what the instruction wrote: the accumulator, Tensor Memory with as many
  /// columns as the case had, or the registers of an ld. Images may differ in size. Throws Error when the instruction
  /// is illegal on the target, the GPU is not of the target, a state lacks what the instruction needs, an image is
  /// larger than a CTA can have, the driver refuses the PTX or the launch fails; after a failed launch the Gpu cannot
  /// be used any more. No Blackwell GPU has run tcgen05 for this project.
  std::vector<State> run(const Instruction& instruction, Target target, std::span<const State> cases) const;

  /// Results of a function of words, in one launch. Throws Error as above.
  std::vector<uint32_t> run(const WordFunction& function, const WordArguments& arguments) const;

  /// Cases as a function; the Gpu must outlive it.
  Executor executor() const;

  /// Closes the GPU; nothing can be run any more. Returns what the driver refused to free since it was opened
  /// (memory, modules, streams, its context), once for each call, as warnings: no result depends on it.
  std::vector<Violation> close();

 private:
  struct Device;
  /// The output of a launch of the kernel; messages say `what` it is of.
  std::vector<uint8_t> launch(const Kernel& kernel, const std::vector<std::vector<uint8_t>>& inputs, size_t cases,
                              std::string_view what) const;
  std::unique_ptr<Device> device_;
};

/// The target of a GPU: sm_90a for capability 90. Nothing for a GPU that this version does not know.
std::optional<Target> target_of(const Gpu& gpu);

/// The origin of results in files: driver, cuda and date.
std::vector<std::pair<std::string, std::string>> provenance_of(const Gpu& gpu);

}  // namespace bitmma
