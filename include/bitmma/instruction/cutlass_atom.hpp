// SPDX-License-Identifier: MIT
// Names of CUTLASS's MMA operations -> instructions.
//
//   SM90_64x128x16_F32F16F16_SS        wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16
//   SM80_16x8x16_F32F16F16F32_TN       mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
//   SM100_MMA_F16BF16_2x1SM_SS         tcgen05.mma.cta_group::2.kind::f16
//
// The rule: words between underscores (or ::), each of which is an architecture, a shape, types, a kind or an option.
// Three types (D, A, B) mean a wgmma, four (D, A, B, C) an mma.sync, a kind a tcgen05.mma. Template arguments are
// skipped: they are in the instruction descriptor or, on SM120, give types that the name lacks. Source: CUTLASS 4,
// include/cute/arch/mma_sm*.hpp.
#pragma once

#include <optional>
#include <string_view>

#include "bitmma/core/target.hpp"
#include "bitmma/instruction/instruction.hpp"

namespace bitmma {

/// True if the name begins like an atom's: SM and a digit.
bool looks_like_cutlass_atom(std::string_view name);

/// Throws Error, which names the unknown word or the missing part. It does not check legality; see
/// require_legal.
Instruction parse_cutlass_atom(std::string_view name);

/// The target at the start of the name: sm_80 for SM80, sm_90a for SM90. Nothing if there is none.
std::optional<Target> target_of_cutlass_atom(std::string_view name);

}  // namespace bitmma
