#include "bitmma/instruction/evidence.hpp"

#include <algorithm>
#include <set>

#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "support/catch.hpp"
#include "support/instructions.hpp"

using namespace bitmma;

namespace {

bool has(const std::vector<Choice>& choices, std::string_view words) {
  return std::ranges::any_of(choices,
                             [&](const Choice& one) { return one.what.find(words) != std::string_view::npos; });
}

}  // namespace

TEST_CASE("all of wgmma is measured on an H200 and leaves nothing to choose") {
  for (const Instruction& instruction : all_instructions(Family::wgmma)) {
    REQUIRE(evidence_of(instruction, Target::sm_90a) == Evidence::measured_h200);
    REQUIRE(choices_of(instruction, Target::sm_90a).empty());
  }
}

TEST_CASE("evidence of tcgen05 speaks of the B200 alone, and of sparse products nobody has published any") {
  for (const Tcgen05Mma& instruction : test::tcgen05_mmas()) {
    const Target target = default_target(instruction);
    const Evidence evidence = evidence_of(instruction, target);
    const bool published = !instruction.sparse && instruction.k != 96 && instruction.d != Format::f16;
    REQUIRE(evidence == (published ? Evidence::published_words : Evidence::model_choice));
    if (targets_of(instruction).contains(Target::sm_103a))
      REQUIRE(evidence_of(instruction, Target::sm_103a) == Evidence::model_choice);
    REQUIRE(has(choices_of(instruction, target), "sparse tcgen05 sums") == instruction.sparse);
  }
  CHECK(evidence_of(Tcgen05Mma{.scale_input_d = 1}, Target::sm_100a) == Evidence::model_choice);
}

TEST_CASE("the arithmetic of mma.sync is a choice, whatever its form") {
  for (const Instruction& instruction : all_instructions(Family::mma_sync))
    REQUIRE(evidence_of(instruction, Target::sm_120a) == Evidence::model_choice);
}

TEST_CASE("an arithmetic choice makes the evidence a choice, and a choice of places does not") {
  const Instruction f16 = Tcgen05Mma{.weight_stationary = true};
  REQUIRE_FALSE(choices_of(f16, Target::sm_100a).empty());
  CHECK(std::ranges::none_of(choices_of(f16, Target::sm_100a), &Choice::is_arithmetic));
  CHECK(evidence_of(f16, Target::sm_100a) == Evidence::published_words);
}

TEST_CASE("what a state shows adds to the choices: a base offset on Blackwell") {
  const Instruction instruction = Tcgen05Mma{.n = 16};
  State state = test::sample_case(instruction, 1).before;
  const std::vector<Choice> before = choices_of(instruction, Target::sm_100a, state);
  CHECK(before == choices_of(instruction, Target::sm_100a));
  state.set(Field::b_desc, state.number(Field::b_desc) | uint64_t{1} << 49);
  const std::vector<Choice> after = choices_of(instruction, Target::sm_100a, state);
  REQUIRE(after.size() == before.size() + 1);
  CHECK(has(after, "base offset"));
}

TEST_CASE("moves whose words nobody has published say so, and the others do not") {
  const auto choices = [](const TmemMove& move) { return choices_of(move, Target::sm_100a); };
  CHECK(has(choices({.kind = MoveKind::shift}), "32 lanes"));
  CHECK(has(choices({.kind = MoveKind::st, .ldst = {.pack_16b = true}}), ".unpack::16b"));
  CHECK(has(choices({.kind = MoveKind::cp, .source_format = CpSourceFormat::b4x16_p64}), "bits 5:2"));
  CHECK(choices({}).empty());
  CHECK(choices({.ldst = {.pack_16b = true}}).empty());
  CHECK(choices({.kind = MoveKind::st}).empty());
  CHECK(choices({.kind = MoveKind::cp, .source_format = CpSourceFormat::b6x16_p32}).empty());
}

TEST_CASE("every choice of an instruction is said once") {
  for (const Instruction& instruction : all_instructions()) {
    std::set<std::string_view> said;
    for (const Choice& choice : choices_of(instruction, default_target(instruction)))
      REQUIRE(said.insert(choice.what).second);
  }
}
