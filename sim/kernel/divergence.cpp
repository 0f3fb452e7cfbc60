// SPDX-License-Identifier: MIT
#include "divergence.hpp"

#include <algorithm>
#include <utility>

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

void Divergence::set_aside(Mask set, int at) {
  if (set == 0) return;
  levels_.push_back({.reconverge = reconverge, .pc = at, .mask = set});
  active &= ~set;
}

bool Divergence::load_apart() {
  if (apart_.empty()) return false;
  Apart first = std::move(apart_.front());
  apart_.erase(apart_.begin());
  pc = first.pc;
  active = first.active & live;
  reconverge = first.reconverge;
  levels_ = std::move(first.levels);
  return true;
}

void Divergence::part(Mask first, int meeting) {
  if (reconverge != meeting)
    levels_.push_back({.reconverge = reconverge, .pc = meeting, .mask = active, .is_parent = true});
  levels_.push_back({.reconverge = meeting, .pc = pc, .mask = active & ~first});
  reconverge = meeting;
  active &= first;
}

void Divergence::call(int target) {
  calls_.push_back({.pc = pc + 1, .reconverge = reconverge, .mask = active, .levels = levels_.size()});
  pc = target;
  reconverge = -1;
}

bool Divergence::take_turns() {
  if (!calls_.empty()) return false;
  Mask elsewhere = parked() | active;
  for (const Apart& other : apart_) {
    elsewhere |= other.active;
    for (const Level& level : other.levels) elsewhere |= level.mask;
  }
  const Mask waiting = live & ~elsewhere;
  if (waiting == 0 && apart_.empty()) return false;
  Apart own{.pc = pc, .active = active, .reconverge = reconverge}, others;
  for (const Level& level : levels_) {
    for (const auto& [lanes_of, levels] : {std::pair(active, &own.levels), std::pair(waiting, &others.levels)}) {
      Level part = level;
      part.mask &= lanes_of;
      if (part.mask != 0) levels->push_back(part);
    }
  }
  if (waiting != 0) apart_.push_back(std::move(others));
  // Lanes at one place, for which nobody waits, run together again.
  const auto same = std::ranges::find_if(apart_, [&](const Apart& other) {
    return own.levels.empty() && other.levels.empty() && other.active != 0 && other.pc == own.pc;
  });
  if (same != apart_.end()) same->active |= own.active;
  else apart_.push_back(std::move(own));
  load_apart();
  return true;
}

Divergence::Next Divergence::next() {
  const Mask waiting = parked();
  for (;;) {
    if (!calls_.empty() && levels_.size() == calls_.back().levels) {
      const Call call = calls_.back();
      if ((call.mask & waiting) != 0) {  // lanes that wait in the call for lanes outside of it
        pc = parked_.front().pc;
        active = 0;
        return Next::blocked;
      }
      calls_.pop_back();
      pc = call.pc;
      reconverge = call.reconverge;
      active = call.mask & live;
      return Next::returned;
    }
    if (levels_.empty()) {
      if (!load_apart()) break;
      if (active != 0) return Next::runs;
      continue;
    }
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
  const Mask waiting = same == parked_.end() ? 0 : same->mask & needed;
  // Active lanes that the guard excludes continue on their own.
  if ((needed & ~(mask | waiting)) == 0 && mask == active) {
    active |= waiting;
    for (Level& level : levels_) {
      if (level.is_parent) level.mask |= waiting;
    }
    for (Apart& other : apart_) {  // lanes that were of another set until they waited here
      for (Level& level : other.levels) level.mask &= ~waiting;
    }
    if (same != parked_.end() && (same->mask &= ~waiting) == 0) parked_.erase(same);
    return Gathered::all;
  }
  if (mask != active) return Gathered::in_part;
  if (same != parked_.end()) same->mask |= mask;
  else parked_.push_back({.pc = pc, .mask = mask});
  return Gathered::waits;
}

}  // namespace bitmma::kernel
