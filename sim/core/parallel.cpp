// SPDX-License-Identifier: MIT
#include "bitmma/core/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bitmma/core/error.hpp"

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
  std::mutex failure_mutex;
  const auto work = [&] {
    for (;;) {
      const std::size_t i = next.fetch_add(1);
      if (i >= count) return;
      try {
        body(i);
      } catch (...) {
        const std::lock_guard lock(failure_mutex);
        if (!failure) failure = std::current_exception();
        next = count;
      }
    }
  };
  // More threads than this do not help, and the system may refuse them.
  const int most = 4 * hardware_threads() + 16;
  const std::size_t helpers = std::min<std::size_t>(std::min(threads, most), count) - (count > 0);
  // Not every system gives a new thread the floating-point environment of the thread that makes it.
  std::fenv_t environment;
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
        pool.threads.emplace_back([&] {
          std::fesetenv(&environment);
          work();
        });
      }
    } catch (const std::exception&) {
      // The system has no more threads, or no memory for one: the started threads and this one do all work.
    }
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace bitmma
