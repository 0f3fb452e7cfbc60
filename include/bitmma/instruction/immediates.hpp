// SPDX-License-Identifier: MIT
// Numbers that are part of an instruction but not of its mnemonic, by name: for vector files, flags and other
// programs.
//
//   wgmma         imm_scale_a = -1, imm_trans_b = 1, scale_d = 0, sparsity_selector = 1     PTX's names and numbers
//   tcgen05.mma   idesc = 0x08100010, enable_input_d = 1
//                 they may differ from case to case
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "bitmma/instruction/state.hpp"

namespace bitmma {

struct ImmediateInfo {
  std::string_view name = {};
  int64_t first = 0, last = 1;   // the range
  int64_t default_value = 0;     // unless it is set
  std::string_view legal = {};   // the range in words: "1 or -1"
  std::string_view absent = {};  // the legal value if an instruction lacks the immediate: "0 without .sp"
  bool by_case = false;          // vector files store it as a tensor, one number per case; others are metadata keys
  ElementType type = ElementType::u32;  // of that tensor
  bool required = false;                // the tensor is required
};

/// The immediates of the instruction, in the order in which files list them.
std::vector<ImmediateInfo> immediates_of(const Instruction& instruction);
/// Every immediate of any instruction, each once.
std::vector<ImmediateInfo> all_immediates();

/// The value of an immediate; its default if the instruction does not have it.
int64_t immediate_of(const Instruction& instruction, std::string_view name);

/// The instruction with another value. Throws Error if it has no such immediate (and the value is not the default), or
/// if the value is out of range. It does not check legality; see violations_of.
Instruction with_immediate(const Instruction& instruction, std::string_view name, int64_t value);

/// True if an instruction descriptor, not the mnemonic, gives shape, types and signs.
bool has_instruction_descriptor(const Instruction& instruction);

}  // namespace bitmma
