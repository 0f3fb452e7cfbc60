#include "bitmma/core/parallel.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "support/catch.hpp"

using namespace bitmma;

TEST_CASE("parallel_for visits every index once, for any number of threads") {
  for (const int threads : {1, 2, 7}) {
    std::vector<std::atomic<int>> visits(1000);
    parallel_for(visits.size(), threads, [&](size_t i) { ++visits[i]; });
    for (const auto& count : visits) REQUIRE(count == 1);
  }
  parallel_for(0, 4, [](size_t) { FAIL("nothing to do"); });
}

TEST_CASE("an exception in parallel work reaches the caller") {
  CHECK_THROWS_AS(parallel_for(100, 4,
                               [](size_t i) {
                                 if (i == 50) throw std::runtime_error("here");
                               }),
                  std::runtime_error);
}

TEST_CASE("work is done where no thread can be created") {
  // In a process of its own, which gives up the rights to have more processes and threads than it has.
  enum Result : int { done, threw, missed, threads_were_left };
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit none{.rlim_cur = 0, .rlim_max = 0};
    setrlimit(RLIMIT_NPROC, &none);
    constexpr uid_t nobody = 65534;
    if (geteuid() == 0 && setuid(nobody) != 0) _exit(threads_were_left);  // no limit holds for root
    try {
      std::thread([] {}).join();
      _exit(threads_were_left);
    } catch (const std::system_error&) {
      // as it should be
    }
    std::vector<std::atomic<int>> visits(100);
    try {
      parallel_for(visits.size(), 8, [&](size_t i) { ++visits[i]; });
    } catch (const std::exception&) {
      _exit(threw);
    }
    _exit(std::ranges::all_of(visits, [](const auto& count) { return count == 1; }) ? done : missed);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == threads_were_left) {
    WARN("NOT checked: threads cannot be forbidden here");
    return;
  }
  CHECK(WEXITSTATUS(status) == done);
}

TEST_CASE("a machine has at least one core") { CHECK(hardware_threads() >= 1); }
