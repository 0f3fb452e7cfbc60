#include "bitmma/core/parallel.hpp"

#include <atomic>
#include <stdexcept>
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

TEST_CASE("a machine has at least one core") { CHECK(hardware_threads() >= 1); }
