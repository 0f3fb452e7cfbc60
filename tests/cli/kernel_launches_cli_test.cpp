// bitmma run --launches: several launches over one memory.
#include "bitmma/files/tensor_file.hpp"
#include "run.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;
using test::Outcome;

namespace {

const std::string module_text = R"(
.version 8.0
.target sm_90a
.address_size 64
.visible .global .align 4 .u32 count = 7;
// adds n to count, and writes count to *p
.visible .entry add(.param .u64 p, .param .u32 n) {
  .reg .b32 %r<4>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [p];
  ld.param.u32 %r1, [n];
  ld.global.u32 %r2, [count];
  add.u32 %r3, %r1, %r2;
  st.global.u32 [count], %r3;
  st.global.u32 [%rd1], %r3;
  ret;
}
.visible .entry copy(.param .u64 to, .param .u64 from) {
  .reg .b32 %r<2>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [to];
  ld.param.u64 %rd2, [from];
  ld.global.u32 %r1, [%rd2];
  st.global.u32 [%rd1], %r1;
  ret;
}
)";

struct Launched {
  test::TemporaryFolder folder = {};

  Outcome operator()(const std::string& plan, const std::vector<std::string>& flags = {}) const {
    test::write_text(folder.path("m.ptx"), module_text);
    test::write_text(folder.path("plan.json"), plan);
    std::vector<std::string> words{"run", folder.path("m.ptx"), "--launches", folder.path("plan.json")};
    words.insert(words.end(), flags.begin(), flags.end());
    return test::run(words);
  }
};

std::vector<uint8_t> bytes_of(const TensorFile& file, const std::string& name) { return file.find(name)->bytes.copy(); }

}  // namespace

TEST_CASE("launches of a file share their memory and the module's variables, which are set by name") {
  const Launched launched;
  const std::string out = launched.folder.path("out.safetensors");
  const Outcome done =
      launched(R"({"memory": {"p": "zeros:u32[1]", "q": "empty:u32[1]"}, "variables": {"count": "u32:100"},
    "launches": [{"entry": "add", "arguments": ["p", "u32:5"]}, {"entry": "add", "grid": [1], "arguments": ["p", "u32:1"]},
                 {"entry": "copy", "block": [1], "arguments": ["q", "p"]}]})",
               {"-o", out});
  CHECK(done.err == "");
  CHECK(done.code == 0);
  CHECK_THAT(done.out, ContainsSubstring("copy on sm_90a: 1 blocks of 1 threads") &&
                           ContainsSubstring("q  U32 [1]  1 element changed: 106"));
  const TensorFile file = read_tensor_file(out);
  CHECK(bytes_of(file, "p") == std::vector<uint8_t>{106, 0, 0, 0});
  CHECK(bytes_of(file, "q") == bytes_of(file, "p"));
  CHECK(bytes_of(file, "variable.count") == bytes_of(file, "p"));
}

TEST_CASE("a file of launches that is not right is refused with the place") {
  const Launched launched;
  const auto refusal = [&](const std::string& plan) {
    const Outcome done = launched(plan);
    CHECK(done.code == 2);
    CHECK(done.out == "");
    return done.violations;
  };
  CHECK_THAT(refusal("{"), refused(unusable_file, "launches"));
  CHECK_THAT(refusal(R"({"launches": [], "launches": []})"), refused(unusable_file, "launches"));
  CHECK_THAT(refusal("{}"), refused(missing_input, "launches.launches"));
  CHECK_THAT(refusal(R"({"launches": [{"entry": "add", "grids": [1]}]})"), refused(unknown_name, "launches[0]"));
  CHECK_THAT(refusal(R"({"launches": [{"entry": "add", "grid": [0]}]})"), refused(illegal_value, "launches[0].grid"));
  CHECK_THAT(refusal(R"({"memory": {"p": "f32:1"}, "launches": [{}]})"), refused(malformed, "memory.p"));
  CHECK_THAT(refusal(R"({"launches": [{"entry": "nothing"}]})"), refused(not_found, "entry in launches[0]"));
  CHECK_THAT(
      refusal(R"({"memory": {"p": "zeros:u32[1]"}, "launches": [{"entry": "add", "arguments": ["z", "u32:1"]}]})"),
      refused(not_found, "memory in launches[0]"));
  CHECK_THAT(refusal(R"({"launches": [{"entry": "add", "arguments": ["zeros:u32[1]", "u32:1"]}]})"),
             refused(malformed, "launches[0]: argument"));
  CHECK_THAT(refusal(R"({"variables": {"count": "u64:1"}, "launches": [{"entry": "add"}]})"),
             refused(wrong_shape, "variables.count: value"));
  CHECK_THAT(refusal(R"({"variables": {"counts": "u32:1"}, "launches": [{"entry": "add"}]})"),
             refused(not_found, "variable of the module in variables.counts"));
  CHECK_THAT(refusal(R"({"launches": [{"entry": "add", "arguments": ["u64:64", "u32:1"]}]})"),
             refused(out_of_bounds,
                     "launches[0]: block (0, 0, 0), thread (0, 0, 0), PTX line 15, st.global.u32 [%rd1], %r3;"));
  const Outcome both = launched(R"({"launches": [{}]})", {"--grid", "2"});
  CHECK_THAT(both.violations, refused(not_together, "--grid"));
}
