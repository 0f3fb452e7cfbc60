// Plants every fault of a product and requires that it is found, and the factors of rows and columns.
#include "bitmma/gemm/product_faults.hpp"

#include <algorithm>
#include <array>

#include "bitmma/core/error.hpp"
#include "bitmma/formats/matrix.hpp"
#include "random_matrix.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;

namespace {

Matrix drawn(Format format, int rows, int cols, uint64_t seed) {
  RandomStream random(seed, 0);
  return test::random_matrix(format, rows, cols, random);
}

/// 1, 1.25, 1.5, ...: other numbers in neighbouring lines.
Matrix scales(int rows, int cols) {
  std::vector<float> values;
  for (int i = 0; i < rows * cols; ++i) values.push_back(1 + static_cast<float>(i * i % 61) / 4);
  return from_floats(Format::f32, rows, cols, values);
}

GemmInputs scaled_inputs() {
  return {.a = drawn(Format::e4m3, 24, 128, 1),
          .b = drawn(Format::e4m3, 128, 24, 2),
          .scale_a = scales(24, 1),
          .scale_b = scales(1, 24)};
}

GemmPlan plan_with_scales() {
  GemmPlan plan = flat_plan(Target::sm_90a, Format::e4m3, Format::e4m3, Format::f32);
  plan.epilogue = {{.kind = EpilogueKind::scale_ab}};
  return plan;
}

}  // namespace

TEST_CASE("every fault of a product with scales is found from its D, and none in a right D") {
  const GemmInputs inputs = scaled_inputs();
  const GemmPlan plan = plan_with_scales();
  const Matrix right = gemm(plan, inputs);
  const ProductDiagnosis clean = diagnose_product(std::array{plan}, inputs, right);
  CHECK(clean.wrong == 0);
  CHECK(clean.findings.empty());
  int visible = 0;
  for (const ProductFault& fault : product_faults(inputs)) {
    const Matrix wrong = faulty_product(plan, inputs, fault.id);
    if (wrong == right) continue;
    ++visible;
    const ProductDiagnosis diagnosis = diagnose_product(std::array{plan}, inputs, wrong);
    INFO(fault.id);
    REQUIRE_FALSE(diagnosis.findings.empty());
    CHECK(std::ranges::all_of(diagnosis.findings, &ProductFinding::explains_all));
    const Matrix by_first = faulty_product(plan, inputs, diagnosis.findings.front().fault.id);
    CHECK(by_first == wrong);
  }
  CHECK(visible > 100);
}

TEST_CASE("the scale of row r + 8 is that of row r + 8") {
  const GemmInputs inputs = scaled_inputs();
  GemmInputs wrong = inputs;
  for (int row = 0; row < 24; ++row) (*wrong.scale_a)(row, 0) = (*inputs.scale_a)((row + 8) % 24, 0);
  const GemmPlan plan = plan_with_scales();
  const ProductDiagnosis diagnosis = diagnose_product(std::array{plan}, inputs, gemm(plan, wrong));
  REQUIRE_FALSE(diagnosis.findings.empty());
  CHECK(diagnosis.findings.front().fault.id == "scale_a.row.+8");
}

TEST_CASE("a constant factor of the product, of its rows or of its columns is found, with the scales that explain it") {
  const GemmInputs inputs = scaled_inputs();
  const GemmPlan plan = plan_with_scales();
  const auto factor_of = [&](const GemmInputs& wrong) {
    const ProductDiagnosis diagnosis = diagnose_product(std::array{plan}, inputs, gemm(plan, wrong));
    REQUIRE(diagnosis.factor);
    return *diagnosis.factor;
  };
  GemmInputs rows = inputs, cols = inputs, all = inputs;
  std::vector<int> from;
  for (int row = 0; row < 24; ++row) {
    from.push_back((5 * row + 3) % 24);  // no shift: no fault of the list
    (*rows.scale_a)(row, 0) = (*inputs.scale_a)(from.back(), 0);
    (*cols.scale_b)(0, row) = 0x3F000000 + static_cast<uint32_t>(row) * 0x1000;
    (*all.scale_b)(0, row) += 0x00800000;  // twice as large
  }
  CHECK(factor_of(rows).of == FactorOf::rows);
  for (size_t row = 0; row < 24; ++row) {
    const auto other = static_cast<size_t>(factor_of(rows).scale_from.at(row));
    CHECK((*inputs.scale_a)(static_cast<int>(other), 0) == (*rows.scale_a)(static_cast<int>(row), 0));
  }
  CHECK(factor_of(cols).of == FactorOf::cols);
  CHECK(factor_of(cols).scale_from.empty());
  CHECK(factor_of(all).of == FactorOf::product);
  CHECK(factor_of(all).factors == std::vector{2.0});
}

TEST_CASE("a stale tile of K is found in the plan of the program, if several are tried") {
  const GemmInputs inputs{.a = drawn(Format::f16, 16, 256, 3), .b = drawn(Format::f16, 256, 16, 4)};
  const std::vector<GemmPlan> plans = usual_plans(inputs, Matrix(Format::f32, 16, 16), Target::sm_90a);
  REQUIRE(plans.size() > 3);
  for (const size_t i : {size_t{0}, plans.size() - 1}) {
    const Matrix wrong = faulty_product(plans[i], inputs, "k.stale.64.2");
    const ProductDiagnosis diagnosis = diagnose_product(plans, inputs, wrong);
    REQUIRE_FALSE(diagnosis.findings.empty());
    CHECK(diagnosis.findings.front().explains_all);
    CHECK(diagnosis.findings.front().fault.id == "k.stale.64.2");
  }
}

TEST_CASE("an unknown fault, no plan and a D of another shape are refused") {
  const GemmInputs inputs = scaled_inputs();
  const GemmPlan plan = plan_with_scales();
  CHECK_THROWS_MATCHES(faulty_product(plan, inputs, "bias.absent"), Error,
                       test::refused(ViolationCode::unknown_name, "fault"));
  CHECK_THROWS_MATCHES(diagnose_product({}, inputs, gemm(plan, inputs)), Error,
                       test::refused(ViolationCode::illegal_value, "plans"));
  CHECK_THROWS_MATCHES(diagnose_product(std::array{plan}, inputs, Matrix(Format::f32, 3, 3)), Error,
                       test::refused(ViolationCode::wrong_shape, "d"));
}
