#include "bitmma/instruction/place_operands.hpp"

#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/stimulus/random_operands.hpp"
#include "support/catch.hpp"
#include "support/instructions.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;
using test::refusal_of;

TEST_CASE("a layout reads as it is written, and nothing else is one") {
  CHECK(parse_operand_layout("k-major:128") == OperandLayout{});
  CHECK(parse_operand_layout("mn-major:none") == OperandLayout{.major = Major::mn, .swizzle = Swizzle::none});
  CHECK(parse_operand_layout("mn-major:128-atom32").swizzle == Swizzle::b128_atom32);
  CHECK(parse_operand_layout("k-major:128@96").start_bytes == 96);
  CHECK(parse_operand_layout("k-major:none,lbo=128,sbo=2048,base=3@16") ==
        OperandLayout{.swizzle = Swizzle::none,
                      .start_bytes = 16,
                      .base_offset = 3,
                      .leading_dim_byte_offset = 128,
                      .stride_dim_byte_offset = 2048});
  // PTX's words for MN-major: of A M-major, of B N-major.
  CHECK(parse_operand_layout("m-major:64", Role::a) == parse_operand_layout("mn-major:64"));
  CHECK(parse_operand_layout("n-major:64@16", Role::b) == parse_operand_layout("mn-major:64@16"));
  CHECK_THROWS_AS(parse_operand_layout("n-major:64", Role::a), Error);
  CHECK_THROWS_AS(parse_operand_layout("m-major:64", Role::b), Error);
  for (const char* text : {"", "k-major", "k-major:", "k-major:16", "n-major:128", "k-major:128@", "k-major:128@8",
                           "k-major:128@-16", "k-major:128@262144", "k-major:128@16x", " k-major:128", ":128"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_operand_layout(text), Error);
  }
}

TEST_CASE("what place_operands lays out gather reads back, for every sample, and spare bits are the filler's") {
  uint64_t seed = 0;
  for (const Instruction& instruction : test::sample_instructions()) {
    if (!is_mma(instruction)) continue;
    const Target target = default_target(instruction);
    const Operands operands = random_operands(instruction, target, Distribution::bits, 3, seed++);
    const State state = place_operands(instruction, {}, operands, filler_stream(3, 0));
    CHECK(violations_of(instruction, state).empty());
    CHECK(gather_operands(instruction, target, state) == operands);
    CHECK(state == place_operands(instruction, {}, operands, filler_stream(3, 0)));
    // Other filler, other state, same operands.
    const State other = place_operands(instruction, {}, operands, filler_stream(3, 1));
    CHECK(gather_operands(instruction, target, other) == operands);
    // wgmma of samples without spare bytes have none to fill, nor have registers that elements fill.
    const Mma mma = mma_of(instruction);
    const bool is_full =
        mma.family == Family::mma_sync && mma.scale_count == 0 && mma.a_container_bits == info(mma.a).bits;
    if (mma.family != Family::wgmma && !is_full) CHECK(other != state);
  }
}

TEST_CASE("without C the accumulator is filler") {
  for (Instruction instruction : {Instruction(Wgmma{}), Instruction(Tcgen05Mma{.n = 16})}) {
    instruction = with_enable_input_d(instruction, false);
    const Target target = default_target(instruction);
    const Operands operands = random_operands(instruction, target, Distribution::bits, 3, 0);
    REQUIRE_FALSE(operands.c);
    const Matrix matrix = recorded_result(instruction, place_operands(instruction, {}, operands, filler_stream(3, 0))),
                 other = recorded_result(instruction, place_operands(instruction, {}, operands, filler_stream(3, 1)));
    CHECK(matrix != other);
    CHECK(matrix != Matrix(Format::f32, matrix.rows(), matrix.cols()));
  }
}

TEST_CASE("layouts that cannot hold a matrix or cannot be read are refused") {
  const Instruction instruction = Wgmma{};
  const Operands operands = random_operands(instruction, Target::sm_90a, Distribution::normal, 1, 0);
  const auto refusal = [&](const Placement& placement) {
    return refusal_of([&] { place_operands(instruction, placement, operands, filler_stream(1, 0)); });
  };
  CHECK(refusal({}).empty());
  CHECK_THAT(refusal({.a = {.padding_bytes = 8}}), refused(illegal_value, "padding of A"));
  CHECK_THAT(refusal({.b = {.padding_bytes = -16}}), refused(illegal_value, "padding of B"));
  CHECK_THAT(refusal({.a = {.padding_bytes = 1 << 18}}), refused(illegal_value, "padding of A"));
  CHECK_THROWS_AS(place_operands(TmemMove{}, {}, operands, filler_stream(1, 0)), Error);
}

TEST_CASE("operands that are not the instruction's are refused, and nothing is read past their ends") {
  const auto refusal = [](const Instruction& instruction, const Operands& operands) {
    return refusal_of([&] { place_operands(instruction, {}, operands, filler_stream(1, 0)); });
  };
  uint64_t seed = 0;
  for (const Instruction& instruction : test::sample_instructions()) {
    if (!is_mma(instruction)) continue;
    const Operands good = random_operands(instruction, default_target(instruction), Distribution::bits, 9, seed++);
    CHECK(refusal(instruction, good).empty());
    CHECK_THAT(refusal(instruction, {}), refused(illegal_value, "a"));
    Operands bad = good;
    bad.b = Matrix(good.b.format(), good.b.rows() - 1, good.b.cols());
    CHECK_THAT(refusal(instruction, bad), refused(illegal_value, "b"));
    bad = good;
    bad.c = Matrix(Format::e4m3, good.a.rows(), good.b.cols());
    CHECK_THAT(refusal(instruction, bad), refused(illegal_value, "c"));
    bad = good;
    if (bad.scales) bad.scales.reset();
    else bad.scales.emplace();
    CHECK_THAT(refusal(instruction, bad), refused(illegal_value, "scales"));
    bad = good;
    bad.selected_k.push_back(0);
    CHECK_THAT(refusal(instruction, bad), refused(illegal_value, "selected_k"));
    CHECK_THROWS_AS(logical_a(instruction, bad), Error);
    if (!good.selected_k.empty()) {
      bad = good;
      bad.selected_k.back() = 0;
      CHECK(refusal(instruction, bad).at(0).field.starts_with("selected_k"));
      CHECK_THROWS_AS(logical_a(instruction, bad), Error);
    }
    CHECK_THROWS_AS(logical_a(instruction, {}), Error);
    bad = good;
    CHECK_THROWS_AS(compress_a(instruction, Matrix(good.a.format(), 1, 1), bad), Error);
    CHECK(bad == good);
  }
}

TEST_CASE("an illegal instruction is refused before its operands are drawn, placed or sought") {
  const Instruction flat = Wgmma{.k = 0}, copy = TmemMove{.kind = MoveKind::cp, .cp_shape = 99};
  CHECK_THAT(refusal_of([&] { random_operands(flat, Target::sm_90a, Distribution::normal, 1, 0); }),
             refused(illegal_value, "k"));
  CHECK_THAT(refusal_of([&] { place_operands(flat, {}, {}, filler_stream(1, 0)); }), refused(illegal_value, "k"));
  CHECK_FALSE(violations_of(flat, State{}).empty());
  CHECK_FALSE(violations_of(copy, State{}).empty());
  CHECK_THROWS_AS(PlaceMap(flat, Target::sm_90a, State{}, Role::d), Error);
  CHECK_THROWS_AS(smem_operands(Wgmma{}, Target::sm_80, State{}), Error);
}

TEST_CASE("multiply refuses scales where the instruction has none") {
  const Matrix a(Format::f16, 64, 16), b(Format::f16, 16, 8);
  const BlockScales scales;
  CHECK_THAT(refusal_of([&] { multiply(Wgmma{}, Target::sm_90a, a, b, nullptr, &scales); }),
             refused(no_effect, "scales"));
}

TEST_CASE("a sparse A survives the trip through its logical matrix") {
  for (const Format format : {Format::f16, Format::tf32, Format::e4m3}) {
    const Instruction instruction = Wgmma{.a = format, .b = format, .sparse = true};
    const int k = mma_of(instruction).k;
    Operands operands = random_operands(instruction, Target::sm_90a, Distribution::narrow, 4, 0), back;
    const Matrix logical = logical_a(instruction, operands);
    compress_a(instruction, logical, back);
    CHECK(logical_a(instruction, back) == logical);
    CHECK(back.a.cols() == k / 2);
    Matrix dense = logical;
    dense.fill(1);
    CHECK(refusal_of([&] { compress_a(instruction, dense, back); }).at(0).code == contradiction);
  }
}

TEST_CASE("a sparse A of every family survives the trip, and a dense one is its own logical matrix") {
  uint64_t seed = 0;
  for (const Instruction& instruction : test::sample_instructions()) {
    if (!is_mma(instruction)) continue;
    const Operands operands = random_operands(instruction, default_target(instruction), Distribution::bits, 8, seed++);
    const Matrix logical = logical_a(instruction, operands);
    CHECK(logical.cols() == mma_of(instruction).a_cols());
    Operands back;
    compress_a(instruction, logical, back);
    CHECK(logical_a(instruction, back) == logical);
    if (!mma_of(instruction).sparse) {
      CHECK(back.a == operands.a);
      CHECK(back.selected_k == operands.selected_k);
    }
  }
}
