// SPDX-License-Identifier: MIT
// The hypotheses about a rule of addition: every combination of facts that an accumulator model can state, numbered.
// The floor, the sign of zero and NaN are searched later: they affect few outputs, whatever the other facts are.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "bitmma/arithmetic/accumulator_model.hpp"
#include "bitmma/instruction/instruction.hpp"

namespace bitmma {

/// The facts that are given: family, types, and whether four products are stacked.
AccumulatorModel blank_model(const Instruction& instruction);

/// Candidate floors: none first, then from the lowest. Fewer than 64.
std::vector<std::optional<int>> floors_of(Format output);

/// Possible numbers of terms of an exact group, ascending: a group shares one scale of A and one of B. Empty if the
/// instruction has no scales, or if sums of products would not be exact.
std::vector<int> group_terms_of(Format a, Format b, int terms, int scales);

/// Fused sums without a floor. Combinations that give equal bits for every input occur once.
class FusedGrid {
 public:
  /// `least_bits`: the mantissa bits that a sum without a C added last needs at least.
  FusedGrid(const Instruction& instruction, int least_bits);

  std::size_t size() const { return size_; }
  /// Nothing if another index is the same hypothesis.
  std::optional<AccumulatorModel> at(std::size_t index) const;

 private:
  /// The terms of the sum: products, or exact groups of this many products.
  struct Terms {
    Scaling scaling = Scaling::none;
    int group = 16;
  };
  struct Steps {
    StepOrder order = StepOrder::ascending;
    int terms = 0;
    bool c_last = false;
  };

  AccumulatorModel blank_;
  int least_bits_ = 0;
  std::vector<Terms> terms_;
  std::vector<Steps> steps_;
  std::size_t size_ = 0;
};

/// How an integer sum beyond 32 bits behaves. The instruction specifies it; a deviating device matches no row, and a
/// fact reports its behaviour.
enum class IntegerOverflow : uint8_t { as_told, wraps, clamps, clamps_every_step };

/// Rules other than fused sums. They are few, so each one is computed as a whole product.
struct OtherRule {
  AccumulatorModel model = {};
  IntegerOverflow overflow = IntegerOverflow::as_told;
  bool other_bits = false;  // b1: the other of "both have" and "differ"

  /// True if an accumulator model describes the rule completely.
  bool is_model() const { return overflow == IntegerOverflow::as_told && !other_bits; }
};

std::vector<OtherRule> other_rules(const Instruction& instruction);

}  // namespace bitmma
