#include "bitmma/instruction/register_map.hpp"

#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/stimulus/random_case.hpp"
#include "support/catch.hpp"
#include "support/instructions.hpp"

using namespace bitmma;

TEST_CASE("the map of an operand of mma.sync names the bits that hold its codes") {
  std::vector<Instruction> instructions = test::sample_instructions();
  for (const Format a : {Format::e4m3, Format::e2m3, Format::e3m2, Format::e2m1}) {
    for (const MmaKind kind : {MmaKind::f8f6f4, MmaKind::mxf8f6f4})
      instructions.emplace_back(MmaSync{.kind = kind, .a = a, .b = Format::e2m1});
  }
  uint64_t seed = 0;
  for (const Instruction& instruction : instructions) {
    const auto* mma_sync = std::get_if<MmaSync>(&instruction);
    if (!mma_sync || mma_sync->a == Format::f64 || mma_sync->is_quad_pairs()) continue;
    const Mma mma = mma_of(instruction);
    const Target target = default_target(instruction);
    const Case drawn = random_case(instruction, target, {}, Distribution::bits, 1, seed++);
    const Operands operands = gather_operands(instruction, target, drawn.before);
    INFO(print(instruction));
    for (const bool is_a : {true, false}) {
      const Map map = register_map(instruction, target, is_a ? "a" : "b");
      const Format format = is_a ? mma.a : mma.b;
      const Field field = is_a ? Field::a_regs : Field::b_regs;
      const size_t thread = map.axis("thread"), reg = map.axis("register"), bit = map.axis("bit");
      CHECK(map.axes[bit].width == bits_of(format));
      CHECK(map.axes[bit].step() == mma_sync->container_bits(format));
      const Matrix& matrix = is_a ? operands.a : operands.b;
      map.for_each({}, [&](const MapEntry& entry) {
        const auto row = static_cast<int>(entry[0]), col = static_cast<int>(entry[1]);
        const int64_t registers = drawn.before.extent(field, 1);
        const uint32_t word = drawn.before.words(field)[static_cast<size_t>(entry[thread] * registers + entry[reg])];
        REQUIRE((word >> entry[bit] & static_cast<uint32_t>(low_mask(bits_of(format)))) ==
                (is_a ? matrix(row, col) : matrix(col, row)));
      });
    }
  }
}

TEST_CASE("an e2m1 in a byte is in its bits 5:2, and a 6-bit code in its bits 5:0") {
  const MmaSync mma{.kind = MmaKind::f8f6f4, .a = Format::e2m1, .b = Format::e2m3};
  const Map a = register_map(mma, Target::sm_120a, "a"), b = register_map(mma, Target::sm_120a, "b");
  CHECK(a.place_of({0, 1})[a.axis("bit")] == 10);
  CHECK(b.place_of({0, 1})[b.axis("bit")] == 8);
  MapQuestion question{};
  question[a.axis("thread")] = 0, question[a.axis("register")] = 0;
  const auto elements_at = [&](int64_t bit) {
    question[a.axis("bit")] = bit;
    return a.elements_at(question).size();
  };
  CHECK(elements_at(9) == 0);  // padding
  CHECK(elements_at(10) == 1);
  CHECK(elements_at(13) == 1);
  CHECK(elements_at(14) == 0);
  // Packed codes fill the register.
  const Map packed = register_map(MmaSync{.kind = MmaKind::mxf4}, Target::sm_120a, "a");
  CHECK(packed.place_of({0, 1})[packed.axis("bit")] == 4);
}

TEST_CASE("codes narrower than their bytes follow each other in every 16 bytes of shared memory") {
  const SmemMatrix matrix{.descriptor = {.strides = {.leading_dim_byte_offset = 128, .stride_dim_byte_offset = 256}},
                          .element_bits = 8,
                          .rows = 8,
                          .cols = 32};
  for (const int bits : {4, 6}) {
    const Map map = map_of(matrix, bits);
    const SmemMap places(matrix);
    for (int row = 0; row < matrix.rows; ++row) {
      for (int col = 0; col < matrix.cols; ++col) {
        const SmemPlace place = code_place(places.place_of(row, col), 8, bits);
        const MapEntry entry = map.place_of({row, col});
        REQUIRE(entry[2] == place.byte);
        REQUIRE(entry[3] == place.bit);
        MapQuestion question{};  // each byte that has one of its bits
        for (const int64_t at : {place.byte * 8 + place.bit, place.byte * 8 + place.bit + bits - 1}) {
          question[2] = at / 8;
          const std::vector<MapEntry> entries = map.elements_at(question);
          REQUIRE(std::ranges::find(entries, entry) != entries.end());
          REQUIRE(entries.size() <= 2);
        }
      }
    }
    MapQuestion padding{};
    padding[2] = 15;
    CHECK(map.elements_at(padding).empty());
  }
  CHECK_THROWS_AS(map_of(matrix, 5), Error);
  CHECK(map_of(matrix, 8).place_of({1, 1}) == map_of(matrix).place_of({1, 1}));
}

TEST_CASE("codes of A in Tensor Memory are at the bits that tcgen05.mma reads") {
  const TmemA a{.layout = find_tmem_layout(128, 1, false, false), .element_bits = 8};
  CHECK(map_of(a, 16, code_bits_in_container(4, 8)).place_of({1, 1})[5] == 10);
  CHECK(map_of(a, 16, code_bits_in_container(6, 8)).place_of({1, 1})[5] == 8);
  CHECK(map_of(a, 16).place_of({1, 1})[5] == 8);
  CHECK_THROWS_AS(code_bits_in_container(5, 8), Error);
  CHECK_THROWS_AS(code_bits_in_container(4, 16), Error);
}
