#include <set>

#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/instructions.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;
using test::refusal_of;

namespace {

std::set<std::string> fields_of_violations(const Wgmma& instruction) {
  std::set<std::string> fields;
  for (const Violation& violation : violations_of(instruction, Target::sm_90a)) fields.insert(violation.field);
  return fields;
}

}  // namespace

TEST_CASE("every legal mnemonic of wgmma prints, parses back to itself and is legal") {
  std::set<std::string> seen;
  for (const Instruction& instruction : all_instructions(Family::wgmma)) {
    const std::string text = print(instruction);
    REQUIRE(seen.insert(text).second);
    REQUIRE(parse_instruction(text) == instruction);
    REQUIRE(violations_of(instruction, Target::sm_90a).empty());
  }
  // 12 float rows of 32 N, dense and sparse; 4 integer rows of 18 N, dense and sparse, with and without .satfinite; b1.
  CHECK(seen.size() == 12 * 32 * 2 + 4 * 18 * 4 + 18);
}

TEST_CASE("the legal values of N are the documented lists") {
  const LegalN &of_floats = find_form(Wgmma{})->shapes.front().n,
               &of_integers = find_form(Wgmma{.d = Format::s32, .a = Format::s8, .b = Format::s8})->shapes.front().n;
  int of_8 = 0, of_16 = 0;
  for (int n = -8; n <= 512; ++n) of_8 += of_floats.contains(n), of_16 += of_integers.contains(n);
  CHECK(of_8 == 32);
  CHECK(of_16 == 18);
  for (const int n : {8, 16, 24, 32, 48, 240, 256}) CHECK(of_integers.contains(n));
  for (const int n : {0, 40, 56, 72, 248, 264}) CHECK_FALSE(of_integers.contains(n));
}

TEST_CASE("an illegal wgmma gets every violation at once") {
  Wgmma bad =
      std::get<Wgmma>(parse_instruction("wgmma.mma_async.sync.aligned.m128n12k8.f32.f16.f16.and.popc.satfinite"));
  bad.sparsity_selector = 1;
  CHECK(fields_of_violations(bad) ==
        std::set<std::string>{"m", "n", "k", "operation", ".satfinite", "sparsity_selector"});
  // Immediates that the types do not have.
  CHECK(fields_of_violations({.m = 128,
                              .n = 12,
                              .d = Format::s32,
                              .a = Format::s8,
                              .b = Format::s8,
                              .k = 8,
                              .bit_operation = BitOperation::xor_popc,
                              .a_source = OperandSource::tmem,
                              .negate_a = true,
                              .negate_b = true,
                              .transpose_a = true,
                              .transpose_b = true,
                              .sparsity_selector = 1}) ==
        std::set<std::string>{"m", "n", "k", "operation", "A", "imm_scale_a", "imm_scale_b", "imm_trans_a",
                              "imm_trans_b", "sparsity_selector"});
  CHECK(fields_of_violations({.a_source = OperandSource::registers, .transpose_a = true}) ==
        std::set<std::string>{"imm_trans_a"});
  CHECK(fields_of_violations({.d = Format::s32, .a = Format::b1, .b = Format::b1, .sparse = true}) ==
        std::set<std::string>{".sp"});
  CHECK(fields_of_violations({.d = Format::s32}) == std::set<std::string>{"types"});
}

TEST_CASE("an immediate of wgmma that is out of range is refused by name") {
  const Instruction instruction = Wgmma{};
  for (const auto& [name, value] :
       {std::pair("imm_scale_a", 2), std::pair("imm_scale_a", 0), std::pair("imm_scale_b", 0),
        std::pair("imm_trans_a", -1), std::pair("imm_trans_b", 7), std::pair("scale_d", 3)}) {
    INFO(name << " = " << value);
    CHECK_THAT(refusal_of([&] { with_immediate(instruction, name, value); }),
               refused(illegal_value, std::string(name)));
  }
}

TEST_CASE("an N that is not legal is told the next one, or to split") {
  const auto fix = [](int n) { return violations_of(Wgmma{.n = n}, Target::sm_90a).at(0).fix; };
  CHECK(fix(12) == "use n = 16 and zero the extra columns of B");
  CHECK(fix(264) == "split the tile into several instructions");
  CHECK(fix(0).empty());
}
