// SPDX-License-Identifier: MIT
#include "divergence.hpp"

#include <algorithm>

namespace bitmma::kernel {

Mask Divergence::parked() const {
  Mask mask = 0;
  for (const Parked& group : parked_) mask |= group.mask;
  return mask;
}

void Divergence::branch(Mask taken, int target, int meeting) {
  const Mask stays = active & ~taken;
  const int behind = pc + 1;
  if (taken == 0) {
    pc = behind;
    return;
  }
  if (stays == 0) {
    pc = target;
    return;
  }
  if (reconverge != meeting)
    levels_.push_back({.reconverge = reconverge, .pc = meeting, .mask = active, .is_parent = true});
  reconverge = meeting;
  if (behind == meeting) {
    pc = target;
    active = taken;
    return;
  }
  if (target != meeting) levels_.push_back({.reconverge = meeting, .pc = target, .mask = taken});
  pc = behind;
  active = stays;
}

Divergence::Next Divergence::next() {
  const Mask waiting = parked();
  while (!levels_.empty()) {
    const Level level = levels_.back();
    levels_.pop_back();
    const Mask mask = level.mask & live & ~waiting;
    if (mask == 0) continue;
    pc = level.pc;
    reconverge = level.reconverge;
    active = mask;
    return Next::runs;
  }
  active = 0;
  if (live == 0) return Next::ended;
  // All remaining lanes wait. No further lane will join those parked at one place.
  if (!parked_.empty()) pc = parked_.front().pc;
  if (waiting == 0 || parked_.size() > 1) return Next::blocked;
  active = parked_.front().mask & live;
  reconverge = -1;
  parked_.clear();
  return Next::runs;
}

Divergence::Gathered Divergence::gather(Mask mask, Mask needed) {
  if ((needed & ~mask) == 0) return Gathered::all;
  const auto same = std::ranges::find(parked_, pc, &Parked::pc);
  const Mask waiting = same == parked_.end() ? 0 : same->mask;
  // Active lanes that the guard excludes continue on their own.
  if ((needed & ~(mask | waiting)) == 0 && mask == active) {
    active |= waiting;
    for (Level& level : levels_) {
      if (level.is_parent) level.mask |= waiting;
    }
    if (same != parked_.end()) parked_.erase(same);
    return Gathered::all;
  }
  if (mask != active) return Gathered::in_part;
  if (same != parked_.end()) same->mask |= mask;
  else parked_.push_back({.pc = pc, .mask = mask});
  return Gathered::waits;
}

}  // namespace bitmma::kernel
