#include <filesystem>
#include <nlohmann/json.hpp>

#include "bitmma/files/file.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/files/tensor_file.hpp"
#include "run.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using test::f16, test::one_golden, test::Outcome, test::run;

namespace {

std::string numpy(const std::string& name) { return test::source_path("tests/files/numpy/" + name); }

const test::BadRequests bad_requests({
    {"simulate", missing_argument, "files"},
    {"simulate $GOLDEN $FOLDER/absent", not_found, "file"},  // and nothing of the first is shown
    {"simulate " + test::source_path("data/products/nvjet_flat_f16_k1024.safetensors"), missing_instruction,
     "$SOURCE/data/products/nvjet_flat_f16_k1024.safetensors: __metadata__ instruction"},
    {"simulate $GOLDEN --case 2", illegal_value, "--case"},
    {"simulate $GOLDEN $GOLDEN -o $FOLDER/f", illegal_value, "-o"},
    {"simulate $GOLDEN -o $FOLDER/no/such/out", unusable_file, "$FOLDER/./no/such/out"},
    {"simulate $GOLDEN --target sm_100a", unsupported_target,
     "$SOURCE/data/golden/sm_90a/misc/misc_f32_f16_f16_sat0_sd0.safetensors: target"},
    // What contradicts the file, or would change nothing.
    {"simulate $GOLDEN --instruction wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16", other_instruction,
     "--instruction"},
    {"simulate $GOLDEN --layout-a mn-major:64", illegal_value, "--layout-a"},
    {"simulate $GOLDEN --padding 16 $OUT", illegal_value, "--padding"},
    {"simulate " + numpy("plain.npz") + " --layout-b k-major:64 $OUT", illegal_value, "--layout-b"},
    {"simulate " + numpy("compressed.npz"), illegal_value, "$SOURCE/tests/files/numpy/compressed.npz: a.npy"},
    {"simulate " + numpy("a.npy") + " " + numpy("b.npy"), missing_instruction,
     "$SOURCE/tests/files/numpy/a.npy, $SOURCE/tests/files/numpy/b.npy: __metadata__ instruction"},
    {"simulate " + numpy("a.npy") + " " + numpy("a.npy"), illegal_value, "files"},
    {"simulate " + numpy("a.npy") + " " + numpy("b.npy") + " --instruction tcgen05.mma.cta_group::1.kind::f8f6f4",
     missing_type, "$SOURCE/tests/files/numpy/a.npy, $SOURCE/tests/files/numpy/b.npy: __metadata__ a_type"},
    {"simulate " + numpy("a.npy") + " " + numpy("b.npy") + " --instruction tcgen05.mma.cta_group::1.kind::f16 --a half",
     unknown_name, "--a"},
    {"simulate " + numpy("plain.npz") + " --after $GOLDEN", illegal_value, "$SOURCE/tests/files/numpy/plain.npz"},
    {"simulate $GOLDEN --a e4m3", illegal_value,
     "$SOURCE/data/golden/sm_90a/misc/misc_f32_f16_f16_sat0_sd0.safetensors: a_type"},
    {"simulate $GOLDEN --scale-type ue8m0", illegal_value,
     "$SOURCE/data/golden/sm_90a/misc/misc_f32_f16_f16_sat0_sd0.safetensors: sf_type"},
    {"simulate $GOLDEN $OTHER --format csv", illegal_value, "files"},
    {"simulate $GOLDEN --json --format csv", not_together, "--json"},
    {"simulate $GOLDEN -o $FOLDER/x.npz", illegal_value, "-o"},
    {"simulate $GOLDEN -o $FOLDER/x.csv", illegal_value, "-o"},
    {"simulate " + numpy("make.py"), unusable_file, "$SOURCE/tests/files/numpy/make.py"},
    {"simulate " + numpy("keys.npz") + " --a bf16", illegal_value, "$SOURCE/tests/files/numpy/keys.npz: a_type"},
});

}  // namespace

TEST_CASE("simulate refuses bad requests: message and exit code of each") { bad_requests.check(); }

TEST_CASE("simulate shows D, the rule and its evidence, and whether the recorded D agrees") {
  const Outcome outcome = run({"simulate", one_golden, "--rows", "2", "--cols", "3", "--hex"});
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out,
             ContainsSubstring("F = 25, RZ-23") && ContainsSubstring("measured on an NVIDIA H200") &&
                 ContainsSubstring("row 1  0x") &&
                 ContainsSubstring("all 1024 outputs of 2 cases match the recorded D (source: NVIDIA H200)"));
}

TEST_CASE("simulate writes several files into a folder") {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("out"));
  const std::vector<std::string> files = test::golden_files();
  CHECK(run({"simulate", files[0], files[1], "-o", folder.path("out")}).code == 0);
  CHECK(run({"verify", folder.path("out")}).code == 0);
  // A file that cannot be read is named; the others are computed.
  write_whole(folder.path("cut.safetensors"), [](std::ostream& out) { out << "no tensors"; });
  const Outcome some = run({"simulate", folder.path("cut.safetensors"), files[0]});
  CHECK(some.code == 2);
  CHECK(some.violations.size() == 1);
  CHECK_THAT(some.out, ContainsSubstring("D "));
}

TEST_CASE("simulate names the target, and shows another one than the file says beside it") {
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
  const Outcome both = run({"simulate", path, "--target", "sm_100a"});
  CHECK(both.code == 0);
  CHECK_THAT(both.out, ContainsSubstring("target: sm_103a\n") && ContainsSubstring("target: sm_100a\n") &&
                           ContainsSubstring("match the recorded D") &&
                           ContainsSubstring("outputs differ between sm_103a and sm_100a"));
  const std::string hopper = folder.path("hopper.safetensors");
  REQUIRE(run({"golden", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "--cases", "20", "-o", hopper}).code ==
          0);
  CHECK(run({"simulate", hopper, "--target", "sm_80"}).code == 1);
  CHECK(run({"simulate", hopper, "--target", "sm_80", "-o", folder.path("ampere.safetensors")}).code == 0);
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
  const auto findings = nlohmann::json::parse(run({"simulate", wrong, "--lint", "--json"}).out);
  CHECK(findings.size() >= 2);
  for (const char* key : {"file", "target", "cases", "field", "seen", "legal", "fix", "source"}) {
    CHECK(findings[0].contains(key));
  }
  CHECK(findings[0]["severity"] == "warning");
}

TEST_CASE("simulate --lint --target looks at the file's operands on another GPU") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("golden.safetensors");
  const auto golden = [&](const std::string& mnemonic, const std::string& target) {
    REQUIRE(run({"golden", mnemonic, "--target", target, "--cases", "1", "-o", path}).code == 0);
  };
  golden("tcgen05.mma.cta_group::1.kind::f16", "sm_100a");
  REQUIRE(run({"simulate", path, "--lint", "--json"}).out == "[]\n");
  const Outcome there = run({"simulate", path, "--lint", "--target", "sm_103a"});
  CHECK(there.code == 0);
  CHECK_THAT(there.out, ContainsSubstring("nothing suspicious in 1 case on sm_103a"));
  const Outcome none = run({"simulate", path, "--lint", "--target", "sm_90a"});
  CHECK(none.code == 2);
  CHECK(none.out.empty());
  golden("tcgen05.mma.cta_group::1.kind::i8", "sm_100a");
  CHECK_THAT(run({"simulate", path, "--lint", "--target", "sm_103a"}).violations,
             test::refused(unsupported_target, "$FOLDER/golden.safetensors: target"));
}

TEST_CASE("simulate takes arrays of NumPy: one archive, or a file for each matrix") {
  const Outcome archive = run({"simulate", numpy("plain.npz"), "--hex"});
  CHECK(archive.code == 0);
  const Outcome arrays = run({"simulate", numpy("a.npy"), numpy("b.npy"), numpy("c.npy"), "--hex", "--instruction",
                              "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"});
  CHECK(arrays.code == 0);
  CHECK(arrays.out == archive.out);
  // Of other names, the first is A, the second B, the third C.
  const test::TemporaryFolder folder;
  for (const auto& [from, to] : {std::pair("a.npy", "left.npy"), std::pair("b.npy", "right.npy")})
    std::filesystem::copy_file(numpy(from), folder.path(to));
  const Outcome named = run({"simulate", folder.path("left.npy"), folder.path("right.npy"), numpy("c.npy"), "--hex",
                             "--instruction", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"});
  CHECK(named.code == 0);
  CHECK(named.out == archive.out);
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
                 ContainsSubstring("K loop: 4 instructions per tile; C of each is D of the previous one"));
  REQUIRE(run({"simulate", tile, "-o", out, "--layout-a", "k-major:64"}).code == 0);
  CHECK(run({"verify", out}).code == 0);
  CHECK(*read_tensor_file(out).find_metadata("k_loop") == "4");
}

TEST_CASE("simulate compares the D that a file records for all K, and never its own") {
  const test::TemporaryFolder folder;
  const std::string tile = folder.path("tile.safetensors"), steps = folder.path("steps.safetensors");
  TensorFile file{.path = {}, .metadata = {{"instruction", f16}}, .tensors = {}};
  std::vector<uint8_t> ones(64 * 64 * 2), d(64 * 8 * 4);
  for (size_t i = 1; i < ones.size(); i += 2) ones[i] = 0x3C;
  for (size_t i = 0; i < d.size(); i += 4) d[i + 2] = 0x80, d[i + 3] = 0x42;  // 64
  file.set(Tensor::from_bytes("a", "F16", {64, 64}, ones));
  file.set(Tensor::from_bytes("b", "F16", {64, 8}, {ones.begin(), ones.begin() + 64 * 8 * 2}));
  file.set(Tensor::from_bytes("c", "F32", {64, 8}, std::vector<uint8_t>(d.size())));
  write_tensor_file(tile, file);
  const Outcome silent = run({"simulate", tile});
  CHECK(silent.code == 0);
  CHECK_THAT(silent.out, !ContainsSubstring("match"));
  file.set(Tensor::from_bytes("d", "F32", {64, 8}, d));
  write_tensor_file(tile, file);
  CHECK_THAT(run({"simulate", tile}).out, ContainsSubstring("all 512 outputs of 1 case match the recorded D"));
  d[4 * (3 * 8 + 5)] = 1;
  file.set(Tensor::from_bytes("d", "F32", {64, 8}, d));
  write_tensor_file(tile, file);
  const Outcome wrong = run({"simulate", tile});
  CHECK(wrong.code == 1);
  CHECK_THAT(wrong.out, ContainsSubstring("1 of 512 outputs differs from") && ContainsSubstring("row 3, col 5"));
  const auto json = nlohmann::json::parse(run({"simulate", tile, "--json"}).out)[0];
  CHECK(json["recorded"]["mismatches"] == 1);
  CHECK(json["k_loop"] == 4);
  CHECK(json["d"]["codes"][3][5] == 0x42800000);
  file.set(Tensor::from_bytes("d", "F32", {8, 64}, d));
  write_tensor_file(tile, file);
  CHECK_THAT(run({"simulate", tile}).violations,
             test::refused(wrong_shape, "$FOLDER/tile.safetensors: tensor d shape"));
  // The steps, as a file of their own: the last is what is shown, and what an instruction after it begins with.
  file.erase("d");
  write_tensor_file(tile, file);
  REQUIRE(run({"simulate", tile, "-o", steps}).code == 0);
  const Outcome shown = run({"simulate", steps});
  CHECK_THAT(shown.out, ContainsSubstring("case 3 of 4") && ContainsSubstring("K loop: 4 instructions"));
  const std::string next = folder.path("next.safetensors"), out = folder.path("out.safetensors");
  REQUIRE(run({"golden", f16, "--cases", "1", "-o", next}).code == 0);
  REQUIRE(run({"simulate", next, "--after", steps, "-o", out}).code == 0);
  const TensorBytes left = read_tensor_file(steps).find("d_regs")->bytes;
  CHECK(read_tensor_file(out).find("c_regs")->bytes == left.part(left.size() - 64 * 8 * 4, 64 * 8 * 4));
  REQUIRE(run({"golden", f16, "--cases", "2", "-o", next}).code == 0);
  CHECK_THAT(run({"simulate", next, "--after", steps}).violations,
             test::refused(illegal_value, "$FOLDER/next.safetensors"));
}

TEST_CASE("simulate refuses bytes that are no code of a narrow type, which may be packed pairs") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("x.safetensors");
  TensorFile file{.path = {}, .metadata = {{"instruction", "tcgen05.mma.cta_group::1.kind::f8f6f4"}}, .tensors = {}};
  file.set(Tensor::from_bytes("a", "U8", {128, 32}, std::vector<uint8_t>(128 * 32, 0x0A)));
  file.set(Tensor::from_bytes("b", "U8", {32, 8}, std::vector<uint8_t>(32 * 8, 0xA3)));
  write_tensor_file(path, file);
  const Outcome outcome = run({"simulate", path, "--a", "e2m1", "--b", "e2m1"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.violations, test::refused(illegal_value, "tensor b"));
}

TEST_CASE("simulate goes on with the state that another instruction left") {
  const test::TemporaryFolder folder;
  const std::string first = folder.path("first.safetensors"), second = folder.path("second.safetensors");
  REQUIRE(run({"golden", f16, "--cases", "2", "-o", first}).code == 0);
  REQUIRE(run({"simulate", first, "--after", first, "-o", second}).code == 0);
  const TensorFile before = read_tensor_file(first), later = read_tensor_file(second);
  CHECK(later.find("c_regs")->bytes == before.find("d_regs")->bytes);
  CHECK(run({"verify", second}).code == 0);
}

TEST_CASE("a chain of golden cases: an ld reads the D that an mma left, and an mma the scales that a cp put there") {
  const test::TemporaryFolder folder;
  const std::string mma = folder.path("mma.safetensors"), ld = folder.path("ld.safetensors"),
                    read = folder.path("read.safetensors");
  REQUIRE(run({"golden", "tcgen05.mma.cta_group::1.kind::f16", "--m", "128", "--n", "16", "--cases", "1", "-o", mma})
              .code == 0);
  REQUIRE(run({"golden", "tcgen05.ld.sync.aligned.32x32b.x16.b32", "--warp", "2", "--taddr", "0x400000", "--cases", "1",
               "-o", ld})
              .code == 0);
  REQUIRE(run({"simulate", ld, "--after", mma, "-o", read}).code == 0);
  const VectorFile first = read_vector_file(mma), last = read_vector_file(read);
  const Case of_mma = case_at(first, 0), of_ld = case_at(last, 0);
  const Matrix d = recorded_result(of_mma.instruction, *of_mma.after);
  const std::span<const uint32_t> regs = of_ld.after->words(Field::regs);
  for (int thread = 0; thread < 32; ++thread) {
    for (int reg = 0; reg < 16; ++reg) CHECK(regs[static_cast<size_t>(16 * thread + reg)] == d(64 + thread, reg));
  }
}

TEST_CASE("golden puts the operands of a tcgen05.mma where the given Tensor Memory addresses say") {
  const test::TemporaryFolder folder;
  const std::string placed = folder.path("placed.safetensors"), moved = folder.path("moved.safetensors"),
                    cp = folder.path("cp.safetensors"), chained = folder.path("chained.safetensors");
  const std::vector<std::string> mma{"golden",     "tcgen05.mma.sp.cta_group::1.kind::mxf8f6f4.block_scale",
                                     "--m",        "128",
                                     "--n",        "16",
                                     "--a-source", "tmem",
                                     "--cases",    "1"};
  const auto golden = [&](std::vector<std::string> flags, const std::string& path) {
    flags.insert(flags.begin(), mma.begin(), mma.end());
    flags.insert(flags.end(), {"-o", path});
    return run(flags).code;
  };
  REQUIRE(golden({}, placed) == 0);
  REQUIRE(golden({"--d-tmem", "0x100", "--a-tmem", "0xc0", "--metadata-tmem", "0x1f0", "--scale-a-tmem", "0x40",
                  "--scale-b-tmem", "0x80"},
                 moved) == 0);
  // Cases look into the memory of their file.
  const VectorFile placed_file = read_vector_file(placed), moved_file = read_vector_file(moved);
  const Case first = case_at(placed_file, 0), second = case_at(moved_file, 0);
  CHECK(second.before.number(Field::d_tmem) == 0x100);
  CHECK(second.before.columns() == 512);
  CHECK(second.logical.c == first.logical.c);
  CHECK(recorded_result(second.instruction, *second.after) == recorded_result(first.instruction, *first.after));
  CHECK(run({"simulate", moved, "--lint"}).code == 0);
  // The scales of A that an image of shared memory brings there.
  REQUIRE(run({"golden", "tcgen05.cp.cta_group::1.32x128b.warpx4", "--taddr", "0x40", "--cases", "1", "-o", cp}).code ==
          0);
  REQUIRE(run({"simulate", moved, "--after", cp, "-o", chained}).code == 0);
  const VectorFile cp_file = read_vector_file(cp), chained_file = read_vector_file(chained);
  const Case copied = case_at(cp_file, 0), third = case_at(chained_file, 0);
  const std::span<const uint32_t> from = copied.after->words(Field::tmem), to = third.before.words(Field::tmem);
  for (size_t lane = 0; lane < 128; ++lane) {
    for (size_t column = 0x40; column < 0x44; ++column) {
      CHECK(to[lane * 512 + column] == from[lane * static_cast<size_t>(copied.after->columns()) + column]);
    }
  }
  CHECK(golden({"--d-tmem", "0x1f8"}, folder.path("none.safetensors")) == 2);
}

TEST_CASE(
    "numbers of a state that golden is given stand in its file, and those that the instruction lacks are refused") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("move.safetensors");
  REQUIRE(run({"golden", "tcgen05.ld.sync.aligned.16x64b.x4.b32", "--taddr", "0x00300041", "-o", path}).code == 0);
  const VectorFile vectors = read_vector_file(path);
  for (int64_t i = 0; i < vectors.cases; ++i) {
    const Case this_case = case_at(vectors, i);
    CHECK(this_case.before.number(Field::taddr) == 0x00300041);
    CHECK(this_case.before.number(Field::warp) == 1);
  }
  CHECK(run({"golden", "tcgen05.cp.cta_group::1.128x256b", "--warp", "1", "-o", path}).code == 2);
  CHECK(run({"golden", f16, "--taddr", "0", "-o", path}).code == 2);
  CHECK(run({"golden", "tcgen05.ld.sync.aligned.16x64b.x4.b32", "--warp", "2", "--taddr", "0", "-o", path}).code == 2);
}

TEST_CASE("a case of K = 96 in the absolute mode is clean where its target has the mode") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("k96.safetensors");
  REQUIRE(run({"golden", "tcgen05.mma.cta_group::1.kind::mxf4.block_scale", "--k96", "--m", "128", "--n", "16",
               "--layout-a", "k-major:128@96", "--cases", "1", "-o", path})
              .code == 0);
  CHECK(run({"simulate", path, "--lint"}).code == 0);
  CHECK(run({"simulate", path}).violations.empty());
}

TEST_CASE("simulate refuses plain matrices that say something else than the images of a file, and --lint shows them") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("golden.safetensors");
  REQUIRE(run({"golden", f16, "--cases", "1", "-o", path}).code == 0);
  CHECK(run({"simulate", path}).err.empty());
  TensorFile file = read_tensor_file(path);
  std::vector<uint8_t> b = file.find("b")->bytes.copy();
  b[2 * (3 * 8 + 5)] ^= 1;
  file.set(Tensor::from_bytes("b", "F16", {1, 16, 8}, b));
  write_tensor_file(path, file);
  const Outcome refused = run({"simulate", path});
  CHECK(refused.code == 2);
  CHECK_THAT(refused.violations, test::refused(contradiction, "$FOLDER/golden.safetensors: tensor b"));
  const Outcome linted = run({"simulate", path, "--lint"});
  CHECK(linted.code == 1);
  CHECK_THAT(linted.out, ContainsSubstring("tensor b = 0x") && ContainsSubstring("at (3, 5)") &&
                             ContainsSubstring("1 of 128 elements differ; the images"));
}

TEST_CASE("simulate -o does not lose a recorded D: one that differs, or one of hardware, without being told to") {
  const test::TemporaryFolder folder;
  const std::string bad = folder.path("bad.safetensors"), out = folder.path("out.safetensors"),
                    gpu = folder.path("gpu.safetensors");
  REQUIRE(run({"golden", f16, "--distribution", "normal", "--cases", "2", "-o", bad}).code == 0);
  TensorFile file = read_tensor_file(bad);
  file.set_metadata("source", "NVIDIA H100");
  write_tensor_file(gpu, file);
  std::vector<uint8_t> d = file.find("d_regs")->bytes.copy();
  d.back() ^= 1;
  file.set(Tensor::from_bytes("d_regs", "U32", file.find("d_regs")->shape, d));
  write_tensor_file(bad, file);
  const Outcome differs = run({"simulate", bad, "-o", out});
  CHECK(differs.code == 1);
  CHECK_THAT(differs.err, ContainsSubstring("1 of 1024 outputs differs from the recorded D (source: NVIDIA H100)") &&
                              ContainsSubstring("not written"));
  CHECK_FALSE(std::filesystem::exists(out));
  CHECK(run({"simulate", bad, "-o", out, "--replace-d"}).code == 1);
  CHECK(run({"verify", out}).code == 0);
  // Its D is the same, but who computed it would be lost.
  const std::string before = test::read_text(gpu), input = folder.path("input.safetensors");
  test::write_text(input, before);
  const Outcome hardware = run({"simulate", input, "-o", gpu});
  CHECK(hardware.code == 2);
  CHECK_THAT(hardware.violations, test::refused(would_replace, "$FOLDER/gpu.safetensors"));
  CHECK(test::read_text(gpu) == before);
  CHECK(run({"simulate", gpu, "-o", gpu, "--replace-d"}).code == 2);  // no output replaces an input
  CHECK(test::read_text(gpu) == before);
  CHECK(run({"simulate", input, "-o", gpu, "--replace-d"}).code == 0);
  CHECK(test::read_text(gpu) != before);
}

TEST_CASE("a logical d beside images is a recorded result for every verb") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("d.safetensors");
  REQUIRE(run({"golden", f16, "--distribution", "normal", "--cases", "2", "-o", path}).code == 0);
  TensorFile file = read_tensor_file(path);
  file.erase("d_regs");
  write_tensor_file(path, file);
  for (const char* verb : {"simulate", "verify", "diagnose"}) CHECK(run({verb, path}).code == 0);
  CHECK(run({"compare", path, path}).code == 0);
  std::vector<uint8_t> d = file.find("d")->bytes.copy();
  d.front() ^= 1;
  file.set(Tensor::from_bytes("d", "F32", file.find("d")->shape, d));
  const std::string wrong = folder.path("wrong.safetensors");
  write_tensor_file(wrong, file);
  for (const char* verb : {"simulate", "verify", "diagnose"}) CHECK(run({verb, wrong}).code == 1);
  CHECK(run({"compare", path, wrong}).code == 1);
}
