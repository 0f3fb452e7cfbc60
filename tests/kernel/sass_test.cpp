// What a kernel's SASS decides, and SASS that is not the kernel's.
#include <algorithm>

#include "run_kernel.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/violation.hpp"

using namespace bitmma;

namespace {

// Lines 12 to 17 of test::module_of.
constexpr std::string_view body =
    "ld.global.f32 %f1, [%rd1];\nld.global.f32 %f2, [%rd1+4];\nmul.f32 %f3, %f1, %f2;\nadd.f32 %f4, %f3, %f1;\n"
    "st.global.f32 [%rd1+8], %f4;\nst.global.f32 [%rd1+12], %f3;";
constexpr int product_line = 14, sum_line = 15;

std::string sass_of(std::string_view at_sum, int line = sum_line, const std::string& name = "k") {
  return ".text." + name + ":\n\t//## File \".nv_debug_ptx_txt\", line " +
         std::to_string(std::min(product_line, line)) +
         "\n        /*0060*/                   FMUL R5, R0, R5 ;\n\t//## File \".nv_debug_ptx_txt\", line " +
         std::to_string(line) + "\n" + std::string(at_sum);
}
std::string row(std::string_view instruction) {
  return "        /*0070*/              " + std::string(instruction) + " ;\n";
}

PtxEntry kernel_with(const std::string& sass) { return PtxEntry(test::module_of(body), {.sass = sass}); }

uint32_t result_of(const PtxEntry& kernel) {
  std::vector<uint32_t> words{0x3F800800, 0xBF800800, 0, 0};  // the product is not exact
  launch(kernel, {.arguments = {test::memory(words)}});
  return words[2];
}

std::optional<Violation> refusal_of(const std::string& sass) {
  return test::violation_of([&] { kernel_with(sass); });
}

}  // namespace

TEST_CASE("SASS decides whether a product and a sum are one fma, and what contradicts a rule is named") {
  const PtxEntry by_rule(test::module_of(body));
  REQUIRE(by_rule.fusions().size() == 1);
  CHECK_FALSE(by_rule.fusions()[0].is_joined);  // the product is stored
  CHECK(by_rule.fusions()[0].sass == SassEvidence::none);
  CHECK(kernel_warnings(by_rule).empty());

  const PtxEntry apart = kernel_with(sass_of(row("FADD R7, R4, R5")));
  CHECK(apart.fusions()[0].sass == SassEvidence::apart);
  CHECK(kernel_warnings(apart).empty());
  CHECK(result_of(apart) == result_of(by_rule));

  const PtxEntry joined = kernel_with(sass_of(row("@!P0 FFMA R7, R0, R5, R0")));
  CHECK(joined.fusions()[0].is_joined);
  CHECK(joined.fusions()[0].is_sure);
  CHECK(joined.fusions()[0].contradicts_rule());
  REQUIRE(kernel_warnings(joined).size() == 1);
  CHECK(kernel_warnings(joined)[0].field == "PTX lines 14 and 15");
  CHECK(result_of(by_rule) == 0xB9800000);
  CHECK(result_of(joined) == 0xB9800800);

  const PtxEntry both = kernel_with(sass_of(row("FFMA R7, R0, R5, R0") + row("FADD R7, R4, R5")));
  CHECK(both.fusions()[0].sass == SassEvidence::both);
  CHECK_FALSE(both.fusions()[0].is_sure);
  CHECK(kernel_warnings(both).size() == 1);
}

TEST_CASE("an fma of SASS that only adds or only multiplies counts as a sum or a product") {
  struct Row {
    std::string_view instruction;
    SassEvidence evidence;
  };
  for (const Row& expected :
       std::initializer_list<Row>{{"FFMA.FTZ R7, R4, 1, R5", SassEvidence::apart},
                                  {"HFMA2.BF16_V2 R7, R4, 1, 1, R5", SassEvidence::apart},
                                  {"FFMA R7, R4, R5, -RZ", SassEvidence::none},
                                  {"HFMA2.MMA R7, -RZ, RZ, 1.875, 0", SassEvidence::none},
                                  {"FFMA R7, R4, -3, R5", SassEvidence::joined},
                                  {"FFMA.FTZ.SAT R7, R4, R5, 0.5", SassEvidence::joined},
                                  {"MOV R7, R4", SassEvidence::none},
                                  {"@P0", SassEvidence::none},
                                  {"HFMA2.BF16_V2 R9, R0.H0_H0, R3.H0_H0, -RZ.H0_H0", SassEvidence::none},
                                  {"HFMA2 R9, R0, 0, 1.5, R3", SassEvidence::joined},
                                  {"HFMA2 R9, R0, R3, 1, 0", SassEvidence::joined},
                                  {"FFMA", SassEvidence::joined}}) {
    INFO(expected.instruction);
    CHECK(kernel_with(sass_of(row(expected.instruction))).fusions()[0].sass == expected.evidence);
  }
}

TEST_CASE("an fma in SASS joins a product of another block, and one without a product is named") {
  const std::string text = test::module_of(
      "ld.global.f32 %f1, [%rd1];\nld.global.f32 %f2, [%rd1+4];\nmul.f32 %f3, %f1, %f2;\nsetp.gt.f32 %p1, %f1, %f2;\n"
      "@%p1 bra far;\nst.global.f32 [%rd1], %f2;\nfar:\nadd.f32 %f4, %f3, %f1;\nst.global.f32 [%rd1+8], %f4;");
  const auto warned = [&](std::string_view instruction, int line) {
    return kernel_warnings(PtxEntry(text, {.sass = sass_of(row(instruction), line)}));
  };
  const PtxEntry joined(text, {.sass = sass_of(row("FFMA R7, R0, R5, R0"), 19)});
  REQUIRE(joined.fusions().size() == 1);
  CHECK(joined.fusions()[0].is_joined);
  CHECK(result_of(joined) == 0xB9800800);
  CHECK(result_of(PtxEntry(text)) == 0xB9800000);
  CHECK(warned("FFMA R7, R0, R5, R0", 19)[0].field == "PTX lines 14 and 19");

  const PtxEntry lost(test::module_of("ld.global.f32 %f1, [%rd1];\nadd.f32 %f4, %f1, %f1;\nst.global.f32 [%rd1], %f4;"),
                      {.sass = sass_of(row("FFMA R7, R0, R5, R0"), 13)});
  REQUIRE(kernel_warnings(lost).size() == 1);
  CHECK(kernel_warnings(lost)[0].field == "PTX line 13");
}

TEST_CASE("SASS of another kernel or PTX, without lines, or with fmad = false is refused") {
  const std::string sass = sass_of(row("FADD R7, R4, R5"));
  CHECK(refusal_of("")->code == ViolationCode::unusable_file);
  CHECK(refusal_of("\x7f"
                   "ELF")
            ->code == ViolationCode::unusable_file);
  CHECK(refusal_of(sass_of(row("FADD R7, R4, R5"), sum_line, "other"))->code == ViolationCode::unusable_file);
  CHECK(refusal_of(".text.k:\n" + row("FADD R7, R4, R5"))->code == ViolationCode::unusable_file);
  CHECK(refusal_of(sass_of(row("FADD R7, R4, R5"), 400))->code == ViolationCode::contradiction);
  const auto violation = test::violation_of([&] { PtxEntry(test::module_of(body), {.fmad = false, .sass = sass}); });
  REQUIRE(violation);
  CHECK(violation->code == ViolationCode::not_together);
}

TEST_CASE(
    "SASS joins no product that some lanes do not have, or that two operands are, and no line of two statements") {
  const auto kernel_of = [](std::string_view middle) {
    std::string text(middle);
    return test::module_of("ld.global.f32 %f1, [%rd1];\nld.global.f32 %f2, [%rd1+4];\nsetp.gt.f32 %p1, %f1, %f2;\n" +
                           text + "\nst.global.f32 [%rd1+8], %f4;");
  };
  struct Row {
    std::string_view middle;
    int line;  // of the sum
  };
  for (const Row& statements :
       std::initializer_list<Row>{{"mov.f32 %f3, 0f3F800000;\n@%p1 mul.f32 %f3, %f1, %f2;\nadd.f32 %f4, %f3, %f1;", 17},
                                  {"mul.f32 %f3, %f1, %f2;\n@%p1 mov.f32 %f3, %f1;\nadd.f32 %f4, %f3, %f1;", 17},
                                  {"mul.f32 %f3, %f1, %f2;\nadd.f32 %f4, %f3, %f3;", 16}}) {
    INFO(statements.middle);
    const PtxEntry kernel(kernel_of(statements.middle),
                          {.sass = ".text.k:\n\t//## File \".nv_debug_ptx_txt\", line " +
                                   std::to_string(statements.line) + "\n" + row("FFMA R7, R0, R5, R0")});
    CHECK(std::ranges::none_of(kernel.fusions(), &KernelFusion::is_joined));
    CHECK_FALSE(kernel_warnings(kernel).empty());
  }
  const PtxEntry two(kernel_of("mul.f32 %f3, %f1, %f2; add.f32 %f4, %f3, %f1;"),
                     {.sass = ".text.k:\n\t//## File \".nv_debug_ptx_txt\", line 15\n" + row("FADD R7, R4, R5")});
  REQUIRE(two.fusions().size() == 1);
  CHECK(two.fusions()[0].sass == SassEvidence::none);
  CHECK(two.fusions()[0].is_joined);
}

TEST_CASE("a sum of the next turn has the product of this one") {
  // %f1 is loaded anew before the sum: the joined fma takes the old factor.
  const std::string text = test::module_of(
      "mov.u32 %r1, 0;\nmov.f32 %f3, 0f00000000;\nmov.u64 %rd2, %rd1;\nloop:\nld.global.f32 %f1, [%rd2];\n"
      "setp.eq.u32 %p1, %r1, 0;\n@%p1 bra first;\nadd.f32 %f4, %f3, %f1;\nst.global.f32 [%rd1+16], %f4;\nfirst:\n"
      "mul.f32 %f3, %f1, %f1;\nadd.u64 %rd2, %rd2, 4;\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 2;\n@%p1 bra loop;");
  std::vector<float> words{3, 5, 0, 0, 0};
  launch(PtxEntry(text), {.arguments = {test::memory(words)}});
  CHECK(words[4] == 14);
}
