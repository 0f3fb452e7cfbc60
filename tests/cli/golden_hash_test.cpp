// The promise of `golden`: the same seed makes the same cases, whatever compiler, processor or version of this program
// makes them. golden_hashes.csv holds hashes of files of every family and distribution, of two cases of seed 7, as the
// first version wrote them on x86-64.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "bitmma/files/tensor_file.hpp"
#include "cli/run.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

/// FNV-1a over the tensors by name: name, dtype, shape and bytes. Metadata, which name the program's version, do not
/// count.
uint64_t hash_of(const TensorFile& file) {
  uint64_t hash = 0xCBF29CE484222325;
  const auto add = [&](const auto& bytes) {
    for (const auto byte : bytes) hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001B3;
  };
  std::vector<Tensor> tensors = file.tensors;
  std::ranges::sort(tensors, {}, &Tensor::name);
  for (const Tensor& tensor : tensors) {
    add(fmt::format("{} {} {} ", tensor.name, tensor.dtype, print_shape(tensor.shape)));
    add(tensor.bytes.view());
  }
  return hash;
}

}  // namespace

TEST_CASE("golden files of every family and distribution have the tensors that they always had", "[rule:seed]") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("golden.safetensors");
  const int64_t rows =
      test::for_each_csv_row(test::source_path("tests/stimulus/golden_hashes.csv"), [&](const test::CsvRow& row) {
        const std::string distribution =
            row.at("distribution").empty() ? "" : " --distribution " + row.at("distribution");
        const std::string line =
            fmt::format("golden {} --cases 2 --seed 7{} -o {}", row.at("request"), distribution, path);
        INFO(line);
        const test::Outcome outcome = test::run_line(line);
        INFO(outcome.err);
        REQUIRE(outcome.code == 0);
        CHECK(fmt::format("{:#018x}", hash_of(read_tensor_file(path))) == row.at("hash"));
      });
  CHECK(rows == 131);
}
