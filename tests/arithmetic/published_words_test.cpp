// The published result words of a B200 (data/published/b200_words.txt): one output element a line.
#include <map>

#include "support/catch.hpp"
#include "support/published.hpp"

using namespace bitmma;
using test::PublishedGroup;

TEST_CASE("all 77 published words of a B200 are reproduced, dense, sparse and block-scaled",
          "[rule:fused-sum][rule:zero][rule:nan][rule:whole-k-scales][rule:groups-of-16][rule:selection]") {
  std::map<std::string, int> words_of;
  int words = 0;
  for (const PublishedGroup& group : test::b200_groups()) {
    const test::Mismatches mismatches = mismatches_of(group.model, group);
    INFO(group.name << ": " << mismatches.first);
    CHECK(mismatches.count == 0);
    const Mma mma = mma_of(group.instruction);
    ++words_of[(mma.sparse ? "sparse " : "") + std::string(info(*mma.kind).name)], ++words;
  }
  CHECK(words == 77);
  CHECK(words_of == std::map<std::string, int>{{"tf32", 9},
                                               {"f16", 17},
                                               {"f8f6f4", 20},
                                               {"i8", 8},
                                               {"mxf8f6f4", 7},
                                               {"mxf4", 2},
                                               {"mxf4nvf4", 9},
                                               {"sparse mxf8f6f4", 1},
                                               {"sparse mxf4", 1},
                                               {"sparse mxf4nvf4", 3}});
}

TEST_CASE("published words of tiny products on a B200 refute every other floor from -160 to -100, and none",
          "[rule:floor]") {
  std::vector<std::optional<int>> floors{std::nullopt};
  for (int floor = -160; floor <= -100; ++floor) floors.push_back(floor);
  const std::vector<PublishedGroup> groups = test::b200_groups();
  for (const std::optional<int> floor : floors) {
    int misses = 0, words = 0;
    for (const PublishedGroup& group : groups) {
      if (!group.name.starts_with("subnormal-window-floor")) continue;
      REQUIRE(group.model.floor_exponent == -133);
      misses += noticed(group, [&](AccumulatorModel& model) { model.floor_exponent = floor; }), ++words;
    }
    INFO("floor " << floor.value_or(0));
    CHECK((misses > 0) == (floor != -133));
    CHECK(words == 3);
  }
}
