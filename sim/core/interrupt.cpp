// SPDX-License-Identifier: MIT
#include "bitmma/core/interrupt.hpp"

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "interrupt_state.hpp"

namespace bitmma {

using Clock = std::chrono::steady_clock;

struct InterruptState {
  static constexpr std::chrono::milliseconds interval{100};

  std::function<void()> poll;
  std::thread::id owner = std::this_thread::get_id();
  Clock::time_point next_poll = Clock::now() + interval;  // used by the owner only
  std::exception_ptr failure = {};                        // written before `is_interrupted`
  std::atomic<bool> is_interrupted = false;
};

namespace {
thread_local InterruptState* innermost = nullptr;
}

InterruptState* current_interrupt() { return innermost; }

InheritedInterrupt::InheritedInterrupt(InterruptState* state) { innermost = state; }
InheritedInterrupt::~InheritedInterrupt() { innermost = nullptr; }

InterruptScope::InterruptScope(std::function<void()> poll)
    : state_(new InterruptState{.poll = std::move(poll)}), outer_(std::exchange(innermost, state_)) {}

InterruptScope::~InterruptScope() {
  innermost = outer_;
  delete state_;
}

void check_interrupt() {
  if (!innermost) return;
  InterruptState& state = *innermost;
  if (state.is_interrupted.load(std::memory_order_acquire)) std::rethrow_exception(state.failure);
  if (std::this_thread::get_id() != state.owner || Clock::now() < state.next_poll) return;
  try {
    state.poll();
  } catch (...) {
    state.failure = std::current_exception();
    state.is_interrupted.store(true, std::memory_order_release);
    throw;
  }
  state.next_poll = Clock::now() + InterruptState::interval;
}

}  // namespace bitmma
