// What explain says, recomputed by the slow oracle and from the state itself.
#include "bitmma/analysis/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <variant>

#include "../../sim/arithmetic/what_if.hpp"
#include "bitmma/core/bits.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/stimulus/random_case.hpp"
#include "oracle/slow_dot.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

namespace {

struct Subject {
  Instruction instruction = Wgmma{};
  Distribution distribution = Distribution::normal;
};

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const Distribution distribution :
       {Distribution::normal, Distribution::wide, Distribution::ties, Distribution::subnormal, Distribution::special}) {
    for (const char* text :
         {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16",
          "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32", "wgmma.mma_async.sync.aligned.m64n8k32.f16.e4m3.e5m2",
          "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8",
          "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e2m3.e2m1.f32.ue8m0"}) {
      all.push_back({parse_instruction(text), distribution});
    }
    for (const Tcgen05Mma& instruction :
         {Tcgen05Mma{.kind = MmaKind::f16, .cta_group = 2, .m = 128, .n = 16, .scale_input_d = 5, .negate_a = true},
          Tcgen05Mma{.kind = MmaKind::f8f6f4, .m = 64, .n = 8, .a = Format::e2m1, .b = Format::e5m2, .sparse = true},
          Tcgen05Mma{.kind = MmaKind::mxf4nvf4, .n = 8, .scale_vec = ScaleVec::block16, .scale_type = Format::ue4m3},
          Tcgen05Mma{.kind = MmaKind::f8f6f4,
          .n = 8,
          .a = Format::e2m1,
          .b = Format::e4m3,
          .a_source = OperandSource::tmem}}) {
      all.push_back({tcgen05(instruction), distribution});
    }
  }
  return all;
}

/// Case 0 of seed 3, with what the instruction leaves.
Case recorded_case(const Instruction& instruction, Distribution distribution) {
  Case this_case = random_case(instruction, default_target(instruction), {}, distribution, 3, 0);
  this_case.after = this_case.before;
  execute(this_case.instruction, this_case.target, *this_case.after);
  return this_case;
}

/// The code at a place, read by hand.
uint32_t code_at(const Case& this_case, const Place& place, int code_bits, Field registers) {
  const auto mask = static_cast<uint32_t>(low_mask(code_bits));
  if (const auto* const smem = std::get_if<SmemRead>(&place)) {
    const auto image = this_case.before.image(smem->cta, mma_of(this_case.instruction).cta_group);
    uint64_t word = 0;
    for (size_t i = 0; i < 4 && static_cast<size_t>(smem->place.byte) + i < image.size(); ++i) {
      word |= uint64_t{image[static_cast<size_t>(smem->place.byte) + i]} << 8 * i;
    }
    return static_cast<uint32_t>(word >> smem->place.bit) & mask;
  }
  if (const auto* const in_register = std::get_if<RegisterPlace>(&place)) {
    const auto index = in_register->thread * this_case.before.extent(registers, 1) + in_register->reg;
    return this_case.before.words(registers)[static_cast<size_t>(index)] >> in_register->bit & mask;
  }
  const auto& cell = std::get<TmemPlace>(place);
  const auto index = (cell.cta * 128 + cell.lane) * this_case.before.columns() + cell.column;
  return this_case.before.words(Field::tmem)[static_cast<size_t>(index)] >> cell.bit & mask;
}
uint32_t code_at(const Case& this_case, const Place& place, Format format, Field registers) {
  return code_at(this_case, place, info(format).bits, registers);
}

/// What an aligned sum has, of either kind.
struct Aligned {
  int quantum = 0;
  int64_t sum = 0, sum_of_parts = 0;
};
Aligned aligned(const SumOfProducts& sum) {
  Aligned all{.quantum = sum.alignment.quantum, .sum = sum.sum, .sum_of_parts = sum.c.kept};
  for (const AlignedNumber& term : sum.terms) all.sum_of_parts += term.kept;
  return all;
}
Aligned aligned(const SumOfGroups& sum) {
  Aligned all{.quantum = sum.alignment.quantum, .sum = sum.sum, .sum_of_parts = sum.c.kept};
  for (const ExplainedGroup& group : sum.groups) all.sum_of_parts += group.aligned.kept;
  return all;
}

}  // namespace

TEST_CASE("explain's places, terms, exact sum and D are those of the case and of the oracle") {
  int explained = 0, special = 0;
  for (const Subject& subject : subjects()) {
    const Case this_case = recorded_case(subject.instruction, subject.distribution);
    const Mma mma = mma_of(this_case.instruction);
    const AccumulatorModel& model = model_for(this_case.instruction, this_case.target);
    for (int i = 0; i < 12; ++i) {
      const int row = i * 7 % mma.m, col = i * 5 % mma.n;
      const Explanation e = explain(this_case, row, col);
      INFO(e.instruction << " row " << row << " col " << col << "\n" << print(e));
      REQUIRE(e.recorded_d == e.d);
      REQUIRE(e.steps.size() == 1);
      const ExplainedStep& step = e.steps.front();
      REQUIRE(step.d == e.d);
      std::vector<uint32_t> a, b;
      for (const ExplainedTerm& term : step.terms) {
        REQUIRE(code_at(this_case, *term.a_place, e.a, Field::a_regs) == term.a_bits);
        REQUIRE(code_at(this_case, *term.b_place, e.b, Field::b_regs) == term.b_bits);
        a.push_back(term.a_bits), b.push_back(term.b_bits);
      }
      REQUIRE(code_at(this_case, *step.c_place, e.d_format, Field::accumulator) == *step.c_bits);
      ++explained;
      if (const auto* const integers = std::get_if<SumOfIntegers>(&step.sum)) {
        REQUIRE(static_cast<uint32_t>(integers->sum) == e.d);
        continue;
      }
      if (const auto* const forced = std::get_if<SpecialResult>(&step.sum)) {
        REQUIRE(forced->code == e.d);
        REQUIRE(!e.exact);
        ++special;
        continue;
      }
      // The sum of what is kept is the sum of its parts, and rounds to D.
      const auto* const products = std::get_if<SumOfProducts>(&step.sum);
      const auto [quantum, sum, sum_of_parts] =
          products ? aligned(*products) : aligned(std::get<SumOfGroups>(step.sum));
      REQUIRE(sum_of_parts == sum);
      const uint64_t rounded =
          round_to(info(e.d_format),
                   {.negative = sum < 0, .magnitude = static_cast<uint64_t>(std::abs(sum)), .exponent = quantum},
                   model.rounding, model.output_fraction_bits);
      REQUIRE((rounded == e.d || (rounded & ~info(e.d_format).sign_bit()) == e.d));  // a zero has no sign
      if (!products) continue;  // their exact sum has other scales in every group; grouped_dot judges D
      oracle::Scaling scaling{.c_shift = mma.scale_input_d};
      if (!e.scales.empty())
        scaling.power = static_cast<int>(e.scales.front().scales.a + e.scales.front().scales.b) - 254;
      REQUIRE(e.exact->text == oracle::exact_dot(scaling, std::string(info(e.a).name), std::string(info(e.b).name),
                                                 std::string(info(e.d_format).name), a, b, mma.negate_a, mma.negate_b,
                                                 step.c_bits));
      // The correctly rounded alternative is within half a last place of it.
      const auto exact = std::ranges::find_if(
          e.alternatives, [](const Alternative& other) { return other.name.starts_with("exact sum"); });
      REQUIRE(exact != e.alternatives.end());
      if (exact->error_ulp) CHECK(std::abs(*exact->error_ulp) <= 0.5);
    }
  }
  CHECK(explained == 12 * 5 * 10);
  CHECK(special > 20);
}

TEST_CASE("explain aligns an f16 C of an f32 D by its own exponent") {
  for (const Target target : {Target::sm_70, Target::sm_75}) {
    const Instruction instruction = parse_instruction("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f16");
    for (const Distribution distribution : {Distribution::normal, Distribution::subnormal, Distribution::wide}) {
      Case this_case = random_case(instruction, target, {}, distribution, 3, 0);
      for (int i = 0; i < 32; ++i) {
        const Explanation e = explain(this_case, i, i % 8);
        INFO(print(e));
        const ExplainedStep& step = e.steps.front();
        CHECK(step.c_format == Format::f16);
        const auto* const products = std::get_if<SumOfProducts>(&step.sum);
        if (!products) continue;
        const auto [quantum, sum, sum_of_parts] = aligned(*products);
        CHECK(sum == sum_of_parts);
        const Exact exact{.negative = sum < 0, .magnitude = static_cast<uint64_t>(std::abs(sum)), .exponent = quantum};
        CHECK((round_to(Format::f32, exact, Rounding::toward_zero) & (sum == 0 ? 0 : ~0u)) == e.d);
        const Decoded c = decode(Format::f16, *step.c_bits);
        CHECK(products->c.exponent == (c.is_zero() ? std::nullopt : std::optional(c.exponent)));
        CHECK(std::ldexp(static_cast<double>(products->c.kept) + products->c.dropped, quantum) ==
              std::ldexp(static_cast<double>(c.significand) * (c.negative ? -1 : 1), c.exponent - 10));
      }
    }
  }
}

TEST_CASE("explain shows every step of a model that takes several for K") {
  const Instruction instruction = wgmma({.n = 8});
  const Case this_case = recorded_case(instruction, Distribution::normal);
  AccumulatorModel model = model_for(instruction, this_case.target);
  model.terms_per_step = 4;
  const Matrix d = multiply_accumulate(model, operands_of(this_case));
  for (const int row : {0, 13, 63}) {
    const Explanation e = explain(this_case, row, 5, &model);
    INFO(print(e));
    REQUIRE(e.steps.size() == 4);
    CHECK(e.d == d(row, 5));
    CHECK(e.steps.front().c_place.has_value());
    for (size_t i = 0; i < e.steps.size(); ++i) {
      const ExplainedStep& step = e.steps[i];
      REQUIRE(step.terms.size() == 4);
      CHECK(step.terms.front().k == 4 * static_cast<int>(i));
      CHECK(code_at(this_case, *step.terms[3].b_place, e.b, Field::b_regs) == step.terms[3].b_bits);
      const auto [quantum, sum, sum_of_parts] = aligned(std::get<SumOfProducts>(step.sum));
      CHECK(sum == sum_of_parts);
      const Exact exact{.negative = sum < 0, .magnitude = static_cast<uint64_t>(std::abs(sum)), .exponent = quantum};
      CHECK(round_to(Format::f32, exact, model.rounding) == step.d);
      if (i > 0) CHECK(step.c_bits == e.steps[i - 1].d);
      if (i > 0) CHECK(!step.c_place);
    }
    CHECK_THAT(print(e), ContainsSubstring("step 4 of 4") && ContainsSubstring("  k  15  a "));
  }
}

TEST_CASE("explain shows what a refuted hypothesis keeps of every number, and D is the sum of it") {
  const Case this_case = recorded_case(wgmma({.n = 8}), Distribution::ties);
  const auto changes = std::to_array<void (*)(Overrides&)>({[](Overrides& all) { all.align_toward_negative = true; },
                                                            [](Overrides& all) { all.product_normalised = true; },
                                                            [](Overrides& all) { all.c_after_sum = true; }});
  for (size_t i = 0; i < changes.size(); ++i) {
    AccumulatorModel model = model_for(this_case.instruction, this_case.target);
    changes[i](model.overrides);
    int other_quanta = 0, other_sums = 0;
    for (int row = 0; row < 64; ++row) {
      const Explanation e = explain(this_case, row, 3, &model), usual = explain(this_case, row, 3);
      INFO(print(e));
      const auto [quantum, sum, sum_of_parts] = aligned(std::get<SumOfProducts>(e.steps.front().sum));
      const auto [usual_quantum, usual_sum, unused] = aligned(std::get<SumOfProducts>(usual.steps.front().sum));
      const Exact exact{.negative = sum < 0, .magnitude = static_cast<uint64_t>(std::abs(sum)), .exponent = quantum};
      CHECK(round_to(Format::f32, exact, model.rounding) == e.d);
      // A C that is added exactly takes a unit from the sum at most; in the other sums the parts are all.
      CHECK(std::abs(sum - sum_of_parts) <= (model.overrides.c_after_sum ? 1 : 0));
      other_quanta += quantum != usual_quantum, other_sums += quantum == usual_quantum && sum != usual_sum;
    }
    CHECK((other_quanta > 0) == model.overrides.product_normalised);
    CHECK(other_quanta + other_sums > 0);
  }
}

TEST_CASE("explain shows the scales of every part of K, and those of exact groups of any size") {
  const Tcgen05Mma longer{.kind = MmaKind::mxf8f6f4, .n = 8, .k = 64};
  const Case two = recorded_case(longer, Distribution::normal);
  const BlockScales scales = *operands_of(two).scales;
  const Explanation e = explain(two, 5, 3);
  REQUIRE(e.scales.size() == 2);
  for (const int part : {0, 1}) {
    CHECK(e.scales[static_cast<size_t>(part)].first_k == 32 * part);
    CHECK(e.scales[static_cast<size_t>(part)].last_k == 32 * part + 31);
    CHECK(e.scales[static_cast<size_t>(part)].scales.a == scales.a(5, part));
    CHECK(e.scales[static_cast<size_t>(part)].scales.b == scales.b(part, 3));
  }
  CHECK_THAT(print(e), Catch::Contains(fmt::format("\nk 32..63: scales {:#04x} (", scales.a(5, 1))));

  const Tcgen05Mma small{.kind = MmaKind::mxf4, .n = 8};
  const Case grouped = recorded_case(small, Distribution::normal);
  AccumulatorModel model = model_for(small, grouped.target);
  const auto in_groups = [&](int group) {
    model.group_terms = group;
    return explain(grouped, 7, 2, &model);
  };
  const auto quarters_of = [](const Explanation& of_groups) {
    int64_t quarters = 0;
    for (const ExplainedGroup& group : std::get<SumOfGroups>(of_groups.steps.front().sum).groups)
      quarters += group.sum_quarters;
    return quarters;
  };
  const Matrix codes = operands_of(grouped).scales->a;
  for (const int group : {4, 16, 32}) {
    const Explanation of_groups = in_groups(group);
    const auto& groups = std::get<SumOfGroups>(of_groups.steps.front().sum).groups;
    REQUIRE(groups.size() == static_cast<size_t>(64 / group));
    for (size_t g = 0; g < groups.size(); ++g) {
      CHECK(groups[g].first_term == static_cast<int>(g) * group);
      CHECK(groups[g].scales.a == codes(7, static_cast<int>(g) * group / 32));
    }
    CHECK(quarters_of(of_groups) == quarters_of(in_groups(2)));
    CHECK_THAT(print(of_groups), Catch::Contains(fmt::format("exact groups of {}", group)));
  }
}

TEST_CASE("explain shows both halves of a word of B that undefined metadata mixes") {
  const Instruction instruction = parse_instruction("wgmma.mma_async.sp.sync.aligned.m64n8k16.f32.tf32.tf32");
  Case this_case = random_case(instruction, default_target(instruction), {}, Distribution::narrow, 3, 0);
  RandomStream random(5, 0);
  for (uint32_t& word : this_case.before.writable_words(Field::metadata)) word = random.word();
  this_case.after = this_case.before;
  execute(this_case.instruction, this_case.target, *this_case.after);
  int mixed = 0;
  for (int row = 0; row < 64; ++row) {
    const Explanation e = explain(this_case, row, 3);
    INFO(print(e));
    CHECK(e.recorded_d == e.d);
    for (const ExplainedTerm& term : e.steps.front().terms) {
      if (!term.b_high_place) continue;
      ++mixed;
      const uint32_t low = code_at(this_case, *term.b_place, 16, Field::b_regs),
                     high = code_at(this_case, *term.b_high_place, 16, Field::b_regs);
      CHECK(term.b_bits == (high << 16 | low));
    }
  }
  CHECK(mixed > 100);
}

TEST_CASE("a case of plain matrices is explained without places") {
  const Instruction instruction = wgmma({.n = 8});
  const Case whole = recorded_case(instruction, Distribution::normal);
  const Case plain{.instruction = instruction, .target = whole.target, .logical = whole.logical};
  const Explanation e = explain(plain, 5, 3);
  CHECK(e.d == explain(whole, 5, 3).d);
  CHECK(!e.recorded_d);
  CHECK(!e.steps.front().terms.front().a_place);
  CHECK_THAT(print(e), !ContainsSubstring(" from "));
}

TEST_CASE("exact sums add, subtract, print and round") {
  ExactSum sum;
  CHECK(sum.print() == "0");
  sum.add({.negative = false, .magnitude = 5, .exponent = -3});
  CHECK(sum.print() == "0x5 * 2^-3");
  sum.add({.negative = true, .magnitude = 1, .exponent = 200});
  CHECK(sum.approximate() < -1e60);
  CHECK(round_to(Format::f32, sum.rounded_source(), Rounding::toward_zero) == 0xFF800000);
  sum.add({.negative = false, .magnitude = 1, .exponent = 200});
  CHECK(sum.print() == "0x5 * 2^-3");
  ExactSum same;
  same.add({.negative = false, .magnitude = uint64_t{5} << 60, .exponent = -63});
  sum -= same;
  CHECK(sum.is_zero());
  ExactSum tie;  // 1 + 2^-24, and a little more far below
  tie.add({.negative = false, .magnitude = 1, .exponent = 0});
  tie.add({.negative = false, .magnitude = 1, .exponent = -24});
  CHECK(round_to(Format::f32, tie.rounded_source(), Rounding::nearest_even) == 0x3F800000);
  tie.add({.negative = false, .magnitude = 1, .exponent = -300});
  CHECK(round_to(Format::f32, tie.rounded_source(), Rounding::nearest_even) == 0x3F800001);
}

TEST_CASE("explain refuses what is not there") {
  const VectorFile vectors = as_vector_file(make_golden({.instruction = wgmma({.n = 8})}, 1));
  CHECK_THROWS_MATCHES(case_at(vectors, 1), Error, refused(illegal_value, "case"));
  CHECK_THROWS_MATCHES(explain(case_at(vectors, 0), 64, 0), Error, refused(illegal_value, "row, col"));
  CHECK_THROWS_MATCHES(explain(case_at(vectors, 0), 0, -1), Error, refused(illegal_value, "row, col"));
  CHECK_THROWS_MATCHES(explain(Case{.instruction = tmem_move({.kind = MoveKind::shift})}, 0, 0), Error,
                       refused(wrong_instruction, "instruction"));
}

TEST_CASE("what a step drops, by aligning and by rounding, is what lies between the exact result and D") {
  int counted = 0, losing = 0;
  for (const Subject& subject : subjects()) {
    const Case this_case = recorded_case(subject.instruction, subject.distribution);
    for (int row = 0; row < 8; ++row) {
      const Explanation e = explain(this_case, row, row % 8);
      if (e.steps.size() != 1 || !e.exact || !e.exact->error_ulp) continue;
      REQUIRE(e.steps[0].loss.has_value());
      const StepLoss& loss = *e.steps[0].loss;
      REQUIRE(loss.aligning_ulp.has_value());
      const double all = *loss.aligning_ulp + *loss.rounding_ulp;
      INFO(e.instruction << " row " << row << ": " << all << " and " << *e.exact->error_ulp);
      CHECK(std::abs(all + *e.exact->error_ulp) <= 1e-9 * std::max(1.0, std::abs(*loss.aligning_ulp)));
      ++counted;
      losing += all != 0;
      // The terms' own losses are those of the step.
      if (const auto* const sum = std::get_if<SumOfProducts>(&e.steps[0].sum)) {
        double dropped = sum->c.dropped;
        for (const AlignedNumber& term : sum->terms) {
          CHECK(term.loses_bits == (term.dropped != 0));
          CHECK(std::abs(term.dropped) < 1);
          dropped += term.dropped;
        }
        CHECK(std::abs(dropped - loss.aligning) < 1e-9);
      }
    }
  }
  CHECK(counted > 100);
  CHECK(losing > 50);
}

TEST_CASE("of tf32 the 13 ignored bits are shown with the ones that are used") {
  const Case this_case =
      recorded_case(parse_instruction("wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32"), Distribution::bits);
  const Explanation e = explain(this_case, 1, 1);
  CHECK(used_bits(Format::tf32, 0xb193f5fe) == 0xb193e000);
  CHECK(used_bits(Format::f16, 0xf5fe) == 0xf5fe);
  const uint64_t a = e.steps[0].terms[0].a_bits;
  REQUIRE(a != used_bits(Format::tf32, a));
  CHECK_THAT(print(e), ContainsSubstring(print_bits(Format::tf32, a) + ", used " +
                                         print_bits(Format::tf32, used_bits(Format::tf32, a))) &&
                           ContainsSubstring("of tf32, only the upper 19 bits are used"));
}
