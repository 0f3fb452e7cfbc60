// SPDX-License-Identifier: MIT
// A case: one instruction on one target, the state before it and, if it was recorded, the state after it.
//
// A case of plain matrices has only `logical`, from which D is computed. A case with a state may have them too, for
// readers.
#pragma once

#include <optional>
#include <vector>

#include "bitmma/instruction/execute.hpp"

namespace bitmma {

/// Plain matrices: A m x k, B k x n, C and D m x n, scales of A m x count, of B count x n.
struct [[nodiscard]] LogicalMatrices {
  std::optional<Matrix> a = {}, b = {}, c = {}, d = {}, scale_a = {}, scale_b = {};

  bool operator==(const LogicalMatrices&) const = default;
};

struct [[nodiscard]] Case {
  Instruction instruction = Wgmma{};
  Target target = Target::sm_90a;
  State before = {};
  std::optional<State> after = {};  // only the fields that the instruction writes
  LogicalMatrices logical = {};

  bool has_state() const { return !before.empty(); }
  bool has_recorded_d() const { return after.has_value() || logical.d.has_value(); }
};

/// The operands of a case: from its state or, if it has none, from its logical matrices.
Operands operands_of(const Case& this_case);
/// The same from logical matrices. Throws Error if a sparse A has too many non-zero codes.
Operands operands_of(const Instruction& instruction, const LogicalMatrices& logical);
/// Plain matrices from operands: zeros where a sparse A stores nothing.
LogicalMatrices logical_of(const Instruction& instruction, const Operands& operands);

/// D of a case as the target computes it; for a move the words that it writes.
Matrix computed_d(const Case& this_case, const AccumulatorModel* model = nullptr);
/// The recorded D of a case. Throws Error if none is recorded.
Matrix recorded_d(const Case& this_case);

/// Suspicious points of a case, such as logical matrices that differ from the state; empty without a
/// state.
std::vector<Violation> warnings_of(const Case& this_case);

}  // namespace bitmma
