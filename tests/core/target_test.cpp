#include "bitmma/core/target.hpp"

#include <set>

#include "bitmma/core/error.hpp"
#include "support/catch.hpp"

using namespace bitmma;

TEST_CASE("every target's name is its own and parses back to it") {
  std::set<std::string_view> names;
  for (const TargetInfo& row : targets) {
    INFO(row.name);
    CHECK(names.insert(row.name).second);
    CHECK(print(row.id) == row.name);
    CHECK(target_named(row.name) == row.id);
    CHECK(parse_target(row.name) == row.id);
  }
  CHECK(names.size() == targets.size());
}

TEST_CASE("text that names no target is refused with the names of all of them") {
  for (const char* text : {"", "sm_91", "SM_90A", "sm_90a ", " sm_90a", "90a", "hopper", "sm_"}) {
    INFO("\"" << text << "\"");
    CHECK_FALSE(target_named(text));
    try {
      parse_target(text);
      FAIL("a target?");
    } catch (const Error& error) {
      REQUIRE(error.violations().size() == 1);
      const Violation& violation = error.violations().front();
      CHECK(violation.field == "target");
      CHECK(violation.seen == text);
      CHECK(violation.code == ViolationCode::unknown_name);
      CHECK(violation.legal == row_names(targets));
      for (const TargetInfo& row : targets) CHECK_THAT(violation.expected, ContainsSubstring(std::string(row.name)));
      CHECK_THAT(print(violation), ContainsSubstring("sm_121a or sm_121f"));
    }
  }
}

TEST_CASE("a name as long as a file does not fill the message") {
  try {
    parse_target(std::string(100000, 'x'));
    FAIL("a target?");
  } catch (const Error& error) {
    CHECK(error.violations().front().seen.size() <= 83);
  }
}

TEST_CASE("targets add as the GPU whose arithmetic they share: sm_86 as sm_80, sm_90 as sm_90a") {
  CHECK(info(Target::sm_72).adds_as == Target::sm_70);
  CHECK(info(Target::sm_75).adds_as == Target::sm_75);
  CHECK(info(Target::sm_86).adds_as == Target::sm_80);
  CHECK(info(Target::sm_87).adds_as == Target::sm_80);
  CHECK(info(Target::sm_89).adds_as == Target::sm_89);
  CHECK(info(Target::sm_90).adds_as == Target::sm_90a);
  CHECK(info(Target::sm_90a).adds_as == Target::sm_90a);
  CHECK(info(Target::sm_100f).adds_as == Target::sm_100a);
  CHECK(info(Target::sm_103).adds_as == Target::sm_103a);
  CHECK(info(Target::sm_101a).adds_as == Target::sm_110a);
  CHECK(info(Target::sm_121a).adds_as == Target::sm_120a);
}

TEST_CASE("only targets with wgmma or tcgen05 describe matrices in shared memory") {
  for (const TargetInfo& row : targets) {
    const bool specific = row.name.back() == 'a' || row.name.back() == 'f';
    const SmemDescriptorVersion expected =
        row.id == Target::sm_90a                                          ? SmemDescriptorVersion::sm_90
        : row.id == Target::sm_107a || row.id == Target::sm_107f          ? SmemDescriptorVersion::sm_107
        : specific && row.id >= Target::sm_100 && row.id < Target::sm_120 ? SmemDescriptorVersion::sm_100
                                                                          : SmemDescriptorVersion::none;
    INFO(row.name);
    CHECK(row.smem_descriptor == expected);
  }
}

TEST_CASE("a set of targets holds its members, prints them in the order of the table, and can be joined and met") {
  const TargetSet none, two{Target::sm_103a, Target::sm_100a}, last{Target::sm_121f};
  CHECK(none.empty());
  CHECK(print(none).empty());
  CHECK_FALSE(two.empty());
  CHECK(two.contains(Target::sm_100a));
  CHECK_FALSE(two.contains(Target::sm_100));
  CHECK(two.first() == Target::sm_100a);
  CHECK(print(two) == "sm_100a or sm_103a");
  CHECK(last.contains(Target::sm_121f));
  CHECK((two | last) == TargetSet{Target::sm_100a, Target::sm_103a, Target::sm_121f});
  CHECK((two & TargetSet{Target::sm_103a, Target::sm_121f}) == TargetSet{Target::sm_103a});
  CHECK((two & last).empty());
  for (const TargetInfo& row : targets) CHECK(TargetSet{row.id}.first() == row.id);
}
