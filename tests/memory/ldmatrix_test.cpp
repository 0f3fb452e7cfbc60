#include "bitmma/memory/ldmatrix.hpp"

#include <array>
#include <set>

#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

TEST_CASE("ldmatrix: every element has a place of its own, and every place finds its element again") {
  for (const int count : {1, 2, 4}) {
    for (const bool transposed : {false, true}) {
      const LdMatrix move{.count = count, .transposed = transposed};
      std::set<std::array<int, 3>> places;
      for (int matrix = 0; matrix < count; ++matrix) {
        for (int row = 0; row < 8; ++row) {
          for (int col = 0; col < 8; ++col) {
            const LdMatrixElement element{.matrix = matrix, .row = row, .col = col};
            const RegisterPlace place = place_of(move, element);
            places.insert({place.thread, place.reg, place.bit});
            for (int bit = 0; bit < 16; ++bit)
              CHECK(element_at(move, place.thread, place.reg, place.bit + bit) == element);
            CHECK(place_of({.count = count, .transposed = !transposed}, {matrix, col, row}) == place);
          }
        }
      }
      CHECK(places.size() == static_cast<size_t>(64 * count));
    }
  }
}

// PTX ISA 9.7.14.5.15: the table of addresses, and the fragments of a row and, with .trans, of a column.
TEST_CASE("ldmatrix: places and address threads are those of PTX") {
  const LdMatrix plain{.count = 4}, trans{.count = 4, .transposed = true};
  CHECK(place_of(plain, {0, 0, 0}) == RegisterPlace{0, 0, 0});
  CHECK(place_of(plain, {0, 0, 7}) == RegisterPlace{3, 0, 16});
  CHECK(place_of(plain, {2, 1, 2}) == RegisterPlace{5, 2, 0});
  CHECK(place_of(plain, {3, 7, 7}) == RegisterPlace{31, 3, 16});
  CHECK(place_of(trans, {0, 1, 0}) == RegisterPlace{0, 0, 16});
  CHECK(place_of(trans, {2, 2, 1}) == RegisterPlace{5, 2, 0});
  CHECK(element_at(trans, 31, 1, 15) == LdMatrixElement{1, 6, 7});
  CHECK(address_thread(plain, 0, 7) == 7);
  CHECK(address_thread(plain, 1, 0) == 8);
  CHECK(address_thread(trans, 3, 7) == 31);
  CHECK(print(trans) == "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16");
  CHECK(print(LdMatrix{.count = 1, .store = true}) == "stmatrix.sync.aligned.m8n8.x1.shared.b16");
}

TEST_CASE("ldmatrix refuses other counts and what is out of range, all of it at once") {
  for (const int count : {-1, 0, 3, 8}) {
    CHECK_THROWS_MATCHES(element_at({.count = count}, 0, 0, 0), Error, refused(illegal_value, ".num"));
    CHECK_THROWS_AS(place_of({.count = count}, {}), Error);
    CHECK_THROWS_AS(address_thread({.count = count}, 0, 0), Error);
  }
  CHECK_THROWS_MATCHES(
      place_of({.count = 2}, {2, -1, 8}), Error,
      refused(illegal_value, "matrix") && refused(illegal_value, "row") && refused(illegal_value, "col"));
  CHECK_THROWS_MATCHES(
      element_at({.count = 1}, 32, 1, 32), Error,
      refused(illegal_value, "thread") && refused(illegal_value, "register") && refused(illegal_value, "bit"));
  CHECK_THROWS_MATCHES(address_thread({.count = 4}, 4, 8), Error,
                       refused(illegal_value, "matrix") && refused(illegal_value, "row"));
}

TEST_CASE("ldmatrix fills the fragments of mma.sync that PTX's figures show it to fill") {
  using Blocks = std::vector<MatrixBlock>;
  const Blocks a{{0, 0}, {8, 0}, {0, 16}, {8, 16}};
  for (const int bits : {1, 4, 8, 16, 32}) {
    INFO(bits);
    CHECK(ldmatrix_blocks(mma_a_fragment(bits, 256 / bits), false) == a);
    CHECK(ldmatrix_blocks(mma_a_fragment(bits, 128 / bits, 8), false) == Blocks{{0, 0}});
    CHECK(ldmatrix_blocks(mma_b_fragment(bits, 512 / bits), false) == Blocks{{0, 0}, {0, 16}, {0, 32}, {0, 48}});
    CHECK(ldmatrix_blocks(mma_a_fragment(bits, 256 / bits), true).has_value() == (bits == 16));
    CHECK(ldmatrix_blocks(mma_b_fragment(bits, 256 / bits), true).has_value() == (bits == 16));
  }
  CHECK(ldmatrix_blocks(mma_a_fragment(16, 16), true) == Blocks{{0, 0}, {0, 16}, {8, 0}, {8, 16}});
  CHECK(ldmatrix_blocks(mma_b_fragment(16, 16), true) == Blocks{{0, 0}, {8, 0}});
  CHECK(ldmatrix_blocks(mma_d_fragment(16), false) == Blocks{{0, 0}, {8, 0}});
  CHECK(ldmatrix_blocks(mma_d_fragment(16), true) == Blocks{{0, 0}, {0, 16}});
  for (const bool transposed : {false, true}) {
    for (const Fragment& fragment :
         {mma_d_fragment(32), mma_d_fragment(64), mma_a_fragment(64, 16), mma_b_fragment(64, 4), quad_a_fragment(false),
          quad_a_fragment(true), quad_b_fragment(false), quad_b_fragment(true), quad_d_fragment(Format::f16),
          quad_d_fragment(Format::f32), wgmma_a_fragment(Format::f16, 16)}) {
      CHECK_FALSE(ldmatrix_blocks(fragment, transposed).has_value());
    }
  }
}

TEST_CASE("the fewest ldmatrix are of the largest counts") {
  CHECK(ldmatrix_counts(8) == std::vector{4, 4});
  CHECK(ldmatrix_counts(7) == std::vector{4, 2, 1});
  CHECK(ldmatrix_counts(2) == std::vector{2});
  CHECK(ldmatrix_counts(0).empty());
}

TEST_CASE("every ldmatrix is read as it is printed, and wrong qualifiers are all named") {
  for (const int count : {1, 2, 4}) {
    for (const bool transposed : {false, true}) {
      for (const bool store : {false, true}) {
        const LdMatrix move{.count = count, .transposed = transposed, .store = store};
        CHECK(parse_ldmatrix(print(move)) == move);
      }
    }
  }
  CHECK(parse_ldmatrix("ldmatrix.sync.aligned.x4.trans.m8n8.shared::cta.b16") ==
        LdMatrix{.count = 4, .transposed = true});
  try {
    (void)parse_ldmatrix("movmatrix.sync.aligned.m8n8.x3.b16.b16");
    FAIL("four mistakes");
  } catch (const Error& error) {
    std::vector<std::string> seen;
    for (const Violation& violation : error.violations()) seen.push_back(violation.seen);
    CHECK(seen == std::vector<std::string>{"movmatrix", ".x3", ".b16 and .b16", "(missing)"});
  }
}

TEST_CASE("ldmatrix and stmatrix of 8-bit elements: each element has a place of its own, and PTX's words") {
  for (const char* text :
       {"ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64",
        "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b6x16_p32", "ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8",
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8x16.b4x16_p64",
        "stmatrix.sync.aligned.m16n8.x4.trans.shared.b8"}) {
    const LdMatrix move = parse_ldmatrix(text);
    CHECK(print(move) == text);
    std::set<std::array<int, 3>> places;
    for (int matrix = 0; matrix < move.count; ++matrix) {
      for (int row = 0; row < move.rows(); ++row) {
        for (int col = 0; col < move.cols(); ++col) {
          const RegisterPlace place = place_of(move, {matrix, row, col});
          places.insert({place.thread, place.reg, place.bit});
          CHECK(element_at(move, place.thread, place.reg, place.bit + 7) == LdMatrixElement{matrix, row, col});
        }
      }
    }
    CHECK(std::ssize(places) == 128 * move.registers());
  }
  for (const char* text :
       {"ldmatrix.sync.aligned.m16n16.x1.shared.b8", "ldmatrix.sync.aligned.m16n16.x4.trans.shared.b8",
        "ldmatrix.sync.aligned.m8n16.x1.shared.b8", "ldmatrix.sync.aligned.m16n8.x1.trans.shared.b8",
        "stmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64", "ldmatrix.sync.aligned.m8n8.x1.shared.b8"})
    CHECK_THROWS_AS(parse_ldmatrix(text), Error);
}
