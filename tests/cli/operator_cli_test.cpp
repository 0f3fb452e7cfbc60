#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "bitmma/acts/operator_file.hpp"
#include "bitmma/operators/attention.hpp"
#include "bitmma/operators/rows.hpp"
#include "run.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;
using test::Outcome;

namespace {

/// OperandFiles in files, of codes that repeat nowhere.
class OperandFiles {
 public:
  OperandFiles() {
    TensorFile all;
    for (OperatorTensor& tensor : tensors) {
      uint32_t seed = 1;
      for (uint32_t& code : tensor.rows.words()) code = 0x3000 + (seed = seed * 1664525 + 1013904223) % 0x1000;
      all.set(operator_file("", {tensor}).tensors.front());
      write_tensor_file(path(tensor.name), operator_file("", {tensor}));
    }
    write_tensor_file(path("all"), all);
    write_tensor_file(path("flat"), operator_file("", {{"flat", {6, 50}, tensors[0].rows}}));
    write_tensor_file(path("scalar"), operator_file("", {{"scalar", {}, Matrix(Format::f16, 1, 1)}}));
  }
  std::string path(const std::string& name) const { return folder_.path(name + ".safetensors"); }
  Outcome run(std::vector<std::string> words) const {
    words.insert(words.begin(), "operator");
    return test::run(words);
  }

  std::vector<OperatorTensor> tensors{{"x", {2, 3, 50}, Matrix(Format::f16, 6, 50)},
                                      {"weight", {50}, Matrix(Format::f16, 1, 50)},
                                      {"q", {2, 4, 9, 16}, Matrix(Format::f16, 72, 16)},
                                      {"k", {2, 2, 21, 16}, Matrix(Format::f16, 84, 16)},
                                      {"v", {2, 2, 21, 16}, Matrix(Format::f16, 84, 16)}};

 private:
  test::TemporaryFolder folder_;
};

Matrix written(const std::string& path, const std::string& name, Format format, int rows, int cols) {
  const TensorFile file = read_tensor_file(path);
  REQUIRE(file.find(name));
  const OperatorTensor tensor = read_operands({path}, {name}, 1).front();
  CHECK((tensor.rows.format() == format && tensor.rows.rows() == rows && tensor.rows.cols() == cols));
  return tensor.rows;
}

}  // namespace

TEST_CASE("operator writes what the library computes, from a file for each operand or one for all") {
  const OperandFiles operands;
  const std::string out = operands.path("out");
  const Matrix& x = operands.tensors[0].rows;
  REQUIRE(operands.run({"softmax", operands.path("x"), "-o", out}).code == 0);
  CHECK(written(out, "out", Format::f16, 6, 50) == softmax(x));
  CHECK(*read_tensor_file(out).find_metadata("operator") == "softmax");
  CHECK(read_tensor_file(out).find("out")->shape == std::vector<int64_t>{2, 3, 50});
  REQUIRE(operands.run({"log_softmax", operands.path("all"), "--output-type", "f32", "-o", out}).code == 0);
  CHECK(written(out, "out", Format::f32, 6, 50) == softmax(x, {.to = Format::f32, .logarithm = true}));
  const Norm norm = layer_norm(x, &operands.tensors[1].rows, nullptr, 0.5F);
  for (const std::vector<std::string>& files :
       {std::vector<std::string>{operands.path("x"), operands.path("weight")}, {operands.path("all")}}) {
    std::vector<std::string> words{"layer_norm", "--eps", "0.5", "-o", out};
    words.insert(words.begin() + 1, files.begin(), files.end());
    REQUIRE(operands.run(words).code == 0);
    CHECK(written(out, "out", Format::f16, 6, 50) == norm.out);
    CHECK(written(out, "mean", Format::f32, 6, 1) == *norm.mean);
    CHECK(written(out, "rstd", Format::f32, 6, 1) == norm.rstd);
  }
  REQUIRE(operands.run({"rms_norm", operands.path("x"), "-o", out}).code == 0);  // PyTorch's eps: float32's epsilon
  CHECK(written(out, "out", Format::f16, 6, 50) == rms_norm(x, nullptr, 0x1p-23F).out);
  REQUIRE(operands.run({"mul", operands.path("x"), operands.path("x"), "-o", out}).code == 0);
  CHECK(written(out, "out", Format::f16, 6, 50) == elementwise("mul", x, &x));
  REQUIRE(operands.run({"sum", operands.path("x"), "--dim", "all", "-o", out}).code == 0);
  Matrix flat(Format::f16, 1, 300);
  std::ranges::copy(x.words(), flat.words().begin());
  CHECK(written(out, "out", Format::f16, 1, 1) == reduce(flat));

  const AttentionShape shape{.heads = 8, .kv_heads = 4, .queries = 9, .keys = 21, .head_size = 16};
  const Matrix &q = operands.tensors[2].rows, &k = operands.tensors[3].rows, &v = operands.tensors[4].rows;
  REQUIRE(operands
              .run({"attention", operands.path("q"), operands.path("k"), operands.path("v"), "--causal", "--window",
                    "3,-1", "--scale", "0.5", "-o", out})
              .code == 0);
  const Attention expected =
      attention(attention_plan(shape, {.causal = true, .scale = 0.5F, .window_left = 3}), shape, q, k, v);
  CHECK(written(out, "out", Format::f16, 72, 16) == expected.out);
  CHECK(written(out, "lse", Format::f32, 8, 9) == expected.lse);
  REQUIRE(operands.run({"attention", operands.path("all"), "--backend", "efficient", "-o", out}).code == 0);
  CHECK(written(out, "out", Format::f16, 72, 16) ==
        attention(attention_plan(shape, {.kernel = AttentionKernel::memory_efficient}), shape, q, k, v).out);
}

TEST_CASE("operator compares with recorded results, and names the first place that differs") {
  const OperandFiles operands;
  const std::string out = operands.path("out"), changed = operands.path("changed");
  REQUIRE(operands.run({"rms_norm", operands.path("all"), "-o", out}).code == 0);
  Outcome done = operands.run({"rms_norm", operands.path("all"), "--against", out});
  CHECK(done.code == 0);
  CHECK_THAT(done.out, ContainsSubstring("recorded out   all 300 outputs the same") &&
                           ContainsSubstring("recorded rstd  all 6 outputs the same"));
  TensorFile recorded = read_tensor_file(out);
  Tensor wrong = *recorded.find("out");
  std::vector<uint8_t> bytes = wrong.bytes.copy();
  bytes[2 * (50 * 4 + 7)] ^= 1;  // row 4 of 2 x 3: (1, 1, 7)
  wrong.bytes = TensorBytes(std::move(bytes));
  recorded.set(wrong);
  write_tensor_file(changed, recorded);
  done = operands.run({"rms_norm", operands.path("all"), "--against", changed, "--explain", "1,1,7"});
  CHECK(done.code == 1);
  CHECK_THAT(done.out, ContainsSubstring("1 of 300 outputs differs, the first at (1, 1, 7)") &&
                           ContainsSubstring("output    (4, 7) of rms_norm"));
  done = operands.run({"rms_norm", operands.path("all"), "--against", changed, "--json"});
  CHECK_THAT(done.out, ContainsSubstring("\"differing\": 1"));
  CHECK(operands.run({"rms_norm", operands.path("all"), "--against", operands.path("all")}).code == 2);
  CHECK(operands.run({"amax", operands.path("x"), "--against", out}).code == 2);
}

TEST_CASE("operator explains one output of its result") {
  const OperandFiles operands;
  const Outcome text = operands.run({"attention", operands.path("all"), "--explain", "1,3,8,15"});
  CHECK(text.code == 0);
  CHECK_THAT(text.out, ContainsSubstring("(7, 8, 15) of attention") && ContainsSubstring("keys 0..20") &&
                           ContainsSubstring("(lane 0 + lane 2) + (lane 1 + lane 3)"));
  for (const auto& [words, place] : std::vector<std::pair<std::string, std::string>>{
           {"sum", "1,2"}, {"argmax --dim -1", "0,0"}, {"mean --dim all", "0"}, {"silu", "1,0,49"}}) {
    const Outcome json = test::run_line("operator " + words + " " + operands.path("x") + " --json --explain " + place);
    INFO(json.out << json.err);
    CHECK(json.code == 0);
    CHECK_THAT(json.out, ContainsSubstring("\"rounding\""));
  }
}

TEST_CASE("operator refuses what does not act or does not fit, and writes nothing") {
  const OperandFiles operands;
  const std::string out = operands.path("out"), x = operands.path("x"), q = operands.path("q"), k = operands.path("k");
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"sofmax"},  // the name before the missing file
                                             {"sofmax", x},
                                             {"softmax"},
                                             {"softmax", x, "--eps", "1"},
                                             {"softmax", x, "--dim", "0"},
                                             {"amax", x, "--output-type", "f32"},
                                             {"sum", x, "--dim", "0"},
                                             {"silu", x, "--causal"},
                                             {"add", x},
                                             {"softmax", x, x},
                                             {"mul", x, operands.path("flat")},
                                             {"softmax", operands.path("scalar")},
                                             {"sum", operands.path("scalar")},
                                             {"layer_norm", operands.path("scalar")},
                                             {"softmax", x, "--explain", "1,2,0,"},
                                             {"softmax", operands.path("all"), "--tensor", "y"},
                                             {"softmax", x, "--type", "f16"},
                                             {"softmax", x, "--output-type", "e4m3"},
                                             {"softmax", x, "--explain", "1,3,0"},
                                             {"softmax", x, "--explain", "1,0"},
                                             {"softmax", x, "--explain", "-1,0,0"},
                                             {"attention", q, k},
                                             {"attention", q, k, x},
                                             {"attention", q, q, k},
                                             {"attention", q, k, k, "--window", "3"},
                                             {"attention", q, k, k, "--window", "a,b"},
                                             {"attention", q, k, k, "--backend", "math"},
                                             {"attention", q, k, k, "--scale", "-1"},
                                             {"attention", q, k, k, "--backend", "efficient", "--splits", "2"},
                                             {"softmax", x, "--against", operands.path("none")}}) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {"-o", out});
    const Outcome done = operands.run(all);
    INFO(fmt::format("{}", fmt::join(words, " ")) << done.out << done.err);
    CHECK(done.code == 2);
    CHECK(done.out.empty());
    CHECK_FALSE(std::filesystem::exists(out));
  }
  CHECK(operands.run({"softmax", x, "-o", "y.npy"}).code == 2);
}
