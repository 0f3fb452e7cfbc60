// SPDX-License-Identifier: MIT
// The D that a wrong program computes: a case is split by stage, faults change the parts, and D follows from the parts.
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

/// One case and the data that faults may inspect: the correct program.
class Subject {
 public:
  /// Throws Error if the case does not exist, moves data, or cannot run.
  Subject(std::span<const Case> cases, int64_t index);

  const Case& this_case() const { return cases_[static_cast<size_t>(index_)]; }
  const Instruction& instruction() const { return this_case().instruction; }
  const Mma& mma() const { return mma_; }
  const Operands& truth() const { return truth_; }
  const AccumulatorModel& model() const { return model_for(instruction(), this_case().target); }

  int64_t cases() const { return static_cast<int64_t>(cases_.size()); }
  /// The index of the case `distance` further on; after the last case follows the first.
  int64_t neighbour(int distance) const { return (index_ + distance + cases()) % cases(); }
  /// True if that case's D has the shape and format of this one's.
  bool has_same_d(int distance) const;
  /// The operands of the next case; nothing if their shape or type differs.
  std::optional<Operands> next_operands() const;

  /// How the instruction reads A or B from shared memory; nullptr if it does not.
  const SmemMatrix* in_smem(Role operand) const;
  /// The operand as `matrix` reads it, `image_offset` bytes further on: A as M x stored K, B as K x N. Nothing if it
  /// reads too far beyond the image.
  std::optional<Matrix> read(Role operand, const SmemMatrix& matrix, int64_t image_offset = 0) const;
  /// The same bytes read as `format`.
  std::optional<Matrix> read_type(Role operand, Format format) const;
  /// The operand if 16-byte units were at wrong addresses: the read at `address` gets the unit of `from(address)`.
  std::optional<Matrix> read_moved(Role operand, const std::function<int64_t(int64_t)>& from) const;
  /// The operand as a wrong program stored it: `write` puts its lines (M or N by K) into a zeroed image, which is then
  /// read through the right descriptor. Nothing if `write` fails.
  using Writer = std::function<void(std::span<uint8_t> image, const SmemMatrix& right, const Matrix& lines)>;
  std::optional<Matrix> read_written(Role operand, const Writer& write) const;
  /// True when byte `address` is inside the image of the case.
  bool is_in_image(int64_t address) const { return address >= 0 && address < image_bytes_; }
  /// The operands of `count` consecutive blocks of K that start at both descriptors, the case's own block first; empty
  /// if they do not fit the swizzle or the image.
  std::vector<Operands> blocks_of_k(int count) const;
  /// The operands of another case; nothing if their shape or type differs.
  std::optional<Operands> operands_of_case(int64_t index) const;
  int64_t index() const { return index_; }
  /// True for a case without a state whose shape takes several instructions.
  bool is_tile() const { return is_tile_; }
  /// K of one instruction.
  int step_k() const { return step_k_; }
  /// The operands that another instruction reads, or this one from another state; nothing if it cannot read them.
  std::optional<Operands> read_as(const Instruction& instruction, const State& state) const;

 private:
  /// Takes the operands of a case without a state, which may be a whole tile.
  void take_tile();
  /// Compresses A of a sparse tile in the parts that each instruction stores.
  void compress_tile(const Mma& of_one, const Matrix& a);

  std::span<const Case> cases_;
  int64_t index_ = 0;
  Mma mma_;  // for a tile: with the tile's M, N and K
  int step_k_ = 0;
  bool is_tile_ = false;
  Operands truth_;
  std::vector<SmemOperand> smem_;
  /// Images of the CTAs, followed by spare zeros, which a wrong descriptor reads.
  std::vector<std::vector<uint8_t>> images_;
  int64_t image_bytes_ = 0;  // without the spare bytes

  /// Assembles M or N by K from the results of `read_cta(cta)`.
  template <typename ReadCta>
  std::optional<Matrix> put_together(Role operand, Format format, const ReadCta& read_cta) const;
};

// Outcomes: how the D in memory follows from the computed D.
struct AsComputed {};
/// D(row, col) is the right program's D at from(row, col).
struct Moved {
  std::function<Position(Position)> from;
};
/// D of the case `distance` further on.
struct OtherCase {
  int distance = 0;
};
/// D was never written.
struct Unwritten {};
/// D is this matrix, whatever the parts: the result of another instruction.
struct Left {
  Matrix d = {};
};
/// A sum of products: first the case's own, or another one in its place, then the others in order. The sum may be
/// rounded to another format and widened again.
struct Accumulated {
  std::optional<Operands> first = {};
  std::vector<Operands> products = {};
  std::optional<Format> rounded_to = {};
};
using Outcome = std::variant<AsComputed, Moved, OtherCase, Unwritten, Left, Accumulated>;

/// The inputs of an output, by stage.
struct Parts {
  Operands operands = {};
  WhatIf adder = {};
  int step_k = 0;  // K of one instruction, if several follow each other
  Outcome outcome = AsComputed{};
};

inline Matrix& operand_of(Parts& parts, Role operand) {
  return operand == Role::a ? parts.operands.a : parts.operands.b;
}

Parts true_parts(const Subject& subject);
/// The parts with these faults. Throws Error as faulty_d does.
Parts faulty_parts(const Subject& subject, std::span<const std::string> fault_ids);

/// The number of columns of A for `k` of K: half of it for a sparse A.
inline int stored_of_k(const Operands& operands, int k) {
  return static_cast<int>(int64_t{k} * operands.a.cols() / operands.b.rows());
}

/// The part of K from `first` on; for a tile it covers whole instructions.
Operands part_of_k(const Operands& operands, int first, int count);

/// Copies the stage's part of `from` to `to`.
void take_stage(Parts& to, const Parts& from, FaultStage stage);

/// False if the adder's fast paths do not support the types.
bool computable(const Parts& parts);

/// Some rows and columns of D before the outcome is applied; added products are included.
Matrix compute_block(const Parts& parts, std::span<const int> rows, std::span<const int> cols, Format d);

/// D of the parts. The caller supplies D of another case.
Matrix evaluate(const Subject& subject, const Parts& parts);

}  // namespace bitmma
