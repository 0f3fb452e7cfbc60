#include "bitmma/arithmetic/accumulator_model.hpp"

#include "support/catch.hpp"

using namespace bitmma;

namespace {

const AccumulatorModel* f16_row(Target target, Family family) {
  return find_accumulator_model(target, family, Format::f16, Format::f16, Format::f32);
}

}  // namespace

TEST_CASE("a row's evidence speaks of the targets it was found on, and is never promoted to others",
          "[rule:evidence]") {
  int promotable = 0;
  for (const AccumulatorModel& row : accumulator_models()) {
    for (const TargetInfo& target : targets) {
      INFO(row.source << " on " << target.name);
      const bool proven = row.proven_on.contains(target.adds_as);
      CHECK(evidence_of(row, target.id) == (proven ? row.evidence : Evidence::model_choice));
      promotable += !proven && row.targets.contains(target.id) && row.evidence != Evidence::model_choice;
    }
  }
  CHECK(promotable > 0);
}

TEST_CASE("a rule that words of a B200 prove is a model choice on a B300") {
  const AccumulatorModel* b200 = f16_row(Target::sm_100a, Family::tcgen05);
  const AccumulatorModel* b300 = f16_row(Target::sm_103a, Family::tcgen05);
  REQUIRE(b200);
  REQUIRE(b300);
  CHECK(evidence_of(*b200, Target::sm_100a) == Evidence::published_words);
  CHECK(evidence_of(*b200, Target::sm_100f) == Evidence::published_words);
  CHECK(evidence_of(*b300, Target::sm_103a) == Evidence::model_choice);
  CHECK(evidence_of(*b300, Target::sm_103f) == Evidence::model_choice);
}

TEST_CASE("what an H200 was measured to do holds for sm_90a alone") {
  const AccumulatorModel* row = f16_row(Target::sm_90a, Family::wgmma);
  REQUIRE(row);
  CHECK(evidence_of(*row, Target::sm_90a) == Evidence::measured);
  CHECK(evidence_of(*row, Target::sm_90) == Evidence::measured);  // adds as sm_90a
  for (const Target other : {Target::sm_80, Target::sm_89, Target::sm_100a, Target::sm_120a}) {
    CHECK(evidence_of(*row, other) == Evidence::model_choice);
  }
}

TEST_CASE("a row is proven only on targets that it is for, and a model choice is proven on none") {
  for (const AccumulatorModel& row : accumulator_models()) {
    INFO(row.source);
    CHECK_FALSE(row.targets.empty());
    CHECK_FALSE(row.source.empty());
    CHECK((row.targets | row.proven_on) == row.targets);
    CHECK(row.proven_on.empty() == (row.evidence == Evidence::model_choice));
    for (const TargetInfo& target : targets) {
      if (row.targets.contains(target.id)) CHECK(target.adds_as == target.id);  // others find the row through adds_as
    }
  }
}

TEST_CASE("no two rows compute the same types of one family on one target") {
  for (const TargetInfo& target : targets) {
    for (const AccumulatorModel& row : accumulator_models()) {
      for (const FormatInfo& a : formats) {
        for (const FormatInfo& b : formats) {
          if (!row.targets.contains(target.adds_as) || !row.inputs.contains(a.id) || !row.inputs.contains(b.id))
            continue;
          CHECK(find_accumulator_model(target.id, row.family, a.id, b.id, row.output, row.scaling, row.quad_pairs) ==
                &row);
        }
      }
    }
  }
}

TEST_CASE(
    "targets without rows of their own use those of the GPU they add as, and where nobody has any, there is none") {
  CHECK(f16_row(Target::sm_90, Family::wgmma) == f16_row(Target::sm_90a, Family::wgmma));
  CHECK(f16_row(Target::sm_100f, Family::tcgen05) == f16_row(Target::sm_100a, Family::tcgen05));
  CHECK_FALSE(f16_row(Target::sm_80, Family::wgmma));
  CHECK_FALSE(f16_row(Target::sm_90a, Family::tcgen05));
  CHECK_FALSE(f16_row(Target::sm_100a, Family::wgmma));
  CHECK_FALSE(find_accumulator_model(Target::sm_103a, Family::tcgen05, Format::s8, Format::s8, Format::s32));
}

TEST_CASE("a rule prints in a few words") {
  CHECK(print_rule(*f16_row(Target::sm_90a, Family::wgmma)) == "F = 25, RZ-23, floor -133");
  CHECK(print_rule(*find_accumulator_model(Target::sm_100a, Family::tcgen05, Format::e2m1, Format::e2m1, Format::f32,
                                           Scaling::exact_groups)) == "exact groups of 16, F = 35, RZ-23, floor -139");
  CHECK(print_rule(*find_accumulator_model(Target::sm_90a, Family::wgmma, Format::s8, Format::u8, Format::s32)) ==
        "exact sum, wrap or one clamp");
  AccumulatorModel in_steps = *f16_row(Target::sm_90a, Family::wgmma);
  in_steps.terms_per_step = 8;
  in_steps.floor_exponent = no_floor;
  CHECK(print_rule(in_steps) == "steps of 8, F = 25, RZ-23, floor none");
}
