#include <atomic>
#include <stdexcept>
#include <vector>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/core/random.hpp"
#include "support/catch.hpp"

using namespace bitmma;

TEST_CASE("an error prints field, value, what is legal, what to do and the source, one violation a line") {
  const Error error(
      {{.field = "n", .seen = "12", .legal = "8..256 in steps of 8", .fix = "use n = 16", .source = "PTX"},
       {.field = "m", .seen = "63", .legal = "64"}});
  CHECK(std::string(error.what()) == "n = 12: legal is 8..256 in steps of 8; use n = 16 [PTX]\nm = 63: legal is 64");
  CHECK(error.violations().size() == 2);
}

TEST_CASE("extract and insert are inverse on every field position") {
  for (int low = 0; low < 64; ++low) {
    for (int width = 1; low + width <= 64; ++width) {
      const BitField field{"field", low, width};
      const uint64_t word = 0x0123456789ABCDEF, value = 0xFEDCBA9876543210 & field.largest();
      CHECK(extract(insert(word, field, value), field) == value);
      CHECK((insert(word, field, value) & ~field.mask()) == (word & ~field.mask()));
    }
  }
}

// Known answers of the Random123 distribution (kat_vectors, philox4x32-10).
TEST_CASE("Philox gives the published words") {
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("streams of one seed differ, and bounded numbers stay in bounds") {
  RandomStream first(1, 0), second(1, 1), again(1, 0);
  CHECK(first.word64() != second.word64());
  CHECK(again.word64() == RandomStream(1, 0).word64());
  RandomStream random(7, 7);
  std::vector<int> seen(7);
  for (int i = 0; i < 7000; ++i) ++seen.at(static_cast<size_t>(random.between(-3, 3) + 3));
  for (const int count : seen) CHECK(count > 800);
}

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
