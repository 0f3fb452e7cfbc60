#include "bitmma/survey/find_rule.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "arithmetic/product.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"
#include "support/instructions.hpp"
#include "support/mutants.hpp"
#include "support/refusal.hpp"
#include "survey/find_rule/facts.hpp"
#include "survey/find_rule/hypotheses.hpp"
#include "survey/find_rule/outputs.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

namespace {

/// Or a part of the rows.
const bool all_rows = test::amount(false, true, true);

using Device = std::function<Matrix(const Operands&)>;

Device device_of(const AccumulatorModel& model) {
  return [model](const Operands& operands) { return multiply_accumulate_unchecked(model, operands); };
}

FoundRule found_rule(const Instruction& instruction, Target target, const Device& device, int threads = 2,
                     int cases = 64) {
  RuleSearch search(instruction, target, 1, threads);
  while (!search.settled()) {
    std::vector<RuleObservation> answers;
    for (const RuleCase& rule_case : search.next_cases(cases)) {
      Operands operands = operands_of(instruction, target, rule_case);
      Matrix d = device(operands);
      answers.push_back({std::move(operands), std::move(d)});
    }
    search.observe(answers);
  }
  return search.result();
}

/// A dense instruction of every row on a target that the row is of, of few outputs.
std::vector<std::pair<Instruction, Target>> one_of_every_row() {
  std::vector<std::pair<Instruction, Target>> rows;
  std::set<const AccumulatorModel*> seen;
  std::vector<Instruction> all;
  for (const Instruction& instruction : all_instructions()) {
    if (is_mma(instruction) && !mma_of(instruction).sparse) all.push_back(instruction);
  }
  // Mnemonics of tcgen05 leave most types to the instruction descriptor.
  for (const Tcgen05Mma& instruction : test::tcgen05_mmas()) {
    if (!instruction.sparse && instruction.n <= 16) all.push_back(instruction);
  }
  // Of mma.sync the largest K.
  std::ranges::stable_sort(all, std::greater{}, [](const Instruction& instruction) {
    const Mma mma = mma_of(instruction);
    return mma.family == Family::mma_sync ? mma.k : 0;
  });
  for (const Instruction& instruction : all) {
    for (const TargetInfo& target : targets) {
      if (target.adds_as != target.id || !violations_of(instruction, target.id).empty()) continue;
      if (seen.insert(&model_for(instruction, target.id)).second) rows.emplace_back(instruction, target.id);
    }
  }
  return rows;
}

const RuleFact& fact(const FoundRule& result, const std::string& name) {
  const auto row = std::ranges::find(result.facts, name, &RuleFact::name);
  REQUIRE(row != result.facts.end());
  return *row;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace

TEST_CASE("a prediction of one output is what the model multiplies, for any hypothesis", "[long]") {
  int compared = 0;
  for (const auto& [text, target] : {std::pair("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", Target::sm_80),
                                     std::pair("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", Target::sm_90a),
                                     std::pair("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32", Target::sm_90a),
                                     std::pair("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f16", Target::sm_70),
                                     std::pair("mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale"
                                               ".scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
                                               Target::sm_120a),
                                     std::pair("mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col.kind::mxf4"
                                               ".block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0",
                                               Target::sm_120a)}) {
    const Instruction instruction = parse_instruction(text);
    const AccumulatorModel blank = blank_model(instruction);
    const FusedGrid grid(instruction, 0);
    const std::vector<std::optional<int>> floors = floors_of(blank.output);
    RandomStream random(5, 0);
    for (uint64_t index = 0; index < 40; ++index) {
      const RuleCase rule_case{.distribution = index % 2 == 0
                                                   ? std::nullopt
                                                   : std::optional(distributions[index / 2 % distributions.size()].id),
                               .seed = 2,
                               .case_index = index};
      const Operands operands = operands_of(instruction, target, rule_case);
      const Matrix unknown(blank.output, operands.a.rows(), operands.b.cols());
      const AnsweredCase answered(blank, operands, unknown);
      for (int i = 0; i < 4;) {
        std::optional<AccumulatorModel> model = grid.at(random.below(static_cast<uint32_t>(grid.size())));
        if (!model) continue;
        ++i;
        model->floor_exponent = floors[random.below(static_cast<uint32_t>(floors.size()))];
        model->overrides.zero_keeps_sign = random.one_in(2);
        model->overrides.c_nan_payload_passed = random.one_in(2);
        INFO(text << ", " << print(rule_case) << ": " << print_rule(*model));
        const Matrix d = multiply_accumulate_unchecked(*model, operands);
        Matrix predicted = unknown;
        for (int row = 0; row < d.rows(); ++row) {
          for (int col = 0; col < d.cols(); ++col)
            predicted(row, col) = AnsweredOutput(answered, blank, row, col).predict(*model).code;
        }
        REQUIRE(predicted == d);
        compared += static_cast<int>(d.size());
      }
    }
  }
  CHECK(compared > 100000);
}

TEST_CASE("every row of arithmetic is found again from what it computes", "[long]") {
  const auto rows = one_of_every_row();
  std::set<const AccumulatorModel*> found_rows;
  for (size_t i = 0; i < rows.size(); i += all_rows ? 1 : 7) {
    const auto& [instruction, target] = rows[i];
    const AccumulatorModel& row = model_for(instruction, target);
    const FoundRule result = found_rule(instruction, target, device_of(row));
    INFO(print(instruction) << " on " << print(target));
    REQUIRE(result.rule);
    CHECK(*result.rule == row);
    CHECK(differences(row, result) == std::vector<std::string>{});
    CHECK(result.outputs > 1000);
    CHECK(result.nearest_mismatches == 0);
    found_rows.insert(&row);
    // What these types can show at all is closed.
    if (row.arithmetic != Arithmetic::fused_sum) continue;
    CHECK(fact(result, "terms per step").open.empty());
    CHECK(fact(result, "order of steps").open.empty());
    CHECK(fact(result, "c").open.empty());
    CHECK(fact(result, "fraction bits").open.empty());
    CHECK(fact(result, "rounding").open.empty());
    CHECK(fact(result, "mantissa bits kept").open.empty());
    const Format type = mma_of(instruction).a;
    const bool reaches_floor = type == Format::bf16 || type == Format::tf32;
    if (reaches_floor) CHECK(fact(result, "floor").open.empty());
  }
  CHECK(rows.size() == accumulator_models().size());
  CHECK(found_rows.size() >= rows.size() / 7);
}

TEST_CASE("a fact of a row that is wrong is named, whatever the other facts are", "[long]") {
  const std::map<std::string, std::string> fact_of_mutant{{"F-1", "fraction bits"},
                                                          {"F+1", "fraction bits"},
                                                          {"floor-1", "floor"},
                                                          {"floor+1", "floor"},
                                                          {"no floor", "floor"},
                                                          {"product normalised", "exponent of a product"},
                                                          {"other rounding", "rounding"},
                                                          {"all mantissa bits kept", "mantissa bits kept"},
                                                          {"two chained halves", "terms per step"},
                                                          {"aligned toward minus infinity", "terms are aligned"},
                                                          {"zero keeps sign", "a zero result"},
                                                          {"NaN payload of c passed", "NaN of c"},
                                                          {"f16 through f32", "f16 results"},
                                                          {"zero product has an exponent", "zero products"},
                                                          {"c truncated after the sum", "c is truncated"}};
  int named = 0, tried = 0;
  for (const auto& [text, target] :
       {std::pair("wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16", Target::sm_90a),
        std::pair("wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2", Target::sm_90a),
        std::pair("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", Target::sm_90a)}) {
    const Instruction instruction = parse_instruction(text);
    const AccumulatorModel& row = model_for(instruction, target);
    for (const test::Mutant& mutant : test::mutants()) {
      AccumulatorModel other = row;
      mutant.change(other);
      if (other == row || !test::is_visible(row, mutant)) continue;
      if (!all_rows && ++tried % 5 != 0) continue;
      const FoundRule result = found_rule(instruction, target, device_of(other));
      INFO(text << ": " << mutant.name << "\n" << joined(differences(row, result)));
      REQUIRE(result.rule);
      CHECK(differences(other, result).empty());
      const std::vector<std::string> lines = differences(row, result);
      REQUIRE(lines.size() == 1);
      CHECK(lines.front().starts_with(fact_of_mutant.at(mutant.name) + ": the row says "));
      ++named;
    }
  }
  CHECK(named > (all_rows ? 30 : 5));
}

TEST_CASE("steps, their order and where C is added are found, and several facts at once", "[long]") {
  const Instruction instruction = parse_instruction("mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e5m2.f16");
  const AccumulatorModel& row = model_for(instruction, Target::sm_89);
  AccumulatorModel other = row;
  other.terms_per_step = 4, other.c_last = true, other.fraction_bits = 17;
  const FoundRule result = found_rule(instruction, Target::sm_89, device_of(other));
  REQUIRE(result.rule);
  CHECK(differences(other, result).empty());
  CHECK(differences(row, result) ==
        std::vector<std::string>{"terms per step: the row says 16, the results say 4",
                                 "c: the row says in the first step, the results say added last, by an IEEE addition",
                                 "fraction bits: the row says 13, the results say 17"});
  // What is added last hides the zeros and the NaN of the sum.
  CHECK(fact(result, "NaN of c").open == std::vector<std::string>{"passes its payload"});

  other = model_for(instruction, Target::sm_90a);
  other.c_last = false;
  CHECK(
      differences(model_for(instruction, Target::sm_90a), found_rule(instruction, Target::sm_90a, device_of(other))) ==
      std::vector<std::string>{"c: the row says added last, by an IEEE addition, the results say in the first step"});

  // One step, to which C comes last.
  const Instruction whole = parse_instruction("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
  other = model_for(whole, Target::sm_90a);
  other.c_last = true;
  CHECK(differences(model_for(whole, Target::sm_90a), found_rule(whole, Target::sm_90a, device_of(other))) ==
        std::vector<std::string>{"c: the row says in the first step, the results say added last, by an IEEE addition"});
}

TEST_CASE("scales of blocks: what is aligned is found", "[long]") {
  const Instruction instruction = parse_instruction(
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3");
  const AccumulatorModel& row = model_for(instruction, Target::sm_120a);
  AccumulatorModel other = row;
  other.scaling = Scaling::whole_k, other.fraction_bits = 25;
  const FoundRule result = found_rule(instruction, Target::sm_120a, device_of(other));
  REQUIRE(result.rule);
  CHECK(differences(other, result).empty());
  CHECK(fact(result, "aligned terms").value == "products with their scales");
  CHECK(fact(result, "aligned terms").open.empty());
  CHECK(fact(result, "fraction bits").value == "25");
}

TEST_CASE("the terms of exact groups are found", "[long]") {
  const auto group_found = [](const Instruction& instruction, Target target, int group, int fraction_bits) {
    AccumulatorModel other = model_for(instruction, target);
    other.scaling = Scaling::exact_groups, other.group_terms = group, other.fraction_bits = fraction_bits;
    const FoundRule result = found_rule(instruction, target, device_of(other));
    REQUIRE(result.rule);
    CHECK(differences(other, result).empty());
    CHECK(fact(result, "aligned terms").open.empty());
    CHECK(fact(result, "fraction bits").value == std::to_string(fraction_bits));
    return fact(result, "aligned terms").value;
  };
  // A scale of 16 terms, and one of 32.
  Tcgen05Mma mma{.kind = MmaKind::mxf4nvf4, .n = 16, .scale_vec = ScaleVec::x4, .scale_type = Format::ue4m3};
  CHECK(group_found(mma, Target::sm_100a, 8, 35) == "exact groups of 8, by their scales");
  mma = {.kind = MmaKind::mxf4, .n = 16};
  CHECK(group_found(mma, Target::sm_100a, 32, 35) == "exact groups of 32, by their scales");
  CHECK(group_found(mma, Target::sm_100a, 4, 30) == "exact groups of 4, by their scales");
  // Of other kinds the row has no groups at all.
  mma = {.kind = MmaKind::mxf8f6f4, .n = 16, .a = Format::e2m1, .b = Format::e2m1};
  CHECK(group_found(mma, Target::sm_100a, 32, 35) == "exact groups of 32, by their scales");
}

TEST_CASE("integers that are clamped instead of wrapped, or other bits that count, are facts without a row") {
  const Instruction integers = parse_instruction("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32");
  const AccumulatorModel& row = model_for(integers, Target::sm_90a);
  const FoundRule clamped = found_rule(integers, Target::sm_90a, [&](Operands operands) {
    operands.saturate = true;
    return multiply_accumulate(row, operands);
  });
  CHECK_FALSE(clamped.rule);
  CHECK(fact(clamped, "sums beyond 32 bits") == RuleFact{.name = "sums beyond 32 bits", .value = "are clamped once"});
  CHECK(clamped.nearest_mismatches > 0);

  const FoundRule stepped = found_rule(integers, Target::sm_90a, [&](const Operands& operands) {
    AccumulatorModel halves = row;
    halves.terms_per_step = 16;
    return product_by_steps(halves, operands, [&](Operands half, const KStep&) {
      half.saturate = true;
      return multiply_accumulate(row, half);
    });
  });
  CHECK(fact(stepped, "sums beyond 32 bits").value == "are clamped every 16 terms");
  CHECK(fact(stepped, "sums beyond 32 bits").open.empty());

  const Instruction bits = parse_instruction("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc");
  const FoundRule differ = found_rule(bits, Target::sm_90a, [&](Operands operands) {
    operands.exclusive_or = true;
    return multiply_accumulate(model_for(bits, Target::sm_90a), operands);
  });
  CHECK_FALSE(differ.rule);
  CHECK(fact(differ, "bits that count").value == "those that differ");
}

TEST_CASE("where no rule gives every bit the nearest one is named, with the outputs that it misses") {
  const Instruction instruction = parse_instruction("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32");
  const AccumulatorModel& row = model_for(instruction, Target::sm_90a);
  AccumulatorModel other = row;
  other.fraction_bits = 23;
  int64_t changed = 0;
  const FoundRule result = found_rule(instruction, Target::sm_90a, [&](const Operands& operands) {
    Matrix d = multiply_accumulate(other, operands);
    d(3, 5) ^= 1, ++changed;
    return d;
  });
  CHECK_FALSE(result.rule);
  CHECK(result.survivors.empty());
  REQUIRE(result.nearest);
  CHECK(result.nearest->fraction_bits == 23);
  CHECK(result.nearest_mismatches == changed);
}

TEST_CASE("the search is the same with any number of threads, and any number of cases at a time") {
  const Instruction instruction = parse_instruction("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16");
  const AccumulatorModel& row = model_for(instruction, Target::sm_80);
  const FoundRule rule = found_rule(instruction, Target::sm_80, device_of(row), 1),
                  four = found_rule(instruction, Target::sm_80, device_of(row), 4),
                  few = found_rule(instruction, Target::sm_80, device_of(row), 2, 5);
  CHECK(rule.facts == four.facts);
  CHECK(rule.survivors == four.survivors);
  CHECK(rule.outputs == four.outputs);
  CHECK(few.facts == rule.facts);
  CHECK(few.rule == rule.rule);
}

TEST_CASE("a case of a search is the same operands again, and probes hold legal ones") {
  for (const Instruction& instruction : test::sample_instructions()) {
    if (!is_mma(instruction)) continue;
    const Target target = default_target(instruction);
    for (uint64_t index = 0; index < 10; ++index) {
      const RuleCase rule_case{.seed = 3, .case_index = index};
      INFO(print(instruction) << ", " << print(rule_case));
      const Operands operands = operands_of(instruction, target, rule_case);
      CHECK(operands == operands_of(instruction, target, rule_case));
      CHECK_NOTHROW(multiply_accumulate(model_for(instruction, target), operands));
      const RuleCase other{.seed = 3, .case_index = index + 10};
      CHECK(operands.a != operands_of(instruction, target, other).a);
    }
  }
  CHECK(print(RuleCase{.seed = 3, .case_index = 17}) == "probe, seed 3, case 17");
  CHECK(print(RuleCase{.distribution = Distribution::ties, .seed = 3, .case_index = 2}) == "ties, seed 3, case 2");
}

TEST_CASE("a search says what it cannot take") {
  CHECK_THROWS_AS(RuleSearch(TmemMove{}, Target::sm_100a, 1), Error);
  const Instruction instruction = parse_instruction("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
  RuleSearch search(instruction, Target::sm_90a, 1);
  CHECK_THROWS_AS(search.next_cases(0), Error);
  const Operands operands = operands_of(instruction, Target::sm_90a, search.next_cases(1).front());
  const auto refusal = [&](Matrix d) {
    const std::vector<RuleObservation> observations{{operands, std::move(d)}};
    return test::refusal_of([&] { search.observe(observations); });
  };
  CHECK_THAT(refusal(Matrix(Format::f16, 16, 8)), refused(wrong_shape, "D"));
  CHECK_THAT(refusal(Matrix(Format::f32, 8, 8)), refused(wrong_shape, "D"));
  CHECK_FALSE(search.settled());
  CHECK_FALSE(RuleSearch(instruction, Target::sm_90a, 1).result().rule);
}
