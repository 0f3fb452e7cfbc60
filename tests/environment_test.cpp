// No result depends on the floating-point environment of the caller, and every call leaves that environment as it was.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cfenv>
#include <functional>

#include "bitmma.h"
#include "bitmma/acts/describe_product.hpp"
#include "bitmma/analysis/describe.hpp"
#include "bitmma/analysis/explain.hpp"
#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/gemm/accuracy.hpp"
#include "bitmma/gemm/catalogue.hpp"
#include "bitmma/gemm/find.hpp"
#include "bitmma/gemm/library_choice.hpp"
#include "bitmma/gemm/trace.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "bitmma/operators/attention.hpp"
#include "bitmma/operators/c_function.hpp"
#include "bitmma/operators/quantize.hpp"
#include "bitmma/operators/rows.hpp"
#include "bitmma/stimulus/generated.hpp"
#include "bitmma/stimulus/random_case.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

#if defined(__x86_64__)
struct Environment {
  const char* name;
  unsigned sse;
  uint16_t x87;

  bool operator==(const Environment&) const = default;
};
constexpr unsigned traps_masked = 0x1F80, flushes = 0x8000, reads_zero = 0x0040, downward = 0x2000, upward = 0x4000;
constexpr std::array environments{
    Environment{"flush to zero", traps_masked | flushes, 0x037F},
    Environment{"denormals are zero", traps_masked | reads_zero, 0x037F},
    Environment{"flush to zero, denormals are zero", traps_masked | flushes | reads_zero, 0x037F},
    Environment{"downward", traps_masked | downward, 0x077F},
    Environment{"upward", traps_masked | upward, 0x0B7F},
    Environment{"toward zero", traps_masked | downward | upward, 0x0F7F},
    Environment{"x87 of 24 bits", traps_masked, 0x007F},
    Environment{"all exceptions unmasked", 0, 0x0340},
};
constexpr Environment usual{"usual", traps_masked, 0x037F};

void use(const Environment& environment) {
  __asm__ volatile("fnclex\n\tfldcw %0" ::"m"(environment.x87));
  __builtin_ia32_ldmxcsr(environment.sse);
}
Environment used(const Environment& named) {
  uint16_t x87 = 0;
  __asm__ volatile("fnstcw %0" : "=m"(x87));
  return {named.name, __builtin_ia32_stmxcsr(), x87};
}
#else
struct Environment {
  const char* name;
  int mode;

  bool operator==(const Environment&) const = default;
};
constexpr std::array environments{Environment{"downward", FE_DOWNWARD}, Environment{"upward", FE_UPWARD},
                                  Environment{"toward zero", FE_TOWARDZERO}};
constexpr Environment usual{"usual", FE_TONEAREST};

void use(const Environment& environment) { std::fesetround(environment.mode); }
Environment used(const Environment& named) { return {named.name, std::fegetround()}; }
#endif

std::string text_of(const Matrix& matrix) {
  std::string text = fmt::format("{} x {}", matrix.rows(), matrix.cols());
  for (int row = 0; row < matrix.rows(); ++row) {
    for (int col = 0; col < matrix.cols(); ++col) text += fmt::format(" {:x}", matrix.code(row, col));
  }
  return text;
}
std::string bits_of_float(float x) { return fmt::format(" {:x}", std::bit_cast<uint32_t>(x)); }
std::string bits_of_double(double x) { return fmt::format(" {:x}", std::bit_cast<uint64_t>(x)); }
std::string text_of(const std::vector<GemmPlan>& plans) {
  std::string text;
  for (const GemmPlan& plan : plans) text += print_json(plan) + "\n";
  return text;
}

/// Finite codes whose exponents are at most `above` over the smallest normal one, or of any size.
Matrix random_codes(Format format, int rows, int cols, uint64_t seed, int above = 0) {
  RandomStream random(77, seed);
  const FormatInfo& row = info(format);
  Matrix matrix(format, rows, cols);
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < cols; ++j) {
      uint64_t code = (uint64_t{random.word()} << 32 | random.word()) & (row.sign_bit() | row.mantissa_mask());
      const int exponent = above > 0 ? random.between(0, above) : row.bias + random.between(-4, 4);
      code |= static_cast<uint64_t>(exponent) << row.mantissa_bits;
      matrix.set_code(i, j, code);
    }
  }
  return matrix;
}

/// A product whose terms are subnormal numbers of f32.
GemmInputs small_products() {
  const auto operand = [](int rows, int cols, uint64_t seed) {
    const Matrix codes = random_codes(Format::f32, rows, cols, seed);
    Matrix matrix(Format::tf32, rows, cols);
    std::ranges::transform(codes.words(), matrix.words().begin(), [](uint32_t word) { return word - (66u << 23); });
    return matrix;
  };
  return {.a = operand(8, 40, 1), .b = operand(40, 12, 2)};
}
GemmInputs in_bf16() {
  return {.a = random_codes(Format::bf16, 8, 192, 3), .b = random_codes(Format::bf16, 192, 12, 4)};
}

GemmPlan plan_of_slices(std::string_view epilogue = "") {
  return parse_plan(
      fmt::format(R"({{"instruction": "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16", "split_k": )"
                  R"({{"count": 3, "unit": 64, "rule": "nvjet"}}{}}})",
                  epilogue));
}
GemmPlan plan_on_cuda_cores() { return plans_named("sgemm", small_products()).front(); }
Case small_case() {
  return random_case(parse_instruction("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"), Target::sm_90a, {},
                     Distribution::subnormal, 5, 0);
}

struct Call {
  std::string name;
  std::function<std::string()> run;
};

// What the calls use is made beforehand, in the usual environment.
std::vector<Call> calls() {
  std::vector<Call> all;
  const auto add = [&](std::string name, std::function<std::string()> run) {
    all.push_back({std::move(name), std::move(run)});
  };
  const GemmInputs small = small_products(), halves = in_bf16();
  GemmInputs with_c = halves;
  with_c.c = random_codes(Format::f32, 8, 12, 6, 4);
  const GemmPlan slices = plan_of_slices(), cuda = plan_on_cuda_cores();
  const std::string_view scaled_epilogue =
      R"(, "epilogue": [{"op": "alpha_beta", "alpha": 0.1, "beta": 3e-39}], "output": {"type": "f32"})";
  const GemmPlan scaled = plan_of_slices(scaled_epilogue);
  const Matrix d = gemm(slices, halves), small_d = gemm(cuda, small);
  for (const int threads : {1, 4}) {
    add("gemm on CUDA cores", [=] { return text_of(gemm(cuda, small, threads)); });
    add("gemm in slices", [=] { return text_of(gemm(slices, halves, threads)); });
    add("gemm with alpha and beta", [=] { return text_of(gemm(scaled, with_c, threads)); });
    add("gemm_batch", [=] {
      std::vector<std::string> texts(3);
      gemm_batch(
          cuda, 3, [&](int64_t) { return small; },
          [&](int64_t i, const Matrix& matrix) { texts[static_cast<size_t>(i)] = text_of(matrix); }, threads);
      return texts[0] + texts[1] + texts[2];
    });
    add("accuracy_of", [=] {
      const Accuracy accuracy = accuracy_of(small, small_d, threads);
      return bits_of_double(accuracy.max_ulp) + bits_of_double(accuracy.mean_ulp) + bits_of_double(accuracy.bias_ulp) +
             bits_of_double(accuracy.max_relative_error);
    });
    add("find_plans", [=] { return text_of(find_plans(halves, d, {.threads = threads, .timeout_s = 600}).all_bits); });
    add("try_plans", [=] {
      const std::vector<GemmPlan> tried{slices, scaled};
      return text_of(try_plans(tried, halves, d, {.threads = threads}).all_bits);
    });
    for (const QuantizeRecipe& recipe : quantize_recipes()) {
      Format format = Format::f32;
      if (!recipe.inputs.contains(format)) format = Format::bf16;
      const Matrix x = random_codes(format, 128, 128, 8);
      add("quantize " + std::string(recipe.name), [&recipe, x, threads] {
        const Quantized quantized = quantize(recipe, x, TorchDevice::cuda, threads);
        return text_of(quantized.codes) + text_of(quantized.scales) + print(recipe);
      });
    }
    const Matrix rows = random_codes(Format::f32, 6, 50, 9, 60);
    add("softmax", [=] { return text_of(softmax(rows, {.threads = threads})); });
    add("layer_norm", [=] { return text_of(layer_norm(rows, nullptr, nullptr, 1e-39F, threads).out); });
    add("rms_norm", [=] { return text_of(rms_norm(rows, nullptr, 1e-5F, threads).out); });
  }
  add("parse_plan", [=] { return text_of({plan_of_slices(scaled_epilogue)}); });
  add("unread_by", [=] { return std::to_string(unread_by(scaled, with_c).size()); });
  add("trace_product", [=] {
    const ProductTrace trace = trace_product(cuda, small, 1, 2);
    return print(describe(trace, 12)) + to_json(describe(trace, 12)) + bits_of_double(trace.error);
  });
  add("plans_for", [=] {
    return text_of(
        plans_for({.plan = "flat", .output = Format::f32, .options = {.alpha = 3e-39F, .beta = 1e-40F}}, with_c));
  });
  add("candidate_plans", [=] {
    return std::to_string(candidate_plans(with_c, d, {.alpha = 0.3F, .beta = 1e-40F}, SearchStage::usual).size());
  });
  add("library_choice", [] {
    const LibraryChoice choice = library_choice({.gpu = "H100", .m = 1000, .n = 1000, .k = 1000, .nearest = true});
    return fmt::format("{} {} {} {}", choice.kernel, choice.m, choice.n, choice.k);
  });
  add("generated", [] {
    return text_of(generated_rows(Format::bf16, std::array<int64_t, 3>{0, 5, 9}, 16, 3, GeneratedStream::a));
  });
  for (const DistributionInfo& distribution : distributions) {
    add("random_case " + std::string(distribution.name), [id = distribution.id] {
      const Instruction instruction = parse_instruction("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
      return text_of(computed_d(random_case(instruction, Target::sm_90a, {}, id, 5, 0)));
    });
  }
  add("explain",
      [c = small_case()] { return print(explain(c, 1, 2)) + to_json(describe(explain(c, 1, 2), Target::sm_90a)); });
  const std::vector<float> numbers{0.0F, -0.0F, 1e-40F, -3e-39F, 1.0F, 448.0F, 65504.0F, 0.3F, 1e30F, -7.0F};
  for (const FormatInfo& format : formats) {
    if (format.kind == NumberKind::floating) {
      add("from_floats " + std::string(format.name),
          [=, id = format.id] { return text_of(from_floats(id, 1, static_cast<int>(numbers.size()), numbers)); });
    }
    add("to_floats, print_value " + std::string(format.name), [id = format.id] {
      std::string text;
      RandomStream random(4, 4);
      for (int i = 0; i < 200; ++i) {
        Matrix element(id, 1, 1);
        const uint64_t mask = (uint64_t{1} << (info(id).bits - 1) << 1) - 1;
        const uint64_t code = (uint64_t{random.word()} << 32 | random.word()) & mask & ~uint64_t{info(id).zero_bits};
        element.set_code(0, 0, i < 20 ? code & info(id).mantissa_mask() : code);
        text += print_value(id, element.code(0, 0)) + bits_of_float(to_floats(element)[0]);
      }
      return text;
    });
  }
  add("a number as text", [] { return to_json(Report{{"a", 0.1}, {"b", 1e-310}, {"c", 5e-324}}); });
  return all;
}

/// The result of a call in an environment; `is_restored` becomes false if the call changes it.
std::string result_in(const Environment& environment, const Call& call, bool& is_restored) {
  std::string result;
  use(environment);
  const Environment before = used(environment);
  Environment after = before;
  try {
    result = call.run();
    after = used(environment);
  } catch (const std::exception& error) {
    after = used(environment);
    use(usual);
    result = error.what();
  }
  use(usual);
  is_restored = before == after;
  return result;
}

}  // namespace

TEST_CASE("no result depends on the caller's floating-point environment, which every call restores") {
  const std::vector<Call> all = calls();
  REQUIRE(all.size() > 100);
  // Under sanitizers each fifth call, in one of the environments: 5 and their number have no common factor.
  const size_t call_step = test::amount<size_t>(5, 1, 1),
               environment_step = test::amount<size_t>(environments.size(), 1, 1);
  for (size_t i = 0; i < all.size(); i += call_step) {
    const Call& call = all[i];
    bool is_restored = true;
    const std::string expected = result_in(usual, call, is_restored);
    for (size_t j = i % environment_step; j < environments.size(); j += environment_step) {
      const Environment& environment = environments[j];
      const bool is_same = result_in(environment, call, is_restored) == expected;
      INFO(call.name << ", " << environment.name);
      CHECK(is_same);
      CHECK(is_restored);
    }
  }
}

TEST_CASE("a refused call restores the caller's floating-point environment too") {
  const GemmInputs inputs = in_bf16();
  const std::vector<Call> refused{
      {"gemm", [&] { return text_of(gemm(plan_on_cuda_cores(), {.a = inputs.a, .b = inputs.a})); }},
      {"parse_plan", [] { return print_json(parse_plan(R"({"instruction": 0.1})")); }},
      {"from_floats", [] { return text_of(from_floats(Format::s8, 1, 1, std::array{0.5F})); }},
      {"C", [] {
         bitmma_plan* plan = nullptr;
         return std::to_string(bitmma_plan_parse("{\"alpha\": 0.1}", &plan));
       }}};
  for (const Call& call : refused) {
    for (const Environment& environment : environments) {
      bool is_restored = false;
      result_in(environment, call, is_restored);
      INFO(call.name << ", " << environment.name);
      CHECK(is_restored);
    }
  }
}

TEST_CASE("parallel_for calls its body in the caller's environment on every thread") {
  std::array<int, 64> modes{};
  std::fesetround(FE_UPWARD);
  parallel_for(modes.size(), 4, [&](size_t i) { modes[i] = std::fegetround(); });
  std::fesetround(FE_TONEAREST);
  CHECK(std::ranges::count(modes, FE_UPWARD) == std::ssize(modes));
}
