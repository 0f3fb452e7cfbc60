#include "instruction/tcgen05/operands.hpp"

#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/stimulus/random_operands.hpp"
#include "support/catch.hpp"
#include "support/instructions.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;
using test::refusal_of;
using test::tcgen05_mma;

TEST_CASE(
    "K = 96: rows of 48 bytes that pass the end of their 128 go on in a second buffer, from every start CUTLASS uses") {
  const Target target = Target::sm_103a;
  for (const int64_t start : {0, 48, 96, 16, 64, 112, 32, 80}) {
    const Tcgen05Mma instruction = tcgen05_mma(test::tcgen05_types().back(), 128, 64);
    REQUIRE(instruction.k == 96);
    const OperandLayout layout{.start_bytes = start};
    const Operands operands =
        random_operands(instruction, target, Distribution::normal, 11, static_cast<uint64_t>(start));
    const State state = place_operands(instruction, {.a = layout, .b = layout}, operands, filler_stream(11, 0));
    const SmemMatrix a = family::a_matrix(instruction, state);
    CHECK(a.descriptor.leading_dim_absolute == (start + 48 > 128));
    const Operands back = gather_operands(instruction, target, state);
    CHECK(back.a == operands.a);
    CHECK(back.b == operands.b);
    // Row 9 by hand: byte kb of its 48 at start + kb of line 9, or past 128 at the beginning of line 9 of the second
    // buffer; then the XOR.
    const SmemMap map(a);
    for (int k = 0; k < 96; k += 2) {
      const int64_t position = start + k / 2, line = 9 % 8 * 128 + 9 / 8 * 1024;
      const int64_t linear =
          position < 128 ? position + line : a.descriptor.strides.leading_dim_byte_offset + position - 128 + line;
      REQUIRE(map.place_of(9, k) == SmemPlace{linear ^ (linear >> 7 & 7) << 4, 0});
    }
  }
  const Instruction other = tcgen05_mma(test::tcgen05_types()[0], 128, 64);
  State state =
      place_operands(other, {.b = {.swizzle = Swizzle::b64}},
                     random_operands(other, Target::sm_100a, Distribution::normal, 1, 0), filler_stream(1, 0));
  state.set(Field::b_desc, state.number(Field::b_desc) | uint64_t{1} << 52);
  CHECK_THROWS_MATCHES(execute(other, Target::sm_100a, state), Error, refused(illegal_value, "B leading_dim_mode"));
}

TEST_CASE("states that a tcgen05.mma cannot read get their refusal, and stay as they were") {
  const Target target = Target::sm_100a;
  const Tcgen05Mma instruction = tcgen05_mma(test::tcgen05_types(MmaKind::tf32, Format::f32, Format::tf32), 128, 16);
  const State good = place_operands(instruction, {}, random_operands(instruction, target, Distribution::normal, 1, 0),
                                    filler_stream(1, 0));
  const auto refusal = [&](auto change, const Instruction& with) {
    State bad = good;
    change(bad);
    const State before = bad;
    const std::vector<Violation> violations = refusal_of([&] { execute(with, target, bad); });
    if (!violations.empty()) CHECK(bad == before);
    return violations;
  };
  CHECK(refusal([](State&) {}, instruction).empty());
  CHECK_THAT(refusal([](State& s) { s.set(Field::d_tmem, 0x00100000); }, instruction),
             refused(illegal_value, "D lane"));
  CHECK_THAT(refusal([](State& s) { s.set(Field::d_tmem, 500); }, instruction), refused(illegal_value, "D columns"));
  CHECK_THAT(refusal([](State& s) { s.set(Field::d_tmem, 20); }, instruction), refused(illegal_value, "D columns"));
  CHECK_THAT(refusal([](State& s) { s.set(Field::d_tmem, 0x00800000); }, instruction),
             refused(illegal_value, "Tensor Memory address"));
  // Cells that are not lanes times columns are no Tensor Memory, nor are 513 columns.
  CHECK_THAT(refusal_of([&] {
               State bad = good;
               bad.set(Field::tmem, test::words_of(good, Field::tmem), {1, 128, 31});
             }),
             refused(wrong_shape, "tmem"));
  CHECK_THAT(refusal(
                 [](State& s) {
                   s.set(Field::tmem, std::vector<uint32_t>(128 * 513), {1, 128, 513});
                 },
                 instruction),
             refused(illegal_value, "Tensor Memory"));
  CHECK_THAT(refusal([&](State& s) { s.borrow(Field::smem, good.bytes(Field::smem).first(100), {100}); }, instruction),
             refused(illegal_value, "A element row 1, k 0"));
  CHECK_THAT(refusal(
                 [](State& s) {
                   const uint64_t a_desc = s.number(Field::a_desc);
                   s.set(Field::a_desc, (a_desc & ~(uint64_t{7} << 61)) | uint64_t{1} << 61);
                 },
                 instruction),
             refused(illegal_value, "A swizzle"));
  Tcgen05Mma n_major = instruction;
  n_major.transpose_b = true;
  CHECK_THAT(refusal([](State&) {}, n_major), refused(illegal_value, "B swizzle"));
  CHECK_THAT(refusal([](State& s) { s.set(Field::zero_column_mask, 1); }, instruction),
             refused(illegal_value, "zero_column_mask"));
  CHECK(refusal([](State& s) { s.set(Field::zero_column_mask, 0); }, instruction).empty());
}

TEST_CASE("addresses of A, metadata and scales that reach outside Tensor Memory are refused by their operand's name") {
  const Target target = Target::sm_100a;
  const auto refusal = [&](const Instruction& instruction, Field field, uint32_t address) {
    State state = test::sample_case(instruction, 1).before;
    state.set(field, address);
    const State before = state;
    const std::vector<Violation> violations = refusal_of([&] { execute(instruction, target, state); });
    CHECK(state == before);
    return violations;
  };
  const Instruction sparse = Tcgen05Mma{.n = 16, .sparse = true, .a_source = OperandSource::tmem},
                    scaled = Tcgen05Mma{.kind = MmaKind::mxf8f6f4, .n = 16};
  CHECK_THAT(refusal(sparse, Field::a_tmem, 28), refused(illegal_value, "A columns"));
  CHECK_THAT(refusal(sparse, Field::a_tmem, 0x00200000), refused(illegal_value, "A lane"));
  CHECK_THAT(refusal(sparse, Field::metadata_tmem, 32), refused(illegal_value, "sparse metadata columns"));
  CHECK_THAT(refusal(scaled, Field::scale_a_tmem, 30), refused(illegal_value, "scale_A columns"));
  CHECK_THAT(refusal(scaled, Field::scale_b_tmem, 32), refused(illegal_value, "scale_B columns"));
  CHECK_THAT(refusal(scaled, Field::scale_b_tmem, 0x00100000), refused(illegal_value, "scale_B lane"));
}

TEST_CASE("a column shift beyond what the instruction allows is refused") {
  const auto refusal = [](const Tcgen05Mma& instruction, int shift) {
    const Target target = Target::sm_100a;
    State state = test::sample_case(instruction, 1).before;
    state.set(Field::zero_column_mask, encode(ZeroColumnMask{.column_shift = shift}));
    return refusal_of([&] { execute(instruction, target, state); });
  };
  const Tcgen05Mma plain{.weight_stationary = true}, shifting{.weight_stationary = true, .max_shift_code = 1},
      narrow{.weight_stationary = true, .m = 32, .max_shift_code = 3};
  CHECK_THAT(refusal(plain, 1), refused(illegal_value, "column_shift"));
  CHECK_THAT(refusal(shifting, 9), refused(illegal_value, "column_shift"));
  CHECK_THAT(refusal(narrow, 17), refused(illegal_value, "column_shift"));
}
