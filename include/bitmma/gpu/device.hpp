// A real GPU, through the CUDA driver loaded at run time: the program builds and runs where there is none.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bitmma/instruction/simulate.hpp"
#include "bitmma/instruction/tcgen05_machine.hpp"
#include "bitmma/instruction/tmem_move.hpp"

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

  /// The same for tcgen05.mma: Tensor Memory after each case, as many columns as it had before. All cases share the
  /// instruction with its descriptor and immediates. For moves: Tensor Memory, or the registers of an ld.
  /// Not run for this project: it had no Blackwell GPU.
  std::vector<std::vector<uint32_t>> run(const Instruction& instruction, std::span<const Tcgen05Machine> cases);
  std::vector<std::vector<uint32_t>> run(const TmemMove& move, std::span<const TmemMoveMachine> cases);

 private:
  /// Launches `ptx` with one CTA of kernel_threads for each of `ctas`. The last parameter is a buffer of `result_words`
  /// words, which comes back.
  std::vector<uint32_t> launch(const std::string& ptx, size_t ctas, int64_t image_bytes,
                               std::span<const std::span<const uint8_t>> inputs, size_t result_words);
  void require_target(std::span<const std::string_view> targets, const std::string& name) const;
  std::string own_target() const;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bitmma
