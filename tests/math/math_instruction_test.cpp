#include "bitmma/math/math_instruction.hpp"

#include <set>

#include "bitmma/arithmetic/cpu_target.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/formats/ieee.hpp"
#include "math/mufu.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

uint64_t of(std::string_view ptx, uint64_t a, uint64_t b = 0, uint64_t c = 0) {
  return compute(parse_math_instruction(ptx), a, b, c);
}

}  // namespace

TEST_CASE("special functions give the words that a GPU was seen to give", "[rule:mufu]") {
  const struct {
    std::string_view ptx;
    uint32_t argument, result;
  } words[]{
      {"ex2.approx.ftz.f32", 0x3E99999A, 0x3F9D9624},
      {"ex2.approx.ftz.f32", 0xBE99999A, 0x3F4FEFC6},
      {"ex2.approx.ftz.f32", 0x40490FDB, 0x410D331D},
      {"ex2.approx.ftz.f32", 0xB3800000, 0x3F800000},  // 2^-2^-24 is 1: lower bits are dropped
      {"rcp.approx.ftz.f32", 0x40400000, 0x3EAAAAAB},
      {"rcp.approx.ftz.f32", 0x3FA00001, 0x3F4CCCCC},
      {"rcp.approx.ftz.f32", 0x80000001, 0xFF800000},  // a subnormal counts as zero
      {"rcp.approx.ftz.f32", 0x7E800000, 0x00800000},
      {"rcp.approx.ftz.f32", 0x7F000000, 0x00000000},
      {"rcp.approx.f32", 0x7F000000, 0x00400000},
      {"rsqrt.approx.ftz.f32", 0x40000000, 0x3F3504F2},
      {"rsqrt.approx.ftz.f32", 0x3F800001, 0x3F7FFFFE},
      {"rsqrt.approx.ftz.f32", 0x80000000, 0xFF800000},
      {"sqrt.approx.ftz.f32", 0x40000000, 0x3FB504F3},
      {"sqrt.approx.ftz.f32", 0x80000000, 0x80000000},
      {"sqrt.approx.ftz.f32", 0xBF800000, 0x7FFFFFFF},
      {"lg2.approx.ftz.f32", 0x40400000, 0x3FCAE00D},
      {"lg2.approx.ftz.f32", 0x3F7FFFFF, 0xB24B4000},
      {"lg2.approx.ftz.f32", 0x3F000000, 0xBF7FFFFE},  // not -1
      {"lg2.approx.ftz.f32", 0x3F800000, 0x00000000},
      {"tanh.approx.f32", 0x3F000000, 0x3EEC9A50},
      {"tanh.approx.f32", 0x3FC00000, 0x3F67B820},
      {"tanh.approx.f32", 0x00000001, 0x00000001},
  };
  for (const auto& [ptx, argument, result] : words) {
    INFO(ptx << " of " << print_bits(Format::f32, argument));
    CHECK(of(ptx, argument) == result);
  }
  CHECK(math::mufu_sin(0x3E000000) == 0x3F3504F2);  // in turns
  CHECK(math::mufu_sin(0x3DCCCCCD) == 0x3F167916);
}

TEST_CASE("radians become turns by one product toward zero", "[rule:mufu]") {
  RandomStream random(31, 0);
  for (int i = 0; i < 200'000; ++i) {
    const uint32_t word = i % 2 ? random.word() : random.word() % (1 << 26);
    const uint64_t product = ieee_mul(Format::f32, word, math::turns_per_radian, Rounding::toward_zero);
    const bool subnormal = (product & 0x7F800000) == 0, nan = (product & 0x7FFFFFFF) > 0x7F800000;
    if (nan) continue;
    INFO(print_bits(Format::f32, word));
    REQUIRE(math::turns_of(word) == (subnormal ? product & 0x80000000 : product));
  }
}

TEST_CASE("every instruction is read back from its name, and others are refused", "[rule:mufu]") {
  std::set<std::string> names;
  for (const MathInstruction& instruction : math_instructions()) {
    INFO(print(instruction));
    CHECK(names.insert(print(instruction)).second);
    CHECK(parse_math_instruction(print(instruction)) == instruction);
  }
  CHECK(parse_math_instruction("add.ftz.f32") == parse_math_instruction("add.rn.ftz.f32"));
  for (const std::string_view name : {"", "ex2", "ex2.approx", "ex2.rn.f32", "tanh.approx.ftz.f32", "ex2.approx.bf16",
                                      "fma.f32", "fma.rz.bf16", "mul.rn.f64", "ex2.approx.f32 "}) {
    INFO(name);
    CHECK_THROWS_AS(parse_math_instruction(name), Error);
  }
  const MathInstruction impossible{.operation = MathOperation::tanh, .accuracy = MathAccuracy::full};
  CHECK_THROWS_AS(compute(impossible, 0), Error);
}

TEST_CASE("batches give what single words give, at every level of the processor", "[rule:mufu]") {
  struct BestAgain {
    ~BestAgain() { use_cpu_target(cpu_targets().front()); }
  } const after;
  RandomStream random(30, 0);
  std::vector<uint32_t> a(4099), b(a.size()), c(a.size()), results(a.size());
  for (const MathInstruction& instruction : math_instructions()) {
    if (instruction.format == Format::f64) continue;
    const int operands = operand_count(instruction.operation);
    for (size_t i = 0; i < a.size(); ++i) {
      a[i] = random.word();
      if (i % 3 == 0) a[i] = (a[i] & 0x80FFFFFF) + 0x3E000000;  // near 1
      if (i % 16 == 1) a[i] &= 0x807FFFFF;
      if (i % 16 == 2) a[i] |= 0x7F800000;
      b[i] = random.word();
      c[i] = random.word();
    }
    for (const std::string_view target : cpu_targets()) {
      use_cpu_target(target);
      compute(instruction, a, operands > 1 ? b : std::vector<uint32_t>(), operands > 2 ? c : std::vector<uint32_t>(),
              results);
      int64_t differing = 0;
      for (size_t i = 0; i < a.size(); ++i) differing += results[i] != compute(instruction, a[i], b[i], c[i]);
      INFO(print(instruction) << " on " << target);
      CHECK(differing == 0);
    }
  }
  CHECK_THROWS_AS(compute(parse_math_instruction("add.rn.f32"), a, {}, {}, results), Error);
  CHECK_THROWS_AS(compute(parse_math_instruction("ex2.approx.f32"), a, b, {}, results), Error);
  CHECK_THROWS_AS(compute(parse_math_instruction("rcp.approx.ftz.f64"), a, {}, {}, results), Error);
}

TEST_CASE("rounded instructions flush, saturate and clamp as PTX says", "[rule:math]") {
  CHECK(of("mul.rn.f32", 0x00800000, 0x3F000000) == 0x00400000);
  CHECK(of("mul.rn.ftz.f32", 0x80800000, 0x3F000000) == 0x80000000);
  CHECK(of("add.rn.ftz.f32", 0x80000001, 0x80000001) == 0x80000000);
  CHECK(of("sub.rn.f32", 0x3F800000, 0x3F800000) == 0);
  CHECK(of("sub.rm.f32", 0x3F800000, 0x3F800000) == 0x80000000);
  CHECK(of("mul.rm.f32", 0, 0x3F800000) == 0);  // a zero product keeps its sign
  CHECK(of("add.rn.sat.f32", 0x40000000, 0x40000000) == 0x3F800000);
  CHECK(of("add.rn.sat.f32", 0x80000000, 0x80000000) == 0);
  CHECK(of("mul.rn.sat.f32", 0x7F800000, 0) == 0);  // NaN
  CHECK(of("fma.rn.relu.f16", 0xBC00, 0x3C00, 0) == 0);
  CHECK(of("fma.rn.relu.f16", 0x7C00, 0, 0) == 0x7FFF);
  CHECK(of("fma.rn.f16x2", 0x3C004000, 0x3C004200, 0) == 0x3C004600);
  CHECK(of("rcp.rn.f32", 0x40400000) == 0x3EAAAAAB);
  CHECK(of("rcp.rz.f32", 0x40400000) == 0x3EAAAAAA);
  CHECK(of("div.full.f32", 0x40400000, 0x7F000001) ==
        of("mul.rn.f32", of("rcp.approx.ftz.f32", 0x7E000001), 0x3F400000));
  CHECK(of("div.approx.f32", 0x40400000, 0x7F000001) == 0);  // the unit's 1 / b is 0
}

TEST_CASE("the steps that are shown of a special function make its result", "[rule:mufu]") {
  RandomStream random(32, 0);
  for (const MathInstruction& instruction : math_instructions()) {
    const bool has_unit =
        instruction.accuracy != MathAccuracy::rounded && !instruction.x2 && instruction.format != Format::f64;
    int shown = 0;
    for (int i = 0; i < 2000; ++i) {
      const uint32_t a = i % 2 ? random.word() : 0x3C00 + random.word() % 0x4000'0000, b = random.word();
      const std::optional<MufuSteps> steps = mufu_steps(instruction, a, b);
      INFO(print(instruction) << " of " << std::hex << a << " " << b);
      if (!steps) continue;
      ++shown;
      CHECK(steps->result == compute(instruction, a, b));
      CHECK((steps->behind.empty() ? steps->unit_result : steps->behind.back().result) == steps->result);
      if (!steps->before.empty()) CHECK(steps->before.front().result == steps->argument);
      // The unit's 24 bits are those of the quadratic, but for lg2, to which the exponent is added, and 1 / sqrt(4^n).
      const bool exact = steps->table == "rsqrt" && (steps->argument & 0x7FFFFF) == 0;
      if (steps->table == "lg2" || exact) continue;
      CHECK(((math::cut_off(steps->value, steps->unit) ^ steps->unit_result) & 0x7FFFFF) == 0);
    }
    CHECK((shown > 0) == has_unit);
  }
}

TEST_CASE(".ftz gives zero where the result is below the normal numbers after rounding", "[rule:math]") {
  // Words of an H100, nearest to where its results change from zero to the smallest normal number.
  struct Case {
    const char* name;
    uint32_t a, b, c, result;
  };
  const std::vector<Case> cases{
      {"mul.rn.ftz.f16", 0xa810, 0x17e0, 0x0, 0x8400},
      {"mul.rn.ftz.f16", 0x8c1c, 0x33c9, 0x0, 0x8000},
      {"mul.rn.ftz.f16", 0x844, 0x3780, 0x0, 0x400},
      {"mul.rn.ftz.f16", 0x38f9, 0x66f, 0x0, 0x0},
      {"fma.rn.ftz.f16", 0x8922, 0x8636, 0x8400, 0x8400},
      {"fma.rn.ftz.f16", 0x890b, 0x8677, 0x8400, 0x8000},
      {"fma.rn.ftz.f16", 0x14f2, 0x840a, 0x401, 0x400},
      {"fma.rn.ftz.f16", 0x8de, 0x86bd, 0x400, 0x0},
      {"mul.rn.ftz.f32", 0xa10362c6, 0x1ef96720, 0x0, 0x80800000},
      {"mul.rn.ftz.f32", 0xb228d7e3, 0xdc212cc, 0x0, 0x80000000},
      {"mul.rn.ftz.f32", 0xe76f135, 0x3184b1ec, 0x0, 0x800000},
      {"mul.rn.ftz.f32", 0x4f2977f, 0x3b07131c, 0x0, 0x0},
      {"mul.rz.ftz.f32", 0xabc5ff3d, 0x14257f58, 0x0, 0x80000000},
      {"mul.rz.ftz.f32", 0xc844a48, 0x3377b2ac, 0x0, 0x0},
      {"mul.rm.ftz.f32", 0xa5f7d52e, 0x1a0437dc, 0x0, 0x80800000},
      {"mul.rm.ftz.f32", 0x88c2e955, 0x37281e0b, 0x0, 0x80000000},
      {"mul.rm.ftz.f32", 0xc844a48, 0x3377b2ac, 0x0, 0x0},
      {"mul.rp.ftz.f32", 0xabc5ff3d, 0x14257f58, 0x0, 0x80000000},
      {"mul.rp.ftz.f32", 0xe0bb16, 0x3f11cf5c, 0x0, 0x800000},
      {"mul.rp.ftz.f32", 0x3dca5dfc, 0x221ec6c, 0x0, 0x0},
      {"fma.rn.ftz.f32", 0x839d5df3, 0xafcd738d, 0x80800000, 0x80800000},
      {"fma.rn.ftz.f32", 0x81f1af80, 0xb188680d, 0x80800000, 0x80000000},
      {"fma.rn.ftz.f32", 0x19e172bc, 0x99910a36, 0x800000, 0x800000},
      {"fma.rn.ftz.f32", 0x162fde95, 0x9d3a9a74, 0x800000, 0x0},
      {"fma.rm.ftz.f32", 0x8704cdae, 0xacf60f18, 0x80800000, 0x80800000},
      {"fma.rm.ftz.f32", 0x9b03a028, 0x98f90e08, 0x80800000, 0x80000000},
      {"fma.rm.ftz.f32", 0xa07d422, 0x990521f4, 0x800000, 0x0},
      {"fma.rp.ftz.f32", 0x8505dc44, 0x9e0954c4, 0x80800000, 0x80000000},
      {"fma.rp.ftz.f32", 0x12508db5, 0xa19bdd7e, 0x800000, 0x800000},
      {"fma.rp.ftz.f32", 0x1cbef155, 0x972ba681, 0x800000, 0x0},
      {"fma.rp.ftz.sat.f32", 0x8505dc44, 0x9e0954c4, 0x80800000, 0x0},
      {"fma.rp.ftz.sat.f32", 0x12508db5, 0xa19bdd7e, 0x800000, 0x800000},
      {"fma.rp.ftz.sat.f32", 0x1cbef155, 0x972ba681, 0x800000, 0x0},
      {"div.rn.ftz.f32", 0x937ff23e, 0x527ff23f, 0x0, 0x80000000},
      {"div.rn.ftz.f32", 0x7fffef7, 0x46fffef8, 0x0, 0x0},
      {"div.rp.ftz.f32", 0x937ff23e, 0x527ff23f, 0x0, 0x80000000},
      {"div.rp.ftz.f32", 0x7fffef7, 0x46fffef8, 0x0, 0x0},
  };
  for (const Case& this_case : cases) {
    INFO(this_case.name << std::hex << " " << this_case.a << " " << this_case.b << " " << this_case.c);
    const MathInstruction instruction = parse_math_instruction(this_case.name);
    CHECK(compute(instruction, this_case.a, this_case.b, this_case.c) == this_case.result);
  }
}

TEST_CASE("the codes on either side of an exact result are those that its roundings give", "[rule:math]") {
  RandomStream random(5, 0);
  int between = 0;
  for (const MathInstruction& instruction : math_instructions()) {
    INFO(print(instruction));
    for (int i = 0; i < 50; ++i) {
      const uint64_t a = random.word(), b = random.word(), c = random.word();
      const auto neighbours = neighbours_of(instruction, a, b, c);
      REQUIRE(neighbours.has_value() == (instruction.accuracy == MathAccuracy::rounded && !instruction.x2));
      if (!neighbours || instruction.sat || instruction.relu) continue;
      const uint64_t result = compute(instruction, a, b, c);
      CHECK((result == neighbours->first || result == neighbours->second));
      between += neighbours->first != neighbours->second;
    }
  }
  CHECK(between > 500);
}

TEST_CASE("words of 64 bits give what single words give", "[rule:math]") {
  const std::vector<uint64_t> a{0x3FF0000000000000, 0x4008000012345678, 0x7FF8000000000001, 0}, b(4), fewer(3);
  for (const char* name : {"rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64", "ex2.approx.f32"}) {
    const MathInstruction instruction = parse_math_instruction(name);
    std::vector<uint64_t> results(4);
    compute(instruction, a, {}, {}, results);
    for (size_t i = 0; i < a.size(); ++i) CHECK(results[i] == compute(instruction, a[i]));
    CHECK_THROWS_AS(compute(instruction, a, b, {}, results), Error);
    CHECK_THROWS_AS(compute(instruction, fewer, {}, {}, results), Error);
  }
}
