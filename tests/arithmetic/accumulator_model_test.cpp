#include "bitmma/arithmetic/accumulator_model.hpp"

#include "support/catch.hpp"

using namespace bitmma;

namespace {

const AccumulatorModel* f16_row(Target target, Family family) {
  return find_accumulator_model(target, family, Format::f16, Format::f16, Format::f32);
}

}  // namespace

TEST_CASE("a row is for targets that add by their own rows") {
  for (const AccumulatorModel& row : accumulator_models()) {
    INFO(print(row.family) << " " << print_rule(row));
    CHECK_FALSE(row.targets.empty());
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
  in_steps.floor_exponent.reset();
  CHECK(print_rule(in_steps) == "steps of 8, F = 25, RZ-23, floor none");
}
