#include "bitmma/instruction/form.hpp"
#include "support/catch.hpp"
#include "support/instructions.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;
using test::tcgen05_mma;

TEST_CASE("M and N of every form are those of Table 39") {
  const test::Tcgen05Types& f16 = test::tcgen05_types(MmaKind::f16, Format::f32, Format::f16);
  const test::Tcgen05Types i8{MmaKind::i8, Format::s32, Format::s8, Format::s8};
  const auto count = [](const test::Tcgen05Types& types, int m, int cta_group, bool ws) {
    int legal = 0;
    for (int n = 8; n <= 256; n += 8)
      legal += violations_of(tcgen05_mma(types, m, n, cta_group, ws), Target::sm_100a).empty();
    return legal;
  };
  CHECK(count(f16, 64, 1, false) == 32);
  CHECK(count(f16, 128, 2, false) == 16);
  CHECK(count(f16, 256, 1, false) == 0);
  CHECK(count(f16, 32, 1, false) == 0);
  CHECK(count(f16, 32, 1, true) == 3);
  CHECK(count(f16, 128, 2, true) == 0);
  CHECK(count(i8, 128, 1, false) == 18);
  CHECK(count(i8, 256, 2, false) == 8);
  Tcgen05Mma transposed = tcgen05_mma({MmaKind::f8f6f4, Format::f32, Format::e4m3, Format::e4m3}, 128, 24);
  transposed.transpose_b = true;
  CHECK_THAT(violations_of(transposed, Target::sm_100a), test::refused(ViolationCode::illegal_value, "N"));
  transposed.a = Format::e2m1, transposed.transpose_a = true;
  CHECK(violations_of(transposed, Target::sm_100a).size() == 2);
}

TEST_CASE("the instruction descriptor says all of the instruction but what the mnemonic says") {
  int count = 0;
  for (const Tcgen05Mma& instruction : test::tcgen05_mmas()) {
    Tcgen05Mma bare{.kind = instruction.kind,
                    .cta_group = instruction.cta_group,
                    .weight_stationary = instruction.weight_stationary,
                    .sparse = instruction.sparse,
                    .scale_vec = instruction.scale_vec};
    REQUIRE(with_idesc(bare, idesc_of(instruction)) == instruction);
    REQUIRE(with_idesc(instruction, idesc_of(instruction)) == instruction);
    ++count;
  }
  CHECK(count > 350);
  // Table 42: M / 16 in bits 28:24, N / 8 in 22:17, and D f32 is 1 in bits 5:4.
  CHECK(idesc_of({}) == 0x08100010);
  CHECK(idesc_of({.cta_group = 2}) == 0x10100010);
  CHECK(idesc_of({.negate_a = true, .transpose_b = true}) == 0x08112010);
}

TEST_CASE("a descriptor that says otherwise than the mnemonic is refused") {
  const Tcgen05Mma instruction = tcgen05_mma(test::tcgen05_types(MmaKind::tf32, Format::f32, Format::tf32), 128, 16);
  CHECK_THROWS_MATCHES(with_idesc(instruction, idesc_of(instruction) | 4), Error,
                       refused(illegal_value, "sparse bit of the instruction descriptor"));
  CHECK_THROWS_AS(with_idesc(instruction, ~0u), Error);
}

TEST_CASE("an illegal tcgen05.mma gets every violation at once") {
  std::vector<std::string> fields;
  for (const Violation& violation : violations_of(Tcgen05Mma{.weight_stationary = true,
                                    .m = 48,
                                    .n = 40,
                                    .k = 32,
                                    .a_source = OperandSource::tmem,
                                    .scale_input_d = 1,
                                    .transpose_a = true,
                                    .scale_vec = ScaleVec::x1,
                                    .ashift = true,
                                    .collector = Collector{}},
                                                  Target::sm_100a)) {
    fields.push_back(violation.field);
  }
  for (const char* field :
       {"m", "N", "K", "collector", ".ashift", "scale_input_d", "size of the scale vector", "transpose_a"}) {
    INFO(field);
    CHECK(std::ranges::find(fields, field) != fields.end());
  }
}

TEST_CASE("scale ids, scale types and shifts outside their tables are refused") {
  const auto fields = [](const Tcgen05Mma& instruction) {
    std::string text;
    for (const Violation& violation : violations_of(instruction, default_target(instruction)))
      text += violation.field + ";";
    return text;
  };
  for (const int id : {-1, 1, 3, 4}) {
    INFO(id);
    CHECK_THAT(fields({.kind = MmaKind::mxf4, .scale_a_id = id}), ContainsSubstring("scale_a_id"));
    CHECK_THAT(fields({.kind = MmaKind::mxf4, .scale_b_id = id}), ContainsSubstring("scale_b_id"));
  }
  for (const int id : {-1, 4}) {
    INFO(id);
    CHECK_THAT(fields({.kind = MmaKind::mxf8f6f4, .scale_a_id = id}), ContainsSubstring("scale_a_id"));
    CHECK_THAT(fields({.max_shift_code = id}), ContainsSubstring("max_shift"));
    CHECK_THAT(fields({.weight_stationary = true, .max_shift_code = id}), ContainsSubstring("max_shift"));
  }
  CHECK_THAT(fields({.kind = MmaKind::mxf4nvf4, .scale_b_id = 2}), ContainsSubstring("scale_b_id"));
  CHECK_THAT(fields({.kind = MmaKind::mxf4, .scale_type = Format::ue4m3}), ContainsSubstring("scale type"));
  CHECK_THAT(fields({.scale_input_d = 16}), ContainsSubstring("scale_input_d"));
  CHECK_THAT(fields({.scale_input_d = -1}), ContainsSubstring("scale_input_d"));
  CHECK_THAT(fields({.kind = MmaKind::i8, .scale_input_d = 1}), ContainsSubstring("scale_input_d"));
}
