// SPDX-License-Identifier: MIT
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
  /// The same bytes taken for `format`.
  std::optional<Matrix> read_type(Role operand, Format format) const;
  /// The operand where 16 bytes lie at other addresses than they should: those of `from(address)` at `address`.
  std::optional<Matrix> read_moved(Role operand, const std::function<int64_t(int64_t)>& from) const;
  /// The operand where a wrong program wrote it: `write` puts its lines, M or N by K, into an image of zeros, from
  /// which the right descriptor reads. Nothing where it cannot.
  using Writer = std::function<void(std::span<uint8_t> image, const SmemMatrix& right, const Matrix& lines)>;
  std::optional<Matrix> read_written(Role operand, const Writer& write) const;
  /// True when byte `address` is inside the image of the case.
  bool is_in_image(int64_t address) const { return address >= 0 && address < image_bytes_; }
  /// The operands of the `count` blocks of K that lie one after the other behind both descriptors, the case's own
  /// first; empty where they do not fit the swizzle or the image.
  std::vector<Operands> blocks_of_k(int count) const;
  /// The operands of another case; nothing where they are of another shape or type.
  std::optional<Operands> operands_of_case(int64_t index) const;
  int64_t index() const { return index_; }
  /// True for a case without a state that takes several instructions.
  bool is_tile() const { return is_tile_; }
  /// K of one instruction.
  int step_k() const { return step_k_; }
  /// What another instruction reads from the state, or the same one from another state; nothing where it cannot.
  std::optional<Operands> read_as(const Instruction& instruction, const State& state) const;

 private:
  /// The operands of a case without a state, which may be a tile.
  void take_tile();
  /// A of a sparse tile, each instruction's part as it stores it.
  void compress_tile(const Mma& of_one, const Matrix& a);

  std::span<const Case> cases_;
  int64_t index_ = 0;
  Mma mma_;  // of a tile with its own M, N and K
  int step_k_ = 0;
  bool is_tile_ = false;
  Operands truth_;
  std::vector<SmemOperand> smem_;
  /// Of the CTAs, with room behind them: a wrong descriptor reads zeros there.
  std::vector<std::vector<uint8_t>> images_;
  int64_t image_bytes_ = 0;  // without the room

  /// Puts together what `read_cta(cta)` gives as M or N by K.
  template <typename ReadCta>
  std::optional<Matrix> put_together(Role operand, Format format, const ReadCta& read_cta) const;
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
/// D is this, whatever the parts: what another instruction left.
struct Left {
  Matrix d = {};
};
/// Products that are added up, one after the other: first that of the case, or another one in its place. The sum may
/// have been rounded to another format, and widened again.
struct Accumulated {
  std::optional<Operands> first = {};
  std::vector<Operands> products = {};
  std::optional<Format> rounded_to = {};
};
using Outcome = std::variant<AsComputed, Moved, OtherCase, Unwritten, Left, Accumulated>;

/// What an output is computed from, taken apart by stage.
struct Parts {
  Operands operands = {};
  WhatIf adder = {};
  int step_k = 0;  // K of one instruction, where there are several one after the other
  Outcome outcome = AsComputed{};
};

inline Matrix& operand_of(Parts& parts, Role operand) {
  return operand == Role::a ? parts.operands.a : parts.operands.b;
}

Parts true_parts(const Subject& subject);

/// Columns of A that `k` of K take: half of a sparse A.
inline int stored_of_k(const Operands& operands, int k) {
  return static_cast<int>(int64_t{k} * operands.a.cols() / operands.b.rows());
}

/// The part of K from `first` on, whole instructions of a tile.
Operands part_of_k(const Operands& operands, int first, int count);

/// The stage's part of `from` put into `to`.
void take_stage(Parts& to, const Parts& from, FaultStage stage);

/// A type that the adder's fast paths do not know is of no use to it.
bool computable(const Parts& parts);

/// D of some rows and columns of the parts, without what becomes of it: products that are added count.
Matrix compute_block(const Parts& parts, std::span<const int> rows, std::span<const int> cols, Format d);

/// D of the parts. That of another case is for the caller to look up.
Matrix evaluate(const Subject& subject, const Parts& parts);

}  // namespace bitmma
