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
