#include "bitmma/core/random.hpp"

#include <vector>

#include "support/catch.hpp"

using namespace bitmma;

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
