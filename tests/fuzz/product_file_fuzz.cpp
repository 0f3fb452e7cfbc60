// Files of products with any tensors and keys: computed by flat and catalogue plans, searched, written and read again.
#include "bitmma/acts/product_file.hpp"
#include "bitmma/gemm/accuracy.hpp"
#include "bitmma/gemm/catalogue.hpp"
#include "bitmma/gemm/find.hpp"
#include "bitmma/stimulus/generated.hpp"
#include "fuzz.hpp"

namespace bitmma::fuzz {
namespace {

constexpr std::string_view dtypes[] = {"F16", "BF16", "F32", "F64", "F8_E4M3", "F8_E5M2",
                                       "I8",  "I32",  "U8",  "U16", "I64"};
constexpr std::string_view names[] = {"a",       "b",   "b_t", "c",    "d",    "bias", "scale_a",
                                      "scale_b", "sfa", "sfb", "rows", "cols", "other"};
constexpr std::string_view keys[] = {"a_type", "b_type", "d_type", "sf_type",   "m",      "n",      "k",      "seed",
                                     "batch",  "alpha",  "beta",   "generator", "target", "kernel", "split_k"};
constexpr std::string_view words_of_keys[] = {
    "e4m3",    "e2m1",  "s8", "tf32", "bf16", "ue8m0", "ue4m3", "philox4x32-10/triangle",
    "sm_100a", "sm_80", "1",  "0.5",  "4",    "64"};

Tensor tensor(Bytes& in, std::string_view name, std::string_view dtype, std::vector<int64_t> shape) {
  std::size_t size = static_cast<std::size_t>(dtype_bytes(dtype));
  for (const int64_t extent : shape) size *= static_cast<std::size_t>(extent);
  return Tensor::from_bytes(std::string(name), std::string(dtype), std::move(shape), bytes(in, size));
}

TensorFile any_file(Bytes& in) {
  const int64_t m = between(in, 1, 6), n = between(in, 1, 6), k = between(in, 1, in.ConsumeBool() ? 64 : 400);
  const std::string_view type = pick(in, dtypes);
  TensorFile file{.path = "product"};
  if (!one_in(in, 6)) file.set(tensor(in, "a", type, {m, k}));
  if (in.ConsumeBool()) file.set(tensor(in, "b", type, {k, n}));
  else file.set(tensor(in, "b_t", type, {n, k}));
  if (in.ConsumeBool()) file.set(tensor(in, "d", in.ConsumeBool() ? "F32" : pick(in, dtypes), {m, n}));
  if (one_in(in, 4)) file.set(tensor(in, "c", "F32", {m, n}));
  if (one_in(in, 4)) file.set(tensor(in, "bias", "F32", {n}));
  if (one_in(in, 4)) file.set(tensor(in, "scale_a", "F32", {m, (k + 127) / 128}));
  if (one_in(in, 4)) file.set(tensor(in, "scale_b", "F32", {(k + 127) / 128, n}));
  if (one_in(in, 6)) {
    file.erase(in.ConsumeBool() ? "a" : "b");
    file.set_metadata("generator", std::string(generator_name));
    for (const std::string_view key : {"m", "n", "k", "seed"})
      file.set_metadata(key, std::to_string(between(in, 1, 200)));
    for (const std::string_view key : {"a_type", "b_type"})
      file.set_metadata(key, std::string(info(any_format(in)).name));
  }
  for (int more = between(in, 0, 4); more > 0; --more) {
    if (in.ConsumeBool()) {
      std::vector<int64_t> shape;
      for (int rank = between(in, 0, 3); rank > 0; --rank) shape.push_back(between(in, 0, 12));
      file.set(tensor(in, pick(in, names), pick(in, dtypes), shape));
    } else {
      const std::string value = one_in(in, 3)   ? std::to_string(number<int64_t>(in))
                                : one_in(in, 3) ? in.ConsumeRandomLengthString(20)
                                                : std::string(pick(in, words_of_keys));
      file.set_metadata(pick(in, keys), value);
    }
  }
  return file;
}

}  // namespace
}  // namespace bitmma::fuzz

void fuzz_one(bitmma::fuzz::Bytes& in) {
  using namespace bitmma;
  using namespace bitmma::fuzz;
  const std::string original = path("product"), copy = path("product_with_d");
  const bool searched = one_in(in, 256);
  const int row = between(in, -1, 6), col = between(in, -1, 6);
  const CataloguePlan& named = pick(in, catalogue());
  const KernelPattern& pattern = pick(in, kernel_patterns());
  const Target target = one_in(in, 4) ? any_target(in) : Target::sm_90a;
  const CatalogueOptions options{
      .split_count = between(in, 0, 5), .beta = static_cast<float>(between(in, 0, 1)), .relu = in.ConsumeBool()};
  const std::string suffix = in.ConsumeRandomLengthString(30);
  const TensorFile file = any_file(in);
  if (!accepts([&] { write_tensor_file(original, file); })) return;
  ProductFile product;
  if (!accepts([&] { product = read_product_file(original); })) return;
  const GemmInputs& inputs = product.inputs;
  require(inputs.a.cols() == inputs.b.rows(), "A and B of a product meet");
  if (inputs.a.size() > 1u << 16 || inputs.b.size() > 1u << 16) return;  // generated ones may be large
  const Format output = product.output().value_or(Format::f32);
  accepts([&] { (void)part_of(product, std::array{row}, std::array{col}); });
  GemmPlan plan;
  if (accepts([&] { plan = flat_plan(product.target.value_or(target), inputs, output); })) {
    Matrix d;
    if (accepts([&] { d = gemm(plan, inputs); })) {
      write_tensor_file(copy, with_d(product, plan, d));
      const ProductFile again = read_product_file(copy);
      require(again.d && *again.d == d && again.inputs == inputs, "a product survives writing and reading");
      accepts([&] { (void)accuracy_of(inputs, d); });
    }
  }
  accepts([&] {
    const std::vector<GemmPlan> plans = plans_named(named.name, inputs, output, options);
    if (!plans.empty()) (void)gemm(plans.front(), inputs);
    if (product.d) (void)try_plans(std::span(plans).first(std::min<std::size_t>(plans.size(), 2)), inputs, *product.d);
  });
  if (row == 0) accepts([&] { (void)plans_of_kernel(pattern.pattern + suffix, inputs, output, options); });
  if (searched && product.d && inputs.a.cols() <= 64) {
    accepts([&] { (void)candidate_plans(inputs, *product.d, {.target = target}, SearchStage::usual); });
  }
}
