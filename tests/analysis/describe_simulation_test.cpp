#include "bitmma/analysis/describe_simulation.hpp"

#include <fmt/format.h>

#include "bitmma/analysis/lint.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

VectorFile cases_of_mma_sync(Target target = Target::sm_80) {
  TensorFile file = make_golden({.instruction = parse_instruction("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"),
                                 .target = target,
                                 .cases = 2,
                                 .seed = 3,
                                 .distribution = Distribution::normal},
                                1);
  return as_vector_file(std::move(file));
}

}  // namespace

TEST_CASE("the report of a case has its codes as data, or the first rows and columns as text") {
  const VectorFile vectors = cases_of_mma_sync();
  const Matrix d = computed_d(case_at(vectors, 1));
  const Report data = describe(vectors, 1, {.as_codes = true});
  CHECK(to_json(*data.find("case")) == "1");
  CHECK(to_json(*data.find("target")) == R"("sm_80")");
  CHECK(to_json(*data.find("k")) == "16");
  const Report& codes = *data.find("d")->find("codes");
  const auto& rows = std::get<Report::List>(codes.value);
  REQUIRE(rows.size() == 16);
  CHECK(to_json(std::get<Report::List>(rows[15].value)[7]) == std::to_string(d.code(15, 7)));
  const Report text = describe(vectors, 1, {.rows = 1, .cols = 2, .as_bits = true});
  CHECK(text.find("d") == nullptr);
  CHECK_THAT(print(text), ContainsSubstring("case 1 of 2\ntarget: sm_80\n") &&
                              ContainsSubstring(print_bits(Format::f32, d.code(0, 1))) && !ContainsSubstring("row 1") &&
                              ContainsSubstring("(1 x 2 of 16 x 8; "));
  CHECK_THROWS_AS(describe(vectors, 2, {}), Error);
}

TEST_CASE("results of the same cases on two targets are compared output by output") {
  const VectorFile own = cases_of_mma_sync();
  TensorFile file = without_results(own.file);
  CHECK(results_of(own.file) == std::vector<std::string_view>{"d", "d_regs"});
  CHECK(results_of(file).empty());
  file.set_metadata("target", "sm_90a");
  const VectorFile other = as_vector_file(std::move(file));
  int64_t differing = 0;
  for (int64_t index = 0; index < 2; ++index)
    differing += count_differing(computed_d(case_at(own, index)), computed_d(case_at(other, index)));
  const Comparison comparison = compare_computed(own, other);
  CHECK(comparison.outputs == 256);
  CHECK(comparison.mismatches == differing);
  CHECK(differing > 0);
  const Report report =
      describe_two_targets(describe(own, 0, {}), describe(other, 0, {}), comparison, own.target, other.target);
  CHECK(to_json(*report.find("on_target")->find("target")) == R"("sm_90a")");
  CHECK(to_json(*report.find("between_targets")) == fmt::format(R"({{"outputs":256,"mismatches":{}}})", differing));
  CHECK_THAT(print(report),
             ContainsSubstring(fmt::format("\n{} of 256 outputs differ between sm_80 and sm_90a\nfirst: ", differing)));
}

TEST_CASE("the findings of a file are listed once, with the number of their cases") {
  VectorFile vectors = cases_of_mma_sync();
  CHECK(lint(vectors).empty());
  Tensor a = *vectors.file.find("a_regs");
  const std::vector<uint8_t> nans(a.bytes.size(), 0xFF);
  vectors.file.set(Tensor::from_bytes("a_regs", a.dtype, a.shape, nans));
  vectors.file.erase("a");
  const std::vector<LintFinding> findings = lint(vectors);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].finding.field == "A values");
  CHECK(findings[0].cases == 2);
}
