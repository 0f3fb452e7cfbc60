// SPDX-License-Identifier: MIT
// mbarrier objects in shared memory.
//
// PTX does not define the 64 bits of an mbarrier object. Here bits 0 to 19 hold the pending arrivals, bits 20 to 39 the
// arrivals of a phase, bits 40 to 62 the bytes still expected (two's complement), and bit 63 the parity of the phase.
// A copy arrives when a thread waits on its barrier: until then its bytes are in flight, and reading them is
// fault.
#pragma once

#include <cstring>

#include "bitmma/core/bits.hpp"
#include "machine.hpp"

namespace bitmma::kernel {

constexpr uint32_t piece = 16;  // bytes; a bulk copy has a multiple of it, so aligned
constexpr int most_arrivals = (1 << 20) - 1, tx_bits = 23;

struct MbarrierPhase {
  int64_t pending = 0, arrivals = 0, tx = 0;
  bool parity = false;

  static MbarrierPhase of(uint64_t word) {
    const uint64_t tx = word >> 40 & low_mask(tx_bits);
    return {.pending = static_cast<int64_t>(word & low_mask(20)),
            .arrivals = static_cast<int64_t>(word >> 20 & low_mask(20)),
            .tx = static_cast<int64_t>(tx) - ((tx >> (tx_bits - 1) & 1) != 0 ? int64_t{1} << tx_bits : 0),
            .parity = word >> 63 != 0};
  }
  uint64_t word() const {
    return static_cast<uint64_t>(pending) | static_cast<uint64_t>(arrivals) << 20 |
           (static_cast<uint64_t>(tx) & low_mask(tx_bits)) << 40 | uint64_t{parity} << 63;
  }
};

/// The mbarrier object that a lane names.
struct MbarrierObject {
  Cta* cta = nullptr;  // the block whose shared memory holds it
  uint8_t* bytes = nullptr;
  uint32_t address = 0;  // address in that block

  MbarrierPhase phase() const {
    uint64_t word = 0;
    std::memcpy(&word, bytes, 8);
    return MbarrierPhase::of(word);
  }
  void set(const MbarrierPhase& phase) const {
    const uint64_t word = phase.word();
    std::memcpy(bytes, &word, 8);
  }
};

/// Throws KernelFault for an address outside every block's shared memory.
MbarrierObject object_of(Warp& warp, const Op& op, int lane, Space space, uint64_t address, AccessKind kind);

/// Records arrivals and bytes of a phase; the last arrival starts the next phase.
void change(const MbarrierObject& object, int lane, int64_t arrivals, int64_t tx);

/// The blocks of the ctaMask of .multicast::cluster. Throws KernelFault for an empty mask and for ranks outside the
/// cluster.
uint32_t blocks_of_mask(const Warp& warp, uint32_t slot, int lane);

/// Records one arrival of a lane, which makes the warp's earlier accesses visible.
void arrive_once(Warp& warp, const Op& op, int lane, Space space, uint64_t address);

}  // namespace bitmma::kernel
