// SPDX-License-Identifier: MIT
// One mma.sync as Prepared and kernels execute it: from the registers of a warp to those of D. Dense products take
// WarpProduct or WarpChain; sparse ones, and products with NaN or infinity, take the way of execute().
#pragma once

#include <optional>
#include <variant>

#include "../../arithmetic/warp_product.hpp"
#include "bitmma/instruction/prepared.hpp"
#include "bitmma/instruction/state.hpp"
#include "warp_chain.hpp"
#include "warp_registers.hpp"

namespace bitmma::family {

class WarpExecution {
 public:
  WarpExecution(const MmaSync& instruction, const AccumulatorModel& model);

  const WarpWords& words() const { return words_; }
  /// Strides are not read. D may be the memory of C.
  void execute(const WarpRegisters& registers, uint32_t* d) const;
  /// The same for registers as a kernel keeps them. False if that is for the other form: nothing is written.
  bool execute(const WarpProduct::Slots& slots, const WarpProduct::Decoded& decoded) const {
    return takes_slots() && std::get<Product>(way_).product.multiply(slots, decoded);
  }
  bool takes_slots() const { return takes_slots_; }
  /// True if a dense product without NaN takes a shorter way than that of execute(). Only then does a State gain.
  bool is_fast() const { return !std::holds_alternative<std::monostate>(way_); }
  void execute(State& state) const;

 private:
  /// A product, and its registers.
  struct Product {
    WarpProduct product;
    TransposedRegisters a, c, d;
    BRegisters b;
    std::vector<RegisterPlace> scales_of_a = {}, scales_of_b = {};  // as in WarpProduct::Codes
  };

  bool run(const Product& way, const WarpRegisters& registers, uint32_t* d) const;
  static bool run(const WarpChain& way, const WarpRegisters& registers, uint32_t* d) {
    return way.execute(registers, d);
  }
  static bool run(std::monostate, const WarpRegisters&, uint32_t*) { return false; }
  void execute_as_state(const WarpRegisters& registers, uint32_t* d) const;

  MmaSync instruction_;
  const AccumulatorModel* model_;
  FieldRules rules_;
  WarpWords words_ = {};
  bool takes_slots_ = false, may_count_padding_a_ = false, may_count_padding_b_ = false;
  std::variant<std::monostate, Product, WarpChain> way_ = {};
};

/// Nothing for an instruction that does not read all of its operands from the registers of a warp.
std::optional<WarpExecution> warp_execution_of(const Instruction& instruction, const AccumulatorModel* model);

/// Executes an instruction that this thread executed before with nothing in between, which is then prepared: a program
/// executes few instructions many times. Returns false, and does nothing, for others.
bool execute_again(const MmaSync& instruction, const AccumulatorModel& model, State& state);

}  // namespace bitmma::family
