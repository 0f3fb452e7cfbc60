// SPDX-License-Identifier: MIT
// What ptxas computes before a kernel runs. Every number and every choice was read from SASS of ptxas 13.0 for sm_90a.
#include "run_kernel.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

struct FoldedRow {
  std::string_view instruction;
  uint32_t constant, result;
};
constexpr auto folded_rows = std::to_array<FoldedRow>({
    {"rsqrt.approx.f32", 0x40246F69, 0x3F1FB5CD},   {"rsqrt.approx.f32", 0x40114C98, 0x3F29E6E6},
    {"rsqrt.approx.f32", 0x001A5B2E, 0x5F8D0A5D},   {"rcp.approx.f32", 0x3E8940B9, 0x406EBDED},
    {"rcp.approx.f32", 0x7E9B7937, 0x0069619E},     {"rcp.approx.f32", 0x7F000001, 0x00400000},
    {"rcp.approx.ftz.f32", 0x3E8940B9, 0x406EBDED}, {"rcp.approx.ftz.f32", 0x7F000001, 0x00000000},
    {"rcp.approx.ftz.f32", 0x00000001, 0x7F800000}, {"sqrt.approx.f32", 0x40246F69, 0x3FCD2BF2},
    {"sqrt.approx.f32", 0x00012345, 0x1E411636},    {"ex2.approx.f32", 0x3F675254, 0x3FEF7406},
    {"ex2.approx.f32", 0xC2FC49D4, 0x0073D33C},     {"ex2.approx.f32", 0xC301A977, 0x000A1CBB},
    {"lg2.approx.f32", 0x3F675254, 0xBE15C0F3},     {"lg2.approx.f32", 0x001A567C, 0xC30047EC},
    {"sin.approx.ftz.f32", 0x3F675254, 0x3F491A6F}, {"sin.approx.ftz.f32", 0x411257FB, 0x3E8CA815},
    {"sin.approx.f32", 0x000FC71C, 0x00000000},     {"cos.approx.f32", 0x3F675254, 0x3F1E68C2},
    {"cos.approx.f32", 0xC0E63928, 0x3F1CDB92},
});

uint32_t result_of(const std::string& body, std::vector<uint32_t> words, int loads = 2) {
  words.resize(8);
  return test::run_words(body + "\nst.global.f32 [%rd1], %f11;", words, loads)[0];
}

/// The rule of the only product that meets a sum behind `between`; empty where they are in different blocks.
std::string rule_behind(const std::string& between) {
  const PtxEntry kernel(
      test::module_of("mov.b32 %f1, %r1;\nmov.b32 %f2, %r2;\nsetp.gt.s32 %p1, %r1, %r2;\nmul.f32 %f4, %f1, "
                      "%f2;\n" +
                          between +
                          "\nadd.f32 %f11, %f4, %f1;\nst.global.f32 [%rd1], %f11;"
                          "\nst.global.f32 [%rd1], %f5;\nst.global.b32 [%rd1], %r5;\nst.global.b64 [%rd1], %rd5;",
                      4));
  REQUIRE(kernel.fusions().size() <= 1);
  return kernel.fusions().empty() ? "" : kernel.fusions()[0].rule;
}

}  // namespace

TEST_CASE("approximate instructions of constants are rounded once, as ptxas computes them") {
  size_t unlike_the_unit = 0;
  for (const FoldedRow& row : folded_rows) {
    INFO(row.instruction << " " << row.constant);
    const std::string name(row.instruction);
    CHECK(result_of("mov.b32 %f1, " + std::to_string(row.constant) + ";\n" + name + " %f11, %f1;", {}) == row.result);
    unlike_the_unit += result_of("mov.b32 %f1, %r1;\n" + name + " %f11, %f1;", {row.constant}) != row.result;
  }
  CHECK(unlike_the_unit >= 5);  // numbers that tell the two apart
}

TEST_CASE("abs.ftz and neg.ftz of what ptxas folds late are left to the GPU") {
  // Whether the SASS of "INSTRUCTION; neg.ftz.f32; ex2.approx.ftz.f32" has an FADD and an MUFU.EX2.
  struct Row {
    std::string_view instruction, changes;
    bool is_left;
  };
  constexpr std::string_view negates = "neg.ftz.f32 %f4, %f3;";
  size_t decided = 0;
  const auto is_left = [&](const Row& row) {
    const auto result = [&](const std::string& last) {
      return result_of("mov.b32 %f1, 0x3FCDA2CC;\nmov.b32 %f2, 0x3F000000;\n" + std::string(row.instruction) + "\n" +
                           std::string(row.changes) + "\n" + last,
                       {});
    };
    const uint32_t word = result("mov.b32 %f11, %f4;");
    const uint32_t folded = result_of("mov.b32 %f4, " + std::to_string(word) + ";\nex2.approx.ftz.f32 %f11, %f4;", {}),
                   of_unit = result_of("mov.b32 %f1, %r1;\nex2.approx.ftz.f32 %f11, %f1;", {word}),
                   seen = result("ex2.approx.ftz.f32 %f11, %f4;");
    CHECK((seen == folded || seen == of_unit));
    decided += folded != of_unit;
    return folded == of_unit ? row.is_left : seen == of_unit;
  };
  for (const Row& row : std::initializer_list<Row>{
           {"rcp.approx.f32 %f3, %f1;", negates, true},
           {"rcp.approx.ftz.f32 %f3, %f1;", negates, false},
           {"rsqrt.approx.f32 %f3, %f1;", negates, true},
           {"rsqrt.approx.ftz.f32 %f3, %f1;", negates, false},
           {"sqrt.approx.f32 %f3, %f1;", negates, true},
           {"sqrt.approx.ftz.f32 %f3, %f1;", negates, false},
           {"ex2.approx.f32 %f3, %f1;", negates, true},
           {"ex2.approx.ftz.f32 %f3, %f1;", negates, false},
           {"lg2.approx.f32 %f3, %f1;", negates, true},
           {"lg2.approx.ftz.f32 %f3, %f1;", negates, false},
           {"sin.approx.f32 %f3, %f1;", negates, false},
           {"cos.approx.f32 %f3, %f1;", negates, false},
           {"div.approx.f32 %f3, %f2, %f1;", negates, true},
           {"div.approx.ftz.f32 %f3, %f2, %f1;", negates, true},
           {"div.full.f32 %f3, %f2, %f1;", negates, false},
           {"div.full.ftz.f32 %f3, %f2, %f1;", negates, false},
           {"div.approx.ftz.f32 %f3, %f2, %f1;", "abs.ftz.f32 %f4, %f3;", true},
           {"div.approx.ftz.f32 %f3, %f2, %f1;", "abs.f32 %f4, %f3;", false},
           {"div.approx.ftz.f32 %f3, %f2, %f1;", "mov.f32 %f4, %f3;", false},
           {"div.approx.ftz.f32 %f5, %f2, %f1;\nmul.ftz.f32 %f3, %f5, 0f3F8CCCCD;", negates, true},
           {"div.approx.ftz.f32 %f5, %f2, %f1;\nrcp.approx.ftz.f32 %f3, %f5;", negates, true},
           {"mul.f32 %f3, %f2, %f1;", negates, false}}) {
    INFO(row.instruction << " " << row.changes);
    CHECK(is_left(row) == row.is_left);
  }
  CHECK(decided >= 8);
}

TEST_CASE("a quotient by a constant is a product by its rounded reciprocal, and joins a sum") {
  // SASS: FMUL by 0x3F8DA7D6, and FFMA.
  const std::string
      quotient = "mov.b32 %f1, %r1;\nmov.b32 %f2, %r2;\nmov.f32 %f3, 0f3F675254;\ndiv.approx.f32 %f4, %f1, %f3;\n",
      product = "mov.b32 %f1, %r1;\nmov.b32 %f2, %r2;\nmul.f32 %f4, %f1, 0f3F8DA7D6;\n";
  RandomStream random(5, 0);
  for (int i = 0; i < 100; ++i) {
    const std::vector<uint32_t> words{0x3F800000 | random.word() >> 9, 0x3F800000 | random.word() >> 9};
    CHECK(result_of(quotient + "mov.f32 %f11, %f4;", words) == result_of(product + "mov.f32 %f11, %f4;", words));
    CHECK(result_of(quotient + "add.f32 %f11, %f4, %f2;", words) ==
          result_of(product + "add.f32 %f11, %f4, %f2;", words));
  }
  CHECK(result_of("mov.b32 %f1, %r1;\ndiv.approx.f32 %f11, %f1, 0f00000001;", {0x00000002}) == 0x40000000);
}

TEST_CASE("a product of constants is a constant, and joins no sum") {
  const PtxEntry kernel(test::module_of(
      "mov.b32 %f1, %r1;\nrsqrt.approx.f32 %f2, 0f40246F69;\nmul.f32 %f3, %f2, 0f3E8940B9;\nadd.f32 %f4, %f3, %f1;\n"
      "st.global.f32 [%rd1], %f4;",
      1));
  CHECK(kernel.fusions().empty());
}

TEST_CASE("ptxas leaves fma and 16-bit arithmetic of constants to the GPU, and what follows is approximate") {
  // 2.5693 by fma, which is no constant to ptxas: MUFU.RSQ of it.
  const uint32_t of_unit = result_of("mov.b32 %f1, %r1;\nrsqrt.approx.f32 %f11, %f1;", {0x40246F69}, 1);
  CHECK(of_unit != 0x3F1FB5CD);
  CHECK(result_of("fma.rn.f32 %f1, 0f40246F69, 0f3F800000, 0f00000000;\nrsqrt.approx.f32 %f11, %f1;", {}) == of_unit);
  CHECK(result_of("add.f32 %f1, 0f40246F69, 0f00000000;\nrsqrt.approx.f32 %f11, %f1;", {}) == 0x3F1FB5CD);
}

TEST_CASE("a branch that constants decide makes one block of two") {
  const PtxEntry kernel(test::module_of(
      "mov.b32 %f1, %r1;\nmov.b32 %f2, %r2;\nrsqrt.approx.f32 %f3, 0f40246F69;\nsetp.gt.f32 %p1, %f3, 0f3F000000;\n"
      "mul.f32 %f4, %f1, %f2;\n@%p1 bra L;\nmov.f32 %f1, %f2;\nL:\nadd.f32 %f5, %f4, %f1;\nst.global.f32 [%rd1], %f5;",
      2));
  REQUIRE(kernel.fusions().size() == 1);
  CHECK(kernel.fusions()[0].is_joined);
}

TEST_CASE("instructions that ptxas makes several blocks of part a product from its sum") {
  for (const std::string between :
       {"div.rn.f32 %f5, %f2, %f1;", "rcp.rn.ftz.f32 %f5, %f1;", "sqrt.rn.f32 %f5, %f1;", "div.s32 %r5, %r1, %r2;",
        "rem.s32 %r5, %r1, 7;", "membar.gl;", "@%p1 ld.global.f32 %f5, [%rd1];", "@%p1 st.global.f32 [%rd1], %f1;"}) {
    INFO(between);
    CHECK(rule_behind(between).empty());
  }
  for (const std::string between :
       {"div.u32 %r5, %r1, %r2;", "rem.u32 %r5, %r1, 7;", "sqrt.rn.f32 %f5, 0f40400000;", "div.full.f32 %f5, %f2, %f1;",
        "sqrt.approx.f32 %f5, %f1;", "bar.sync 0;", "ld.global.f32 %f5, [%rd1];", "@%p1 mov.f32 %f5, 0f3F000000;"}) {
    INFO(between);
    CHECK(rule_behind(between) == "one use");
  }
}

TEST_CASE("reciprocals of powers of two and of reciprocals, with .ftz") {
  const std::string load = "mov.b32 %f1, %r1;\nmov.b32 %f2, %r2;\n";
  RandomStream random(6, 0);
  int unlike = 0;
  for (int i = 0; i < 100; ++i) {
    const std::vector<uint32_t> words{0x3F800000 | random.word() >> 9, 0x3F800000 | random.word() >> 9};
    const uint32_t power = result_of(load + "ex2.approx.ftz.f32 %f3, %f1;\ndiv.approx.ftz.f32 %f11, %f2, %f3;", words);
    // MUFU.EX2 of -x, FMUL
    CHECK(power ==
          result_of(load + "neg.f32 %f3, %f1;\nex2.approx.ftz.f32 %f4, %f3;\nmul.ftz.f32 %f11, %f2, %f4;", words));
    // Where the power has another use it stays: MUFU.EX2, MUFU.RCP, FMUL.
    unlike +=
        power !=
        result_of(
            load + "ex2.approx.ftz.f32 %f3, %f1;\ndiv.approx.ftz.f32 %f11, %f2, %f3;\nst.global.f32 [%rd1+4], %f3;",
            words);
    CHECK(result_of(load + "rcp.approx.ftz.f32 %f3, %f1;\nrcp.approx.ftz.f32 %f11, %f3;", words) == words[0]);
    CHECK(result_of(load + "rcp.approx.ftz.f32 %f3, %f1;\ndiv.approx.ftz.f32 %f11, %f2, %f3;", words) ==
          result_of(load + "mul.ftz.f32 %f11, %f2, %f1;", words));
  }
  CHECK(unlike > 10);
}

TEST_CASE("two equal products that meet in a sum are one, and stay") {
  const PtxEntry kernel(test::module_of(
      "mov.b32 %f1, %r1;\nmov.b32 %f2, %r2;\nmul.f32 %f3, %f1, %f2;\nmul.f32 %f4, %f2, %f1;\nadd.f32 %f5, %f3, %f4;\n"
      "st.global.f32 [%rd1], %f5;",
      2));
  for (const KernelFusion& fusion : kernel.fusions()) CHECK(fusion.rule == "same operand");
  CHECK(kernel.fusions().size() == 2);
}
