#include <filesystem>
#include <nlohmann/json.hpp>

#include "bitmma/files/tensor_file.hpp"
#include "run.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using test::f16, test::one_golden, test::Outcome, test::run;

namespace {

std::string numpy(const std::string& name) { return test::source_path("tests/files/numpy/" + name); }

const test::BadRequests bad_requests({
    {"simulate", "files is required"},
    {"simulate $GOLDEN --case 2", "--case = 2: legal is 0..1"},
    {"simulate $GOLDEN $GOLDEN -o $FOLDER/f", "an existing folder"},
    {"simulate $GOLDEN -o $FOLDER/no/such/out", "its folder does not exist"},
    {"simulate $GOLDEN --target sm_100a", "target = sm_100a: legal is sm_90a"},
    // What contradicts the file, or would change nothing.
    {"simulate $GOLDEN --instruction wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16",
     "--instruction asks for another instruction than the file is of"},
    {"simulate $GOLDEN --layout-a mn-major:64",
     "--layout-a = mn-major:64: legal is absent; " + one_golden + " has its own"},
    {"simulate $GOLDEN --padding 16 $OUT", "--padding = 16: legal is absent"},
    {"simulate " + numpy("plain.npz") + " --layout-b k-major:64", "A and B are in registers"},
    {"simulate " + numpy("compressed.npz"), "numpy.savez instead of numpy.savez_compressed"},
    {"simulate " + numpy("a.npy") + " " + numpy("b.npy"), "save the key, or give --instruction"},
    {"simulate " + numpy("a.npy") + " " + numpy("a.npy"), "two arrays called a"},
    {"simulate " + numpy("a.npy") + " " + numpy("b.npy") + " --instruction tcgen05.mma.cta_group::1.kind::f8f6f4",
     "tensor a dtype = F16: legal is the dtype of one of e4m3, e5m2, e2m3, e3m2, e2m1; say which: --a, or the metadata "
     "key "
     "a_type"},
    {"simulate " + numpy("a.npy") + " " + numpy("b.npy") + " --instruction tcgen05.mma.cta_group::1.kind::f16 --a half",
     "--a = half"},
    {"simulate " + numpy("plain.npz") + " --after $GOLDEN", "tensor a_regs = (missing)"},
});

}  // namespace

TEST_CASE("simulate refuses bad requests: message and exit code of each") { bad_requests.check(); }

TEST_CASE("simulate shows D, the rule and its evidence, and whether the recorded D agrees") {
  const Outcome outcome = run({"simulate", one_golden, "--rows", "2", "--cols", "3", "--hex"});
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("F = 25, RZ-23") && ContainsSubstring("measured on an NVIDIA H200") &&
                              ContainsSubstring("row 1  0x") &&
                              ContainsSubstring("all 1024 outputs of 2 cases match the recorded D (NVIDIA H200)"));
}

TEST_CASE("simulate writes several files into a folder") {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("out"));
  const std::vector<std::string> files = test::golden_files();
  CHECK(run({"simulate", files[0], files[1], "-o", folder.path("out")}).code == 0);
  CHECK(run({"verify", folder.path("out")}).code == 0);
}

TEST_CASE("simulate names the target, and refuses another one than the file says") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("golden.safetensors"), out = folder.path("out.safetensors");
  REQUIRE(
      run({"golden", "tcgen05.mma.cta_group::1.kind::f16", "--target", "sm_103a", "--cases", "1", "-o", path}).code ==
      0);
  const Outcome shown = run({"simulate", path});
  CHECK(shown.code == 0);
  CHECK_THAT(shown.out, ContainsSubstring(", case 0 of 1\ntarget: sm_103a\n") &&
                            ContainsSubstring("arithmetic: F = 25, RZ-23, floor -133; model choice") &&
                            ContainsSubstring("of 1 case match the recorded D"));
  CHECK_THAT(run({"simulate", path, "-o", out}).err,
             ContainsSubstring("1 case, D by ") && ContainsSubstring(" on sm_103a"));
  CHECK(run({"simulate", path, "--target", "sm_103a"}).code == 0);
  const Outcome refused = run({"simulate", path, "--target", "sm_100a"});
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, ContainsSubstring("--target sm_100a asks for another target than the file is of"));
  // A file that does not say its target is of the one asked for.
  TensorFile file = read_tensor_file(path);
  file.erase_metadata("target");
  write_tensor_file(path, file);
  CHECK_THAT(run({"simulate", path}).out, ContainsSubstring("target: sm_100a\n"));
  CHECK_THAT(run({"simulate", path, "--target", "sm_103a"}).out, ContainsSubstring("target: sm_103a\n"));
}

TEST_CASE("simulate --lint speaks JSON and uses the exit codes") {
  const test::TemporaryFolder folder;
  const std::string right = folder.path("right.safetensors"), wrong = folder.path("wrong.safetensors");
  REQUIRE(run({"golden", f16, "--distribution", "normal", "--cases", "2", "-o", right}).code == 0);
  CHECK(run({"simulate", right, "--lint"}).code == 0);
  CHECK_THAT(run({"simulate", right, "--lint"}).out, ContainsSubstring("nothing suspicious in 2 cases"));
  CHECK(nlohmann::json::parse(run({"simulate", right, "--lint", "--json"}).out).empty());
  REQUIRE(run({"golden", f16, "--distribution", "special", "-o", wrong}).code == 0);
  CHECK(run({"simulate", wrong, "--lint"}).code == 1);
  const auto found = nlohmann::json::parse(run({"simulate", wrong, "--lint", "--json"}).out);
  CHECK(found.size() >= 2);
  for (const char* key : {"file", "target", "cases", "field", "seen", "legal", "fix", "source"}) {
    CHECK(found[0].contains(key));
  }
  CHECK(found[0]["severity"] == "warning");
}

TEST_CASE("simulate takes arrays of NumPy: one archive, or a file for each matrix") {
  const Outcome archive = run({"simulate", numpy("plain.npz"), "--hex"});
  CHECK(archive.code == 0);
  const Outcome arrays = run({"simulate", numpy("a.npy"), numpy("b.npy"), numpy("c.npy"), "--hex", "--instruction",
                              "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"});
  CHECK(arrays.code == 0);
  CHECK(arrays.out == archive.out);
}

TEST_CASE("simulate computes a K loop over one tile and writes every step") {
  const test::TemporaryFolder folder;
  const std::string tile = folder.path("tile.safetensors"), out = folder.path("out.safetensors");
  TensorFile file{.path = {}, .metadata = {{"instruction", f16}}, .tensors = {}};
  file.set(Tensor::from_bytes("a", "F16", {64, 64}, std::vector<uint8_t>(64 * 64 * 2, 0x3C)));
  file.set(Tensor::from_bytes("b", "F16", {64, 8}, std::vector<uint8_t>(64 * 8 * 2, 0x3C)));
  file.set(Tensor::from_bytes("c", "F32", {64, 8}, std::vector<uint8_t>(64 * 8 * 4)));
  write_tensor_file(tile, file);
  CHECK_THAT(run({"simulate", tile}).out,
             ContainsSubstring("case 3 of 4") &&
                 ContainsSubstring("K loop: 4 instructions a tile, C of each is D of the one before"));
  REQUIRE(run({"simulate", tile, "-o", out, "--layout-a", "k-major:64"}).code == 0);
  CHECK(run({"verify", out}).code == 0);
  CHECK(*read_tensor_file(out).find_metadata("k_loop") == "4");
}

TEST_CASE("simulate goes on with the state that another instruction left") {
  const test::TemporaryFolder folder;
  const std::string first = folder.path("first.safetensors"), second = folder.path("second.safetensors");
  REQUIRE(run({"golden", f16, "--cases", "2", "-o", first}).code == 0);
  REQUIRE(run({"simulate", first, "--after", first, "-o", second}).code == 0);
  const TensorFile before = read_tensor_file(first), later = read_tensor_file(second);
  CHECK(std::ranges::equal(later.find("c_regs")->bytes, before.find("d_regs")->bytes));
  CHECK(run({"verify", second}).code == 0);
}

TEST_CASE("simulate warns where plain matrices in a file say something else than its images") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("golden.safetensors");
  REQUIRE(run({"golden", f16, "--cases", "1", "-o", path}).code == 0);
  CHECK(run({"simulate", path}).err.empty());
  TensorFile file = read_tensor_file(path);
  std::vector<uint8_t> b(file.find("b")->bytes.begin(), file.find("b")->bytes.end());
  b[2 * (3 * 8 + 5)] ^= 1;
  file.set(Tensor::from_bytes("b", "F16", {1, 16, 8}, b));
  write_tensor_file(path, file);
  CHECK_THAT(run({"simulate", path}).err, ContainsSubstring("warning: tensor b = 0x") &&
                                              ContainsSubstring("at (3, 5)") &&
                                              ContainsSubstring("1 of 128 elements differ; the images"));
}
