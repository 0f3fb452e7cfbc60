#include "bitmma/acts/product_file.hpp"

#include <filesystem>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/instructions.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;
using test::refusal_of;

TEST_CASE("every recorded product of a real library is its plan's, bit for bit", "[rule:products]") {
  int files = 0, outputs = 0, not_flat = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_path("data/products"))) {
    if (entry.path().extension() != ".safetensors") continue;
    const ProductFile product = read_product_file(entry.path().string());
    const std::string* text = product.file.find_metadata("plan");
    INFO(entry.path().filename().string());
    REQUIRE(text);
    REQUIRE(product.d);
    REQUIRE(product.file.find_metadata("kernel"));
    const GemmPlan plan = parse_plan(*text);
    CHECK(gemm(plan, product.inputs) == *product.d);
    // Where the plan is more than a chain, and D is f32, the chain alone gives other bits.
    const Matrix flat = gemm(
        flat_plan(Target::sm_90a, product.inputs.a.format(), product.inputs.b.format(), plan.output), product.inputs);
    const bool differs = flat != *product.d;
    if (plan.tensor_cores() && plan.tensor().promotion && product.inputs.a.cols() > 128) CHECK(differs);
    if (plan.split_k.count > 1 && plan.output == Format::f32) CHECK(differs);
    not_flat += differs;
    outputs += static_cast<int>(product.d->size());
    ++files;
  }
  CHECK(files == 23);
  CHECK(outputs > 2500);
  CHECK(not_flat >= 10);
}

TEST_CASE("a product is written with its D and read back, whole or in part") {
  const test::TemporaryFolder folder;
  const ProductFile product = read_product_file(test::source_path("data/products/nvjet_flat_f16_k1024.safetensors"));
  const GemmPlan plan = flat_plan(Target::sm_90a, Format::f16, Format::f16, Format::f32);
  write_tensor_file(folder.path("whole"), with_d(product, plan, gemm(plan, product.inputs)));
  const ProductFile again = read_product_file(folder.path("whole"));
  CHECK(*again.d == *product.d);
  CHECK(again.inputs == product.inputs);
  CHECK(parse_plan(*again.file.find_metadata("plan")) == plan);
  const ProductFile part = part_of(product, std::vector<int>{2, 5}, std::vector<int>{0, 15, 3});
  CHECK(gemm(plan, part.inputs) == *part.d);
  CHECK(part.inputs.rows == std::vector<int64_t>{product.inputs.rows[2], product.inputs.rows[5]});
  CHECK_THAT(refusal_of([&] { part_of(product, std::vector<int>{8}, std::vector<int>{0}); }),
             refused(illegal_value, "rows"));
}

TEST_CASE("a part that does not say the size of its whole is written and read back") {
  const test::TemporaryFolder folder;
  TensorFile file{.path = {}, .metadata = {}, .tensors = {}};
  file.set(Tensor::from_bytes("a", "F16", {2, 16}, std::vector<uint8_t>(64)));
  file.set(Tensor::from_bytes("b", "F16", {16, 1}, std::vector<uint8_t>(32)));
  file.set(Tensor::from_bytes("rows", "I32", {2}, {5, 0, 0, 0, 7, 0, 0, 0}));
  write_tensor_file(folder.path("x"), file);
  const ProductFile product = read_product_file(folder.path("x"));
  CHECK(product.inputs.whole_m == 0);
  const GemmPlan plan = flat_plan(Target::sm_90a, product.inputs, Format::f32);
  write_tensor_file(folder.path("y"), with_d(product, plan, gemm(plan, product.inputs)));
  CHECK(read_product_file(folder.path("y")).inputs == product.inputs);
}

TEST_CASE("d_type says what D is, also where it asked for another type") {
  const test::TemporaryFolder folder;
  TensorFile file{.path = {}, .metadata = {{"d_type", "e4m3"}}, .tensors = {}};
  file.set(Tensor::from_bytes("a", "I8", {1, 2}, {1, 2}));
  file.set(Tensor::from_bytes("b", "I8", {2, 1}, {3, 4}));
  write_tensor_file(folder.path("x"), file);
  const ProductFile product = read_product_file(folder.path("x"));
  const GemmPlan plan = flat_plan(Target::sm_90a, product.inputs, *product.output());
  write_tensor_file(folder.path("y"), with_d(product, plan, gemm(plan, product.inputs)));
  const ProductFile again = read_product_file(folder.path("y"));
  REQUIRE(again.d);
  CHECK(again.d->format() == Format::s32);
  CHECK(again.d->code(0, 0) == 11);
  CHECK(*again.file.find_metadata("d_type") == "s32");
}

TEST_CASE("bad product files are refused by file and tensor") {
  const test::TemporaryFolder folder;
  const auto tensor = [](std::string name, std::string dtype, std::vector<int64_t> shape) {
    int64_t bytes = dtype_bytes(dtype);
    for (const int64_t extent : shape) bytes *= extent;
    return Tensor::from_bytes(std::move(name), std::move(dtype), std::move(shape),
                              std::vector<uint8_t>(static_cast<size_t>(bytes)));
  };
  const auto refusal = [&](std::vector<Tensor> tensors,
                           std::vector<std::pair<std::string, std::string>> metadata = {}) {
    write_tensor_file(folder.path("x"), {.path = {}, .metadata = std::move(metadata), .tensors = std::move(tensors)});
    return refusal_of([&] { read_product_file(folder.path("x")); });
  };
  const Tensor a = tensor("a", "F16", {2, 16}), b = tensor("b", "F16", {16, 3});
  CHECK(refusal({a, b}).empty());
  CHECK_THAT(refusal({a}), refused(illegal_value, "$FOLDER/x: tensor b"));
  CHECK_THAT(refusal({b}), refused(illegal_value, "$FOLDER/x: tensor a"));
  CHECK_THAT(refusal({a, b, tensor("b_t", "F16", {3, 16})}), refused(illegal_value, "$FOLDER/x: tensors"));
  CHECK_THAT(refusal({a, tensor("b", "F16", {15, 3})}), refused(illegal_value, "$FOLDER/x: b"));
  CHECK_THAT(refusal({a, tensor("b", "F16", {16})}), refused(illegal_value, "$FOLDER/x: b"));
  CHECK_THAT(refusal({tensor("a", "F16", {2, 0}), b}), refused(illegal_value, "$FOLDER/x: a"));
  CHECK_THAT(refusal({tensor("a", "U8", {2, 16}), b}), refused(illegal_value, "$FOLDER/x: a"));
  CHECK_THAT(refusal({tensor("a", "U8", {2, 16}), b}, {{"a_type", "f16"}}), refused(illegal_value, "$FOLDER/x: a"));
  CHECK_THAT(refusal({a, b}, {{"a_type", "half"}}), refused(illegal_value, "$FOLDER/x: a_type"));
  CHECK_THAT(refusal({a, b, tensor("d", "F32", {2, 4})}), refused(illegal_value, "$FOLDER/x: d"));
  CHECK_THAT(refusal({a, b}, {{"target", "sm_1"}}), refused(illegal_value, "$FOLDER/x: target"));
  CHECK_THAT(refusal({a, b}, {{"m", "-3"}}), refused(illegal_value, "$FOLDER/x: m"));
  CHECK_THAT(refusal({a, b, tensor("rows", "F32", {2})}), refused(illegal_value, "$FOLDER/x: rows"));
  CHECK_THAT(refusal({a, b, tensor("rows", "I32", {0})}), refused(illegal_value, "$FOLDER/x: rows"));
  CHECK(refusal({tensor("a", "U8", {2, 16}), tensor("b", "U8", {16, 3})}, {{"a_type", "e2m3"}, {"b_type", "e2m1"}})
            .empty());

  // Operands that a generator makes.
  using Keys = std::vector<std::pair<std::string, std::string>>;
  const Keys keys{{"generator", "philox4x32-10/triangle"},
                  {"seed", "7"},
                  {"m", "4"},
                  {"n", "3"},
                  {"k", "32"},
                  {"a_type", "e4m3"},
                  {"b_type", "e5m2"}};
  const auto with = [&](const std::string& key, const std::string& value) {
    Keys changed = keys;
    for (auto& [name, old] : changed) {
      if (name == key) old = value;
    }
    std::erase_if(changed, [&](const auto& pair) { return pair.first == key && value.empty(); });
    return changed;
  };
  CHECK(refusal({}, keys).empty());
  CHECK_THAT(refusal({}, with("generator", "mersenne")), refused(illegal_value, "$FOLDER/x: generator"));
  CHECK_THAT(refusal({}, with("generator", "")), refused(illegal_value, "$FOLDER/x: tensor a"));
  CHECK_THAT(refusal({}, with("seed", "-1")), refused(illegal_value, "$FOLDER/x: seed"));
  CHECK_THAT(refusal({}, with("seed", "")), refused(illegal_value, "$FOLDER/x: seed"));
  CHECK_THAT(refusal({}, with("k", "")), refused(illegal_value, "$FOLDER/x: k"));
  CHECK_THAT(refusal({}, with("a_type", "")), refused(illegal_value, "$FOLDER/x: a_type"));
  CHECK_THAT(refusal({}, with("a_type", "s32")), refused(illegal_value, "$FOLDER/x: a_type"));
  CHECK_THAT(refusal({}, with("k", "1000000000")), refused(illegal_value, "$FOLDER/x: k"));
  CHECK_THAT(refusal({}, with("m", "1000000000")), refused(illegal_value, "$FOLDER/x: m"));
  CHECK_THAT(refusal({tensor("d", "F32", {5, 3})}, keys), refused(illegal_value, "$FOLDER/x: d"));
}
