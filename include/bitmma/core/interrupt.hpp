// SPDX-License-Identifier: MIT
// Lets a caller end long work:
//
//   const InterruptScope scope([] { if (user_pressed_ctrl_c()) throw Interrupted{}; });
//   const Matrix d = gemm(plan, inputs);   // throws Interrupted within a second of Ctrl-C
#pragma once

#include <functional>

namespace bitmma {

struct InterruptState;

/// While a scope exists, work of this thread and of the threads that parallel_for starts for it calls `poll` about ten
/// times a second, always on this thread and without locks. An exception of `poll` ends the work on all threads, and
/// the library's function throws it. Scopes nest: the inner one is active.
class InterruptScope {
 public:
  explicit InterruptScope(std::function<void()> poll);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  InterruptState* state_;
  InterruptState* outer_;
};

/// Ends work that its caller interrupts: throws what `poll` threw. Long loops call it; parallel_for does for each
/// index.
void check_interrupt();

}  // namespace bitmma
