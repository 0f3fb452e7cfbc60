// SPDX-License-Identifier: MIT
#include "bitmma/core/interrupt.hpp"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "bitmma/core/parallel.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

using Clock = std::chrono::steady_clock;

struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

void work_for_ever() {
  for (;;) check_interrupt();
}

}  // namespace

TEST_CASE("an interrupt ends endless work on all threads within a second") {
  for (const int threads : {1, 2, 5}) {
    const auto begun = Clock::now();
    const InterruptScope scope([] { throw Interrupted(); });
    CHECK_THROWS_AS(parallel_for(8, threads, [](size_t) { work_for_ever(); }), Interrupted);
    CHECK(Clock::now() - begun < std::chrono::seconds(1));
  }
}

TEST_CASE("the calling thread polls while only another thread still works") {
  const InterruptScope scope([] { throw Interrupted(); });
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<bool> helps = false;
  CHECK_THROWS_AS(parallel_for(2, 2,
                               [&](size_t) {
                                 if (std::this_thread::get_id() != caller) {
                                   helps = true;
                                   work_for_ever();
                                 }
                                 while (!helps) std::this_thread::yield();
                               }),
                  Interrupted);
}

TEST_CASE("only the thread that made the scope polls, and a poll that throws nothing changes nothing") {
  std::atomic<int> polls = 0, visits = 0, strangers = 0;
  const std::thread::id caller = std::this_thread::get_id();
  {
    const InterruptScope scope([&] {
      ++polls;
      if (std::this_thread::get_id() != caller) ++strangers;
    });
    const auto end = Clock::now() + std::chrono::milliseconds(350);
    parallel_for(4, 2, [&](size_t) {
      while (Clock::now() < end) check_interrupt();
      ++visits;
    });
  }
  CHECK(polls >= 1);
  CHECK(polls <= 5);
  CHECK((visits == 4 && strangers == 0));
  check_interrupt();  // outside of a scope
}

TEST_CASE("an inner scope is active until it ends, and an ended scope interrupts nothing") {
  {
    const InterruptScope outer([] { throw std::logic_error("outer"); });
    {
      const InterruptScope inner([] { throw Interrupted(); });
      CHECK_THROWS_AS(work_for_ever(), Interrupted);
      CHECK_THROWS_AS(check_interrupt(), Interrupted);  // also where the exception was caught on the way
    }
    CHECK_THROWS_AS(work_for_ever(), std::logic_error);
  }
  std::atomic<int> visits = 0;
  parallel_for(10, 3, [&](size_t) { ++visits, check_interrupt(); });
  CHECK(visits == 10);
}
