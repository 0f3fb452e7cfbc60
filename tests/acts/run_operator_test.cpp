// An operator by its name, on operands of files.
#include "bitmma/acts/run_operator.hpp"

#include <algorithm>

#include "bitmma/core/error.hpp"
#include "bitmma/operators/attention.hpp"
#include "bitmma/operators/rows.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/violation.hpp"

using namespace bitmma;

namespace {

/// A file with x [2, 3, 8] and weight [8] of f16.
class OperandFile {
 public:
  OperandFile() {
    uint32_t code = 0x3400;
    for (uint32_t& word : x.words()) word = code += 37;
    for (uint32_t& word : weight.words()) word = code += 37;
    TensorFile file = operator_file("", {{"x", {2, 3, 8}, x}, {"weight", {8}, weight}});
    write_tensor_file(path(), file);
  }
  std::string path() const { return folder_.path("operands.safetensors"); }
  OperatorRequest request(const std::string& name) const { return {.name = name, .files = {path()}}; }

  Matrix x = Matrix(Format::f16, 6, 8), weight = Matrix(Format::f16, 1, 8);

 private:
  test::TemporaryFolder folder_;
};

std::vector<uint8_t> bytes_of(const TensorFile& file, const std::string& name) {
  REQUIRE(file.find(name));
  return file.find(name)->bytes.copy();
}

}  // namespace

TEST_CASE("run_operator computes what the library's function computes, and compares with what was recorded") {
  const OperandFile file;
  const OperatorRun softmax_run = run_operator(file.request("softmax"));
  CHECK(bytes_of(softmax_run.results, "out") ==
        bytes_of(operator_file("", {{"out", {2, 3, 8}, softmax(file.x)}}), "out"));
  CHECK_FALSE(softmax_run.differs);
  OperatorRequest norm = file.request("rms_norm");
  norm.eps = 0.25F;
  const OperatorRun norm_run = run_operator(norm);
  CHECK(bytes_of(norm_run.results, "out") ==
        bytes_of(operator_file("", {{"out", {2, 3, 8}, rms_norm(file.x, &file.weight, 0.25F).out}}), "out"));
  norm.recorded = norm_run.results;
  CHECK_FALSE(run_operator(norm).differs);
  norm.eps = 0.5F;
  CHECK(run_operator(norm).differs);
}

TEST_CASE("an explanation alone computes no results, and beside results it is a part of the report") {
  const OperandFile file;
  OperatorRequest request = file.request("softmax");
  request.explain = "1,2,7";
  request.computes = false;
  const OperatorRun alone = run_operator(request);
  CHECK(alone.results.tensors.empty());
  CHECK(to_json(*alone.report.find("output")) == "[5,7]");
  request.computes = true;
  const OperatorRun both = run_operator(request);
  CHECK(both.results.find("out"));
  REQUIRE(both.report.find("explanation"));
  CHECK(to_json(*both.report.find("explanation")) == to_json(alone.report));
}

TEST_CASE("an option that the operator does not read is refused by its field, for every operator and option") {
  const OperandFile file;
  struct Option {
    std::string_view name;
    void (*set)(OperatorRequest&);
  };
  const std::vector<Option> options{
      {"causal", [](OperatorRequest& request) { request.causal = true; }},
      {"scale", [](OperatorRequest& request) { request.scale = 1.0F; }},
      {"window", [](OperatorRequest& request) { request.window = "1,1"; }},
      {"splits", [](OperatorRequest& request) { request.splits = 1; }},
      {"backend", [](OperatorRequest& request) { request.backend = "flash"; }},
      {"output_type", [](OperatorRequest& request) { request.output_type = Format::f32; }},
      {"eps", [](OperatorRequest& request) { request.eps = 1.0F; }},
      {"dim", [](OperatorRequest& request) { request.dim = "-1"; }}};
  int read = 0;
  for (const OperatorInfo& info : operator_infos()) {
    for (const Option& option : options) {
      OperatorRequest request = file.request(info.name);
      option.set(request);
      const auto violation = test::violation_of([&] { (void)run_operator(request); });
      const bool is_refused = violation && violation->code == ViolationCode::unread_argument;
      INFO(info.name << " " << option.name);
      if (is_refused) CHECK(violation->field == option.name);
      const bool is_read = std::ranges::find(info.options, option.name) != info.options.end();
      CHECK(is_refused != is_read);
      read += is_read;
    }
  }
  CHECK(read == 15);
}

TEST_CASE("places and windows are lists of whole numbers, and an error names their field") {
  const OperandFile file;
  const auto field_of = [&](OperatorRequest request) {
    const auto violation = test::violation_of([&] { (void)run_operator(request); });
    return violation ? violation->field : std::string();
  };
  for (const char* place : {"", "1", "0,0", "0,0,8", "2,0,0", "0,-1,0", "0,0,0,0", "a,0,0", "0,0,0,"}) {
    INFO(place);
    OperatorRequest request = file.request("softmax");
    request.explain = place;
    CHECK(field_of(request) == (*place ? "explain" : ""));
  }
  OperatorRequest sum = file.request("sum");
  sum.dim = "1";
  CHECK(field_of(sum) == "dim");
  sum.dim = "all";
  sum.explain = "0";
  CHECK(field_of(sum).empty());
  OperatorRequest unknown = file.request("softmaxx");
  CHECK(field_of(unknown) == "operator");
}
