// What was recorded, and files that say two things, at every verb.
#include <bit>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bitmma/files/tensor_file.hpp"
#include "run.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using test::f16, test::Outcome, test::run;

namespace {

std::string changed(const std::string& path, const std::string& to, std::string_view name, size_t byte) {
  TensorFile file = read_tensor_file(path);
  const Tensor& old = *file.find(name);
  std::vector<uint8_t> bytes = old.bytes.copy();
  bytes.at(byte) ^= 1;
  file.set(Tensor::from_bytes(old.name, old.dtype, old.shape, std::move(bytes)));
  write_tensor_file(to, file);
  return to;
}

/// A tile of two instructions along M and three along K, with the D of the exact product: small integers.
std::string write_tile(const std::string& path, bool has_instruction = true) {
  TensorFile file{.path = {}, .metadata = {}, .tensors = {}};
  if (has_instruction) file.set_metadata("instruction", f16);
  const int m = 128, n = 8, k = 48;
  const auto a = [](int row, int col) { return (row + col) % 3; };
  const auto b = [](int row, int col) { return (row * col) % 2; };
  const auto put_half = [](std::vector<uint8_t>& bytes, int number) {
    bytes.push_back(0);
    bytes.push_back(number == 0 ? 0 : number == 1 ? 0x3C : 0x40);
  };
  std::vector<uint8_t> bytes_of_a, bytes_of_b, bytes_of_d;
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < k; ++j) put_half(bytes_of_a, a(i, j));
  for (int i = 0; i < k; ++i)
    for (int j = 0; j < n; ++j) put_half(bytes_of_b, b(i, j));
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int l = 0; l < k; ++l) sum += static_cast<float>(a(i, l) * b(l, j));
      const auto word = std::bit_cast<uint32_t>(sum);
      for (int byte = 0; byte < 4; ++byte) bytes_of_d.push_back(static_cast<uint8_t>(word >> 8 * byte));
    }
  }
  file.set(Tensor::from_bytes("a", "F16", {m, k}, std::move(bytes_of_a)));
  file.set(Tensor::from_bytes("b", "F16", {k, n}, std::move(bytes_of_b)));
  file.set(Tensor::from_bytes("d", "F32", {m, n}, std::move(bytes_of_d)));
  write_tensor_file(path, file);
  return path;
}

}  // namespace

TEST_CASE("an edited matrix beside images is refused by every verb that computes, with the first place and how many") {
  const test::TemporaryFolder folder;
  const std::string right = folder.path("right.safetensors"), out = folder.path("out.safetensors");
  REQUIRE(run({"golden", f16, "--cases", "3", "-o", right}).code == 0);
  const std::string edited = changed(right, folder.path("edited.safetensors"), "a", 2 * (2 * 64 * 16 + 3 * 16 + 4));
  for (const std::vector<std::string>& line : {std::vector<std::string>{"simulate", edited},
                                               {"simulate", edited, "-o", out},
                                               {"simulate", edited, "--format", "csv"},
                                               {"compare", right, edited},
                                               {"compare", edited, right},
                                               {"diagnose", edited},
                                               {"diagnose", right, edited},
                                               {"verify", edited},
                                               {"verify", edited, right},
                                               {"explain", edited}}) {
    INFO(line[0]);
    const Outcome outcome = run(line);
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.violations, test::refused(contradiction, "$FOLDER/edited.safetensors: tensor a"));
  }
  CHECK_FALSE(std::filesystem::exists(out));
  CHECK(run({"simulate", "--lint", edited}).code == 1);
  // The other file of the two is verified all the same.
  CHECK_THAT(run({"verify", edited, right}).out, ContainsSubstring("files 1, cases 3"));
}

TEST_CASE("a whole tile with one D is taken by verify, compare, explain and diagnose, and others name the verb") {
  const test::TemporaryFolder folder;
  const std::string tile = write_tile(folder.path("tile.safetensors")),
                    wrong = changed(tile, folder.path("wrong.safetensors"), "d", 4 * (8 * 70 + 3));
  for (const std::vector<std::string>& line : {std::vector<std::string>{"verify", tile},
                                               {"compare", tile, tile},
                                               {"diagnose", tile},
                                               {"explain", tile, "--row", "70", "--col", "3"},
                                               {"explain", wrong}})
    CHECK(run(line).code == 0);
  for (const std::vector<std::string>& line : {std::vector<std::string>{"verify", wrong}, {"compare", tile, wrong}}) {
    const Outcome outcome = run(line);
    CHECK(outcome.code == 1);
    CHECK_THAT(outcome.out, ContainsSubstring("row 70, col 3"));
  }
  CHECK(run({"diagnose", wrong, "--no-pairs"}).code == 1);
  const auto steps = nlohmann::json::parse(run({"explain", wrong, "--row", "70", "--col", "3", "--json"}).out);
  REQUIRE(steps.size() == 3);
  CHECK(steps[2]["step"] == 2);
  CHECK(steps[2]["tile_row"] == 70);
  CHECK(run({"explain", wrong, "--row", "70", "--col", "3"}).code == 1);
  CHECK_THAT(run({"explain", tile, "--row", "128"}).violations, test::refused(illegal_value, "--row"));
  CHECK_THAT(run({"ptx", tile}).violations, test::refused(illegal_value, "$FOLDER/tile.safetensors: tile"));
  // One is a tile, the other is none.
  const std::string single = folder.path("one.safetensors");
  REQUIRE(run({"golden", f16, "--cases", "1", "-o", single}).code == 0);
  for (const char* verb : {"compare", "diagnose"}) {
    CHECK_THAT(run({verb, tile, single}).violations, test::refused(other_inputs, "$FOLDER/one.safetensors"));
    CHECK_THAT(run({verb, single, tile}).violations, test::refused(other_inputs, "$FOLDER/tile.safetensors"));
  }
}

TEST_CASE("simulate gives D of a whole tile, and with -o writes it beside the matrices") {
  const test::TemporaryFolder folder;
  const std::string tile = write_tile(folder.path("tile.safetensors")),
                    wrong = changed(tile, folder.path("wrong.safetensors"), "d", 4 * (8 * 70 + 3)),
                    plain = folder.path("plain.safetensors"), out = folder.path("out.safetensors");
  TensorFile without_d = read_tensor_file(tile);
  const Tensor d = *without_d.find("d");
  without_d.erase("d");
  write_tensor_file(plain, without_d);
  const Outcome shown = run({"simulate", tile});
  CHECK(shown.code == 0);
  CHECK_THAT(shown.out, ContainsSubstring("128 x 8 x 48 in 2 x 1 blocks of 64 x 8, 3 instructions of K = 16 each") &&
                            ContainsSubstring("all 1024 outputs of 1 case match the recorded D"));
  const auto json = nlohmann::json::parse(run({"simulate", plain, "--json"}).out).at(0);
  CHECK(json["d"]["codes"].size() == 128);
  CHECK(json["steps"] == 3);
  CHECK_FALSE(json.contains("recorded"));
  REQUIRE(run({"simulate", plain, "-o", out}).code == 0);
  const TensorFile written = read_tensor_file(out);
  CHECK(written.find("d")->bytes == d.bytes);
  CHECK(written.find("d")->shape == d.shape);
  CHECK(written.find_metadata("source")->starts_with("bitmma "));
  for (const char* verb : {"verify", "diagnose"}) CHECK(run({verb, out}).code == 0);
  // A recorded D that differs stays, unless it is told to go.
  CHECK(run({"simulate", wrong}).code == 1);
  const std::string other = folder.path("other.safetensors");
  const Outcome refused = run({"simulate", wrong, "-o", other});
  CHECK(refused.code == 1);
  CHECK_THAT(refused.err, ContainsSubstring("row 70, col 3") && ContainsSubstring("not written"));
  CHECK_FALSE(std::filesystem::exists(other));
  CHECK(run({"simulate", wrong, "-o", other, "--replace-d"}).code == 1);
  CHECK(read_tensor_file(other).find("d")->bytes == d.bytes);
  // What a tile has not is refused.
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--layout-a", "k-major:64"},
                                               {"--format", "csv"},
                                               {"--case", "1"},
                                               {"--target", "sm_80"},
                                               {"--after", tile}}) {
    std::vector<std::string> line{"simulate", plain};
    line.insert(line.end(), more.begin(), more.end());
    INFO(more[0]);
    CHECK(run(line).code == 2);
  }
}

TEST_CASE("a tile of tcgen05 whose types the flags say is written so that it can be read again") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("nvfp4.safetensors"), out = folder.path("out.safetensors");
  TensorFile file{.path = {}, .metadata = {}, .tensors = {}};
  const auto filled = [](std::string name, std::vector<int64_t> shape, uint8_t code) {
    const auto size = static_cast<size_t>(shape[0] * shape[1]);
    std::vector<uint8_t> bytes(size);
    for (size_t i = 0; i < size; ++i) bytes[i] = code ? code : static_cast<uint8_t>(i % 7);
    return Tensor::from_bytes(std::move(name), "U8", std::move(shape), std::move(bytes));
  };
  for (Tensor tensor : {filled("a", {256, 128}, 0), filled("b", {128, 16}, 0), filled("sfa", {256, 8}, 0x38),
                        filled("sfb", {8, 16}, 0x40)})
    file.set(std::move(tensor));
  write_tensor_file(path, file);
  const std::string nvfp4 = "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X";
  REQUIRE(
      run({"simulate", path, "--instruction", nvfp4, "--a", "e2m1", "--b", "e2m1", "--scale-type", "ue4m3", "-o", out})
          .code == 0);
  CHECK(run({"verify", out}).code == 0);
  CHECK_THAT(run({"simulate", out}).out, ContainsSubstring("256 x 16 x 128 in 2 x 1 blocks of 128 x 16"));
}

TEST_CASE("a matrix alone is the D of the other file for compare and diagnose, whose errors name it") {
  const test::TemporaryFolder folder;
  const std::string tile = write_tile(folder.path("tile.safetensors"));
  TensorFile d{.path = {}, .metadata = {}, .tensors = {*read_tensor_file(tile).find("d")}};
  d.tensors[0].name = "x";
  const std::string alone = folder.path("alone.safetensors"), short_one = folder.path("short.safetensors");
  write_tensor_file(alone, d);
  d.tensors[0] = Tensor::from_bytes("x", "F32", {4, 8}, std::vector<uint8_t>(128));
  write_tensor_file(short_one, d);
  for (const char* verb : {"compare", "diagnose"}) {
    CHECK(run({verb, tile, alone}).code == 0);
    CHECK_THAT(run({verb, tile, short_one}).violations,
               test::refused(wrong_shape, "$FOLDER/short.safetensors: tensor d shape"));
    const Outcome no_inputs = run({verb, alone, tile});
    CHECK(no_inputs.code == 2);
    CHECK_THAT(no_inputs.violations, test::refused(unusable_file, "$FOLDER/alone.safetensors"));
  }
  CHECK(run({"compare", alone, alone}).code == 0);
  CHECK_THAT(run({"compare", alone, short_one}).violations,
             test::refused(ViolationCode::contradiction, "$FOLDER/short.safetensors"));
  CHECK_THAT(run({"diagnose", alone, alone}).violations, test::refused(unusable_file, "$FOLDER/alone.safetensors"));
}

TEST_CASE("one D behind all of K is compared with the last step of a K loop that simulate wrote") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("loop.safetensors"), steps = folder.path("steps.safetensors"),
                    images = folder.path("images.safetensors"), alone = folder.path("alone.safetensors");
  TensorFile file = read_tensor_file(write_tile(folder.path("tile.safetensors")));
  for (const auto& [name, rows, cols] : {std::tuple("a", 64, 48), std::tuple("d", 64, 8)}) {
    std::vector<uint8_t> bytes = file.find(name)->bytes.copy();
    bytes.resize(bytes.size() / 2);
    file.set(Tensor::from_bytes(name, file.find(name)->dtype, {rows, cols}, std::move(bytes)));
  }
  const Tensor d = *file.find("d");
  file.erase("d");
  write_tensor_file(path, file);
  REQUIRE(run({"simulate", path, "-o", steps}).code == 0);
  for (const bool says_instruction : {false, true}) {
    TensorFile tensor_file{.path = {}, .metadata = {}, .tensors = {d}};
    if (says_instruction) tensor_file.set_metadata("instruction", f16);
    write_tensor_file(alone, tensor_file);
    for (const char* verb : {"compare", "diagnose"}) CHECK(run({verb, steps, alone}).code == 0);
    const std::string wrong = changed(alone, folder.path("wrong.safetensors"), "d", 4 * 8);
    CHECK_THAT(run({"compare", steps, wrong}).out, ContainsSubstring("row 1, col 0"));
  }
  TensorFile other{
      .path = {}, .metadata = {{"instruction", "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"}}, .tensors = {d}};
  write_tensor_file(alone, other);
  for (const char* verb : {"compare", "diagnose"}) CHECK(run({verb, steps, alone}).code == 2);
  // The same as images with one d.
  TensorFile of_images = read_tensor_file(steps);
  for (const char* name : {"a", "b", "c", "d", "d_regs"}) of_images.erase(name);
  of_images.set(d);
  write_tensor_file(images, of_images);
  for (const char* verb : {"verify", "diagnose", "explain"}) CHECK(run({verb, images}).code == 0);
  for (const char* verb : {"simulate", "ptx"})
    CHECK_THAT(run({verb, images}).violations, test::refused(wrong_shape, "$FOLDER/images.safetensors: tensor d"));
}

TEST_CASE("verbs of instructions and of products know each other's files") {
  const test::TemporaryFolder folder;
  const std::string product = write_tile(folder.path("product.safetensors"), false),
                    tile = write_tile(folder.path("tile.safetensors"));
  CHECK(run({"gemm", product}).code == 0);
  CHECK(run({"diagnose", product}).code == 0);  // it knows both
  for (const char* verb : {"simulate", "verify", "explain", "ptx"})
    CHECK_THAT(run({verb, product}).violations,
               test::refused(missing_instruction, "$FOLDER/product.safetensors: __metadata__ instruction"));
  CHECK_THAT(run({"compare", product, product}).violations,
             test::refused(missing_instruction, "$FOLDER/product.safetensors: __metadata__ instruction"));
  for (const std::vector<std::string>& line :
       {std::vector<std::string>{"gemm", tile}, {"explain", tile, "--plan", "flat"}, {"gemm", tile, "--find"}})
    CHECK_THAT(run(line).violations, test::refused(unusable_file, "$FOLDER/tile.safetensors"));
}

TEST_CASE("a recorded d of another type is compared, and its type is told") {
  const test::TemporaryFolder folder;
  const std::string path = write_tile(folder.path("tile.safetensors"));
  TensorFile file = read_tensor_file(path);
  const Tensor d = *file.find("d");
  const std::span<const uint8_t> words = d.bytes.view();
  std::vector<uint8_t> wide;
  for (size_t i = 0; i < words.size(); i += 4) {
    float number = 0;
    std::memcpy(&number, words.data() + i, 4);
    const auto word = std::bit_cast<uint64_t>(static_cast<double>(number));
    for (int byte = 0; byte < 8; ++byte) wide.push_back(static_cast<uint8_t>(word >> 8 * byte));
  }
  file.set(Tensor::from_bytes("d", "F64", d.shape, wide));
  write_tensor_file(path, file);
  for (const char* verb : {"verify", "diagnose", "explain"}) {
    const Outcome same = run({verb, path});
    CHECK(same.code == 0);
    CHECK_THAT(same.violations, test::refused(illegal_value, "$FOLDER/tile.safetensors: tensor d"));
  }
  wide[0] = 1;  // no f32
  file.set(Tensor::from_bytes("d", "F64", d.shape, wide));
  write_tensor_file(path, file);
  for (const char* verb : {"verify", "diagnose", "explain"}) {
    const Outcome refused = run({verb, path});
    CHECK(refused.code == 2);
    CHECK_THAT(refused.violations, test::refused(illegal_value, "$FOLDER/tile.safetensors: tensor d"));
  }
}

TEST_CASE("the D of a K loop is of who the file says computed it") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("loop.safetensors"), out = folder.path("out.safetensors");
  TensorFile file = read_tensor_file(write_tile(folder.path("tile.safetensors")));
  // The upper half of the tile is a K loop.
  for (const auto& [name, rows, cols] : {std::tuple("a", 64, 48), std::tuple("d", 64, 8)}) {
    std::vector<uint8_t> bytes = file.find(name)->bytes.copy();
    bytes.resize(bytes.size() / 2);
    file.set(Tensor::from_bytes(name, file.find(name)->dtype, {rows, cols}, std::move(bytes)));
  }
  file.set_metadata("source", "NVIDIA H100"), file.set_metadata("gpu", "H100");
  write_tensor_file(path, file);
  CHECK_THAT(run({"simulate", path}).out,
             ContainsSubstring("match the recorded D (source: NVIDIA H100, of the whole K)"));
  CHECK(nlohmann::json::parse(run({"simulate", path, "--json"}).out)[0]["recorded"]["source"] == "NVIDIA H100");
  REQUIRE(run({"simulate", path, "-o", out}).code == 0);
  CHECK_FALSE(read_tensor_file(out).find_metadata("gpu"));
  const std::string wrong = changed(path, folder.path("wrong.safetensors"), "d", 3);
  CHECK_THAT(run({"simulate", wrong, "-o", folder.path("none.safetensors")}).err,
             ContainsSubstring("from the recorded D (source: NVIDIA H100)"));
}

TEST_CASE("the flag --after tells which recorded D it leaves out, once") {
  const test::TemporaryFolder folder;
  const std::string mma = folder.path("mma.safetensors"), load = folder.path("load.safetensors");
  REQUIRE(run({"golden", "tcgen05.mma.cta_group::1.kind::f16", "--n", "16", "--cases", "1", "-o", mma}).code == 0);
  REQUIRE(run({"golden", "tcgen05.ld.sync.aligned.32x32b.x1.b32", "--cases", "1", "-o", load}).code == 0);
  const Outcome chained = run({"simulate", load, "--after", mma});
  CHECK(chained.code == 0);
  const size_t at = chained.err.find("tensor d_regs: recorded for another initial state");
  CHECK(at != std::string::npos);
  CHECK(chained.err.find("tensor d_regs", at + 1) == std::string::npos);
  // Without a state of its own the file records the D of the chain: it is compared.
  TensorFile file = read_tensor_file(load);
  file.erase("tmem");
  write_tensor_file(load, file);
  CHECK(run({"simulate", load, "--after", mma}).code == 1);
  CHECK(run({"simulate", load, "--after", mma, "-o", folder.path("out.safetensors")}).code == 1);
  CHECK_FALSE(std::filesystem::exists(folder.path("out.safetensors")));
}

TEST_CASE("names of files say what is written into them") {
  const test::TemporaryFolder folder;
  const std::string golden = folder.path("golden.safetensors");
  REQUIRE(run({"golden", f16, "--cases", "1", "-o", golden}).code == 0);
  const std::string product = write_tile(folder.path("product.safetensors"), false);
  for (const char* suffix : {".txt", ".bin", ".json", ".st", ".npz", ".csv", ".ptx"}) {
    const std::string out = folder.path(std::string("q") + suffix);
    for (const std::vector<std::string>& line : {std::vector<std::string>{"golden", f16, "--cases", "1", "-o", out},
                                                 {"simulate", golden, "-o", out},
                                                 {"gemm", product, "-o", out}}) {
      const Outcome refused = run(line);
      CHECK(refused.code == 2);
      CHECK_THAT(refused.violations, test::refused(illegal_value, "-o"));
    }
    CHECK_FALSE(std::filesystem::exists(out));
  }
  for (const char* name : {"q.SafeTensors", "q"})
    CHECK(run({"golden", f16, "--cases", "1", "-o", folder.path(name)}).code == 0);
  for (const char* suffix : {".safetensors", ".json", ".hex"}) {
    const std::string out = folder.path(std::string("t") + suffix);
    CHECK_THAT(run({"golden", f16, "--cases", "1", "--format", "csv", "-o", out}).violations,
               test::refused(illegal_value, "-o"));
    CHECK(run({"simulate", golden, "--format", "csv", "-o", out}).code == 2);
    CHECK(run({"ptx", f16, "-o", out}).code == 2);
  }
  for (const char* name : {"t.csv", "t.txt", "t"})
    CHECK(run({"golden", f16, "--cases", "1", "--format", "csv", "-o", folder.path(name)}).code == 0);
}
