// SPDX-License-Identifier: MIT
// Listings of SASS from cuobjdump --dump-sass and nvdisasm: the meaning of their tensor-core instructions.
//
//   /*0a10*/   HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4], R24, gsb0 ;     wgmma.mma_async, m64n64k16, F32 of BF16
//
// SASS is undocumented. Rows give the PTX that compiles to an instruction with CUDA 13's compilers; shape and types are
// taken from its name.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/compiler.hpp"

namespace bitmma {

struct SassInfo {
  std::string_view name = {};   // the first words: "HGMMA", "WARPGROUP.ARRIVE"
  std::string_view ptx = {};    // the PTX that compiles to it
  std::string_view types = {};  // of A and B, if the name has none
  std::string_view does = {};
};

/// Every row. The longest matching name applies.
std::span<const SassInfo> sass_instructions();

struct SassInstruction {
  std::size_t line = 1;     // in the listing; counts from 1
  std::string opcode = {};  // "HGMMA.64x64x16.F32.BF16"
  const SassInfo* info = nullptr;
  std::string shape = {};               // "m64n64k16"; empty if the name has none
  std::vector<std::string> types = {};  // of D, then of A and B, as far as the name gives them
};

struct [[nodiscard]] SassListing {
  std::string arch = {};         // "sm_90a", if the listing has it
  std::size_t instructions = 0;  // instructions of all kinds
  std::vector<SassInstruction> matrix_instructions = {};
};

/// Nothing if the text is not a listing. Lines without addresses are read if they begin with an instruction of
/// sass_instructions(): "HMMA.16816.F32 R4, R8, R10, R4 ;".
std::optional<SassListing> scan_sass(std::string_view text);

/// The row of an opcode, such as "HMMA.16816.F32"; nullptr if the opcode is unknown.
const SassInfo* find_sass(std::string_view opcode);

}  // namespace bitmma
