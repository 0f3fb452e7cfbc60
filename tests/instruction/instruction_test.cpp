#include "bitmma/instruction/instruction.hpp"

#include <set>

#include "bitmma/instruction/legality.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/instruction/random_operands.hpp"
#include "support/catch.hpp"

using namespace bitmma;

TEST_CASE("every legal mnemonic prints, parses back to itself and is legal") {
  std::set<std::string> seen;
  for (const Instruction& instruction : all_legal_instructions()) {
    const std::string text = print(instruction);
    REQUIRE(seen.insert(text).second);
    REQUIRE(parse_instruction(text) == instruction);
    REQUIRE(violations_of(instruction).empty());
  }
  // 12 float rows of 32 N, dense and sparse; 4 integer rows of 18 N, dense and sparse, with and without .satfinite; b1.
  CHECK(seen.size() == 12 * 32 * 2 + 4 * 18 * 4 + 18);
}

TEST_CASE(".satfinite is taken in both places") {
  const Instruction after_types = parse_instruction("wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8.satfinite");
  CHECK(after_types.satfinite);
  CHECK(parse_instruction("wgmma.mma_async.sync.aligned.m64n8k32.satfinite.s32.s8.u8") == after_types);
  CHECK_THROWS_AS(parse_instruction("wgmma.mma_async.sync.aligned.m64n8k32.satfinite.s32.s8.u8.satfinite"), Error);
}

TEST_CASE("the legal values of N are the documented lists") {
  int of_8 = 0, of_16 = 0;
  for (int n = -8; n <= 512; ++n)
    of_8 += contains(NumberList::multiples_of_8, n), of_16 += contains(NumberList::multiples_of_16_or_24, n);
  CHECK(of_8 == 32);
  CHECK(of_16 == 18);
  for (const int n : {8, 16, 24, 32, 48, 240, 256}) CHECK(contains(NumberList::multiples_of_16_or_24, n));
  for (const int n : {0, 40, 56, 72, 248, 264}) CHECK_FALSE(contains(NumberList::multiples_of_16_or_24, n));
}

TEST_CASE("an illegal request gets every violation at once") {
  Instruction bad = parse_instruction("wgmma.mma_async.sync.aligned.m128n12k8.f32.f16.f16.and.popc.satfinite");
  bad.imm_scale_a = 2, bad.imm_scale_b = 0, bad.imm_trans_a = -1, bad.imm_trans_b = 7, bad.scale_d = 3,
  bad.sparsity_selector = 1;
  std::set<std::string> fields;
  for (const Violation& violation : violations_of(bad)) fields.insert(violation.field);
  CHECK(fields == std::set<std::string>{"m", "n", "k", "operation", ".satfinite", "imm_scale_a", "imm_scale_b",
                                        "imm_trans_a", "imm_trans_b", "scale_d", "sparsity_selector"});
}

TEST_CASE("gather reads back what place_operands laid out: every type, layout, source and padding") {
  for (const LegalForm& form : legal_forms()) {
    for (const bool sparse : {false, true}) {
      if (sparse && !form.k_sparse) continue;
      for (const OperandSource source : {OperandSource::smem, OperandSource::registers}) {
        for (const char* layout_a : {"k-major:none", "k-major:32", "k-major:64", "k-major:128", "mn-major:none",
                                     "mn-major:32", "mn-major:64", "mn-major:128"}) {
          for (const char* layout_b : {"k-major:none", "k-major:32", "k-major:64", "k-major:128", "mn-major:none",
                                       "mn-major:32", "mn-major:128"}) {
            for (const int64_t padding : {0, 48}) {
              OperandLayout a = parse_operand_layout(layout_a), b = parse_operand_layout(layout_b);
              if (!form.transpose && (a.major == Major::mn || b.major == Major::mn)) continue;
              a.padding_bytes = b.padding_bytes = padding;
              const Instruction instruction = with_majors({.sparse = sparse,
                                                           .n = 24,
                                                           .k = sparse ? form.k_sparse : form.k_dense,
                                                           .d = form.d,
                                                           .a = form.a,
                                                           .b = form.b,
                                                           .bit_operation = std::string(form.bit_operation),
                                                           .a_source = source,
                                                           .sparsity_selector = sparse ? form.selectors - 1 : 0},
                                                          a, b);
              const Operands operands = random_operands(instruction, Distribution::bits, 9, 1);
              const MachineState state =
                  place_operands(instruction, plan_placement(instruction, a, b), operands, filler_stream(9, 1));
              const Operands back = gather_operands(instruction, state.view());
              INFO(print(instruction) << " " << layout_a << " " << layout_b << " padding " << padding);
              REQUIRE(back.a == operands.a);
              REQUIRE(back.b == operands.b);
              REQUIRE(*back.c == *operands.c);
              REQUIRE(back.selected_k == operands.selected_k);
              REQUIRE(warnings(instruction, state.view()).size() <= (padding ? 2u : 0u));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("a sparse A survives the trip through its logical matrix") {
  for (const Format format : {Format::f16, Format::tf32, Format::e4m3}) {
    const int k = format == Format::f16 ? 32 : format == Format::tf32 ? 16 : 64;
    const Instruction instruction{.sparse = true, .n = 8, .k = k, .d = Format::f32, .a = format, .b = format};
    Operands operands = random_operands(instruction, Distribution::narrow, 4, 0), back;
    const BitMatrix logical = logical_a(instruction, operands);
    compress_a(instruction, logical, back);
    CHECK(logical_a(instruction, back) == logical);
    CHECK(back.a.cols() == k / 2);
    BitMatrix dense = logical;
    dense.bits.setOnes();
    CHECK_THROWS_AS(compress_a(instruction, dense, back), Error);
  }
}

TEST_CASE("operands depend on seed and case alone") {
  const Instruction instruction{.n = 8, .k = 16, .d = Format::f32, .a = Format::f16, .b = Format::f16};
  for (const DistributionInfo& distribution : distributions) {
    const Operands first = random_operands(instruction, distribution.id, 1, 2),
                   again = random_operands(instruction, distribution.id, 1, 2);
    CHECK(first.a == again.a);
    CHECK(*first.c == *again.c);
    CHECK(first.a != random_operands(instruction, distribution.id, 1, 3).a);
    CHECK(first.b != random_operands(instruction, distribution.id, 2, 2).b);
  }
}

TEST_CASE("outside C is not read when scale_d is 0, NaN there included") {
  const Instruction instruction{.n = 8, .k = 16, .d = Format::f32, .a = Format::f16, .b = Format::f16, .scale_d = 0};
  const OperandLayout layout;
  MachineState state = place_operands(instruction, plan_placement(instruction, layout, layout),
                                      random_operands(instruction, Distribution::integers, 1, 0), filler_stream(1, 0));
  const std::vector<uint32_t> d = simulate(instruction, state.view());
  for (uint32_t& word : state.c_regs) word = 0x7FC00000;
  CHECK(simulate(instruction, state.view()) == d);
}

TEST_CASE("registers after the instruction are D as simulate_d has it, for every type, width, source and direction") {
  int index = 0;
  for (Instruction instruction : all_legal_instructions()) {
    if (instruction.n > 24) continue;
    for (const OperandSource source : {OperandSource::smem, OperandSource::registers}) {
      for (const Major major : {Major::k, Major::mn}) {
        instruction.a_source = source;
        if (major == Major::mn && !find_legal_form(instruction)->transpose) continue;
        const OperandLayout layout{.major = major}, a_layout{.major = source == OperandSource::smem ? major : Major::k};
        Instruction one = with_majors(instruction, a_layout, layout);
        if (find_legal_form(one)->scale) one.imm_scale_a = index % 2 ? -1 : 1, one.imm_scale_b = index % 3 ? 1 : -1;
        one.scale_d = index % 5 != 0;
        const Distribution distribution = distributions[static_cast<size_t>(index) % distributions.size()].id;
        const MachineState state = place_operands(one, plan_placement(one, a_layout, layout),
                                                  random_operands(one, distribution, 9, static_cast<uint64_t>(index)),
                                                  filler_stream(9, static_cast<uint64_t>(index)));
        INFO(print(one));
        REQUIRE(gather(simulate(one, state.view()), d_fragment(one), one.d, "d_regs") == simulate_d(one, state.view()));
        ++index;
      }
    }
  }
  CHECK(index > 250);
}
