// SPDX-License-Identifier: MIT
#include "bitmma/core/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bitmma/core/error.hpp"
#include "interrupt_state.hpp"

namespace bitmma {

int hardware_threads() {
  // Cached: the C library opens a file to find the number, which took half of the time of a small product.
  static const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return threads;
}

void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)>& body) {
  if (threads < 1) throw Error({.field = "threads", .seen = std::to_string(threads), .expected = "at least 1"});
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  std::condition_variable ended;
  std::size_t running = 0;  // helpers
  const auto fail = [&] {
    const std::lock_guard lock(mutex);
    if (!failure) failure = std::current_exception();
    next = count;
  };
  const auto work = [&] {
    for (;;) {
      const std::size_t i = next.fetch_add(1);
      if (i >= count) return;
      try {
        check_interrupt();
        body(i);
      } catch (...) {
        fail();
      }
    }
  };
  // Not every system gives a new thread the floating-point environment of the thread that makes it.
  std::fenv_t environment;
  const auto help = [&, interrupt = current_interrupt()] {
    std::fesetenv(&environment);
    {
      const InheritedInterrupt inherited(interrupt);
      work();
    }
    const std::lock_guard lock(mutex);
    --running;
    ended.notify_one();
  };
  // More threads than this do not help, and the system may refuse them.
  const int most = 4 * hardware_threads() + 16;
  const std::size_t helpers = std::min<std::size_t>(std::min(threads, most), count) - (count > 0);
  if (helpers > 0) std::fegetenv(&environment);
  {
    struct Pool {  // std::jthread needs a flag with libc++
      std::vector<std::thread> threads;
      ~Pool() {
        for (std::thread& thread : threads) thread.join();
      }
    } pool;
    try {
      pool.threads.reserve(helpers);
      for (std::size_t i = 0; i < helpers; ++i) {
        {
          const std::lock_guard lock(mutex);
          ++running;
        }
        try {
          pool.threads.emplace_back(help);
        } catch (...) {
          const std::lock_guard lock(mutex);
          --running;
          throw;
        }
      }
    } catch (const std::exception&) {
      // The system has no more threads, or no memory for one: the started threads and this one do all work.
    }
    work();
    // A helper may be in a long piece: only this thread can ask its caller whether to go on.
    for (std::unique_lock lock(mutex); current_interrupt() && running > 0;) {
      if (ended.wait_for(lock, std::chrono::milliseconds(100), [&] { return running == 0; })) break;
      lock.unlock();
      try {
        check_interrupt();
      } catch (...) {
        fail();
      }
      lock.lock();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace bitmma
