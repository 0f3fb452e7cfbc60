// SPDX-License-Identifier: MIT
// A case: one instruction on one target, the state before it and, if it was recorded, the state after it.
//
// A case of plain matrices has only `logical`; then D is computed from them. A case with a state may have them as
// well, for people.
#pragma once

#include <optional>
#include <vector>

#include "bitmma/instruction/execute.hpp"

namespace bitmma {

/// Plain matrices: A m x k, B k x n, C and D m x n, scales of A m x count and of B count x n.
struct LogicalMatrices {
  std::optional<Matrix> a = {}, b = {}, c = {}, d = {}, scale_a = {}, scale_b = {};

  bool operator==(const LogicalMatrices&) const = default;
};

struct Case {
  Instruction instruction = Wgmma{};
  Target target = Target::sm_90a;
  State before = {};
  std::optional<State> after = {};  // only the buffers that the instruction writes
  LogicalMatrices logical = {};

  bool has_state() const { return !before.empty(); }
  bool has_recorded_d() const { return after.has_value() || logical.d.has_value(); }
};

/// The operands of a case, from its state or, without one, from its logical matrices.
Operands operands_of(const Case& one);
/// The same of logical matrices. Throws Error when a sparse A has too many codes that are not zero.
Operands operands_of(const Instruction& instruction, const LogicalMatrices& logical);
/// Plain matrices from operands: zeros where a sparse A stores nothing.
LogicalMatrices logical_of(const Instruction& instruction, const Operands& operands);

/// D of a case as the target computes it; of a move the words it leaves.
Matrix computed_d(const Case& one, const AccumulatorModel* model = nullptr);
/// D of a case as it was recorded. Throws Error when it was not.
Matrix recorded_d(const Case& one);

/// What looks suspicious in a case; empty without a state. Logical matrices that say something else than the state are
/// among it.
std::vector<Violation> warnings_of(const Case& one);

}  // namespace bitmma
