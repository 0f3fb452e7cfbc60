// SPDX-License-Identifier: MIT
// Finds a warp that spins for ever: its registers and the places of its lanes are as they were before, and no thread
// has changed memory in between, so that it will do the same again. A block that waits for a block which does not run
// is such a case.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "divergence.hpp"

namespace bitmma::kernel {

struct Warp;

class Repetition {
 public:
  /// Notes the state of the warp at the end of a turn. `file_bytes`: of its registers. Rounds are counted from 1.
  void note(const Warp& warp, std::size_t file_bytes, uint64_t round);
  /// The warp's turn ended in another way, or it begins.
  void reset() { *this = {}; }
  /// Whether the warp came back to a state that it had after `round`. If memory has not changed since, it always will.
  bool repeats_since(uint64_t round) const { return repeated_from_ > round; }

 private:
  // Brent's algorithm: a state is kept for twice as many turns as the one before, so that a period of any length shows.
  uint64_t turns_ = 0, next_keep_ = 1;
  uint64_t kept_at_ = 0, repeated_from_ = 0;  // rounds; 0: none
  Divergence place_ = {};
  std::vector<uint8_t> registers_ = {};
  std::array<uint32_t, lanes> stack_bytes_ = {};
  uint64_t carry_ = 0;
  std::size_t activations_ = 0;
};

}  // namespace bitmma::kernel
