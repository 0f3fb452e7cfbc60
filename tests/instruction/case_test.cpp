#include "bitmma/instruction/case.hpp"

#include <algorithm>

#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/stimulus/random_case.hpp"
#include "support/catch.hpp"
#include "support/instructions.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;
using test::refusal_of;

TEST_CASE("D of a case from its state is D of its logical matrices alone, in every family") {
  for (const Instruction& instruction : test::sample_instructions()) {
    if (!is_mma(instruction)) continue;
    // Finite numbers: a stored zero moves within its chunk when the matrix is compressed again.
    for (const Distribution distribution : {Distribution::narrow, Distribution::cancel, Distribution::ties}) {
      const Case whole = random_case(instruction, default_target(instruction), {}, distribution, 7, 3);
      const Case plain{.instruction = instruction, .target = whole.target, .logical = whole.logical};
      INFO(print(instruction));
      REQUIRE(whole.has_state());
      REQUIRE_FALSE(plain.has_state());
      CHECK(computed_d(plain) == computed_d(whole));
      CHECK(computed_d(whole) == result_of(instruction, whole.target, whole.before));
      CHECK(operands_of(whole) == gather_operands(instruction, whole.target, whole.before));
      CHECK(logical_of(instruction, operands_of(whole)) == whole.logical);
      CHECK(logical_of(instruction, operands_of(plain)) == whole.logical);
    }
  }
}

TEST_CASE("the same case is the same on every call, and another seed or index is another one") {
  for (const Instruction& instruction : test::sample_instructions()) {
    const Target target = default_target(instruction);
    const auto state = [&](uint64_t seed, uint64_t index) {
      return random_case(instruction, target, {}, Distribution::bits, seed, index).before;
    };
    CHECK(state(1, 2) == state(1, 2));
    CHECK(state(1, 2) != state(1, 3));
    CHECK(state(1, 2) != state(2, 2));
  }
}

TEST_CASE("a recorded D is read from what the instruction wrote and the addresses from before") {
  for (const Instruction& instruction : test::sample_instructions()) {
    Case this_case = test::sample_case(instruction, 2);
    CHECK_FALSE(this_case.has_recorded_d());
    CHECK_THAT(refusal_of([&] { recorded_d(this_case); }), refused(missing_input, "d"));
    State after = this_case.before;
    execute(instruction, this_case.target, after);
    this_case.after = State{};
    for (const FieldRule& rule : fields_of(instruction)) {
      if (rule.access == Access::read) continue;
      const auto buffer = std::ranges::find(after.buffers(), rule.field, &Buffer::field);
      this_case.after->borrow(rule.field, buffer->words(), buffer->extents(), buffer->is_wide());
    }
    REQUIRE_FALSE(this_case.after->buffers().empty());
    INFO(print(instruction));
    CHECK(this_case.has_recorded_d());
    CHECK(recorded_d(this_case) == computed_d(this_case));
  }
  // Without a state it is the logical d.
  Case plain{.instruction = Wgmma{}};
  CHECK_FALSE(plain.has_recorded_d());
  plain.logical.d = Matrix(Format::f32, 64, 8);
  CHECK(plain.has_recorded_d());
  CHECK(recorded_d(plain) == *plain.logical.d);
}

TEST_CASE("logical matrices of the wrong shape or format are refused by name") {
  const Case good = random_case(MmaSync{.kind = MmaKind::mxf8f6f4}, Target::sm_120a, {}, Distribution::normal, 1, 0);
  const auto refusal = [&](const auto& change) {
    LogicalMatrices logical = good.logical;
    change(logical);
    return refusal_of([&] { operands_of(good.instruction, logical); });
  };
  CHECK(refusal([](LogicalMatrices&) {}).empty());
  CHECK_THAT(refusal([](LogicalMatrices& l) { l.a.reset(); }), refused(missing_input, "a"));
  CHECK_THAT(refusal([](LogicalMatrices& l) { l.b = l.a; }), refused(wrong_shape, "b"));
  CHECK_THAT(refusal([](LogicalMatrices& l) { l.c = l.c->as(Format::s32); }), refused(wrong_shape, "c"));
  CHECK_THAT(refusal([](LogicalMatrices& l) { l.scale_a = l.scale_a->as(Format::ue4m3); }),
             refused(wrong_shape, "sfa"));
  CHECK_THAT(refusal([](LogicalMatrices& l) { l.scale_b.reset(); }), refused(missing_input, "sfb"));
  LogicalMatrices dense = random_case(Wgmma{.sparse = true}, Target::sm_90a, {}, Distribution::normal, 1, 0).logical;
  dense.a->fill(0x3C00);
  CHECK_THAT(refusal_of([&] { operands_of(Wgmma{.sparse = true}, dense); }),
             refused(contradiction, "a row 0, columns 0..3"));
}

TEST_CASE("an instruction that reads C needs one, and one that does not needs none") {
  LogicalMatrices logical = random_case(Wgmma{}, Target::sm_90a, {}, Distribution::normal, 1, 0).logical;
  CHECK(operands_of(Wgmma{}, logical).c.has_value());
  CHECK_FALSE(operands_of(Wgmma{.enable_input_d = false}, logical).c.has_value());
  logical.c.reset();
  CHECK_FALSE(operands_of(Wgmma{.enable_input_d = false}, logical).c.has_value());
  CHECK_THAT(refusal_of([&] { operands_of(Wgmma{}, logical); }), refused(missing_input, "c"));
  const LogicalMatrices with_c =
      random_case(MmaSync{.kind = MmaKind::mxf8f6f4}, Target::sm_120a, {}, Distribution::normal, 1, 0).logical;
  LogicalMatrices scaled = with_c;
  scaled.c.reset();
  CHECK_THAT(refusal_of([&] { operands_of(MmaSync{.kind = MmaKind::mxf8f6f4}, scaled); }), refused(missing_input, "c"));
  // But a product that is asked for without C counts it as absent, also of mma.sync, which always reads it.
  const BlockScales scales{*scaled.scale_a, *scaled.scale_b};
  Operands operands = operands_of(MmaSync{.kind = MmaKind::mxf8f6f4}, with_c);
  operands.c.reset();
  CHECK(multiply(MmaSync{.kind = MmaKind::mxf8f6f4}, Target::sm_120a, *scaled.a, *scaled.b, nullptr, &scales) ==
        multiply_accumulate(model_for(MmaSync{.kind = MmaKind::mxf8f6f4}, Target::sm_120a), operands));
}

TEST_CASE("a case of plain matrices has nothing to warn about") {
  CHECK(warnings_of(Case{.instruction = Wgmma{}}).empty());
  Case this_case = test::sample_case(Wgmma{.sparse = true}, 1);
  CHECK(warnings_of(this_case).empty());
  this_case.before.writable_words(Field::metadata)[0] = 0;
  CHECK_FALSE(warnings_of(this_case).empty());
}
