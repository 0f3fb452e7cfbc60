// What D a wrong program leaves: a case taken apart by stage, the parts that faults change, and D of changed parts.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "../../arithmetic/what_if.hpp"
#include "bitmma/analysis/diagnose.hpp"
#include "bitmma/instruction/place.hpp"

namespace bitmma {

/// An element of a matrix.
struct Position {
  int row = 0, col = 0;
};

/// One case and everything that a fault may look at: the truth.
class Subject {
 public:
  /// Throws Error when the case is not there, moves data, or cannot run.
  Subject(std::span<const Case> cases, int64_t index);

  const Case& one() const { return cases_[static_cast<size_t>(index_)]; }
  const Instruction& instruction() const { return one().instruction; }
  const Mma& mma() const { return mma_; }
  const Operands& truth() const { return truth_; }
  const AccumulatorModel& model() const { return model_for(instruction(), one().target); }

  int64_t cases() const { return static_cast<int64_t>(cases_.size()); }
  /// The number of the case `distance` further on; the one after the last is the first.
  int64_t neighbour(int distance) const { return (index_ + distance + cases()) % cases(); }
  /// True when that case's D has the shape and the format of this one's.
  bool has_same_d(int distance) const;
  /// The operands of the next case; nothing where they are of another shape or type.
  std::optional<Operands> next_operands() const;

  /// How the instruction reads A or B from shared memory; nullptr where it does not.
  const SmemMatrix* in_smem(Role operand) const;
  /// The operand as `matrix` finds it, `image_offset` bytes further on: A as M x stored K, B as K x N. Nothing where it
  /// reaches too far behind the image.
  std::optional<Matrix> read(Role operand, const SmemMatrix& matrix, int64_t image_offset = 0) const;
  /// What another instruction reads from the state, or the same one from another state; nothing where it cannot.
  std::optional<Operands> read_as(const Instruction& instruction, const State& state) const;

 private:
  std::span<const Case> cases_;
  int64_t index_ = 0;
  Mma mma_;
  Operands truth_;
  std::vector<SmemOperand> smem_;
  /// Of the CTAs, with room behind them: a wrong descriptor reads zeros there.
  std::vector<std::vector<uint8_t>> images_;
};

// What becomes of D after it was computed.
struct AsComputed {};
/// D(row, col) is D of the right program at from(row, col).
struct Moved {
  std::function<Position(Position)> from;
};
/// D of the case `distance` further on.
struct OtherCase {
  int distance = 0;
};
/// D is what was there before.
struct Unwritten {};
using Outcome = std::variant<AsComputed, Moved, OtherCase, Unwritten>;

/// What an output is computed from, taken apart by stage.
struct Parts {
  Operands operands = {};
  WhatIf adder = {};
  Outcome outcome = AsComputed{};
};

inline Matrix& operand_of(Parts& parts, Role operand) {
  return operand == Role::a ? parts.operands.a : parts.operands.b;
}

Parts true_parts(const Subject& subject);

/// The stage's part of `from` put into `to`.
void take_stage(Parts& to, const Parts& from, FaultStage stage);

/// A type that the adder's fast paths do not know is of no use to it.
bool computable(const Parts& parts);

/// D of the parts. That of another case is for the caller to look up.
Matrix evaluate(const Subject& subject, const Parts& parts);

}  // namespace bitmma
