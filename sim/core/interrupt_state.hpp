// SPDX-License-Identifier: MIT
// The innermost InterruptScope of a thread, for code that starts threads.
#pragma once

#include "bitmma/core/interrupt.hpp"

namespace bitmma {

/// The state of the calling thread; null outside of a scope.
InterruptState* current_interrupt();

/// Makes the scope of the thread that starts this one that of this thread too.
class InheritedInterrupt {
 public:
  explicit InheritedInterrupt(InterruptState* state);
  ~InheritedInterrupt();
  InheritedInterrupt(const InheritedInterrupt&) = delete;
  InheritedInterrupt& operator=(const InheritedInterrupt&) = delete;
};

}  // namespace bitmma
