// SPDX-License-Identifier: MIT
// Each family of instructions supplies its kernel. ptx_kernel visits the variant once and calls one of these.
#pragma once

#include "bitmma/hardware/ptx_kernel.hpp"
#include "bitmma/instruction/statement.hpp"

namespace bitmma::kernels {

/// The input of every generator.
struct Request {
  const Instruction& instruction;
  std::string mnemonic;
  Statement statement;
  FieldRules fields;
  KernelShape shape;
  std::string_view target;
  PtxVersion version;  // the lowest that has the instruction on the target
};

Kernel kernel_of(const Wgmma& instruction, const Request& request);
Kernel kernel_of(const MmaSync& instruction, const Request& request);
Kernel kernel_of(const Tcgen05Mma& instruction, const Request& request);
Kernel kernel_of(const TmemMove& instruction, const Request& request);

}  // namespace bitmma::kernels
