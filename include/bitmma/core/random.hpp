// SPDX-License-Identifier: MIT
// Philox4x32-10, a counter-based generator: the words of (seed, stream, index) are the same on every machine, in any
// order and from any thread. Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011.
#pragma once

#include <array>
#include <cstdint>

#include "bitmma/core/compiler.hpp"

namespace bitmma {

/// The four words of counter `counter` under `key`.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// Random words of one stream, read in order. Two streams of one seed never overlap.
class RandomStream {
 public:
  RandomStream(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}

  uint32_t word();
  /// The first word is the high half. Two statements, because C++ does not fix the evaluation order of operands.
  uint64_t word64() {
    const uint64_t first = word();
    return first << 32 | word();
  }
  /// Uniform in [0, bound), bound > 0. The bias is below 2^-32 * bound, and identical on every machine.
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(uint64_t{word()} * bound >> 32); }
  /// Uniform in [low, high].
  int between(int low, int high) { return low + static_cast<int>(below(static_cast<uint32_t>(high - low + 1))); }
  bool one_in(uint32_t n) { return below(n) == 0; }

 private:
  uint64_t seed_;
  uint64_t stream_;
  uint64_t block_ = 0;
  int used_ = 4;
  std::array<uint32_t, 4> words_{};
};

}  // namespace bitmma
