#include <filesystem>

#include "bitmma/acts/quantized_file.hpp"
#include "run.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;
using test::Outcome;

TEST_CASE("quantize writes what the library makes, and says what it did") {
  const test::TemporaryFolder folder;
  const std::string product = test::source_path("data/products/nvjet_flat_f16_k1024.safetensors"),
                    out = folder.path("q.safetensors");
  const Matrix a = matrix_of_file(read_tensor_file(product), "a");
  for (const char* name : {"te_nvfp4", "ocp_mxfp8_e4m3", "deepgemm_1x128", "flashinfer_nvfp4"}) {
    const QuantizeRecipe& recipe = recipe_named(name);
    const Outcome done = test::run({"quantize", product, "--tensor", "a", "--recipe", name, "-o", out});
    INFO(done.out << done.err);
    if (!recipe.inputs.contains(a.format())) {
      CHECK(done.code == 2);
      continue;
    }
    CHECK(done.code == 0);
    CHECK(done.out.starts_with(std::string(name) + ": "));
    const TensorFile written = read_tensor_file(out), expected = quantized_file(recipe, a, quantize(recipe, a));
    for (const Tensor& tensor : expected.tensors) {
      REQUIRE(written.find(tensor.name));
      CHECK(written.find(tensor.name)->bytes == tensor.bytes);
      CHECK(written.find(tensor.name)->dtype == tensor.dtype);
    }
    CHECK(*written.find_metadata("recipe") == name);
  }
  const Outcome json = test::run({"quantize", product, "--tensor", "a", "--recipe", "deepgemm_1x128", "--torch-device",
                                  "cpu", "-o", out, "--json"});
  CHECK(json.code == 0);
  CHECK(json.out.find("\"recipe\": \"deepgemm_1x128\"") != std::string::npos);
  const QuantizeRecipe& recipe = recipe_named("deepgemm_1x128");
  CHECK(read_tensor_file(out).find("scales")->bytes ==
        quantized_file(recipe, a, quantize(recipe, a, TorchDevice::cpu)).find("scales")->bytes);
}

TEST_CASE("quantize refuses what it cannot do, and writes nothing") {
  const test::TemporaryFolder folder;
  const std::string product = test::source_path("data/products/nvjet_flat_f16_k1024.safetensors"),
                    out = folder.path("q.safetensors");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--recipe", "te_nvfp4"},
        {"--tensor", "a", "--recipe", "nvfp4"},
        {"--tensor", "e", "--recipe", "ocp_mxfp4"},
        {"--tensor", "a", "--recipe", "ocp_mxfp4", "--torch-device", "cpu"},
        {"--tensor", "a", "--recipe", "deepgemm_1x128", "--torch-device", "tpu"},
        {"--tensor", "a", "--recipe", "ocp_mxfp4", "--type", "f16"},
        {"--tensor", "a", "--recipe", "ocp_mxfp8_e4m3", "--packed"},
        {"--tensor", "a", "--recipe", "deepgemm_1x128", "--tiled"}}) {
    std::vector<std::string> all{"quantize", product, "-o", out};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome done = test::run(all);
    INFO(done.out << done.err);
    CHECK(done.code == 2);
    CHECK(done.out.empty());
    CHECK_FALSE(std::filesystem::exists(out));
  }
}

TEST_CASE("list recipes names every recipe with its source, and filters by words") {
  Outcome done = test::run({"list", "recipes"});
  CHECK(done.code == 0);
  for (const QuantizeRecipe& recipe : quantize_recipes()) CHECK(done.out.find(recipe.name) != std::string::npos);
  CHECK(done.out.find("document read; compared with microxcaling's code") != std::string::npos);
  done = test::run({"list", "recipes", "TransformerEngine", "e2m1", "--json"});
  CHECK(done.out.find("\"te_nvfp4\"") != std::string::npos);
  CHECK(done.out.find("\"steps\"") != std::string::npos);
  CHECK(done.out.find("te_mxfp8") == std::string::npos);
  CHECK(test::run({"list", "recipes", "nothing"}).code == 2);
  CHECK(test::run({"list", "recipes", "--target", "sm_90a"}).code == 2);
}
