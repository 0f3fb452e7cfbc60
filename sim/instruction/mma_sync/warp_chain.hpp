// SPDX-License-Identifier: MIT
// One mma.sync whose outputs are chains of IEEE operations (arithmetic/fma.hpp), from the registers of a warp to those
// of D: f64, and m8n8k4 of f16 on targets without a tensor core for it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bitmma/arithmetic/accumulator_model.hpp"
#include "bitmma/instruction/instruction.hpp"
#include "bitmma/instruction/prepared.hpp"
#include "warp_registers.hpp"

namespace bitmma::family {

class WarpChain {
 public:
  /// nullopt if the model adds otherwise.
  static std::optional<WarpChain> of(const MmaSync& instruction, const AccumulatorModel& model);

  /// D may be the memory of C. Returns false, and writes nothing, if the product needs another way: an f64 of D is NaN,
  /// or the processor does not fuse multiply-adds.
  bool execute(const WarpRegisters& registers, uint32_t* d) const;

 private:
  WarpChain(const MmaSync& instruction, const AccumulatorModel& model);
  bool multiply_f64(const WarpRegisters& registers, uint32_t* d) const;
  bool multiply_f16(const WarpRegisters& registers, uint32_t* d) const;

  int rows_, terms_;
  Rounding rounding_;
  bool is_f64_, c_is_f16_, d_is_f16_;
  std::vector<uint16_t> selected_k_;
  ElementRegisters a_, b_, c_, d_;
};

}  // namespace bitmma::family
