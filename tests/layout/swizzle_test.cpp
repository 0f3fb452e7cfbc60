#include "bitmma/layout/swizzle.hpp"

#include <set>

#include "support/catch.hpp"

using namespace bitmma;

TEST_CASE("the XOR takes address bits, permutes 16-byte units and repeats with the pattern", "[rule:swizzle]") {
  for (const SwizzleInfo& swizzle : swizzles) {
    INFO(swizzle.name);
    std::set<int64_t> seen;
    for (int64_t address = 0; address < 4096; ++address) {
      const int64_t physical = apply(swizzle, address);
      CHECK(physical % 16 == address % 16);
      CHECK(physical / 128 == address / 128);
      CHECK(apply(swizzle, address + 8192) == physical + 8192);
      CHECK(apply(swizzle, address + swizzle.pattern_bytes()) == physical + swizzle.pattern_bytes());
      seen.insert(physical);
    }
    CHECK(seen.size() == 4096);
  }
  CHECK(apply(info(Swizzle::b128), 0x390) == (0x390 ^ 0x70));
  CHECK(apply(info(Swizzle::b64), 0x390) == (0x390 ^ 0x30));
  CHECK(apply(info(Swizzle::b32), 0x390) == (0x390 ^ 0x10));
  CHECK(apply(info(Swizzle::b128_atom32), 0x390) == (0x390 ^ 0x60));
}

TEST_CASE("the base offset is subtracted from the row phase", "[rule:base-offset]") {
  const SwizzleInfo& swizzle = info(Swizzle::b128);
  for (int base_offset = 0; base_offset < 8; ++base_offset) {
    for (int row = 0; row < 8; ++row) {
      const int64_t address = (base_offset + row) * 128;  // a pattern that starts at row base_offset
      CHECK(apply(swizzle, address, base_offset) == address + row * 16);
    }
  }
}

TEST_CASE("descriptor codes of the modes differ between architectures") {
  CHECK(swizzle_of_code(Target::sm_90a, 1) == Swizzle::b128);
  CHECK(swizzle_of_code(Target::sm_90a, 2) == Swizzle::b64);
  CHECK(swizzle_of_code(Target::sm_90a, 3) == Swizzle::b32);
  CHECK(swizzle_of_code(Target::sm_100a, 1) == Swizzle::b128_atom32);
  CHECK(swizzle_of_code(Target::sm_100a, 2) == Swizzle::b128);
  CHECK(swizzle_of_code(Target::sm_100a, 4) == Swizzle::b64);
  CHECK(swizzle_of_code(Target::sm_100a, 6) == Swizzle::b32);
  for (const int reserved : {3, 5, 7}) CHECK_FALSE(swizzle_of_code(Target::sm_100a, reserved));
}

TEST_CASE("only the targets whose descriptors have a mode have a code for it") {
  for (const SwizzleInfo& swizzle : swizzles) {
    INFO(swizzle.name);
    CHECK(swizzle.code(Target::sm_90a) == swizzle.code_sm_90a);
    CHECK(swizzle.code(Target::sm_100a) == swizzle.code_sm_100a);
    CHECK(swizzle.code(Target::sm_103f) == swizzle.code_sm_100a);
    for (const Target without : {Target::sm_80, Target::sm_90, Target::sm_100, Target::sm_120a}) {
      CHECK(swizzle.code(without) == -1);
    }
    for (const TargetInfo& target : targets) {
      const int code = swizzle.code(target.id);
      if (code >= 0) CHECK(swizzle_of_code(target.id, code) == swizzle.id);
    }
  }
  CHECK_FALSE(swizzle_of_code(Target::sm_120a, -1));
  CHECK_FALSE(swizzle_of_code(Target::sm_90a, -1));
}

TEST_CASE("swizzle modes are found by the names users write, and print as CuTe's three integers") {
  for (const SwizzleInfo& swizzle : swizzles) CHECK(swizzle_named(swizzle.name) == swizzle.id);
  CHECK(swizzle_named("128B") == Swizzle::b128);
  CHECK(swizzle_named("interleave") == Swizzle::none);
  CHECK_FALSE(swizzle_named("noneB"));
  CHECK_FALSE(swizzle_named(""));
  CHECK(print(info(Swizzle::b128)) == "Swizzle<3,4,3>");
  CHECK(print(info(Swizzle::b128_atom32)) == "Swizzle<2,5,2>");
}
