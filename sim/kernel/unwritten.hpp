// SPDX-License-Identifier: MIT
// Bits of registers that a warp loaded from memory which nothing wrote, such as the padding of structures, and data
// behind the end of an array. As in valgrind's memcheck, copies keep them: a store puts them back into memory. They are
// at fault where they decide an address, a branch, or a byte that the caller of the launch sees.
//
//   struct { int a; long b; };           bytes of memory:   w w w w - - - - w w w w w w w w
//   ld.v2.b64 {%rd1, %rd2}, [p];         %rd1: the upper 32 bits are unwritten
//   mov.b64 {%r1, %r2}, %rd1;            %r1 is written, %r2 is not
//   st.v2.b64 [q], {%rd1, %rd2};         at q are the same 4 unwritten bytes
#pragma once

#include "decode.hpp"
#include "machine.hpp"

namespace bitmma::kernel {

using LaneBits = std::array<uint64_t, 2>;  // of a register in a lane

/// A lane of `warp` loaded bytes with these states; `where` is the place of the first one, "byte 4 of shared memory".
void note_unwritten(Warp& warp, const Op& op, int lane, std::span<const uint8_t> states, const std::string& where);
/// After an ld: its destination registers have the bits that were noted.
void mark_loaded(Warp& warp, const Op& op, Mask mask);

/// Before an instruction runs in the lanes of `mask`: what it makes of such bits. Throws KernelFault where they decide.
void follow_unwritten(Warp& warp, const Op& op, Mask mask);

/// The unwritten bits of a register of up to 64 bits.
uint64_t unwritten_bits(const Warp& warp, int reg, int lane);
void set_unwritten_bits(Warp& warp, int reg, int lane, uint64_t bits);

/// Before an st: the unwritten bits of the bytes that each lane stores.
AccessBits stored_bits(const Warp& warp, const Op& op, Mask mask);
/// After a store of `bytes` bytes: memory has these unwritten bits. Throws KernelFault where it cannot.
void write_states(Warp& warp, Mask mask, std::span<uint8_t* const, lanes> places, const AccessBits& bits, size_t bytes);

/// After an atom or red of a lane, of elements of `bytes` bytes from `place` on: memory and the result have these bits.
/// Of cas: `stores`, whether the values were equal, and the bits that it changed. Its comparison is a warning.
void mark_atomic(Warp& warp, const Op& op, int lane, Atomic what, uint8_t* place, size_t bytes, bool stores,
                 const LaneBits& changed);

/// The bits of a byte in this state that nothing wrote.
constexpr uint8_t bits_of_state(uint8_t state) {
  switch (state) {
    case unwritten: return 0xFF;
    case low_half_written: return 0xF0;
    case high_half_written: return 0x0F;
    default: return 0;
  }
}

}  // namespace bitmma::kernel
