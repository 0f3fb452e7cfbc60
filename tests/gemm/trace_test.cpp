#include "bitmma/gemm/trace.hpp"

#include <cmath>

#include "bitmma/core/error.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/gemm/accuracy.hpp"
#include "random_matrix.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using test::random_matrix;

TEST_CASE("a trace ends in gemm's D, its steps follow each other, and their errors are that of D") {
  RandomStream random(83, 0);
  const std::string w = R"({"instruction": "wgmma.mma_async.sync.aligned.m64n256k)";
  for (const std::string& text :
       {w + R"(16.f32.f16.f16"})", w + R"(16.f32.bf16.bf16", "split_k": {"count": 5, "unit": 64, "rule": "nvjet"}})",
        w + R"(32.f32.e4m3.e4m3", "promotion": {"every": 128}, "output": {"type": "bf16"}})",
        w + R"(16.f32.f16.f16", "k_tile": 64, "sliced_k": 2})",
        w + R"(8.f32.tf32.tf32", "input_rounding": "tf32_rne", "split_k": {"count": 3, "unit": 32, "rule": "big_last"},
                "reduction": {"order": "pairs_from_end"}})",
        w + R"(16.f16.f16.f16", "output": {"type": "f16"}})",
        w + R"(16.f32.f16.f16", "split_k": {"count": 6, "unit": 8, "rule": "ceil"},
                "reduction": {"partial": "out", "running": "out"}, "output": {"type": "bf16"}})",
        std::string(R"({"instruction": "fma.rn.f32"})"),
        std::string(R"({"instruction": "fma.rn.f32", "lanes": {"count": 16, "chunk": 4}})")}) {
    const GemmPlan plan = parse_plan(text);
    INFO(text);
    const Format type = plan.tensor_cores() ? mma_of(plan.tensor().instruction).a : Format::tf32;
    const GemmInputs inputs{.a = random_matrix(type, 3, 520, random), .b = random_matrix(type, 520, 4, random)};
    const Matrix d = gemm(plan, inputs);
    const ProductTrace trace = trace_product(plan, inputs, 2, 3);
    CHECK(trace.d == d.code(2, 3));
    CHECK(trace.format == d.format());
    REQUIRE_FALSE(trace.steps.empty());
    CHECK(trace.steps.back().after == trace.d);
    CHECK(trace.steps.back().error_so_far == trace.error);
    int64_t k = 0;
    for (const TraceStep& step : trace.steps) {
      k += step.last - step.first;
      REQUIRE(step.error);
    }
    CHECK(k == 520);
    // The exact product and its distance from D, computed elsewhere.
    REQUIRE(trace.exact);
    const double value = to_floats(d)[2 * 4 + 3];
    CHECK(std::abs(value - *trace.exact - trace.error) <= 1e-12 * std::abs(*trace.exact));
    const Accuracy accuracy =
        accuracy_of({.a = rows_of(inputs.a, std::array{2}, "a"), .b = cols_of(inputs.b, std::array{3}, "b")},
                    cols_of(rows_of(d, std::array{2}, "d"), std::array{3}, "d"));
    const double ulp = std::ldexp(1, std::ilogb(*trace.exact) - info(d.format()).mantissa_bits);
    CHECK(std::abs(accuracy.max_ulp * ulp - std::abs(trace.error)) <= 1e-9 * std::abs(trace.error));
    double worst = 0;
    for (const TraceStep& step : trace.steps) worst = std::max(worst, std::abs(*step.error));
    if (trace.worst >= 0) CHECK(std::abs(*trace.steps[static_cast<size_t>(trace.worst)].error) == worst);
    else CHECK(worst == 0);
  }
}

TEST_CASE("K that a split loses is a step, and operations of the epilogue have no error") {
  RandomStream random(89, 0);
  const GemmInputs inputs{.a = random_matrix(Format::bf16, 1, 11528, random),
                          .b = random_matrix(Format::bf16, 11528, 1, random)};
  const ProductTrace trace =
      trace_product(parse_plan(R"({"instruction": "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16",
                                   "split_k": {"count": 9, "unit": 64, "rule": "nvjet"},
                                   "epilogue": [{"op": "relu"}]})"),
                    inputs, 0, 0);
  const auto lost = std::ranges::find(trace.steps, TraceKind::not_added, &TraceStep::kind);
  REQUIRE(lost != trace.steps.end());
  CHECK(lost->first == 11520);
  CHECK(lost->last == 11528);
  REQUIRE(trace.steps.back().kind == TraceKind::epilogue);
  CHECK_FALSE(trace.steps.back().error);
  CHECK(trace.steps.back().what == "relu");
}

TEST_CASE("NaN, infinity and huge scales leave errors out and no step without its codes") {
  GemmInputs inputs{.a = Matrix(Format::f16, 1, 64), .b = Matrix(Format::f16, 64, 1)};
  inputs.a(0, 20) = 0x7E00, inputs.b(20, 0) = 0x3C00;
  const ProductTrace trace =
      trace_product(flat_plan(Target::sm_90a, Format::f16, Format::f16, Format::f32), inputs, 0, 0);
  CHECK_FALSE(trace.exact);
  CHECK(trace.steps[0].error == 0.0);
  CHECK_FALSE(trace.steps[1].error);
  GemmInputs scaled{.a = Matrix(Format::e4m3, 1, 128), .b = Matrix(Format::e4m3, 128, 1)};
  scaled.a(0, 0) = 0x7E, scaled.b(0, 0) = 0x7E;
  scaled.scale_a = Matrix(Format::f32, 1, 1), scaled.scale_b = Matrix(Format::f32, 1, 1);
  (*scaled.scale_a)(0, 0) = (*scaled.scale_b)(0, 0) = 0x7F7FFFFF;
  const GemmPlan plan = parse_plan(R"({"instruction": "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3",
                                       "promotion": {"every": 128, "scale": "fma"}})");
  CHECK_FALSE(trace_product(plan, scaled, 0, 0).steps.back().error);
  CHECK_THROWS_AS(trace_product(plan, scaled, 1, 0), Error);
  CHECK_THROWS_AS(trace_product(flat_plan(Target::sm_90a, Format::s8, Format::s8, Format::s32),
                                {.a = Matrix(Format::s8, 1, 32), .b = Matrix(Format::s8, 32, 1)}, 0, 0),
                  Error);
}
