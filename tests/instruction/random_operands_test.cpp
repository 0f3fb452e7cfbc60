#include "bitmma/stimulus/random_operands.hpp"

#include <set>

#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/instructions.hpp"

using namespace bitmma;

TEST_CASE("operands depend on seed and case alone", "[rule:seed]") {
  const Instruction instruction = Wgmma{};
  const Target target = Target::sm_90a;
  for (const DistributionInfo& distribution : distributions) {
    const Operands first = random_operands(instruction, target, distribution.id, 1, 2),
                   again = random_operands(instruction, target, distribution.id, 1, 2);
    CHECK(first.a == again.a);
    CHECK(*first.c == *again.c);
    CHECK(first.a != random_operands(instruction, target, distribution.id, 1, 3).a);
    CHECK(first.b != random_operands(instruction, target, distribution.id, 2, 2).b);
  }
}

TEST_CASE("a mnemonic that was just read has operands and a product on its target, for every mnemonic") {
  uint64_t index = 0;
  for (const Instruction& legal : all_instructions()) {
    if (!is_mma(legal)) continue;
    const Instruction instruction = parse_instruction(print(legal));
    const Target target = default_target(instruction);
    INFO(print(instruction));
    const auto distribution = distributions[index % distributions.size()].id;
    const Operands operands = random_operands(instruction, target, distribution, 1, index++);
    const Mma mma = mma_of(instruction);
    REQUIRE(operands.a.rows() == mma.m);
    REQUIRE(operands.a.cols() == mma.stored_k());
    REQUIRE(operands.b.rows() == mma.k);
    REQUIRE(operands.b.cols() == mma.n);
    REQUIRE(operands.selected_k.size() == (mma.sparse || mma.products > 1 ? operands.a.size() : 0));
    REQUIRE(operands.scales.has_value() == (mma.scale_count > 0));
  }
  CHECK(index == 1074 + 1842 + 412);
}

TEST_CASE("moves have no operands") {
  CHECK_THROWS_AS(random_operands(TmemMove{}, Target::sm_100a, Distribution::normal, 1, 0), Error);
}

TEST_CASE("every distribution has a name of its own") {
  std::set<std::string_view> names;
  for (const DistributionInfo& row : distributions) {
    CHECK(names.insert(row.name).second);
    CHECK(distribution_named(row.name) == row.id);
  }
  CHECK_FALSE(distribution_named("gaussian"));
}
