#include "bitmma/gemm/find.hpp"

#include <algorithm>

#include "bitmma/core/random.hpp"
#include "random_matrix.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using test::random_matrix;

TEST_CASE("plans that are planted are found, or others that give all bits") {
  RandomStream random(61, 0);
  const std::string w = R"({"instruction": "wgmma.mma_async.sync.aligned.m64n256k)";
  for (const std::string& text :
       {w + R"(16.f32.f16.f16"})", w + R"(16.f32.bf16.bf16", "split_k": {"count": 5, "unit": 64, "rule": "nvjet"}})",
        w + R"(32.f32.e4m3.e4m3", "promotion": {"every": 256}, "output": {"type": "bf16"}})",
        w + R"(16.f32.bf16.bf16", "k_step": 8, "k_tile": 32, "residue": "first",
               "split_k": {"count": 4, "unit": 8, "rule": "ceil"}})",
        w + R"(16.f32.f16.f16", "k_tile": 64, "residue": "first", "split_k": {"count": 6, "unit": 8, "rule": "ceil"},
               "reduction": {"partial": "out"}, "output": {"type": "bf16"}})",
        w + R"(16.f32.f16.f16", "k_tile": 64, "sliced_k": 2})",
        w + R"(16.f32.f16.f16", "split_k": {"count": 3, "unit": 64, "rule": "big_first"}})",
        w + R"(16.f32.f16.f16", "epilogue": [{"op": "relu"}]})",
        std::string(R"({"target": "sm_80", "instruction": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"})")}) {
    const GemmPlan plan = parse_plan(text);
    const Format type = mma_of(plan.tensor().instruction).a;
    GemmInputs inputs{.a = random_matrix(type, 4, 1000, random), .b = random_matrix(type, 1000, 9, random)};
    const Matrix d = gemm(plan, inputs);
    const PlanSearch search = find_plans(inputs, d, {.threads = 2});
    INFO(text);
    REQUIRE_FALSE(search.all_bits.empty());
    CHECK(search.nearest.empty());
    CHECK(gemm(search.all_bits.front(), inputs) == d);
  }
}

TEST_CASE("where no plan gives all bits the nearest are shown with what they miss") {
  RandomStream random(67, 0);
  const GemmInputs inputs{.a = random_matrix(Format::f16, 4, 64, random),
                          .b = random_matrix(Format::f16, 64, 8, random)};
  Matrix d = gemm(flat_plan(Target::sm_90a, Format::f16, Format::f16, Format::f32), inputs);
  for (int row = 0; row < 4; ++row) d(row, 5) ^= 0x400;
  const PlanSearch search = find_plans(inputs, d);
  CHECK(search.all_bits.empty());
  REQUIRE_FALSE(search.nearest.empty());
  CHECK(search.nearest.front().differing == 4);
  CHECK(search.nearest.front().pattern == "all in columns 5..5");
  CHECK(print_plan(search.nearest.front().plan) == "flat");
  CHECK_THROWS_AS(find_plans(inputs, Matrix(Format::f32, 4, 7)), Error);
}

TEST_CASE("no candidate is there twice, and every one is legal") {
  const GemmInputs inputs{.a = Matrix(Format::e4m3, 1, 2048), .b = Matrix(Format::e4m3, 2048, 1)};
  const std::vector<GemmPlan> plans = candidate_plans(inputs, Matrix(Format::bf16, 1, 1), {}, SearchStage::usual);
  CHECK(plans.size() > 500);
  CHECK(print_plan(plans.front()) == "flat");
  for (size_t i = 0; i < plans.size(); ++i) REQUIRE(violations_of(plans[i]).empty());
}

TEST_CASE("families of plans are counted, measured ones first") {
  RandomStream random(71, 0);
  const GemmInputs inputs{.a = random_matrix(Format::bf16, 4, 1024, random),
                          .b = random_matrix(Format::bf16, 1024, 8, random)};
  const Matrix d = gemm(flat_plan(Target::sm_90a, Format::bf16, Format::bf16, Format::bf16), inputs);
  const PlanSearch search = find_plans(inputs, d, {.threads = 2});
  REQUIRE(search.ambiguous());
  CHECK(search.end == SearchEnd::complete);
  int64_t plans = 0;
  bool measured = true;
  for (const PlanFamily& family : search.families) {
    plans += family.plans;
    REQUIRE(family.first < std::ssize(search.all_bits));
    CHECK(print_family(search.all_bits[static_cast<size_t>(family.first)]) == family.name);
    const bool is_measured = family.evidence && family.evidence->level == EvidenceLevel::measured;
    CHECK((measured || !is_measured));  // none behind one that is not
    measured = is_measured;
  }
  CHECK(plans == std::ssize(search.all_bits));
  CHECK(search.families.front().name == "flat");
}

TEST_CASE("a search ends by time, by plans and by its caller, and says which") {
  RandomStream random(79, 0);
  const GemmInputs inputs{.a = random_matrix(Format::f16, 4, 512, random),
                          .b = random_matrix(Format::f16, 512, 8, random)};
  const Matrix d = random_matrix(Format::f32, 4, 8, random);  // no plan gives it
  const PlanSearch few = find_plans(inputs, d, {.max_plans = 50});
  CHECK(few.end == SearchEnd::max_plans);
  CHECK(few.candidates == 50);
  CHECK_FALSE(few.nearest.empty());
  const size_t usual = candidate_plans(inputs, d, {}, SearchStage::usual).size();
  CHECK(few.untried >= static_cast<int64_t>(usual) - 50);  // and plans of stream-K
  CHECK(few.untried_stages == std::vector{SearchStage::combined, SearchStage::cuda_cores});
  const PlanSearch late = find_plans(inputs, d, {.timeout_s = 1e-9});
  CHECK(late.end == SearchEnd::timeout);
  CHECK(late.candidates == 0);
  CHECK(late.untried >= static_cast<int64_t>(usual));
  int calls = 0;
  const PlanSearch stopped = find_plans(inputs, d, {.stop = [&] { return ++calls > 10; }});
  CHECK(stopped.end == SearchEnd::stopped);
  CHECK(stopped.candidates <= 10);
}

TEST_CASE("a search of few rows shares sums and judges every plan as gemm does", "[whole]") {
  RandomStream random(83, 0);
  for (const Format type : {Format::bf16, Format::e4m3, Format::tf32}) {
    GemmInputs inputs{.a = random_matrix(type, 3, 712, random), .b = random_matrix(type, 712, 8, random)};
    const Matrix d = gemm(flat_plan(Target::sm_90a, type, type, Format::bf16), inputs);
    for (const SearchStage stage : {SearchStage::usual, SearchStage::combined}) {
      std::vector<GemmPlan> plans = candidate_plans(inputs, d, {}, stage), same;
      const int step = test::amount(61, 11, 1);
      for (size_t i = 0; i < plans.size(); ++i) {  // neighbours share sums
        if (i % 512 >= static_cast<size_t>(512 / step)) continue;
        if (gemm(plans[i], inputs) == d) same.push_back(plans[i]);
      }
      std::erase_if(
          plans, [&, i = size_t{0}](const GemmPlan&) mutable { return i++ % 512 >= static_cast<size_t>(512 / step); });
      PlanSearch search = try_plans(plans, inputs, d, {.threads = 2});
      REQUIRE_FALSE(same.empty());
      CHECK(std::ranges::is_permutation(search.all_bits, same));
    }
  }
}

TEST_CASE("after its time a search names nearest plans from a sample and what it did not try") {
  RandomStream random(89, 0);
  const GemmInputs inputs{.a = random_matrix(Format::f16, 96, 64, random),
                          .b = random_matrix(Format::f16, 64, 96, random)};
  Matrix d = gemm(flat_plan(Target::sm_90a, Format::f16, Format::f16, Format::f32), inputs);
  for (int col = 0; col < 96; ++col) d(5, col) ^= 1;
  const PlanSearch search = find_plans(inputs, d, {.max_plans = 20});
  REQUIRE_FALSE(search.nearest.empty());
  CHECK(search.nearest.front().outputs == 64 * 64);
  CHECK(search.nearest.front().differing >= 1);
  CHECK(search.untried > 0);
  CHECK(find_plans(inputs, d).nearest.front().outputs == 96 * 96);
}

namespace {

/// A plan drawn from the ranges that `bitmma gemm --help` lists.
GemmPlan random_plan(RandomStream& random) {
  constexpr std::array types{Format::bf16, Format::f16, Format::tf32, Format::e4m3, Format::e5m2};
  const auto pick = [&](auto... values) {
    const std::array all{values...};
    return all[random.below(static_cast<uint32_t>(all.size()))];
  };
  const Format type = types[random.below(types.size())];
  GemmPlan plan =
      flat_plan(Target::sm_90a, type, type, random.one_in(2) ? Format::f32 : pick(Format::bf16, Format::f16));
  plan.name.clear();
  if (type == Format::tf32)
    plan.tensor().input_rounding = pick(InputRounding::none, InputRounding::tf32_rne, InputRounding::tf32_rna);
  const int k_i = mma_of(plan.tensor().instruction).k;
  switch (random.below(5)) {
    case 0:
      plan.tensor().residue = Residue::first, plan.tensor().k_tile = pick(32, 64, 128, 256),
      plan.tensor().k_step = random.one_in(2) ? k_i / 2 : 0;
      break;
    case 1:
      plan.tensor().sliced_k = pick(2, 4), plan.tensor().k_tile = pick(32, 64, 128),
      plan.tensor().residue = pick(Residue::first, Residue::last);
      break;
    case 2: plan.tensor().promotion = Promotion{.every = pick(32, 64, 128, 256, 512)}; break;
    case 3: plan.tensor().k_step = k_i / 2; break;
    default: break;
  }
  switch (random.below(6)) {
    case 0: plan.split_k = {.count = random.between(2, 64), .unit = pick(64, 128), .rule = SplitRule::nvjet}; break;
    case 1:
      plan.split_k = {.count = random.between(2, 64), .unit = pick(4, 8, 32, 64, 128), .rule = SplitRule::ceil};
      break;
    case 2:
      plan.split_k = {.count = random.between(2, 16),
                      .unit = pick(32, 64, 128),
                      .rule = pick(SplitRule::floor, SplitRule::big_first, SplitRule::big_last)};
      break;
    case 3: plan.split_k = {.cuts = {0, int64_t{k_i} * random.between(1, 30), 2000}}; break;
    default: break;
  }
  if (plan.split_k.cuts.empty() && plan.split_k.count > 1 && plan.output != Format::f32) {
    plan.reduction.partial = pick(SumType::f32, SumType::out);
    plan.reduction.running = pick(SumType::f32, SumType::out);
  }
  if (random.one_in(6)) plan.epilogue.push_back({.kind = EpilogueKind::relu});
  return plan;
}

}  // namespace

TEST_CASE("plans planted at random from the ranges of the help are found", "[long]") {
  RandomStream random(73, 0);
  const int cases = test::amount(2, 8, 24);
  for (int i = 0; i < cases; ++i) {
    const GemmPlan plan = random_plan(random);
    REQUIRE(violations_of(plan).empty());
    const Format type = mma_of(plan.tensor().instruction).a;
    const GemmInputs inputs{.a = random_matrix(type, 8, 2000, random), .b = random_matrix(type, 2000, 16, random)};
    const Matrix d = gemm(plan, inputs);
    const PlanSearch search = find_plans(inputs, d, {.threads = 2});
    INFO(print_json(plan));
    REQUIRE_FALSE(search.all_bits.empty());
    CHECK(gemm(search.all_bits.front(), inputs) == d);
  }
}
