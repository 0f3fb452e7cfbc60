// SPDX-License-Identifier: MIT
// Values that a warp loaded from memory which nothing wrote. Kernels load beyond the end of their data and discard what
// they got: that is a warning. A value that decides an address, a branch or a byte of global memory is a fault.
#pragma once

#include "machine.hpp"

namespace bitmma::kernel {

/// A lane of `warp` loaded such bytes; `where` is their place, "byte 4 of shared memory".
void note_unwritten(Warp& warp, const Op& op, int lane, std::string where);
/// The destination registers of the load have these values in the lanes that were noted.
void mark_loaded(Warp& warp, const Op& op, Mask mask);
/// Before an instruction runs in the lanes of `mask`: what it makes of such values. Throws KernelFault where they
/// decide.
void follow_unwritten(Warp& warp, const Op& op, Mask mask);
/// After a store: its bytes in shared or local memory hold such values again. Throws KernelFault for global memory.
void mark_stored(Warp& warp, std::span<uint8_t* const, lanes> places, size_t bytes);

}  // namespace bitmma::kernel
