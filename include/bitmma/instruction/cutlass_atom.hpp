// SPDX-License-Identifier: MIT
// Names of CUTLASS's MMA operations -> instructions.
//
//   SM90_64x128x16_F32F16F16_SS        wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16
//   SM80_16x8x16_F32F16F16F32_TN       mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
//   SM100_MMA_F16BF16_2x1SM_SS         tcgen05.mma.cta_group::2.kind::f16
//
// One rule: words between underscores (or ::), each of which is an architecture, a shape, types, a kind or an option.
// Three types (D, A, B) are a wgmma, four (D, A, B, C) an mma.sync, a kind a tcgen05.mma. Template arguments are passed
// over: they are in the instruction descriptor, or, on SM120, say types that the name does not.
// Source: CUTLASS 4, include/cute/arch/mma_sm*.hpp.
#pragma once

#include <optional>
#include <string_view>

#include "bitmma/core/target.hpp"
#include "bitmma/instruction/instruction.hpp"

namespace bitmma {

/// True for what begins as such a name: SM and a digit.
bool looks_like_cutlass_atom(std::string_view name);

/// Throws Error naming the unknown word or the missing part. Whether the instruction is legal is left to
/// require_legal.
Instruction parse_cutlass_atom(std::string_view name);

/// The target that the name begins with: sm_80 of SM80, sm_90a of SM90. Nothing if it begins with no target.
std::optional<Target> target_of_cutlass_atom(std::string_view name);

}  // namespace bitmma
