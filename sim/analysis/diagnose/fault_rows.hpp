// SPDX-License-Identifier: MIT
// How to write the catalogue: one function for each group of faults appends the rows that a case can have.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalogue.hpp"

namespace bitmma::faults {

using Rows = std::vector<FaultRow>;
using Apply = std::function<bool(const Subject&, Parts&)>;

/// A wrong M or N in the instruction descriptor.
void add_shape_faults(Rows& rows, const Subject& s);
/// A or B read through a wrong descriptor.
void add_descriptor_faults(Rows& rows, const Subject& s, Role x);
/// The same for a whole tile: wrong in every step.
void add_step_faults(Rows& rows, const Subject& s, Role x);
/// A or B stored in shared memory in a layout other than the descriptor's.
void add_written_faults(Rows& rows, const Subject& s, Role x);
/// Wrong types or signs, moved elements, a missing operand.
void add_operand_faults(Rows& rows, const Subject& s, Role x);
/// Registers of any operand that are exchanged, passed twice, or never loaded.
void add_register_faults(Rows& rows, const Subject& s);
void add_accumulator_faults(Rows& rows, const Subject& s);
void add_scale_faults(Rows& rows, const Subject& s);
void add_metadata_faults(Rows& rows, const Subject& s);
void add_adder_faults(Rows& rows, const Subject& s);
void add_output_faults(Rows& rows, const Subject& s);

inline void add(Rows& rows, std::string id, FaultStage stage, std::string what, std::string_view fix, Apply apply) {
  rows.push_back({.fault = {.id = std::move(id), .stage = stage, .what = std::move(what), .fix = std::string(fix)},
                  .apply = std::move(apply)});
}

// A or B.
inline FaultStage stage_of(Role x) { return x == Role::a ? FaultStage::a : FaultStage::b; }
inline char letter(Role x) { return x == Role::a ? 'a' : 'b'; }
inline char upper(Role x) { return x == Role::a ? 'A' : 'B'; }

}  // namespace bitmma::faults
