#include "bitmma/layout/layout.hpp"

#include "support/catch.hpp"

using namespace bitmma;

namespace {
const Layout example{.row = {{8, 4}, {2, 32}}, .col = {{4, 1}, {4, 64}}};
}  // namespace

TEST_CASE("a coordinate is split into digits, the first running fastest: row 9, column 6 of the header's example") {
  CHECK(print(example) == "((8,2),(4,4)):((4,32),(1,64))");
  CHECK(offset_of(example, 9, 6) == 102);
  for (int row = 0; row < 16; ++row) {
    for (int col = 0; col < 16; ++col) {
      CHECK(offset_of(example, row, col) == row % 8 * 4 + row / 8 * 32 + col % 4 + col / 4 * 64);
    }
  }
}

TEST_CASE("the last digit takes what is left, so coordinates beyond the extent have an offset, too") {
  CHECK(offset_of(example, 16, 0) == 2 * 32);
  CHECK(offset_of(example, 0, 21) == 1 + 5 * 64);
  CHECK(offset_of(LayoutMode{{8, 3}}, 100) == 300);
}

TEST_CASE("the offsets of a mode are those of its coordinates one by one") {
  for (const LayoutMode& mode : {LayoutMode{}, LayoutMode{{8, 4}}, LayoutMode{{8, 4}, {2, 32}},
                                 LayoutMode{{2, 1}, {4, 16}, {2, 2}}, LayoutMode{{1, 7}, {4, 0}}}) {
    const std::vector<int64_t> offsets = offsets_of(mode, 40);
    REQUIRE(offsets.size() == 40);
    for (int64_t index = 0; index < 40; ++index) {
      INFO(index);
      CHECK(offsets[static_cast<size_t>(index)] == offset_of(mode, index));
    }
  }
  CHECK(offsets_of(LayoutMode{{8, 4}}, 0).empty());
}
