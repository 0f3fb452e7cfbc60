// SPDX-License-Identifier: MIT
// A real GPU through the CUDA driver, which is loaded at run time: the program also builds and runs without a GPU.
//
//   Gpu gpu;
//   std::vector<State> after = gpu.run(instruction, Target::sm_90a, cases);    the written buffers, case by case
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

/// Runs cases of one instruction and returns the states after it, with at least the buffers that it writes. Either a
/// GPU, or a stand-in in tests. May be called from several threads at once.
using Executor = std::function<std::vector<State>(const Instruction&, Target, std::span<const State>)>;

struct WordFunction;  // word_campaign.hpp
struct WordArguments;

class Gpu {
 public:
  /// Opens device `ordinal`. Throws Error if there is no driver or no such device, or if the driver fails.
  explicit Gpu(int ordinal = 0);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  std::string name() const;            // "NVIDIA H200"
  std::string driver_version() const;  // "580.159.04", or "unknown"
  std::string cuda_version() const;    // "13.0"
  int capability() const;              // 90 for sm_90a

  /// Runs every case in one launch and returns what the instruction wrote: the accumulator, Tensor Memory with as many
  /// columns as the case had, or the registers of an ld. Images may differ in size. Throws Error if the instruction is
  /// illegal on the target, the GPU has another target, a state lacks what the instruction needs, an image is too large
  /// for a CTA, the driver rejects the PTX, or the launch fails. After a failed launch the Gpu is unusable. No
  /// Blackwell GPU has run tcgen05 for this project.
  std::vector<State> run(const Instruction& instruction, Target target, std::span<const State> cases) const;

  /// Runs a word function in one launch and returns its results. Throws Error as above.
  std::vector<uint32_t> run(const WordFunction& function, const WordArguments& arguments) const;

  /// run() as a function object; the Gpu must outlive it.
  Executor executor() const;

  /// Closes the GPU; nothing can run afterwards. Returns failures of the driver to free memory, modules, streams or the
  /// context, one warning for each driver function: no result depends on them.
  std::vector<Violation> close();

 private:
  struct Device;
  /// Launches the kernel and returns its output; `what` names it in messages.
  std::vector<uint8_t> launch(const Kernel& kernel, const std::vector<std::vector<uint8_t>>& inputs, size_t cases,
                              std::string_view what) const;
  std::unique_ptr<Device> device_;
};

/// The target of a GPU: sm_90a for capability 90. Nothing for a GPU that this version does not know.
std::optional<Target> target_of(const Gpu& gpu);

/// The provenance of results for files: driver, cuda and date.
std::vector<std::pair<std::string, std::string>> provenance_of(const Gpu& gpu);

}  // namespace bitmma
