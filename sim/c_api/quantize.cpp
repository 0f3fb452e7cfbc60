// SPDX-License-Identifier: MIT
#include "bitmma/operators/quantize.hpp"

#include <fmt/format.h>

#include <bit>

#include "bitmma/formats/codes.hpp"
#include "c_api.hpp"

using namespace bitmma;
using namespace bitmma::c_api;

extern "C" {

const char* bitmma_recipe_name(size_t index) {
  const char* name = nullptr;
  static_cast<void>(guarded([&] {
    if (index < quantize_recipes().size()) name = quantize_recipes()[index].name.data();  // a literal
  }));
  return name;
}

bitmma_status bitmma_quantize_get_info(const char* recipe, int64_t rows, int64_t cols, bitmma_quantized_info* info) {
  return guarded([&] {
    bitmma_quantized_info& to = pointee(info, "info");
    const QuantizeRecipe& quantize_recipe = recipe_named(text_given(recipe, "recipe"));
    const QuantizeBlocks blocks = blocks_of(quantize_recipe, extent_of(rows, "rows"), extent_of(cols, "cols"));
    to = {.element = c_format(quantize_recipe.element),
          .scale = c_format(quantize_recipe.scale_format),
          .block_rows = blocks.block_rows,
          .block_cols = blocks.block_cols,
          .scale_rows = blocks.rows,
          .scale_cols = blocks.cols,
          .has_tensor_scale = quantize_recipe.has_two_levels(),
          .depends_on_torch_device = depends_on_device(quantize_recipe)};
  });
}

bitmma_status bitmma_quantize(const char* recipe, const bitmma_matrix* x, const char* torch_device, int threads,
                              void* codes, void* scales, float* tensor_scale) {
  return guarded([&] {
    const QuantizeRecipe& quantize_recipe = recipe_named(text_given(recipe, "recipe"));
    const Matrix from = matrix_given(pointee(x, "x"), "x");
    if (!codes) refuse_null("codes");
    if (!scales) refuse_null("scales");
    if (quantize_recipe.has_two_levels() && !tensor_scale) refuse_null("tensor_scale");
    if (!quantize_recipe.has_two_levels() && tensor_scale) {
      throw Error({.code = ViolationCode::no_effect,
                   .field = "tensor_scale",
                   .seen = "given",
                   .expected = "NULL",
                   .fix = fmt::format("{} has no scale of the whole matrix", quantize_recipe.name)});
    }
    const TorchDevice device =
        torch_device_of(quantize_recipe, torch_device ? std::optional<std::string_view>(torch_device) : std::nullopt);
    const Quantized result = quantize(quantize_recipe, from, device, threads_of(threads));
    write_codes(result.codes, codes);
    write_codes(result.scales, scales);
    if (tensor_scale) *tensor_scale = std::bit_cast<float>((*result.tensor_scale)(0, 0));
  });
}

}  // extern "C"
