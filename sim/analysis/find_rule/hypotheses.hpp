// SPDX-License-Identifier: MIT
// The hypotheses about a rule of addition: every combination of facts that an accumulator model can state, by number.
// The floor, the sign of zero and the NaN come later: they matter to few outputs, whatever the other facts are.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "bitmma/arithmetic/accumulator_model.hpp"
#include "bitmma/instruction/instruction.hpp"

namespace bitmma {

/// What is no question: family, types, and that four products are stacked.
AccumulatorModel blank_model(const Instruction& instruction);

/// Floors that are tried, no floor first, then from the lowest. Fewer than 64.
std::vector<std::optional<int>> floors_of(Format output);

/// Terms that exact groups may have, from few to many: those that have one scale of A and one of B. None where nothing
/// is scaled, or where sums of products would not be exact.
std::vector<int> group_terms_of(Format a, Format b, int terms, int scales);

/// Fused sums without a floor. Combinations that give the same bits for every input are there once.
class FusedGrid {
 public:
  /// `least_bits`: sums alone, without a C that is added last, need so many mantissa bits.
  FusedGrid(const Instruction& instruction, int least_bits);

  std::size_t size() const { return size_; }
  /// Nothing where another number says the same.
  std::optional<AccumulatorModel> at(std::size_t index) const;

 private:
  /// What enters the sum: products, or exact groups of so many of them.
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

/// What an integer sum that leaves 32 bits becomes. The instruction says it; a device that does something else has no
/// row, and a fact says what it does.
enum class IntegerOverflow : uint8_t { as_told, wraps, clamps, clamps_every_step };

/// Rules that are no fused sums. There are few, and whole products are computed by them.
struct OtherRule {
  AccumulatorModel model = {};
  IntegerOverflow overflow = IntegerOverflow::as_told;
  bool other_bits = false;  // b1: the other of "both have" and "differ"

  /// True where a model says all of it.
  bool is_model() const { return overflow == IntegerOverflow::as_told && !other_bits; }
};

std::vector<OtherRule> other_rules(const Instruction& instruction);

}  // namespace bitmma
