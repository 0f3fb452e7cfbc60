// SPDX-License-Identifier: MIT
// mbarrier objects in shared memory.
//
// PTX leaves the 64 bits of an mbarrier object open. Here: the pending arrivals in bits 0 to 19, those of a phase in
// bits 20 to 39, the bytes that are still expected in bits 40 to 62, two's complement, and the parity of the phase in
// bit 63. A copy arrives when a thread waits for its barrier: until then its bytes are in flight, and reading them is a
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

/// An mbarrier object that a lane names.
struct MbarrierObject {
  Cta* cta = nullptr;  // whose shared memory holds it
  uint8_t* bytes = nullptr;
  uint32_t address = 0;  // there

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

/// Throws Fault for an address that no block's shared memory has.
MbarrierObject object_of(Warp& warp, const Op& op, int lane, Space space, uint64_t address, AccessKind kind);

/// Arrivals and bytes of a phase; the last of them begins the next one.
void change(const MbarrierObject& object, int lane, int64_t arrivals, int64_t tx);

/// The blocks of a ctaMask, of .multicast::cluster. Throws Fault for none, and for ranks that the cluster does not
/// have.
uint32_t blocks_of_mask(const Warp& warp, uint32_t slot, int lane);

/// One arrival for a lane, which makes known what the warp did before.
void arrive_once(Warp& warp, const Op& op, int lane, Space space, uint64_t address);

}  // namespace bitmma::kernel
