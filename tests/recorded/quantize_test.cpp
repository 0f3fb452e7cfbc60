#include "bitmma/operators/quantize.hpp"

#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "bitmma/core/error.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/files/tensor_file.hpp"
#include "bitmma/formats/ieee.hpp"
#include "bitmma/formats/round.hpp"
#include "bitmma/layout/scale_image.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

/// A tensor of data/quantize as a matrix of codes.
Matrix matrix_of(Format format, const Tensor& tensor) {
  const auto element_bytes = static_cast<size_t>(dtype_bytes(tensor.dtype));
  const std::vector<uint8_t> bytes = tensor.bytes.copy();
  Matrix matrix(format, static_cast<int>(tensor.shape.at(0)), static_cast<int>(tensor.shape.at(1)));
  for (size_t i = 0; i < matrix.size(); ++i) {
    uint32_t word = 0;
    for (size_t byte = 0; byte < element_bytes; ++byte) word |= uint32_t{bytes[i * element_bytes + byte]} << 8 * byte;
    matrix.words()[i] = word;
  }
  return matrix;
}

struct Recorded {
  std::string what, recipe, type, seed;
};

Recorded parts_of(const std::string& name) {
  std::vector<std::string> parts(1);
  for (const char c : name) {
    if (c == '.') parts.emplace_back();
    else parts.back() += c;
  }
  REQUIRE(parts.size() == 4);
  return {parts[0], parts[1], parts[2], parts[3]};
}

const TensorFile& recorded_file(TorchDevice device = TorchDevice::cpu) {
  static const TensorFile of_cpu = read_tensor_file(test::oracle_path("quantize.safetensors")),
                          of_h100 = read_tensor_file(test::oracle_path("quantize_h100.safetensors"));
  return device == TorchDevice::cpu ? of_cpu : of_h100;
}

Matrix input_of(const Recorded& recorded, TorchDevice device = TorchDevice::cpu) {
  const Tensor* tensor = recorded_file(device).find("x." + recorded.type + "." + recorded.seed);
  REQUIRE(tensor != nullptr);
  return matrix_of(*format_named(recorded.type), *tensor);
}

/// The reference of Transformer Engine loses the sign of an element that is -0 after scaling, cvt does not.
void give_back_minus_zeros(const Matrix& ours, Matrix& recorded_codes) {
  for (size_t i = 0; i < ours.size(); ++i) {
    if (ours.words()[i] == 8 && recorded_codes.words()[i] == 0) recorded_codes.words()[i] = 8;
  }
}

/// The scales as PyTorch keeps them: those that DeepGEMM rounds to powers of two are f32.
Matrix scales_as_recorded(const Matrix& scales, Format recorded) {
  Matrix words(recorded, scales.rows(), scales.cols());
  for (size_t i = 0; i < scales.size(); ++i) {
    words.words()[i] = static_cast<uint32_t>(
        convert(scales.format(), scales.words()[i], recorded, Rounding::nearest_even, Overflow::infinity));
  }
  return words;
}

/// code * scale, exact in f32.
Matrix values_of(const Quantized& q) {
  Matrix values(Format::f32, q.codes.rows(), q.codes.cols());
  const auto f32 = [](Format from, uint32_t code) {
    return convert(from, code, Format::f32, Rounding::nearest_even, Overflow::infinity);
  };
  for (int row = 0; row < values.rows(); ++row) {
    for (int col = 0; col < values.cols(); ++col) {
      const uint32_t scale = q.scales(row / q.block_rows, col / q.block_cols);
      values(row, col) = static_cast<uint32_t>(
          ieee_mul(Format::f32, f32(q.codes.format(), q.codes(row, col)), f32(q.scales.format(), scale)));
    }
  }
  return values;
}

Matrix random_f32(int rows, int cols, uint64_t seed) {
  RandomStream random(seed, 0);
  Matrix x(Format::f32, rows, cols);
  for (uint32_t& word : x.words())
    word = static_cast<uint32_t>(random.word() & 0x807FFFFF) | static_cast<uint32_t>(110 + random.word() % 24) << 23;
  return x;
}

Matrix row_of(std::initializer_list<float> values, int cols) {
  std::vector<float> row(values);
  row.resize(static_cast<size_t>(cols));
  return from_floats(Format::f32, 1, cols, row);
}

}  // namespace

TEST_CASE("quantisers give the bytes that the projects' own code gives, on a CPU and on an H100", "[rule:quantize]") {
  std::map<TorchDevice, std::set<std::string_view>> compared;
  int64_t codes = 0, values = 0;
  for (const TorchDevice device : {TorchDevice::cpu, TorchDevice::cuda}) {
    for (const Tensor& tensor : recorded_file(device).tensors) {
      if (tensor.name.starts_with("x.")) continue;
      const Recorded recorded = parts_of(tensor.name);
      CAPTURE(tensor.name);
      const QuantizeRecipe& recipe = recipe_named(recorded.recipe);
      const Quantized q = quantize(recipe, input_of(recorded, device), device);
      compared[device].insert(recipe.name);
      if (recorded.what == "codes") {
        Matrix recorded_codes = matrix_of(recipe.element, tensor);
        if (recorded.recipe.starts_with("te_nvfp4")) give_back_minus_zeros(q.codes, recorded_codes);
        CHECK(count_differing(q.codes, recorded_codes) == 0);
        codes += static_cast<int64_t>(q.codes.size());
      } else if (recorded.what == "scales") {
        const Format format = tensor.dtype == "U32" ? Format::f32 : recipe.scale_format;
        CHECK(count_differing(scales_as_recorded(q.scales, format), matrix_of(format, tensor)) == 0);
      } else if (recorded.what == "tensor_scale") {
        CHECK(q.tensor_scale == matrix_of(Format::f32, tensor));
      } else {
        REQUIRE(recorded.what == "values");
        // microxcaling gives +0 for zeros of both signs.
        const Matrix recorded_values = matrix_of(Format::f32, tensor), ours = values_of(q);
        for (size_t i = 0; i < recorded_values.size(); ++i) {
          const uint32_t a = recorded_values.words()[i], b = ours.words()[i];
          if (a != b && ((a | b) & 0x7FFFFFFF) != 0) FAIL("element " << i << ": " << a << ", computed " << b);
          ++values;
        }
      }
    }
  }
  CHECK(codes == 655360 + 729088);
  CHECK(values == 40960);
  // Those of the OCP document, which has no code, are compared below with torchao's.
  for (const QuantizeRecipe& recipe : quantize_recipes()) {
    CAPTURE(recipe.name);
    const bool on_gpu = compared[TorchDevice::cuda].contains(recipe.name);
    CHECK(on_gpu == (recipe.evidence == QuantizeEvidence::compared));
    // tests/python/test_quantize.py compares the rows of fouroversix.
    const bool on_cpu = compared[TorchDevice::cpu].contains(recipe.name) || recipe.project == "mit-han-lab/fouroversix";
    CHECK((!on_gpu && on_cpu) == (recipe.evidence == QuantizeEvidence::compared_on_cpu));
    CHECK(recipe.name.starts_with("ocp_") == (recipe.evidence == QuantizeEvidence::document_read));
  }
}

TEST_CASE("the floor rule of OCP is torchao's but for the smallest scale, where torchao divides by 2^-126") {
  int64_t other = 0;
  for (const char* format : {"mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4"}) {
    const Matrix x = input_of({"x", "", "f32", "3"});
    const Quantized ocp = quantize(recipe_named(std::string("ocp_") + format), x),
                    torchao = quantize(recipe_named(std::string("torchao_") + format), x);
    CHECK(ocp.scales == torchao.scales);
    for (int row = 0; row < x.rows(); ++row) {
      for (int col = 0; col < x.cols(); ++col) {
        const bool smallest = ocp.scales(row, col / 32) == 0;
        if (ocp.codes(row, col) != torchao.codes(row, col)) CHECK(smallest);
        other += ocp.codes(row, col) != torchao.codes(row, col);
      }
    }
  }
  CHECK(other > 0);
}

TEST_CASE("an MX scale is the power of two that its document says") {
  // 2^floor(log2 amax) / 2^8 of e4m3; the smallest power of two that is not below amax / 448.
  for (const float amax : {1.0F, 1.5F, 255.99998F, 256.0F, 447.99997F, 448.0F, 448.00003F, 3e-20F, 1e20F}) {
    const Matrix x = row_of({amax}, 32);
    const int floor = std::ilogb(amax) - 8;
    int ceil = -127;
    while (std::ldexp(448.0, ceil) < double{amax}) ++ceil;
    CAPTURE(amax);
    CHECK(quantize(recipe_named("ocp_mxfp8_e4m3"), x).scales(0, 0) == static_cast<uint32_t>(floor + 127));
    CHECK(quantize(recipe_named("te_mxfp8_e4m3"), x).scales(0, 0) == static_cast<uint32_t>(ceil + 127));
  }
}

TEST_CASE("recipes differ where their arithmetic differs") {
  SECTION("a zero row: 0 / 0 in torchao, an epsilon elsewhere") {
    const Matrix zeros(Format::bf16, 1, 128);
    CHECK(quantize(recipe_named("torchao_fp8_row"), zeros).codes(0, 0) == 0x7F);
    CHECK(quantize(recipe_named("torchao_fp8_row"), zeros, TorchDevice::cpu).codes(0, 0) == 0xFF);
    CHECK(quantize(recipe_named("vllm_fp8_row"), zeros).codes(0, 0) == 0);
    CHECK(quantize(recipe_named("deepgemm_1x128"), zeros).scales(0, 0) ==
          std::bit_cast<uint32_t>(1e-4F * (1 / 448.0F)));
    CHECK_THROWS_AS(quantize(recipe_named("torchao_nvfp4"), zeros), Error);
    CHECK(quantize(recipe_named("te_nvfp4"), zeros).codes(0, 0) == 0);
  }
  SECTION("division by a number: a product with its reciprocal on CUDA") {
    const Matrix x = random_f32(512, 128, 1);
    const auto scales = [&](std::string_view recipe, TorchDevice device) {
      return quantize(recipe_named(recipe), x, device).scales;
    };
    CHECK(count_differing(scales("deepgemm_1x128", TorchDevice::cpu), scales("deepgemm_1x128", TorchDevice::cuda)) > 0);
    CHECK(scales("te_fp8_1x128", TorchDevice::cpu) == scales("te_fp8_1x128", TorchDevice::cuda));
  }
  SECTION("FlashInfer's block far below the tensor's maximum: its scale is 0 and its elements become the largest") {
    Matrix x(Format::bf16, 1, 32);
    x(0, 0) = 0x4780;   // 65536
    x(0, 16) = 0x3C00;  // 2^-7
    const Quantized q = quantize(recipe_named("flashinfer_nvfp4"), x);
    CHECK(q.scales(0, 1) == 0);
    CHECK(q.codes(0, 16) == 7);
    CHECK(quantize(recipe_named("te_nvfp4"), x).scales(0, 1) == 0);
  }
  SECTION("microxcaling's logarithm is rounded to f32: just below a power of two it is that power") {
    const Matrix x = row_of({std::bit_cast<float>(0x4B7FFFFF)}, 32);  // 2^24 - 1
    CHECK(quantize(recipe_named("ocp_mxfp8_e4m3"), x).scales(0, 0) == 127 + 23 - 8);
    CHECK(quantize(recipe_named("microxcaling_mxfp8_e4m3"), x).scales(0, 0) == 127 + 24 - 8);
  }
}

TEST_CASE("quantize gives the same for any number of threads, and tiles are where cuBLAS reads them") {
  const Matrix x = random_f32(200, 256, 2);
  for (const QuantizeRecipe& recipe : quantize_recipes()) {
    const Matrix input = from_floats(recipe.inputs.contains(Format::f32) ? Format::f32 : Format::bf16, 192, 256,
                                     to_floats(block_of(x, 0, 192, 0, 256)));
    CAPTURE(recipe.name);
    const Quantized quantized = quantize(recipe, input);
    CHECK(quantize(recipe, input, TorchDevice::cuda, 3) == quantized);
    if (recipe.scale_format == Format::f32) {
      CHECK_THROWS_AS(tiled_scales(quantized), Error);
      continue;
    }
    const std::vector<uint8_t> tiles = tiled_scales(quantized);
    const ScaleImage image{.rows = 192, .blocks = quantized.scales.cols()};
    REQUIRE(static_cast<int64_t>(tiles.size()) == image.bytes());
    for (int row = 0; row < 192; ++row) {
      for (int block = 0; block < quantized.scales.cols(); ++block) {
        REQUIRE(tiles[static_cast<size_t>(image.offset_of(row, block))] ==
                quantized.scales(row / quantized.block_rows, block));
      }
    }
  }
}

TEST_CASE("two codes of e2m1 share a byte, the first in its lower half") {
  const Quantized q = quantize(recipe_named("ocp_mxfp4"), row_of({6, -1, 0.5F, 3}, 32));
  const std::vector<uint8_t> packed = packed_codes(q.codes);
  REQUIRE(packed.size() == 16);
  CHECK(packed[0] == 0xA7);
  CHECK(packed[1] == 0x51);
  CHECK_THROWS_AS(packed_codes(Matrix(Format::e4m3, 1, 2)), Error);
  CHECK_THROWS_AS(packed_codes(Matrix(Format::e2m1, 2, 3)), Error);
}

TEST_CASE("NaN that a project makes of a block of zeros is warned of") {
  Matrix x(Format::f32, 2, 128);
  x(1, 0) = 0x3F800000;
  const QuantizeRecipe& row = recipe_named("torchao_fp8_row");
  const std::vector<Violation> warnings = warnings_of(row, quantize(row, x));
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].severity == Severity::warning);
  CHECK(warnings[0].seen == "128 of 256 are NaN");
  for (const char* name : {"vllm_fp8_row", "te_fp8_1x128", "deepgemm_1x128", "ocp_mxfp8_e4m3", "te_nvfp4"}) {
    const QuantizeRecipe& recipe = recipe_named(name);
    CHECK(warnings_of(recipe, quantize(recipe, x)).empty());
  }
}

TEST_CASE("the device of PyTorch is refused where a recipe gives the same on every device") {
  const Matrix x = random_f32(128, 128, 4);
  for (const QuantizeRecipe& recipe : quantize_recipes()) {
    CAPTURE(recipe.name);
    CHECK(torch_device_of(recipe, std::nullopt) == TorchDevice::cuda);
    CHECK_THROWS_AS(torch_device_of(recipe, "tpu"), Error);
    if (depends_on_device(recipe)) {
      CHECK(recipe.is_torch);
      CHECK(torch_device_of(recipe, "cpu") == TorchDevice::cpu);
      continue;
    }
    CHECK_THROWS_AS(torch_device_of(recipe, "cuda"), Error);
    if (recipe.inputs.contains(Format::f32))
      CHECK(quantize(recipe, x, TorchDevice::cpu) == quantize(recipe, x, TorchDevice::cuda));
  }
  CHECK(depends_on_device(recipe_named("deepgemm_1x128")));
  CHECK_FALSE(depends_on_device(recipe_named("te_nvfp4")));
}

TEST_CASE("quantize refuses what a recipe does not take") {
  const auto code_of = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.violations().at(0);
    }
    return Violation{};
  };
  const QuantizeRecipe& nvfp4 = recipe_named("torchao_nvfp4");
  CHECK(code_of([&] { quantize(nvfp4, Matrix(Format::f16, 1, 16)); }).field == "type of x");
  CHECK(code_of([&] { quantize(nvfp4, Matrix(Format::e4m3, 1, 16)); }).seen == "e4m3");
  CHECK(code_of([&] { quantize(nvfp4, Matrix(Format::f32, 1, 24)); }).field == "columns of x");
  CHECK(code_of([&] { quantize(nvfp4, Matrix(Format::f32, 0, 16)); }).field == "rows of x");
  CHECK(code_of([&] { quantize(nvfp4, Matrix(Format::f32, 4, 0)); }).field == "columns of x");
  CHECK(code_of([&] { quantize(recipe_named("te_nvfp4_16x16"), Matrix(Format::f32, 24, 16)); }).seen == "24");
  CHECK(code_of([&] { quantize(nvfp4, row_of({1, INFINITY}, 16)); }).field == "x(0, 1)");
  CHECK(code_of([&] { quantize(nvfp4, row_of({NAN}, 16)); }).field == "x(0, 0)");
  const Violation unknown = code_of([] { recipe_named("nvfp4"); });
  CHECK(unknown.code == ViolationCode::unknown_name);
  CHECK(unknown.legal == std::vector<std::string>{"te_nvfp4", "te_nvfp4_16x16", "flashinfer_nvfp4", "torchao_nvfp4",
                                                  "torchao_nvfp4_one_level", "modelopt_nvfp4", "vllm_nvfp4",
                                                  "fouroversix_nvfp4", "fouroversix_nvfp4_mae",
                                                  "fouroversix_nvfp4_abs_max", "cudnn_nvfp4"});
}

TEST_CASE("recipes are complete, and print their steps") {
  std::set<std::string_view> names;
  for (const QuantizeRecipe& recipe : quantize_recipes()) {
    CAPTURE(recipe.name);
    CHECK(names.insert(recipe.name).second);
    CHECK(!recipe.what.empty());
    CHECK(!recipe.project.empty());
    CHECK(!recipe.version.empty());
    CHECK(!recipe.path.empty());
    CHECK((recipe.commit.empty() == (recipe.name.starts_with("ocp_") || recipe.name.starts_with("cudnn_"))));
    CHECK(print(recipe).find("code = ") != std::string::npos);
  }
  CHECK(print(recipe_named("te_mxfp8_e5m2")) ==
        "scale = mul(amax, 1.7438617e-05)\n"
        "stored = ue8m0(scale)  2^ceil(log2 scale)\n"
        "factor = div(1, stored)\n"
        "code = e5m2(mul(x, factor))  nearest even, saturating\n");
}
