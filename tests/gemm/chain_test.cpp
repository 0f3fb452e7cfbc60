// The loops of chains against one multiply_accumulate an update: every row of fused sums, plan fields, shapes with
// tails, all distributions, instruction sets.
#include "arithmetic/chain.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <fmt/format.h>

#include <cfenv>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "bitmma/arithmetic/accumulator_model.hpp"
#include "bitmma/arithmetic/cpu_target.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/stimulus/random_operands.hpp"
#include "gemm/gemm_inside.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

struct RowCase {
  std::string name;
  Instruction instruction;
  Target target;
};

/// Of every row of sums without scales the dense instruction with the fewest outputs, and of those with the most terms,
/// on the row's first target.
std::vector<RowCase> cases_of_rows() {
  const auto size = [](const Instruction& instruction) {
    const Mma mma = mma_of(instruction);
    return std::tuple(mma.sparse, mma.m * mma.n, -mma.k);
  };
  std::vector<RowCase> cases;
  for (const AccumulatorModel& row : accumulator_models()) {
    if (row.arithmetic != Arithmetic::fused_sum || row.scaling != Scaling::none) continue;
    const Target target = row.targets.first();
    std::optional<Instruction> smallest;
    for (const Form& form : forms()) {
      if (!form.targets.contains(target)) continue;
      for (const Instruction& instruction : instructions_of(form)) {
        if (!is_mma(instruction) || &model_for(instruction, target) != &row) continue;
        if (!violations_of({.target = target, .chain = TensorCoreChain{.instruction = instruction}}).empty()) continue;
        if (!smallest || size(instruction) < size(*smallest)) smallest = instruction;
      }
    }
    if (smallest) cases.push_back({fmt::format("{} {}", print(target), print(*smallest)), *smallest, target});
  }
  return cases;
}

/// Operands of an instruction, case after case along K; their rows and columns come again.
GemmInputs random_inputs(const RowCase& row_case, Distribution distribution, uint64_t seed, int m, int n, int k) {
  const Mma mma = step_of(row_case.instruction);
  GemmInputs inputs{.a = Matrix(mma.a, m, k), .b = Matrix(mma.b, k, n)};
  for (int first = 0; first < k; first += mma.k) {
    const Operands tile =
        random_operands(row_case.instruction, row_case.target, distribution, seed, static_cast<uint64_t>(first));
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
GemmPlan random_plan(const RowCase& row_case, RandomStream& random) {
  const Mma mma = step_of(row_case.instruction);
  while (true) {
    GemmPlan plan{.target = row_case.target, .chain = TensorCoreChain{.instruction = row_case.instruction}};
    if (random.one_in(3)) plan.tensor().k_step = random.between(1, mma.k);
    if (random.one_in(3)) plan.tensor().k_tile = mma.k * random.between(1, 4);
    if (random.one_in(3)) plan.tensor().residue = Residue::first;
    if (random.one_in(4)) plan.tensor().sliced_k = 2;
    if (random.one_in(3) && mma.d == Format::f32) plan.tensor().promotion = Promotion{.every = random.between(16, 150)};
    if (random.one_in(3)) plan.split_k = {.count = random.between(2, 5), .unit = random.one_in(2) ? 8 : 32};
    if (random.one_in(4)) plan.tensor().start_with_c = true;
    if (violations_of(plan).empty()) return plan;
  }
}

/// Every dense instruction that adds differently: by another row, over another K, of other types or scales.
std::vector<RowCase> instructions_that_add_differently() {
  std::vector<RowCase> all;
  std::set<std::tuple<const AccumulatorModel*, int, Format, Format, int, Format>> seen;
  for (const Form& form : forms()) {
    for (const Instruction& instruction : instructions_of(form)) {
      if (!is_mma(instruction)) break;
      const Mma mma = step_of(instruction);
      for (const TargetInfo& target : targets) {
        if (target.adds_as != target.id ||
            !violations_of({.target = target.id, .chain = TensorCoreChain{.instruction = instruction}}).empty())
          continue;
        const AccumulatorModel& model = model_for(instruction, target.id);
        if (seen.emplace(&model, mma.k, mma.a, mma.b, mma.scale_count, mma.scale_type).second)
          all.push_back({.name = print(instruction), .instruction = instruction, .target = target.id});
      }
    }
  }
  return all;
}

/// Operands of which K is a part of a whole instruction's: each update alone in an instruction, zeros behind it.
GemmInputs with_whole_instructions(const GemmInputs& inputs, const Mma& mma, std::span<const ChainUpdate> updates) {
  const int count = static_cast<int>(updates.size());
  GemmInputs whole{.a = Matrix(mma.a, inputs.a.rows(), count * mma.k),
                   .b = Matrix(mma.b, count * mma.k, inputs.b.cols()),
                   .c = inputs.c,
                   .sfa = inputs.sfa,
                   .sfb = inputs.sfb};
  for (int i = 0; i < count; ++i) {
    const int first = static_cast<int>(updates[static_cast<size_t>(i)].first);
    for (int k = 0; k < updates[static_cast<size_t>(i)].count; ++k) {
      for (int row = 0; row < inputs.a.rows(); ++row)
        whole.a.set_code(row, i * mma.k + k, inputs.a.code(row, first + k));
      for (int col = 0; col < inputs.b.cols(); ++col)
        whole.b.set_code(i * mma.k + k, col, inputs.b.code(first + k, col));
    }
  }
  if (!inputs.sfa) return whole;
  whole.sfa = Matrix(mma.scale_type, inputs.a.rows(), count * mma.scale_count);
  whole.sfb = Matrix(mma.scale_type, count * mma.scale_count, inputs.b.cols());
  whole.sfa->fill(0x38), whole.sfb->fill(0x38);
  set_block(*whole.sfa, 0, 0, *inputs.sfa);
  set_block(*whole.sfb, 0, 0, *inputs.sfb);
  return whole;
}

struct CpuTarget {
  std::string_view before = cpu_target();
  ~CpuTarget() { use_cpu_target(before); }
};

}  // namespace

TEST_CASE("the loops of chains give the bits of one instruction after the other") {
  const CpuTarget restored;
  RandomStream random(61, 0);
  const int every = test::amount(19, 1, 1);
  int drawn = 0, products = 0;
  for (const RowCase& row_case : cases_of_rows()) {
    for (const DistributionInfo& distribution : distributions) {
      if (drawn++ % every != 0) continue;
      const int m = random.between(1, 70), n = random.between(1, 90), k = random.between(1, 400);
      const GemmInputs inputs = random_inputs(row_case, distribution.id, random.word(), m, n, k);
      const GemmPlan plan = random_plan(row_case, random);
      INFO(row_case.name << " " << distribution.name << " " << m << " x " << n << " x " << k << " "
                         << print_json(plan));
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
  CHECK(products >= 25 * 9 / every);
}

TEST_CASE("plans that share sums and decoded inputs give the bits of each plan alone") {
  const CpuTarget restored;
  RandomStream random(79, 0);
  const int every = test::amount(11, 1, 1);
  int drawn = 0, products = 0;
  for (const RowCase& row_case : cases_of_rows()) {
    for (const Distribution distribution : {Distribution::normal, Distribution::bits}) {
      if (drawn++ % every != 0) continue;
      const int m = random.between(1, 20), n = random.between(1, 40), k = random.between(1, 700);
      const GemmInputs inputs = random_inputs(row_case, distribution, random.word(), m, n, k);
      std::vector<GemmPlan> plans;
      for (int i = 0; i < 8; ++i) plans.push_back(random_plan(row_case, random));
      for (const std::string_view target : cpu_targets()) {
        use_cpu_target(target);
        KnownSums known;
        for (const GemmPlan& plan : plans) {
          INFO(row_case.name << " " << m << " x " << n << " x " << k << " " << print_json(plan) << " " << target);
          REQUIRE(count_differing(gemm(plan, inputs, known), gemm(plan, inputs)) == 0);
          if (random.one_in(8)) known.forget_sums();
          ++products;
        }
      }
    }
  }
  CHECK(products >= 25 * 2 * 8 / every);
}

TEST_CASE("an update of a part of K is an instruction with zeros behind it") {
  constexpr int rows = 5, cols = 7;
  RandomStream random(73, 0);
  const int every = test::amount(13, 1, 1);
  int lengths = 0, products = 0;
  for (const RowCase& row_case : instructions_that_add_differently()) {
    const Mma mma = step_of(row_case.instruction);
    const FormatInfo &a = info(mma.a), &b = info(mma.b), &d = info(mma.d);
    const uint64_t minus_one = a.kind == NumberKind::floating
                                   ? a.sign_bit() | static_cast<uint64_t>(a.bias) << (a.mantissa_bits + a.ignored_bits)
                                   : low_mask(a.bits),
                   plus_one = b.kind == NumberKind::floating
                                  ? static_cast<uint64_t>(b.bias) << (b.mantissa_bits + b.ignored_bits)
                                  : 1;
    const auto random_codes = [&](Matrix& matrix) {
      const FormatInfo& row = info(matrix.format());
      for (uint32_t& word : matrix.words()) {
        word = random.word() & static_cast<uint32_t>(low_mask(std::min(32, row.bits)) & ~uint64_t{row.zero_bits});
        if (row.has_zero && random.one_in(6)) word = 0;
      }
    };
    const int most = 2 * mma.k;
    for (int k = 1; k <= most; k += k > 40 && k + 9 < most ? 9 : 1) {
      if (lengths++ % every != 0) continue;
      // Steps and tiles of K that begin anew: their last updates are parts of an instruction.
      GemmPlan plan{.target = row_case.target, .chain = TensorCoreChain{.instruction = row_case.instruction}};
      plan.output = mma.d;
      std::vector<ChainUpdate> updates;
      const auto add_updates = [&](int first, int last, int step) {
        for (; first < last; first += step) updates.push_back({first, std::min(step, last - first)});
      };
      const int kind = mma.scale_count > 0 ? 0 : k % 4;
      GemmPlan whole = plan;
      if (kind == 1) {
        plan.tensor().k_step = random.between(1, mma.k);
        add_updates(0, k, plan.tensor().k_step);
      } else if (kind == 2) {
        const int tile = random.between(1, mma.k);
        plan.tensor().residue = Residue::first, plan.tensor().k_tile = tile;
        add_updates(0, k % tile, mma.k);
        add_updates(k % tile, k, tile);
      } else if (kind == 3 && mma.d == Format::f32) {
        plan.tensor().promotion = Promotion{.every = random.between(1, mma.k)},
        plan.tensor().k_step = plan.tensor().promotion->every;
        whole.tensor().promotion = Promotion{.every = mma.k};
        add_updates(0, k, plan.tensor().k_step);
      } else {
        add_updates(0, k, mma.k);
      }
      for (const bool all_ones : {true, false}) {
        GemmInputs inputs{.a = Matrix(mma.a, rows, k), .b = Matrix(mma.b, k, cols)};
        inputs.a.fill(minus_one), inputs.b.fill(plus_one);
        if (!all_ones) random_codes(inputs.a), random_codes(inputs.b);
        // f64: a sum that is -0 becomes +0 where zeros follow.
        if (!all_ones && mma.d == Format::f64 && random.one_in(2))
          inputs.a.fill(0x8010000000000000), inputs.b.fill(0x0010000000000000);
        if (!plan.tensor().promotion && random.one_in(2)) {
          plan.tensor().start_with_c = whole.tensor().start_with_c = true;
          inputs.c = Matrix(mma.d, rows, cols);
          inputs.c->fill(d.sign_bit());
          if (random.one_in(2)) random_codes(*inputs.c);
        } else {
          plan.tensor().start_with_c = whole.tensor().start_with_c = false;
        }
        if (mma.scale_count > 0) {
          const int size = mma.k / mma.scale_count, chunks = (k + size - 1) / size;
          inputs.sfa = Matrix(mma.scale_type, rows, chunks), inputs.sfb = Matrix(mma.scale_type, chunks, cols);
          for (Matrix* matrix : {&*inputs.sfa, &*inputs.sfb}) {
            for (uint32_t& word : matrix->words()) word = 0x30 + random.below(0x10);
          }
        }
        INFO(row_case.name << " " << print(row_case.target) << " K = " << k << " " << print_json(plan)
                           << (all_ones ? " ones" : ""));
        const Matrix expected = gemm(whole, with_whole_instructions(inputs, mma, updates));
        REQUIRE(count_differing(gemm(plan, inputs), expected) == 0);
        REQUIRE(count_differing(gemm(plan, inputs, ChainBy::updates), expected) == 0);
        ++products;
      }
    }
  }
  CHECK(products > 5000 / every);
}

TEST_CASE("fp8 in two f16 steps: -1 times 1 is -1, also where the second step has no terms") {
  for (const Target target : {Target::sm_90a, Target::sm_100a}) {
    for (const int shape : {16, 32}) {
      const GemmPlan plan{
          .target = target,
          .chain = TensorCoreChain{.instruction =
                                       MmaSync{.d = Format::f32, .a = Format::e4m3, .b = Format::e4m3, .k = shape}}};
      for (const int k : {1, 2, 3, shape + 1, shape + 2}) {
        GemmInputs inputs{.a = Matrix(Format::e4m3, 1, k), .b = Matrix(Format::e4m3, k, 1)};
        inputs.a(0, k - 1) = 0xB8, inputs.b(k - 1, 0) = 0x38;
        CHECK(gemm(plan, inputs)(0, 0) == 0xBF800000);
      }
    }
  }
}

TEST_CASE("one NaN or infinity changes the outputs that it reaches, wherever it stands") {
  RandomStream random(67, 0);
  const GemmPlan plan = flat_plan(Target::sm_90a, Format::bf16, Format::bf16, Format::f32);
  const RowCase row_case{.name = "bf16", .instruction = plan.tensor().instruction, .target = plan.target};
  const GemmInputs plain = random_inputs(row_case, Distribution::normal, 1, 140, 270, 300);
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

namespace {

/// Plans whose chains have different loops: exponents of 8 and more bits, sums of 25 and 13 fraction bits.
std::vector<GemmPlan> plans_of_loops() {
  return {flat_plan(Target::sm_90a, Format::bf16, Format::bf16, Format::f32),
          flat_plan(Target::sm_90a, Format::f16, Format::f16, Format::f32),
          flat_plan(Target::sm_90a, Format::f16, Format::f16, Format::f16),
          flat_plan(Target::sm_100a, Format::e4m3, Format::e5m2, Format::f32),
          flat_plan(Target::sm_90a, Format::e4m3, Format::e5m2, Format::f32),
          flat_plan(Target::sm_90a, Format::e5m2, Format::e4m3, Format::f16)};
}

}  // namespace

TEST_CASE("chains start with a C of any size, zeros and NaN among them") {
  const CpuTarget restored;
  RandomStream random(79, 0);
  for (GemmPlan plan : plans_of_loops()) {
    plan.tensor().start_with_c = true;
    const Mma mma = mma_of(plan.tensor().instruction);
    const FormatInfo& d = info(mma.d);
    // A column per exponent field; the first rows have only zeros as products, of both signs.
    const int rows = 11, k = 70, cols = static_cast<int>(d.exponent_mask()) + 1;
    GemmInputs inputs{.a = Matrix(mma.a, rows, k), .b = Matrix(mma.b, k, cols), .c = Matrix(mma.d, rows, cols)};
    for (Matrix* matrix : {&inputs.a, &inputs.b}) {
      const FormatInfo& format = info(matrix->format());
      for (uint32_t& word : matrix->words()) {
        const uint32_t field = static_cast<uint32_t>(format.bias + random.between(-5, 5));
        word = (random.word() & static_cast<uint32_t>(format.sign_bit() | format.mantissa_mask())) |
               field << format.mantissa_bits;
        if (random.one_in(6)) word &= static_cast<uint32_t>(format.sign_bit());
      }
    }
    for (int row = 0; row < 4; ++row) {
      for (uint32_t& word : inputs.a.row(row)) word &= static_cast<uint32_t>(info(mma.a).sign_bit());
    }
    for (int row = 0; row < rows; ++row) {
      for (int col = 0; col < cols; ++col) {
        const uint32_t mantissa = random.one_in(3) ? 0 : random.word() & static_cast<uint32_t>(d.mantissa_mask());
        (*inputs.c)(row, col) = (random.one_in(2) ? static_cast<uint32_t>(d.sign_bit()) : 0) |
                                static_cast<uint32_t>(col) << d.mantissa_bits | mantissa;
      }
    }
    INFO(print_json(plan));
    const Matrix expected = gemm(plan, inputs, ChainBy::updates);
    for (const std::string_view target : cpu_targets()) {
      use_cpu_target(target);
      INFO(target);
      CHECK(count_differing(gemm(plan, inputs), expected) == 0);
    }
  }
}

TEST_CASE("chains do not depend on the caller's floating-point environment, and leave it as it was") {
  const CpuTarget restored;
  for (const GemmPlan& plan : plans_of_loops()) {
    const Instruction& instruction = plan.tensor().instruction;
    const Mma mma = mma_of(instruction);
    const RowCase row_case{.name = "", .instruction = instruction, .target = plan.target};
    const GemmInputs inputs = random_inputs(row_case, Distribution::normal, 3, 9, 70, 150);
    const std::vector<ChainUpdate> updates{{0, mma.k}, {mma.k, mma.k}, {2 * mma.k, 1}};
    const ChainBlock block{.a = inputs.a, .b = inputs.b, .row = 0, .rows = 9, .col = 0, .cols = 70};
    const AccumulatorModel& model = model_for(instruction, plan.target);
    const Matrix expected = chain(model, block, updates, mma.k, inputs.c);
    for (const std::string_view target : cpu_targets()) {
      use_cpu_target(target);
      INFO(target << " " << print_json(plan));
      for (const int rounding : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
        std::fenv_t before;
        std::fegetenv(&before);
        std::fesetround(rounding);
#if defined(__x86_64__)
        constexpr uint32_t settings = 0xFFC0, to_zero = 0x8040;  // of MXCSR; FTZ and DAZ
        _mm_setcsr(_mm_getcsr() | to_zero);
        const uint32_t set = _mm_getcsr();
#endif
        const Matrix d = chain(model, block, updates, mma.k, inputs.c);
        const int left = std::fegetround();
#if defined(__x86_64__)
        const bool is_same = ((_mm_getcsr() ^ set) & settings) == 0;
#else
        const bool is_same = true;
#endif
        std::fesetenv(&before);
        CHECK(is_same);
        CHECK(left == rounding);
        CHECK(count_differing(d, expected) == 0);
      }
    }
  }
}
