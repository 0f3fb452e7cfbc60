// SPDX-License-Identifier: MIT
// The instructions of kernels, by name: the rows that bitmma run decodes by.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bitmma {

struct KernelOpcode {
  std::string_view name = {};                 // "mad"
  std::string_view does = {};                 // "a * b + c"
  std::vector<std::string_view> types = {};   // of its last word that names one; empty: each form has its own
  std::vector<std::string_view> folded = {};  // those for which ptxas computes the plain form of numbers itself
  /// What it can be in an fma that ptxas makes of two instructions, if its type is floating and it has no rounding:
  /// "product", "sum", "difference", "quotient", "reciprocal". Empty: nothing.
  std::string_view contraction = {};
  bool acts = false;  // affects memory, other lanes or the flow of control

  bool operator==(const KernelOpcode&) const = default;
};

/// In the order of the library's tables: integers, floating-point numbers, memory, warps, matrices.
std::vector<KernelOpcode> kernel_opcodes();
/// The instruction whose name is the first word of a mnemonic; nothing if no kernel has it.
std::optional<KernelOpcode> find_kernel_opcode(std::string_view mnemonic);
/// Whether ptxas may make an fma of this form and another instruction: its opcode has a `contraction`.
bool may_be_contracted(std::string_view mnemonic);

}  // namespace bitmma
