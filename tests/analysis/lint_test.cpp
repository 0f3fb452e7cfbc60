#include "bitmma/analysis/lint.hpp"

#include <algorithm>
#include <functional>

#include "bitmma/stimulus/random_case.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

struct Subject {
  Instruction instruction = Wgmma{};
  Distribution distribution = Distribution::normal;
  Placement placement = {};
};

Case case_of(const Subject& subject) {
  return random_case(subject.instruction, default_target(subject.instruction), subject.placement, subject.distribution,
                     0, 0);
}

/// The fields that lint names, after `change` to a good state.
std::string fields(const Subject& subject, const std::function<void(State&)>& change) {
  Case this_case = case_of(subject);
  change(this_case.before);
  std::string names;
  for (const Violation& finding : lint(this_case)) names += finding.field + ";";
  return names;
}

}  // namespace

TEST_CASE("lint says what is suspicious, and nothing of what is not") {
  const Subject f16{.instruction = wgmma({.n = 16})};
  const auto nothing = [](State&) {};
  CHECK(fields(f16, nothing).empty());
  const auto with_a = [&](uint64_t word) {
    return fields(f16, [word](State& state) { state.set(Field::a_desc, word); });
  };
  CHECK_THAT(with_a(0x4000000400010000), ContainsSubstring("A bytes;"));  // SBO 64: rows overlap
  CHECK_THAT(with_a(0x4000004000010200), ContainsSubstring("A and B;"));  // A begins where B does
  CHECK_THAT(with_a(0x4000004000010208), ContainsSubstring("A reads;"));  // and runs past the image
  CHECK_THAT(
      with_a(0x4000004001000000),
      ContainsSubstring("A leading_dim_byte_offset;A leading_dim_byte_offset;"));  // ignored, and changes nothing
  CHECK_THAT(with_a(0x4000004000010008),
             ContainsSubstring("A start_address;"));  // inside the pattern without base offset
  Subject special = f16;
  special.distribution = Distribution::special;
  CHECK_THAT(fields(special, nothing), ContainsSubstring("A values;") && ContainsSubstring("B values;"));
  Subject eight{.instruction = wgmma({.n = 8})};
  CHECK(fields(eight, nothing).empty());  // 8 rows have no second group, and 1024 is what everybody writes there
  eight.placement.b = {.swizzle = Swizzle::b128, .padding_bytes = 1024};
  CHECK_THAT(fields(eight, nothing), ContainsSubstring("B stride_dim_byte_offset;"));
  // Core matrices that follow each other along the rows: LBO of 8 rows, SBO 128, though 8 rows have no second group.
  eight.placement.b = {.swizzle = Swizzle::none};
  CHECK(fields(eight, [](State& state) {
          state.set(Field::b_desc,
                    (state.number(Field::b_desc) & 0x3FFF) | uint64_t{128 / 16} << 16 | uint64_t{128 / 16} << 32);
        }).empty());
  // The absolute mode away from 48 bytes of K.
  const Subject f4{.instruction = tcgen05({.kind = MmaKind::mxf4nvf4, .n = 16, .scale_type = Format::ue4m3})};
  CHECK_THAT(
      fields(f4, [](State& state) { state.set(Field::a_desc, state.number(Field::a_desc) | uint64_t{1} << 52); }),
      ContainsSubstring("A leading_dim_mode;"));
  Subject nvfp4{.instruction = tcgen05({.kind = MmaKind::mxf4nvf4, .n = 16, .scale_type = Format::ue4m3})};
  CHECK(fields(nvfp4, nothing).empty());
  CHECK_THAT(fields(nvfp4, [](State& state) { std::ranges::fill(state.writable_words(Field::tmem), 0); }),
             ContainsSubstring("scales of A;scales of B;"));
  nvfp4.distribution = Distribution::special;
  CHECK_THAT(fields(nvfp4, nothing), ContainsSubstring("scales of A;"));
}

TEST_CASE("lint's advice says what is expected, and what cannot run what is legal") {
  Case this_case = case_of({.instruction = wgmma({.n = 16}), .distribution = Distribution::special});
  this_case.before.set(Field::a_desc, 0x4000004000010208);
  std::string all;
  for (const Violation& finding : lint(this_case)) {
    const bool is_advice = finding.field != "A reads" && !finding.field.starts_with("A element");
    INFO(print(finding));
    CHECK((finding.severity == Severity::warning) == is_advice);
    all += print(finding) + "\n";
  }
  CHECK_THAT(all, ContainsSubstring("past the image of 10240: must be inside the image"));
  this_case.before.set(Field::a_desc, 0x4000004000010000);
  all.clear();
  for (const Violation& finding : lint(this_case)) all += print(finding) + "\n";
  CHECK_THAT(all, ContainsSubstring("A values = ") &&
                      ContainsSubstring(": expected finite numbers; memory may be uninitialised"));
}

TEST_CASE("lint of a case that lacks something says so, and of plain matrices looks at the values") {
  Case this_case = case_of({.instruction = wgmma({.n = 16}), .distribution = Distribution::special});
  const Case plain{.instruction = this_case.instruction, .target = this_case.target, .logical = this_case.logical};
  REQUIRE(!lint(plain).empty());
  CHECK(lint(plain).front().field == "A values");
  this_case.before.erase(Field::b_desc);
  REQUIRE(lint(this_case).size() == 1);
  CHECK(lint(this_case).front().field == "b_desc");
  this_case.instruction = Wgmma{.n = 12};
  REQUIRE(!lint(this_case).empty());
  CHECK_THAT(print(lint(this_case).front()), ContainsSubstring("= 12: must be"));
  const Case move{.instruction = tmem_move({.kind = MoveKind::shift}), .target = Target::sm_100a};
  CHECK_NOTHROW(lint(move));
}
