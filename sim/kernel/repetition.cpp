// SPDX-License-Identifier: MIT
#include "repetition.hpp"

#include <cstring>
#include <utility>

#include "machine.hpp"

namespace bitmma::kernel {

void Repetition::note(const Warp& warp, std::size_t file_bytes, uint64_t round) {
  const Divergence& place = warp;
  const bool is_same = kept_at_ > 0 && place == place_ && warp.carry == carry_ && warp.stack_bytes == stack_bytes_ &&
                       warp.activations.size() == activations_ &&
                       std::memcmp(warp.file, registers_.data(), file_bytes) == 0;
  // A state that comes back begins the next period.
  if (is_same) repeated_from_ = std::exchange(kept_at_, round);
  if (++turns_ < next_keep_ || is_same) return;
  next_keep_ = 2 * turns_;
  kept_at_ = round;
  place_ = place;
  registers_.assign(warp.file, warp.file + file_bytes);
  stack_bytes_ = warp.stack_bytes;
  carry_ = warp.carry;
  activations_ = warp.activations.size();
}

}  // namespace bitmma::kernel
