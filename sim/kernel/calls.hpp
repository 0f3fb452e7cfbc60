// SPDX-License-Identifier: MIT
// Activations of subroutines: their variables in local memory, and the registers of a function that is active already.
#pragma once

#include "machine.hpp"

namespace bitmma::kernel {

/// The active lanes of a warp begin a subroutine: it gets its parameters, and a frame on the stack if it is active
/// already. Throws KernelFault for arguments that do not fit and for a stack that is full.
void begin_activation(Warp& warp, const SubroutineCode& code, const SubroutineCall& call);
/// All lanes of the innermost activation have returned or ended; those in `returned` get its results.
void end_activation(Warp& warp, Mask returned);

}  // namespace bitmma::kernel
