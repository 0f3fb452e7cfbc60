// bitmma run: the arguments of a launch, and what is refused.
#include "bitmma/files/tensor_file.hpp"
#include "run.hpp"
#include "support/catch.hpp"

using namespace bitmma;
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
  const auto refused = [&](const std::string& a, const std::string& message) {
    const Outcome done = product(a);
    CHECK(done.code == 2);
    CHECK_THAT(done.err, Catch::Contains(message));
  };
  refused("zeros:bf16[64,64]", "a tensor map");
  refused("map[64,64/100]:zeros:bf16[64,64]", "map[64,64/128]:x.npy");
  refused("map[64,64", "map[64,64/128]:x.npy");
  refused("map[64,64/128]:f32:1", "memory");
  refused("map[64/128]:zeros:bf16[64,64]", "box");
  refused("map[64,64/64]:zeros:bf16[64,64]", "box");
  refused("map[32,64/128]:zeros:bf16[64,64]", "waits at PTX line");
}

TEST_CASE("run refuses arguments, entries and kernels that do not fit") {
  const test::BadRequests requests{{
      {"run " + cuda + " --entry none", "softmax"},
      {"run " + cuda, "9 kernels"},
      {"run " + cuda + " --entry softmax --arg f32:x", "a number of f32"},
      {"run " + cuda + " --entry softmax --arg u32:1", "arguments"},
      {"run " + cuda + " --entry softmax --grid 0", "--grid"},
      {"run " + cuda + " --entry softmax --arg zeros:f32", "EXTENTS"},
      {"run " + cuda + " --entry softmax --arg nothing.npy", "nothing.npy"},
      {"run $GOLDEN", "PTX"},
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
  CHECK_THAT(softmax({"--trace", "0:200"}).err, Catch::Contains("trace.thread.x"));
  CHECK_THAT(softmax({"--trace", "x"}).err, Catch::Contains("BLOCK:THREAD"));
  CHECK_THAT(softmax({"--trace", "0:5", "--trace-lines", "9-3"}).err, Catch::Contains("--trace-lines"));
  CHECK_THAT(softmax({"--trace-lines", "9"}).err, Catch::Contains("--trace-lines"));
  const std::string product = folder.path("p.safetensors");
  CHECK_THAT(softmax({"--trace", "0:5", "--trace-product", product}).err, Catch::Contains("no matrix product"));
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
  CHECK_THAT(done.err, Catch::Contains("ld.global.u32"));
}

TEST_CASE("run takes the SASS of a kernel, and refuses another's") {
  const test::TemporaryFolder folder;
  const std::string sass = folder.path("k.sass");
  test::write_text(sass, ".text.layer_norm:\n");
  CHECK_THAT(test::run({"run", cuda, "--entry", "layer_norm", "--fusions", "--sass", sass}).err,
             Catch::Contains("ptxas -arch=sm_90a -lineinfo"));
  CHECK_THAT(test::run({"run", cuda, "--entry", "layer_norm", "--fusions", "--sass", sass, "--no-fmad"}).err,
             Catch::Contains("cannot be combined"));
}
