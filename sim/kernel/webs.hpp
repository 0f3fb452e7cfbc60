// SPDX-License-Identifier: MIT
// Registers by their values instead of their names. A PTX register may hold several values one after another; ptxas
// renames them apart before it optimises, so that names decide nothing. A web is a set of writes, and all reads that
// may see one of them.
//
//   mul.f32 %f3, %f1, %f2;                        mul.f32 %f3, %f1, %f2;
//   add.f32 %f4, %f3, %f5;          becomes       add.f32 %f4, %f3, %f5;
//   ld.global.f32 %f3, [%rd1];                    ld.global.f32 %f3', [%rd1];
#pragma once

#include <vector>

#include "flow.hpp"
#include "ptx_module.hpp"

namespace bitmma::kernel {

/// Gives each web of the entry a register of its own; further webs of a register keep its name and type. Roles must be
/// assigned. Throws Error for an entry whose analysis would take too long.
void split_webs(Entry& entry);

/// For each block the registers, in ascending order, whose value at its beginning it or a later block reads.
/// Throws Error for an entry whose analysis would take too long.
std::vector<std::vector<int>> live_registers(const Entry& entry, const Flow& flow);

}  // namespace bitmma::kernel
