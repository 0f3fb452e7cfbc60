// bitmma run: the arguments of a launch, and what is refused.
#include "bitmma/files/tensor_file.hpp"
#include "run.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using test::Outcome;

namespace {

const std::string cuda = test::source_path("data/kernels/cuda.ptx"), bulk = test::source_path("data/kernels/bulk.ptx");

}  // namespace

TEST_CASE("run writes the memory of a kernel, and shows what changed") {
  const test::TemporaryFolder folder;
  const std::string out = folder.path("out.safetensors");
  const Outcome done = test::run({"run", cuda, "--entry", "softmax", "--grid", "2", "--block", "128", "--arg",
                                  "zeros:f32[2,1000]", "--arg", "empty:f32[2,1000]", "--arg", "u32:1000", "-o", out});
  CHECK(done.code == 0);
  CHECK_THAT(done.out, Catch::Contains("2000 elements changed"));
  const TensorFile written = read_tensor_file(out);
  CHECK(*written.find_metadata("kernel") == "softmax");
  const std::vector<uint8_t> bytes = written.find("arg1")->bytes.copy();
  CHECK(std::vector(bytes.begin(), bytes.begin() + 4) == std::vector<uint8_t>{0x6F, 0x12, 0x83, 0x3A});  // 0.001
}

TEST_CASE("run takes tensor maps over memory") {
  const auto product = [](const std::string& a, const std::string& d = "map[64,64]:zeros:f32[64,64]") {
    return test::run({"run", bulk, "--entry", "tma_product", "--block", "128", "--arg", a, "--arg",
                      "map[64,64/128]:zeros:bf16[64,64]", "--arg", d, "--arg", "s32:64"});
  };
  CHECK(product("map[64,64/128]:zeros:bf16[64,64]").code == 0);
  const auto refused = [&](const std::string& a, const test::Refusal& refusal) {
    const Outcome done = product(a);
    CHECK(done.code == 2);
    CHECK_THAT(done.violations, test::refused(refusal));
  };
  refused("zeros:bf16[64,64]", {illegal_value, "argument 0"});
  refused("map[64,64/100]:zeros:bf16[64,64]", {malformed, "--arg"});
  refused("map[64,64", {malformed, "--arg"});
  refused("map[64,64/128]:f32:1", {wrong_type, "--arg"});
  refused("map[64/128]:zeros:bf16[64,64]", {illegal_value, "tensor map: box"});
  refused("map[64,64/64]:zeros:bf16[64,64]", {illegal_value, "tensor map: box[0]"});
  refused("map[32,64/128]:zeros:bf16[64,64]", {deadlock, "block (0, 0, 0)"});
}

TEST_CASE("run refuses arguments, entries and kernels that do not fit") {
  const test::BadRequests requests{{
      {"run " + cuda + " --entry none", not_found, "entry"},
      {"run " + cuda, missing_argument, "entry"},
      {"run " + cuda + " --entry softmax --arg f32:x", malformed, "--arg"},
      {"run " + cuda + " --entry softmax --arg u32:1", illegal_value, "arguments"},
      {"run " + cuda + " --entry softmax --grid 0", malformed, "--grid"},
      {"run " + cuda + " --entry softmax --arg zeros:f32", malformed, "--arg"},
      {"run " + cuda + " --entry softmax --arg nothing.npy", not_found, "file"},
      {"run $GOLDEN", unusable_file, "PTX line 1"},
  }};
  requests.check();
}

TEST_CASE("run traces a thread, compare finds where two traces part, and explain shows the traced product") {
  const test::TemporaryFolder folder;
  const auto softmax = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"run",     cuda,      "--entry", "softmax",           "--grid", "1",
                                   "--block", "128",     "--arg",   "zeros:f32[1,1000]", "--arg",  "empty:f32[1,1000]",
                                   "--arg",   "u32:1000"};
    words.insert(words.end(), more.begin(), more.end());
    return test::run(words);
  };
  const Outcome shown = softmax({"--trace", "0:5", "--trace-lines", "564"});
  CHECK(shown.code == 0);
  CHECK_THAT(shown.out, Catch::Contains("  564 max.f32 %f104, %f104, %f25;    %f104 = 0x00000000 (0)\n"));
  const std::string first = folder.path("a.csv"), second = folder.path("b.csv");
  CHECK(softmax({"--trace", "0:5", "--trace-to", first}).code == 0);
  CHECK(softmax({"--trace", "0:6", "--trace-to", second}).code == 0);
  const Outcome same = test::run({"compare", first, first}), parted = test::run({"compare", first, second});
  CHECK(same.code == 0);
  CHECK(parted.code == 1);
  CHECK_THAT(parted.out, Catch::Contains("mov.u32 %r116, %tid.x;  %r116 = 0x00000005 expected, 0x00000006 actual"));
  CHECK_THAT(softmax({"--trace", "0:200"}).violations, test::refused(illegal_value, "trace.thread.x"));
  CHECK_THAT(softmax({"--trace", "x"}).violations, test::refused(malformed, "--trace"));
  CHECK_THAT(softmax({"--trace", "0:5", "--trace-lines", "9-3"}).violations, test::refused(malformed, "--trace-lines"));
  CHECK_THAT(softmax({"--trace-lines", "9"}).violations, test::refused(unread_argument, "--trace-lines 9"));
  const std::string product = folder.path("p.safetensors");
  CHECK_THAT(softmax({"--trace", "0:5", "--trace-product", product}).violations,
             test::refused(not_found, "--trace-product"));
  const Outcome made =
      test::run({"run", bulk, "--entry", "tma_product", "--block", "128", "--arg", "map[64,64/128]:zeros:bf16[64,64]",
                 "--arg", "map[64,64/128]:zeros:bf16[64,64]", "--arg", "map[64,64]:zeros:f32[64,64]", "--arg", "s32:64",
                 "--trace", "0:3", "--trace-product", product});
  CHECK(made.code == 0);
  const Outcome explained = test::run({"explain", product, "--row", "3", "--col", "4"});
  CHECK(explained.code == 0);
  CHECK_THAT(explained.out, Catch::Contains("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"));
}

TEST_CASE("run shows the trace that led to a fault") {
  const Outcome done = test::run({"run", cuda, "--entry", "scan", "--grid", "1", "--block", "64", "--shared", "256",
                                  "--arg", "zeros:s32[4]", "--arg", "empty:s32[64]", "--trace", "0:5"});
  CHECK(done.code == 2);
  CHECK_THAT(done.out, Catch::Contains("mov.u32 %r2, %tid.x;"));
  CHECK_THAT(
      done.violations,
      test::refused(out_of_bounds,
                    "block (0, 0, 0), thread (4, 0, 0), PTX line 223, ld.global.u32 %r10, [%rd6]; (cuda.cu:25)"));
}

TEST_CASE("run takes the SASS of a kernel, and refuses another's") {
  const test::TemporaryFolder folder;
  const std::string sass = folder.path("k.sass");
  test::write_text(sass, ".text.layer_norm:\n");
  CHECK_THAT(test::run({"run", cuda, "--entry", "layer_norm", "--fusions", "--sass", sass}).violations,
             test::refused(unusable_file, "SASS"));
  CHECK_THAT(test::run({"run", cuda, "--entry", "layer_norm", "--fusions", "--sass", sass, "--no-fmad"}).violations,
             test::refused(not_together, "sass"));
}
