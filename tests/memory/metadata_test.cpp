#include "bitmma/memory/metadata.hpp"

#include <limits>
#include <set>

#include "bitmma/core/random.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

// PTX ISA 9.7.15.6.2, written as the figures show it: nibble n of the thread with g = lane / 4, q = lane % 4.
TEST_CASE("metadata fields are in the nibbles of the PTX figures", "[rule:metadata-registers]") {
  for (int warp = 0; warp < 4; ++warp) {
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, q = lane % 4, thread = 32 * warp + lane;
      for (int nibble = 0; nibble < 8; ++nibble) {
        const MetadataLayout& f16 = metadata_layout(16);
        const int chunk16 = (4 * (nibble & 3) + 16 * (q & 1)) / 4;
        for (int index = 0; index < 2; ++index) {
          CHECK(metadata_place_of(f16, 16 * warp + g + 8 * (nibble >> 2), 2 * chunk16 + index, q / 2) ==
                RegisterPlace{thread, 0, 4 * nibble + 2 * index});
        }
        const MetadataLayout& tf32 = metadata_layout(32);
        const int chunk32 = (2 * (nibble & 3) + 8 * (q & 1)) / 2;
        CHECK(metadata_place_of(tf32, 16 * warp + g + 8 * (nibble >> 2), chunk32, q / 2) ==
              RegisterPlace{thread, 0, 4 * nibble});
        const MetadataLayout& fp8 = metadata_layout(8);
        const int chunk8 = (4 * nibble + 32 * (q >> 1)) / 4;
        for (int index = 0; index < 2; ++index) {
          CHECK(metadata_place_of(fp8, 16 * warp + g + 8 * (q & 1), 2 * chunk8 + index, 0) ==
                RegisterPlace{thread, 0, 4 * nibble + 2 * index});
        }
      }
    }
  }
}

TEST_CASE("selected positions survive a trip through the registers, for every selector",
          "[rule:metadata-registers][rule:selection]") {
  RandomStream random(11, 0);
  for (const int bits : {8, 16, 32}) {
    const MetadataLayout& layout = metadata_layout(bits);
    for (int selector = 0; selector < layout.selectors; ++selector) {
      std::vector<uint16_t> k;
      for (int row = 0; row < 64; ++row) {
        for (int chunk = 0; chunk < layout.stored_k / layout.pattern.stored_per_chunk; ++chunk) {
          const int first = static_cast<int>(
              random.below(static_cast<uint32_t>(layout.pattern.chunk - layout.pattern.stored_per_chunk + 1)));
          k.push_back(static_cast<uint16_t>(chunk * layout.pattern.chunk + first));
          if (layout.pattern.stored_per_chunk == 2)
            k.push_back(static_cast<uint16_t>(chunk * layout.pattern.chunk + random.between(first + 1, 3)));
        }
      }
      const Selection selection = select(layout, encode_metadata(layout, k, 64, selector), 64, selector);
      CHECK(selection.k == k);
      CHECK(selection.mixed.empty());
      CHECK(selection.undefined_chunks == 0);
    }
  }
}

TEST_CASE("metadata of containers that no instruction has is refused") {
  for (const int bits : {0, -1, 1, 6, 64, std::numeric_limits<int>::min()}) {
    CHECK_THROWS_MATCHES(metadata_layout(bits), Error, refused(illegal_value, "container bits"));
  }
}

TEST_CASE("metadata of any K that a quad's registers describe lies inside them") {
  for (const int bits : {4, 8, 16, 32}) {
    for (int stored_k = 1; stored_k <= 256; ++stored_k) {
      MetadataLayout layout;
      try {
        layout = metadata_layout(bits, stored_k);
      } catch (const Error&) {
        continue;  // not whole chunks, or too many
      }
      INFO(bits << " bits, " << stored_k << " stored");
      for (int selector = 0; selector < layout.selectors; ++selector) {
        for (const int row : {0, 7, 15}) {
          const RegisterPlace place = metadata_place_of(layout, row, stored_k - 1, selector);
          CHECK((place.thread >= 0 && place.thread < 32 && place.bit >= 0 && place.bit < 32));
        }
      }
    }
  }
}

TEST_CASE("undefined metadata is counted, and selects what an H200 takes", "[rule:selection]") {
  CHECK(select(metadata_layout(32), std::vector<uint32_t>(128, 0), 64, 0).undefined_chunks == 512);
  const Selection pairs = select(metadata_layout(16), std::vector<uint32_t>(128, 0x11111111), 64, 0);  // positions 1, 0
  CHECK(pairs.undefined_chunks == 64 * 8);
  CHECK(pairs.k[0] == 1);
  CHECK(pairs.k[1] == 0);
  // tf32 nibble 0111: half 3 below half 1, that is the upper half of k = 1 below the upper half of k = 0.
  const Selection halves = select(metadata_layout(32), std::vector<uint32_t>(128, 0x44444447), 64, 0);
  REQUIRE_FALSE(halves.mixed.empty());
  CHECK(halves.mixed[0] == MixedTerm{.row = 0, .stored = 0, .low_half = 3, .high_half = 1});
  CHECK_THROWS_AS(select(metadata_layout(16), std::vector<uint32_t>(127), 64, 0), Error);
}

TEST_CASE("every nibble of pairs of fp4 selects the pairs that others measured on an RTX PRO 6000",
          "[rule:selection]") {
  // Nibble to the pairs that stored pairs 0 and 1 meet: data/published/statements.csv, research-notes, section 6.
  constexpr int pairs[16][2]{{0, 1}, {1, 1}, {2, 1}, {2, 1}, {0, 1}, {1, 1}, {2, 1}, {2, 1},
                             {0, 2}, {1, 2}, {2, 2}, {2, 2}, {0, 3}, {1, 3}, {2, 3}, {2, 3}};
  for (uint32_t nibble = 0; nibble < 16; ++nibble) {
    INFO("nibble " << nibble);
    const auto of_chunk_1 = [&](int, int chunk) { return chunk == 1 ? nibble : 4u; };
    const Selection selection = select(two_pairs_of_eight, 1, 8, of_chunk_1, true, Format::e2m1);
    // Integers of 4 bits have pairs as well: an H200 takes their positions as they are.
    const Selection of_s4 = select(two_pairs_of_eight, 1, 8, of_chunk_1, true, Format::s4);
    const bool defined = (nibble & 3) < nibble >> 2;
    CHECK(selection.undefined_chunks == (defined ? 0 : 1));
    for (int stored = 0; stored < 4; ++stored) {
      const int pair = pairs[nibble][stored / 2];
      CHECK(selection.k[static_cast<size_t>(4 + stored)] == 8 + 2 * pair + stored % 2);
      const uint32_t position = stored < 2 ? nibble & 3 : nibble >> 2;
      CHECK(of_s4.k[static_cast<size_t>(4 + stored)] == 8 + 2 * static_cast<int>(position) + stored % 2);
    }
  }
}

TEST_CASE("elements without bits have no metadata") {
  CHECK_THROWS_AS(metadata_layout(0), Error);
  CHECK_THROWS_AS(metadata_layout(-8), Error);
  CHECK(MetadataLayout{}.fields_per_register() == 0);
}
