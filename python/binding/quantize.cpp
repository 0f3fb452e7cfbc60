// SPDX-License-Identifier: MIT
// Quantisers: the table of recipes, and one call.
#include "bitmma/operators/quantize.hpp"

#include "binding.hpp"
#include "bitmma/acts/describe_quantize.hpp"

namespace bitmma::python {
namespace {

using namespace nb::literals;

nb::tuple quantize_matrix(nb::handle x, std::string_view name, std::optional<std::string_view> device, int threads) {
  const QuantizeRecipe& recipe = recipe_named(name);
  const Matrix matrix = required_matrix_in(x, "x");
  const Quantized q = [&] {
    const TorchDevice torch = torch_device_of(recipe, device);
    const Unlocked unlocked;
    return quantize(recipe, matrix, torch, threads);
  }();
  nb::list warnings;
  for (const Violation& violation : warnings_of(recipe, q)) warnings.append(print(violation));
  const nb::object tensor_scale = q.tensor_scale ? array_of(*q.tensor_scale) : nb::none();
  return nb::make_tuple(array_of(q.codes), array_of(q.scales), tensor_scale, info(recipe.element).name,
                        info(recipe.scale_format).name, warnings, q.block_rows, q.block_cols);
}

}  // namespace

void bind_quantize(nb::module_& module) {
  module.def("quantize", quantize_matrix, "x"_a, "recipe"_a, "device"_a.none(), "threads"_a);
  module.def("quantize_recipes", [] { return from_report(describe(quantize_recipes())); });
}

}  // namespace bitmma::python
