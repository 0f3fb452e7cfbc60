// SPDX-License-Identifier: MIT
// Which lanes of a warp run, and where. Lanes that take different ways run one after the other: a branch pushes the
// lanes that wait onto a stack of levels, and they run together again from the immediate post-dominator of the branch
// on. Lanes that run for long while others wait for them, such as lanes that spin for a lock, run apart from these:
// from sm_70 on each thread makes progress. Knows masks and numbers of steps, and nothing of instructions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bitmma::kernel {

constexpr int lanes = 32;
using Mask = uint32_t;
constexpr Mask all_lanes = 0xFFFFFFFF;

/// Lanes that wait for others: all lanes of a branch at its reconvergence point (`is_parent`), or the other path's.
struct Level {
  int reconverge = -1, pc = 0;
  Mask mask = 0;
  bool is_parent = false;

  bool operator==(const Level&) const = default;
};

/// Lanes parked at an instruction that all lanes must reach together.
struct Parked {
  int pc = 0;
  Mask mask = 0;

  bool operator==(const Parked&) const = default;
};

class Divergence {
 public:
  int pc = 0;  // of the active lanes
  Mask active = 0, live = 0;
  int reconverge = -1;  // where the active lanes wait for those of another path; -1: nowhere

  /// Whether there are lanes to run after a switch.
  enum class Next : uint8_t {
    runs,
    ended,     // no lane is live
    returned,  // the lanes of the innermost call are active behind it
    blocked    // the live lanes are parked at different instructions, or at none: pc is the first one's
  };
  /// Switches to the next lanes that can run.
  Next next();

  /// The active lanes of `taken` jump to `target`; the other active lanes continue with the next step. They meet at
  /// `meeting`.
  void branch(Mask taken, int target, int meeting);

  enum class Gathered : uint8_t {
    all,      // the lanes in `needed` are active
    waits,    // the active lanes are parked: other lanes run, after next()
    in_part,  // the guard lets only some of the active lanes arrive, and others are missing: an error of the kernel
  };
  /// The active lanes of `mask` arrive at an instruction that all lanes of `needed` must reach together.
  Gathered gather(Mask mask, Mask needed);

  /// Of the active lanes those of `first` go on; the others come back to the current step when these have reached
  /// `meeting`, where all go on together.
  void part(Mask first, int meeting);
  /// The active lanes go to `target`, and come back together behind the current step.
  void call(int target);
  /// The lanes of `set` have returned; they wait for the others of their call.
  void return_from_call(Mask set) { active &= ~set; }

  /// The active lanes have run for long: lanes that wait for them no longer do, and of all sets of lanes that run apart
  /// the next one gets its turn. False if all live lanes are active or parked.
  bool take_turns();

  /// The lanes of `set` continue at step `at` later; the other active lanes remain active.
  void set_aside(Mask set, int at);

  /// The lanes that wait at such an instruction.
  Mask parked() const;

  bool operator==(const Divergence&) const = default;

 private:
  /// Lanes that run apart from the active ones.
  struct Apart {
    int pc = 0;
    Mask active = 0;
    int reconverge = -1;
    std::vector<Level> levels = {};

    bool operator==(const Apart&) const = default;
  };
  /// Makes the first of those apart the active lanes. False if there are none.
  bool load_apart();

  /// Where the lanes of a call go on, and the levels that are not those of the call.
  struct Call {
    int pc = 0, reconverge = -1;
    Mask mask = 0;
    std::size_t levels = 0;

    bool operator==(const Call&) const = default;
  };

  std::vector<Level> levels_ = {};
  std::vector<Call> calls_ = {};
  std::vector<Parked> parked_ = {};
  std::vector<Apart> apart_ = {};  // the next one first
};

}  // namespace bitmma::kernel
