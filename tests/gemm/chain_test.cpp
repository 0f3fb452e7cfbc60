// The loops of chains against one multiply_accumulate an update: every row of fused sums, plan fields, shapes with
// tails, all distributions, instruction sets.
#include "arithmetic/chain.hpp"

#include "bench_case.hpp"
#include "bitmma/arithmetic/cpu_target.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/stimulus/random_operands.hpp"
#include "gemm/gemm_inside.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

/// The smallest shape of every row of sums without scales.
std::vector<cli::BenchCase> cases_of_rows() {
  std::vector<cli::BenchCase> cases;
  for (const cli::BenchCase& one : cli::bench_cases()) {
    const AccumulatorModel& model = model_for(one.instruction, one.target);
    const bool known = !cases.empty() && &model == &model_for(cases.back().instruction, cases.back().target);
    const bool is_plan = violations_of({.target = one.target, .instruction = one.instruction}).empty();
    if (model.arithmetic == Arithmetic::fused_sum && model.scaling == Scaling::none && is_plan && !known)
      cases.push_back(one);
  }
  return cases;
}

/// Operands of an instruction, case after case along K; their rows and columns come again.
GemmInputs random_inputs(const cli::BenchCase& one, Distribution distribution, uint64_t seed, int m, int n, int k) {
  const Mma mma = mma_of(one.instruction);
  GemmInputs inputs{.a = Matrix(mma.a, m, k), .b = Matrix(mma.b, k, n)};
  for (int first = 0; first < k; first += mma.k) {
    const Operands tile =
        random_operands(one.instruction, one.target, distribution, seed, static_cast<uint64_t>(first));
    if (first == 0 && tile.c && info(tile.c->format()).bits >= 16) {
      inputs.c = Matrix(mma.d, m, n);
      for (int row = 0; row < m; ++row) {
        for (int col = 0; col < n; ++col) (*inputs.c)(row, col) = (*tile.c)(row % tile.c->rows(), col % tile.c->cols());
      }
    }
    for (int i = first; i < std::min(k, first + mma.k); ++i) {
      for (int row = 0; row < m; ++row) inputs.a(row, i) = tile.a(row % tile.a.rows(), (i - first) % tile.a.cols());
      for (int col = 0; col < n; ++col) inputs.b(i, col) = tile.b((i - first) % tile.b.rows(), col % tile.b.cols());
    }
  }
  return inputs;
}

/// Any legal fields that say how K is cut. Fields that do not go together are drawn again.
GemmPlan random_plan(const cli::BenchCase& one, RandomStream& random) {
  const Mma mma = mma_of(one.instruction);
  while (true) {
    GemmPlan plan{.target = one.target, .instruction = one.instruction};
    if (random.one_in(3)) plan.k_step = random.between(1, mma.k);
    if (random.one_in(3)) plan.k_tile = mma.k * random.between(1, 4);
    if (random.one_in(3)) plan.residue = Residue::first;
    if (random.one_in(4)) plan.sliced_k = 2;
    if (random.one_in(3) && mma.d == Format::f32) plan.promotion = Promotion{.every = random.between(16, 150)};
    if (random.one_in(3)) plan.split_k = {.count = random.between(2, 5), .unit = random.one_in(2) ? 8 : 32};
    if (random.one_in(4)) plan.start_with_c = true;
    if (violations_of(plan).empty()) return plan;
  }
}

struct CpuTarget {
  std::string_view before = cpu_target();
  ~CpuTarget() { use_cpu_target(before); }
};

}  // namespace

TEST_CASE("the loops of chains give the bits of one instruction after the other") {
  const CpuTarget restored;
  RandomStream random(61, 0);
  int products = 0;
  for (const cli::BenchCase& one : cases_of_rows()) {
    for (const DistributionInfo& distribution : distributions) {
      const int m = random.between(1, 70), n = random.between(1, 90), k = random.between(1, 400);
      const GemmInputs inputs = random_inputs(one, distribution.id, random.word(), m, n, k);
      const GemmPlan plan = random_plan(one, random);
      INFO(one.name << " " << distribution.name << " " << m << " x " << n << " x " << k << " " << print_json(plan));
      use_cpu_target(restored.before);
      const Matrix expected = gemm(plan, inputs, ChainBy::updates);
      for (const std::string_view target : cpu_targets()) {
        use_cpu_target(target);
        INFO(target);
        REQUIRE(count_differing(gemm(plan, inputs, 1 + products % 3), expected) == 0);
        ++products;
      }
    }
  }
  CHECK(products >= 25 * 9);
}

TEST_CASE("one NaN or infinity changes the outputs that it reaches, wherever it stands") {
  RandomStream random(67, 0);
  const GemmPlan plan = flat_plan(Target::sm_90a, Format::bf16, Format::bf16, Format::f32);
  const cli::BenchCase one{.name = "bf16", .instruction = plan.instruction, .target = plan.target};
  const GemmInputs plain = random_inputs(one, Distribution::normal, 1, 140, 270, 300);
  const Matrix before = gemm(plan, plain);
  for (const uint32_t special : {0x7FC0u, 0xFFFFu, 0x7F80u, 0xFF80u}) {
    for (const bool in_a : {true, false}) {
      GemmInputs inputs = plain;
      const int row = random.between(0, 139), col = random.between(0, 269), k = random.between(0, 299);
      (in_a ? inputs.a(row, k) : inputs.b(k, col)) = special;
      const Matrix d = gemm(plan, inputs);
      CHECK(d == gemm(plan, inputs, ChainBy::updates));
      CHECK(count_differing(d, before) == (in_a ? 270 : 140));
    }
  }
}

TEST_CASE("sums that overflow on their way stay infinite, those that become subnormal lose bits") {
  RandomStream random(71, 0);
  const GemmPlan plan = flat_plan(Target::sm_90a, Format::bf16, Format::bf16, Format::f32);
  for (const uint32_t exponent : {190u, 127u + 63u, 127u - 60u, 127u - 66u, 127u - 74u}) {
    GemmInputs inputs{.a = Matrix(Format::bf16, 9, 400), .b = Matrix(Format::bf16, 400, 37)};
    for (Matrix* matrix : {&inputs.a, &inputs.b}) {
      for (uint32_t& word : matrix->words())
        word = (random.word() & 0x807F) | (exponent - static_cast<uint32_t>(random.between(0, 6))) << 7;
    }
    CHECK(gemm(plan, inputs) == gemm(plan, inputs, ChainBy::updates));
  }
}
