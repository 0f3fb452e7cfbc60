// SPDX-License-Identifier: MIT
// Quantisers: the table of recipes, and one call.
#include "bitmma/operators/quantize.hpp"

#include "binding.hpp"
#include "bitmma/core/text.hpp"

namespace bitmma::python {
namespace {

using namespace nb::literals;

nb::object array_of(const Matrix& matrix) {
  constexpr const char* dtypes[] = {"", "uint8", "uint16", "", "uint32"};
  nb::object array = numpy_array({matrix.rows(), matrix.cols()}, dtypes[code_bytes(matrix.format())]);
  write_codes(matrix, Buffer(array, "codes", true).data());
  return array;
}

TorchDevice parse_device(std::string_view name) {
  if (name == "cuda") return TorchDevice::cuda;
  if (name == "cpu") return TorchDevice::cpu;
  throw Error({.code = ViolationCode::unknown_name,
               .field = "torch_device",
               .seen = shortened(printable(name)),
               .legal = {"cuda", "cpu"}});
}

nb::tuple quantize_matrix(nb::handle x, std::string_view name, std::string_view device, int threads) {
  const QuantizeRecipe& recipe = recipe_named(name);
  const Matrix matrix = required_matrix_in(x, "x");
  const Quantized q = [&] {
    const TorchDevice torch = parse_device(device);
    const nb::gil_scoped_release release;
    return quantize(recipe, matrix, torch, threads);
  }();
  const nb::object tensor_scale = q.tensor_scale ? array_of(*q.tensor_scale) : nb::none();
  return nb::make_tuple(array_of(q.codes), array_of(q.scales), tensor_scale, info(recipe.element).name,
                        info(recipe.scale_format).name, q.block_rows, q.block_cols);
}

nb::dict described(const QuantizeRecipe& recipe) {
  nb::list inputs;
  for (const FormatInfo& format : formats) {
    if (recipe.inputs.contains(format.id)) inputs.append(format.name);
  }
  nb::dict row;
  row["name"] = recipe.name;
  row["what"] = recipe.what;
  row["project"] = recipe.project;
  row["version"] = recipe.version;
  row["commit"] = recipe.commit;
  row["path"] = recipe.path;
  row["licence"] = recipe.licence;
  row["evidence"] = print(recipe.evidence);
  row["inputs"] = inputs;
  row["block"] = nb::make_tuple(recipe.block_rows, recipe.block_cols);
  row["element"] = info(recipe.element).name;
  row["scale"] = info(recipe.scale_format).name;
  row["two_levels"] = recipe.has_two_levels();
  row["torch"] = recipe.is_torch;
  row["steps"] = print(recipe);
  return row;
}

}  // namespace

void bind_quantize(nb::module_& module) {
  module.def("quantize", quantize_matrix, "x"_a, "recipe"_a, "device"_a, "threads"_a);
  module.def("quantize_recipes", [] {
    nb::list rows;
    for (const QuantizeRecipe& recipe : quantize_recipes()) rows.append(described(recipe));
    return rows;
  });
}

}  // namespace bitmma::python
