#include "bitmma/acts/quantized_file.hpp"

#include "bitmma/core/error.hpp"
#include "bitmma/formats/matrix.hpp"
#include "support/catch.hpp"
#include "support/violation.hpp"

using namespace bitmma;

namespace {

Matrix ramp(Format format, int rows, int cols) {
  std::vector<float> values;
  for (int i = 0; i < rows * cols; ++i) values.push_back(static_cast<float>(i % 37) - 18);
  return from_floats(format, rows, cols, values);
}

TensorFile file_of(const Matrix& x, const std::string& dtype) {
  std::vector<uint8_t> bytes;
  for (const uint32_t word : x.words()) {
    for (int byte = 0; byte < info(x.format()).bits / 8; ++byte)
      bytes.push_back(static_cast<uint8_t>(word >> 8 * byte));
  }
  TensorFile file{.path = "x.safetensors"};
  file.set(Tensor::from_bytes("x", dtype, {x.rows(), x.cols()}, std::move(bytes)));
  return file;
}

}  // namespace

TEST_CASE("quantize_file gives what the recipe gives, and its fields are refused by their names") {
  const Matrix x = ramp(Format::bf16, 3, 32);
  const TensorFile file = file_of(x, "BF16");
  const QuantizeRun run = quantize_file(file, {.recipe = "ocp_mxfp4", .layout = {.packed_codes = true}});
  const QuantizeRecipe& recipe = recipe_named("ocp_mxfp4");
  const TensorFile expected = quantized_file(recipe, x, quantize(recipe, x), {.packed_codes = true});
  CHECK(run.file.find("codes")->bytes == expected.find("codes")->bytes);
  CHECK(run.file.find("scales")->bytes == expected.find("scales")->bytes);
  CHECK(run.warnings == warnings_of(recipe, quantize(recipe, x)));
  CHECK(run.report.find("warnings"));
  const auto field_of = [&](const QuantizeRequest& request) {
    const auto violation = test::violation_of([&] { (void)quantize_file(file, request); });
    return violation ? violation->field : std::string();
  };
  CHECK(field_of({.recipe = "ocp_mxfp5"}) == "recipe");
  CHECK(field_of({.recipe = "ocp_mxfp4", .type = Format::f16}) == "type");
  CHECK(field_of({.recipe = "ocp_mxfp4", .torch_device = "cpu"}) == "torch_device");
  CHECK(field_of({.recipe = "deepgemm_1x128", .torch_device = "tpu"}) == "torch_device");
}

TEST_CASE("a matrix is read by its dtype, raw codes by the type that is named") {
  for (const auto& [format, raw] : {std::pair(Format::f32, "U32"), {Format::f16, "U16"}, {Format::bf16, "U16"}}) {
    const Matrix x = ramp(format, 3, 32);
    const TensorFile typed = file_of(x, std::string(info(format).dtype)), codes = file_of(x, raw);
    CHECK(matrix_of_file(typed) == x);
    CHECK(matrix_of_file(typed, "x") == x);
    CHECK(matrix_of_file(codes, "", format) == x);
    CHECK_THROWS_AS(matrix_of_file(typed, "", format), Error);  // the dtype says it
    CHECK_THROWS_AS(matrix_of_file(codes), Error);
    CHECK_THROWS_AS(matrix_of_file(codes, "", Format::e4m3), Error);
    CHECK_THROWS_AS(matrix_of_file(typed, "y"), Error);
  }
  TensorFile two = file_of(ramp(Format::f32, 1, 32), "F32");
  two.set(Tensor::from_bytes("vector", "F32", {2}, std::vector<uint8_t>(8)));
  two.set(Tensor::from_bytes("bytes", "I8", {2, 2}, std::vector<uint8_t>(4)));
  CHECK_THROWS_AS(matrix_of_file(two), Error);
  CHECK_THROWS_AS(matrix_of_file(two, "vector"), Error);
  CHECK_THROWS_AS(matrix_of_file(two, "bytes"), Error);
  CHECK(matrix_of_file(two, "x").cols() == 32);
}

TEST_CASE("a quantised file has codes, scales and keys, packed and tiled where that is asked for") {
  const Matrix x = ramp(Format::f32, 4, 64);
  for (const QuantizeRecipe& recipe : quantize_recipes()) {
    if (!recipe.inputs.contains(Format::f32) || recipe.block_rows == 16) continue;
    INFO(recipe.name);
    const Matrix wide = ramp(Format::f32, 4, 128), &input = recipe.block_cols == 128 ? wide : x;
    const Quantized made = quantize(recipe, input);
    const TensorFile file = quantized_file(recipe, input, made);
    REQUIRE(file.find("codes"));
    CHECK(file.find("codes")->dtype == info(recipe.element).dtype);
    CHECK(file.find("codes")->shape == std::vector<int64_t>{4, input.cols()});
    CHECK(file.find("scales")->shape == std::vector<int64_t>{made.scales.rows(), made.scales.cols()});
    CHECK((file.find("tensor_scale") != nullptr) == recipe.has_two_levels());
    CHECK(*file.find_metadata("recipe") == recipe.name);
    CHECK(*file.find_metadata("commit") == recipe.commit);
    const std::vector<uint8_t> codes = file.find("codes")->bytes.copy();
    for (size_t i = 0; i < codes.size(); ++i) REQUIRE(codes[i] == made.codes.words()[i]);
    const bool is_e2m1 = recipe.element == Format::e2m1, has_bytes = recipe.scale_format != Format::f32;
    if (is_e2m1) {
      const TensorFile packed = quantized_file(recipe, input, made, {.packed_codes = true});
      CHECK(packed.find("codes")->bytes.copy() == packed_codes(made.codes));
      CHECK(packed.find("codes")->shape == std::vector<int64_t>{4, input.cols() / 2});
    } else {
      CHECK_THROWS_AS(quantized_file(recipe, input, made, {.packed_codes = true}), Error);
    }
    if (has_bytes) {
      const TensorFile tiled = quantized_file(recipe, input, made, {.tiled_scales = true});
      CHECK(tiled.find("scales")->bytes.copy() == tiled_scales(made));
    } else {
      CHECK_THROWS_AS(quantized_file(recipe, input, made, {.tiled_scales = true}), Error);
    }
  }
}

TEST_CASE("two recipes are compared code by code, and recipes to other types are refused") {
  const Matrix x = ramp(Format::bf16, 4, 64);
  const TensorFile file = file_of(x, "BF16");
  const auto number = [](const Report& report, std::string_view key) { return to_json(*report.find(key)); };
  const Report same = compare_recipes(file, {.recipe = "flashinfer_nvfp4"}, "flashinfer_nvfp4");
  CHECK(number(same, "codes_differ") == "0");
  CHECK(number(same, "values_differ") == "0");
  const QuantizeRecipe &first = recipe_named("te_nvfp4"), &second = recipe_named("fouroversix_nvfp4");
  const Report other = compare_recipes(file, {.recipe = "te_nvfp4"}, "fouroversix_nvfp4");
  const Quantized one = quantize(first, x), two = quantize(second, x);
  CHECK(number(other, "codes_differ") == std::to_string(count_differing(one.codes, two.codes)));
  CHECK(number(other, "scales_differ") == std::to_string(count_differing(one.scales, two.scales)));
  CHECK_FALSE(one.codes == two.codes);
  const auto violation =
      test::violation_of([&] { (void)compare_recipes(file, {.recipe = "te_nvfp4"}, "te_mxfp8_e4m3"); });
  REQUIRE(violation);
  CHECK(violation->field == "compare");
}
