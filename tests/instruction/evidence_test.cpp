#include "bitmma/instruction/evidence.hpp"

#include <algorithm>
#include <set>

#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/instructions.hpp"

using namespace bitmma;

namespace {

bool has(const std::vector<Choice>& choices, Choice choice) {
  return std::ranges::find(choices, choice) != choices.end();
}

}  // namespace

TEST_CASE("all of wgmma is measured on an H200 and leaves nothing to choose") {
  for (const Instruction& instruction : all_instructions(Family::wgmma)) {
    REQUIRE(evidence_of(instruction, Target::sm_90a) == Evidence::measured);
    REQUIRE(choices_of(instruction, Target::sm_90a).empty());
  }
}

TEST_CASE("evidence of tcgen05 speaks of the B200 and cta_group::1 alone, and of sparse products there is none") {
  for (const Tcgen05Mma& instruction : test::tcgen05_mmas()) {
    const Target target = default_target(instruction);
    const Evidence evidence = evidence_of(instruction, target);
    const bool is_plain = !instruction.sparse && !instruction.weight_stationary && instruction.cta_group == 1;
    if (!is_plain || instruction.k == 96 || info(target).chip != Target::sm_100)
      REQUIRE(evidence == Evidence::model_choice);
    else REQUIRE(evidence != Evidence::model_choice);
    if (targets_of(instruction).contains(Target::sm_103a))
      REQUIRE(evidence_of(instruction, Target::sm_103a) == Evidence::model_choice);
    REQUIRE(has(choices_of(instruction, target), Choice::sparse_as_dense_tcgen05) == instruction.sparse);
  }
  CHECK(evidence_of(Tcgen05Mma{.scale_input_d = 1}, Target::sm_100a) == Evidence::model_choice);
}

TEST_CASE("the evidence of mma.sync is its own on every target and in every form") {
  const auto on = [](const char* mnemonic, Target target) { return evidence_of(parse_instruction(mnemonic), target); };
  using enum Target;
  const auto measured = Evidence::measured, words = Evidence::published_words, others = Evidence::measured_by_others,
             consistent = Evidence::consistent_words, model = Evidence::published_model,
             choice = Evidence::model_choice;
  for (const Instruction& instruction : all_instructions(Family::mma_sync)) {
    INFO(print(instruction));
    if (targets_of(instruction).contains(sm_90a)) CHECK(evidence_of(instruction, sm_90a) == measured);
  }
  const char* const f16_k8 = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32";
  const char* const f16_k16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32";
  const char* const quads = "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32";
  const char* const quads_of_f16_c = "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f16";
  const char* const fp8 = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32";
  const char* const mixed_fp8 = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32";
  const char* const short_fp8 = "mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e4m3.f32";
  const char* const f8f6f4 = "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32";
  const char* const nvfp4 =
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3";
  CHECK(on(quads, sm_70) == words);
  CHECK(on(quads, sm_72) == model);  // no output of a Xavier
  CHECK(on(quads, sm_75) == model);
  CHECK(on(quads, sm_80) == model);
  CHECK(on(quads_of_f16_c, sm_70) == model);  // no output of this form
  CHECK(on(f16_k8, sm_75) == model);
  CHECK(on(f16_k8, sm_80) == words);
  CHECK(on(f16_k8, sm_86) == words);
  CHECK(on(f16_k8, sm_87) == model);  // no output of an Orin
  CHECK(on(f16_k8, sm_88) == choice);
  CHECK(on(f16_k8, sm_100) == model);  // the outputs have 16 terms
  CHECK(on("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16", sm_80) == consistent);
  CHECK(on(f16_k16, sm_80) == model);  // that it is two steps
  CHECK(on(f16_k16, sm_100a) == words);
  CHECK(on(f16_k16, sm_103a) == choice);
  CHECK(on(f16_k16, sm_120a) == model);
  CHECK(on("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", sm_120) == model);
  CHECK(on(fp8, sm_89) == words);
  CHECK(on(fp8, sm_100) == consistent);  // exact sums
  CHECK(on(fp8, sm_120) == model);
  for (const Target target : {sm_89, sm_100, sm_120, sm_121}) {
    CHECK(on(mixed_fp8, target) == model);
    CHECK(on(short_fp8, target) == model);
  }
  CHECK(on(f8f6f4, sm_120a) == others);
  CHECK(on(f8f6f4, sm_121a) == model);
  CHECK(on(nvfp4, sm_120a) == others);
  CHECK(on(nvfp4, sm_121a) == model);
  CHECK(on("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", sm_80) == choice);
  CHECK(on("mma.sync.aligned.m16n8k16.row.col.satfinite.s32.s8.s8.s32", sm_80) == choice);
  CHECK(on("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32", sm_80) == model);
}

TEST_CASE("an arithmetic choice makes the evidence a choice, and a choice of places does not") {
  const Instruction f16 = Tcgen05Mma{.weight_stationary = true};
  REQUIRE_FALSE(choices_of(f16, Target::sm_100a).empty());
  CHECK(std::ranges::none_of(choices_of(f16, Target::sm_100a), is_arithmetic));
  const Instruction bf16 = Tcgen05Mma{.a = Format::bf16, .b = Format::bf16};
  CHECK(evidence_of(bf16, Target::sm_100a) == Evidence::published_words);
  CHECK(evidence_of(Tcgen05Mma{.a = Format::bf16, .b = Format::bf16, .sparse = true}, Target::sm_100a) ==
        Evidence::model_choice);
}

TEST_CASE("what a state shows adds to the choices: a base offset on Blackwell") {
  const Instruction instruction = Tcgen05Mma{.n = 16};
  State state = test::sample_case(instruction, 1).before;
  const std::vector<Choice> before = choices_of(instruction, Target::sm_100a, state);
  CHECK(before == choices_of(instruction, Target::sm_100a));
  state.set(Field::b_desc, state.number(Field::b_desc) | uint64_t{1} << 49);
  const std::vector<Choice> after = choices_of(instruction, Target::sm_100a, state);
  REQUIRE(after.size() == before.size() + 1);
  CHECK(has(after, Choice::base_offset));
}

TEST_CASE("moves whose words nobody has published say so, and the others do not") {
  const auto choices = [](const TmemMove& move) { return choices_of(move, Target::sm_100a); };
  CHECK(has(choices({.kind = MoveKind::shift}), Choice::shift_lanes));
  CHECK(has(choices({.kind = MoveKind::st, .ldst = {.pack_16b = true}}), Choice::unpack_upper_halves));
  CHECK(has(choices({.kind = MoveKind::cp, .source_format = CpSourceFormat::b4x16_p64}), Choice::fp4_codes_of_cp));
  const auto red = [](const LoadReduction& reduction) {
    return choices_of(TmemMove{.kind = MoveKind::ld_red, .reduction = reduction}, Target::sm_103a);
  };
  CHECK((has(red({}), Choice::redval_ignores_nan) && has(red({}), Choice::redval_negative_zero)));
  CHECK((has(red({.absolute = true}), Choice::redval_absolute) &&
         !has(red({.absolute = true}), Choice::redval_negative_zero)));
  CHECK_FALSE(has(red({.propagate_nan = true}), Choice::redval_ignores_nan));
  CHECK((red({.type = Format::s32}).empty() && red({.type = Format::u32}).empty()));
  CHECK(evidence_of(TmemMove{.kind = MoveKind::ld_red}, Target::sm_103a) == Evidence::model_choice);
  CHECK(choices({}).empty());
  CHECK(choices({.ldst = {.pack_16b = true}}).empty());
  CHECK(choices({.kind = MoveKind::st}).empty());
  CHECK(choices({.kind = MoveKind::cp, .source_format = CpSourceFormat::b6x16_p32}).empty());
}

TEST_CASE("every choice of an instruction is said once") {
  for (const Instruction& instruction : all_instructions()) {
    std::set<Choice> choices;
    for (const Choice choice : choices_of(instruction, default_target(instruction)))
      REQUIRE(choices.insert(choice).second);
  }
}
