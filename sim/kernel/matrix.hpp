// SPDX-License-Identifier: MIT
// Shared by the matrix instructions of registers and of Tensor Memory.
#pragma once

#include <span>
#include <vector>

#include "bitmma/instruction/instruction.hpp"
#include "bitmma/instruction/state.hpp"
#include "decode.hpp"

namespace bitmma::kernel {

/// Checks that the shared memory an instruction reads is written, waited for and fenced. Throws KernelFault.
void check_operands(const bitmma::Instruction& instruction, Target target, const State& state,
                    std::span<const Warp> warps);

bool has_tensor_memory(Target target);

/// The slots of a register, or of each register of a vector.
/// The registers of D of an mma.sync whose elements depend on values that nothing wrote get them: those of a row of A
/// reach the same row of D, those of a column of B the same column.
void follow_product(Warp& warp, const Op& op);
std::vector<uint32_t> slots_of(Decoder& decoder, const Operand& operand, bool wide, bool writes);

}  // namespace bitmma::kernel
