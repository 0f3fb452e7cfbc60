// SPDX-License-Identifier: MIT
// Names of CUTLASS's MMA operations -> instructions.
//
//   SM90_64x128x16_F32F16F16_SS        wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16
//   SM80_16x8x16_F32F16F16F32_TN       mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
//   SM100_MMA_F16BF16_2x1SM_SS         tcgen05.mma.cta_group::2.kind::f16
//
//   SM100_MMA_MXF4_SS<float_e2m1_t, float_e2m1_t, float, float_ue4m3_t, 128, 256, 16, UMMA::Major::K, UMMA::Major::K>
//                                        tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16, M = 128, N = 256
//
// The rule: words between underscores (or ::), each of which is an architecture, a shape, types, a kind or an option.
// Three types (D, A, B) mean a wgmma, four (D, A, B, C) an mma.sync, a kind a tcgen05.mma; SM120's mma.sync have their
// types as template arguments. Template arguments set the fields that they set in CUTLASS: types, M, N, the elements
// for each scale, major-ness, signs, saturation, the scale of D and the sparsity selector. Enumerators may be written
// as in C++ (GMMA::Major::MN) or as compilers print them ((cute::SM90::GMMA::Major)1). Arguments left out at the end
// keep the defaults of the instruction. Source: CUTLASS 4, include/cute/arch/mma_sm*.hpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/target.hpp"
#include "bitmma/instruction/instruction.hpp"

namespace bitmma {

/// A template argument: the parameter as CUTLASS's headers call it, and the argument as written.
struct CutlassArgument {
  std::string parameter = {};  // "a_type", "M", "b_major", "c_sat"
  std::string text = {};

  bool operator==(const CutlassArgument&) const = default;
};

struct CutlassAtom {
  Instruction instruction = Wgmma{};
  std::optional<Target> target = {};  // of the architecture in the name
  std::vector<CutlassArgument> arguments = {};

  bool operator==(const CutlassAtom&) const = default;
};

/// True if the name begins like an atom's: SM and a digit, also within MMA_Atom< or MMA_Traits<.
bool looks_like_cutlass_atom(std::string_view name);

/// Throws Error, which names the unknown, contradicting or useless word, the wrong template argument or the missing
/// part. It does not check legality; see require_legal.
CutlassAtom read_cutlass_atom(std::string_view name);
/// Its instruction alone.
Instruction parse_cutlass_atom(std::string_view name);

/// The instruction of a PTX mnemonic or of an atom's name. Throws Error like parse_instruction and parse_cutlass_atom.
Instruction parse_mnemonic_or_atom(std::string_view text);

/// The target at the start of the name: sm_80 for SM80, sm_90a for SM90. Nothing if there is none.
std::optional<Target> target_of_cutlass_atom(std::string_view name);

}  // namespace bitmma
