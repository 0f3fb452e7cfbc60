// A real GPU, through the CUDA driver loaded at run time: the program builds and runs where there is none.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bitmma/instruction/simulate.hpp"

namespace bitmma {

/// Executes cases of one instruction and returns d_regs of each. What a campaign tests; a GPU, or a stand-in in tests.
/// May be called from several threads at once.
using Executor = std::function<std::vector<std::vector<uint32_t>>(const Instruction&, std::span<const Machine>)>;

class Gpu {
 public:
  /// Opens device `ordinal`. Throws Error when there is no driver, no such device, or the driver fails.
  explicit Gpu(int ordinal = 0);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  std::string name() const;            // "NVIDIA H200"
  std::string driver_version() const;  // "580.159.04", or "unknown"
  std::string cuda_version() const;    // "13.0"

  /// Runs every case in one launch and returns the accumulator registers after it. Images may differ in size. Throws
  /// Error when the GPU does not have the instruction, an image is larger than a CTA can have, the driver refuses the
  /// PTX or the launch fails; after a failed launch the Gpu cannot be used any more.
  std::vector<std::vector<uint32_t>> run(const Instruction& instruction, std::span<const Machine> cases);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bitmma
