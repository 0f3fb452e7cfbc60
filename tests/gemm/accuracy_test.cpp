#include "bitmma/gemm/accuracy.hpp"

#include <fmt/format.h>
#include <gmpxx.h>

#include <cmath>
#include <numeric>
#include <sstream>

#include "bitmma/core/error.hpp"
#include "bitmma/stimulus/generated.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"
#include "support/documents.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

mpq_class exact_value(Format format, uint64_t code) {
  const FormatInfo& row = info(format == Format::tf32 ? Format::f32 : format);
  const Decoded number = decode(row, code);
  mpq_class value(static_cast<unsigned long>(number.significand));
  const int exponent = number.exponent - row.mantissa_bits;
  mpz_class power = 1;
  power <<= static_cast<unsigned>(std::abs(exponent));
  if (exponent < 0) value /= power;
  else value *= power;
  return number.negative ? mpq_class(-value) : value;
}

std::vector<int64_t> first_numbers(int count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  return numbers;
}

GemmInputs generated(Format type, int m, int n, int k, bool positive) {
  GemmInputs inputs{.a = generated_rows(type, first_numbers(m), k, 1, GeneratedStream::a),
                    .b = transposed(generated_rows(type, first_numbers(n), k, 1, GeneratedStream::b))};
  if (positive) {
    const uint64_t sign = info(type == Format::tf32 ? Format::f32 : type).sign_bit();
    for (Matrix* matrix : {&inputs.a, &inputs.b}) {
      for (int row = 0; row < matrix->rows(); ++row) {
        for (int col = 0; col < matrix->cols(); ++col) matrix->set_code(row, col, matrix->code(row, col) & ~sign);
      }
    }
  }
  return inputs;
}

}  // namespace

TEST_CASE("errors are those of exact rational arithmetic") {
  for (const auto& [type, output] : {std::pair(Format::f16, Format::f32), std::pair(Format::e4m3, Format::bf16),
                                     std::pair(Format::tf32, Format::f32), std::pair(Format::bf16, Format::f16)}) {
    GemmInputs inputs = generated(type, 3, 5, 200, false);
    if (type == Format::bf16) inputs.a(0, 0) = 0x7F00, inputs.b(1, 0) = 0x0001;  // the ends of the exponents
    const Matrix d = gemm(flat_plan(Target::sm_90a, type, type, output), inputs);
    const Accuracy measured = accuracy_of(inputs, d, 2);
    CHECK(measured == accuracy_of(inputs, d, 1));
    double max_ulp = 0, mean = 0, bias = 0;
    int64_t finite = 0;
    for (int row = 0; row < 3; ++row) {
      for (int col = 0; col < 5; ++col) {
        if (decode(info(output), d.code(row, col)).number != NumberClass::finite) continue;
        mpq_class sum = 0;
        for (int k = 0; k < 200; ++k)
          sum += exact_value(type, inputs.a.code(row, k)) * exact_value(type, inputs.b.code(k, col));
        const mpq_class error = exact_value(output, d.code(row, col)) - sum;
        const int exponent = std::max(std::ilogb(sum.get_d()), info(output).min_exponent());
        const double ulps = std::ldexp(error.get_d(), info(output).mantissa_bits - exponent);
        max_ulp = std::max(max_ulp, std::abs(ulps)), mean += std::abs(ulps), bias += sum < 0 ? -ulps : ulps;
        ++finite;
      }
    }
    INFO(info(type).name);
    REQUIRE(finite == measured.outputs);
    CHECK(finite + measured.not_finite == 15);
    // The last step of both is a double; everything before is exact.
    CHECK(std::abs(measured.max_ulp - max_ulp) <= 1e-12 * (1 + max_ulp));
    CHECK(std::abs(measured.mean_ulp * static_cast<double>(finite) - mean) <= 1e-11 * (1 + mean));
    CHECK(std::abs(measured.bias_ulp * static_cast<double>(finite) - bias) <= 1e-11 * (1 + mean));
  }
  const GemmInputs integers{.a = Matrix(Format::s8, 1, 4), .b = Matrix(Format::s8, 4, 1)};
  CHECK_THROWS_AS(accuracy_of(integers, Matrix(Format::s32, 1, 1)), Error);
}

TEST_CASE("what exact sums give has no error, and one ulp is one") {
  GemmInputs inputs{.a = Matrix(Format::f16, 1, 2), .b = Matrix(Format::f16, 2, 1)};
  inputs.a(0, 0) = 0x3C00, inputs.b(0, 0) = 0xC000;  // 1 * -2
  Matrix d(Format::f32, 1, 1);
  d(0, 0) = 0xC0000000;
  CHECK(accuracy_of(inputs, d) == Accuracy{.outputs = 1});
  d(0, 0) = 0xC0000001;
  const Accuracy accuracy = accuracy_of(inputs, d);
  CHECK(accuracy.max_ulp == 1);
  CHECK(accuracy.bias_ulp == 1);
  d(0, 0) = 0x7F800000;
  CHECK(accuracy_of(inputs, d) == Accuracy{.not_finite = 1});
}

TEST_CASE("docs/numerics.md has the errors that the plans have") {
  struct Row {
    std::string_view name;
    Format type;
    int promotion;
    bool cuda;
  };
  constexpr std::array rows{Row{"e4m3, one chain", Format::e4m3, 0, false},
                            Row{"e4m3, promoted every 128", Format::e4m3, 128, false},
                            Row{"e4m3, promoted every 512", Format::e4m3, 512, false},
                            Row{"f16, one chain", Format::f16, 0, false},
                            Row{"bf16, one chain", Format::bf16, 0, false},
                            Row{"bf16 on CUDA cores", Format::bf16, 0, true}};
  const int last_k = test::amount(2048, 32768, 32768);
  std::string table;
  for (const bool positive : {false, true}) {
    table += fmt::format("{}\n\n| plan, D f32 |", positive ? "\nPositive numbers only:" : "Numbers of both signs:");
    for (int k = 128; k <= last_k; k *= 4) table += fmt::format(" K = {} |", k);
    table += "\n|---|---|---|---|---|---|\n";
    for (const Row& row : rows) {
      table += fmt::format("| {} |", row.name);
      for (int k = 128; k <= last_k; k *= 4) {
        const GemmInputs inputs = generated(row.type, 16, 32, k, positive);
        GemmPlan plan = flat_plan(Target::sm_90a, row.type, row.type, Format::f32);
        if (row.promotion > 0) plan.tensor().promotion = Promotion{.every = row.promotion};
        if (row.cuda) plan.chain = CudaCoreChain{};
        const Accuracy accuracy = accuracy_of(inputs, gemm(plan, inputs, 2), 2);
        table += fmt::format(" {:.3g} / {:.3g} / {:+.3g} |", accuracy.mean_ulp, accuracy.max_ulp, accuracy.bias_ulp);
      }
      table += "\n";
    }
  }
  if (last_k == 32768) {
    test::check_generated("docs/numerics.md", "<!-- errors -->", "<!-- end of errors -->", table);
    return;
  }
  // The first columns: each line is the beginning of a line of the document.
  const std::string document = test::read_text(test::source_path("docs/numerics.md"));
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) CHECK_THAT(document, ContainsSubstring("\n" + line));
}
