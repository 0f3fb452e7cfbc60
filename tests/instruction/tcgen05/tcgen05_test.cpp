#include <algorithm>

#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/stimulus/random_operands.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/instructions.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;
using test::tcgen05_mma;
using test::tcgen05_types;

namespace {

constexpr Target blackwell = Target::sm_100a;

}  // namespace

TEST_CASE("st, mma, ld: A*B+C comes back through registers") {
  // Layout D, 128 x 16 f32: warp w of four reads lanes 32 w .. 32 w + 31 with 32x32b.x16.
  const Instruction instruction = tcgen05_mma(tcgen05_types()[0], 128, 16);
  const Operands operands = random_operands(instruction, blackwell, Distribution::normal, 8, 0);
  State state = place_operands(instruction, {}, operands, filler_stream(8, 0));
  const LdSt move{.shape = LdStShape::s32x32b, .num = 16};
  const auto each_register = [&](auto body) {
    for (int warp = 0; warp < 4; ++warp) {
      for (int thread = 0; thread < 32; ++thread) {
        for (int reg = 0; reg < move.registers(); ++reg) {
          const TmemAddress place = move.place_of(thread, reg, 0);
          body(32 * warp + thread, reg,
               static_cast<size_t>(32 * warp + place.lane) * static_cast<size_t>(state.columns()) +
                   static_cast<size_t>(place.column));
        }
      }
    }
  };
  std::vector<uint32_t> registers(128 * 16);
  for (int row = 0; row < 128; ++row) {
    for (int col = 0; col < 16; ++col) registers[static_cast<size_t>(row * 16 + col)] = (*operands.c)(row, col);
  }
  const std::span<uint32_t> tmem = state.writable_words(Field::tmem);
  each_register(
      [&](int thread, int reg, size_t cell) { tmem[cell] = registers[static_cast<size_t>(thread * 16 + reg)]; });
  execute(instruction, blackwell, state);
  const std::span<const uint32_t> after = state.words(Field::tmem);
  const Matrix expected = multiply_accumulate(model_for(instruction, blackwell), operands);
  each_register([&](int thread, int reg, size_t cell) { REQUIRE(after[cell] == expected(thread, reg)); });
}

TEST_CASE("disabled lanes keep what they had, and so do the upper halves of f16 cells and cells outside D",
          "[rule:lane-masks]") {
  const Instruction instruction = tcgen05_mma(tcgen05_types()[1], 64, 16);  // f16 D, layout F
  const Operands operands = random_operands(instruction, blackwell, Distribution::normal, 9, 0);
  State state = place_operands(instruction, {}, operands, filler_stream(9, 0));
  state.writable_words(Field::disable_output_lane)[1] = 0x00000003;  // lanes 32 and 33: rows 16 and 17
  const std::vector<uint32_t> before = test::words_of(state, Field::tmem);
  const Matrix result = result_of(instruction, blackwell, state);
  execute(instruction, blackwell, state);
  CHECK(recorded_result(instruction, state) == result);
  const std::span<const uint32_t> after = state.words(Field::tmem);
  int changed = 0;
  for (int lane = 0; lane < 128; ++lane) {
    for (int column = 0; column < state.columns(); ++column) {
      const size_t cell =
          static_cast<size_t>(lane) * static_cast<size_t>(state.columns()) + static_cast<size_t>(column);
      const bool in_d = lane % 32 < 16 && column < 16 && lane != 32 && lane != 33;
      REQUIRE(after[cell] >> 16 == before[cell] >> 16);
      if (!in_d) REQUIRE(after[cell] == before[cell]);
      changed += after[cell] != before[cell];
    }
  }
  CHECK(changed > 500);
}

TEST_CASE("lanes are disabled in the odd CTA by words 4 to 7, and never with .ws or block scales") {
  const Instruction pair = Tcgen05Mma{.cta_group = 2, .n = 16};
  const State good = test::sample_case(pair, 1).before;
  State all = good, masked = good;
  masked.writable_words(Field::disable_output_lane)[6] = 0x80000000;  // lane 95 of the odd CTA: row 128 + 95
  execute(pair, blackwell, all);
  execute(pair, blackwell, masked);
  const Matrix before = recorded_result(pair, good), d = recorded_result(pair, all),
               kept = recorded_result(pair, masked);
  REQUIRE(block_of(before, 223, 1, 0, 16) != block_of(d, 223, 1, 0, 16));
  for (int row = 0; row < 256; ++row)
    REQUIRE(block_of(kept, row, 1, 0, 16) == block_of(row == 223 ? before : d, row, 1, 0, 16));
  for (const Instruction& without :
       {Instruction(Tcgen05Mma{.weight_stationary = true}), Instruction(Tcgen05Mma{.kind = MmaKind::mxf4})}) {
    State state = test::sample_case(without, 1).before;
    state.set(Field::disable_output_lane, std::vector<uint32_t>(4), {4});
    CHECK_NOTHROW(execute(without, blackwell, state));
    state.set(Field::disable_output_lane, std::vector<uint32_t>{0, 0, 1, 0}, {4});
    CHECK_THROWS_MATCHES(execute(without, blackwell, state), Error, refused(illegal_value, "disable_output_lane"));
  }
}

TEST_CASE("unequal copies of A feed their own part of N") {
  Tcgen05Mma instruction = tcgen05_mma(tcgen05_types()[0], 64, 64, 1, true);  // layout E: two copies
  instruction.a_source = OperandSource::tmem;
  const Operands first = random_operands(instruction, blackwell, Distribution::normal, 10, 0);
  Operands second = first;
  second.a = random_operands(instruction, blackwell, Distribution::normal, 10, 1).a;
  State state = place_operands(instruction, {}, first, filler_stream(10, 0));
  const State other = place_operands(instruction, {}, second, filler_stream(10, 0));
  // Lanes 64..127: copy 1, and D there (the same).
  const auto half = static_cast<size_t>(64 * state.columns());
  std::ranges::copy(other.words(Field::tmem).subspan(half), state.writable_words(Field::tmem).subspan(half).begin());
  const AccumulatorModel& model = model_for(instruction, blackwell);
  const Matrix left = multiply_accumulate(model, first), right = multiply_accumulate(model, second);
  // As the first rows and columns of D see them.
  CHECK(gather_operands(instruction, blackwell, state) == first);
  CHECK(warnings_of(instruction, blackwell, state).at(0).field == "copies");
  execute(instruction, blackwell, state);
  const Matrix d = recorded_result(instruction, state);
  CHECK(block_of(d, 0, 64, 0, 32) == block_of(left, 0, 64, 0, 32));
  CHECK(block_of(d, 0, 64, 32, 32) == block_of(right, 0, 64, 32, 32));
}

TEST_CASE("replicas of scales that differ feed their own lanes, and are warned about") {
  const Tcgen05Mma instruction = tcgen05_mma(tcgen05_types(MmaKind::mxf8f6f4, Format::f32, Format::e4m3), 128, 32);
  const Operands operands = random_operands(instruction, blackwell, Distribution::narrow, 12, 0);
  State state = place_operands(instruction, {}, operands, filler_stream(12, 0));
  CHECK(warnings_of(instruction, blackwell, state).empty());
  // The scale of column 5 of B, doubled in the replica of lanes 64..95: rows 64..95 of D alone change.
  const TmemPlace place =
      scales_of_b(find_tmem_layout(128, 1, false, false), 32, state.word(Field::scale_b_tmem), 0).place_of(5, 0, 2);
  const Matrix was = result_of(instruction, blackwell, state);
  state.writable_words(Field::tmem)[static_cast<size_t>(place.lane * state.columns() + place.column)] += 1u
                                                                                                         << place.bit;
  const Matrix is = result_of(instruction, blackwell, state);
  Operands doubled = operands;
  doubled.scales->b(0, 5) += 1;
  const Matrix other = multiply_accumulate(model_for(instruction, blackwell), doubled);
  for (int row = 0; row < 128; ++row) {
    for (int col = 0; col < 32; ++col) REQUIRE(is(row, col) == (row / 32 == 2 ? other(row, col) : was(row, col)));
  }
  CHECK(warnings_of(instruction, blackwell, state).at(0).field == "copies");
}
