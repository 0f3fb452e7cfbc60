// SPDX-License-Identifier: MIT
#include "bitmma/acts/describe_quantize.hpp"

#include <fmt/format.h>

namespace bitmma {
namespace {

std::string print_extent(int extent) { return extent == 0 ? "all" : std::to_string(extent); }

std::string print_block(const QuantizeRecipe& recipe) {
  return fmt::format("{} x {}", print_extent(recipe.block_rows), print_extent(recipe.block_cols));
}

}  // namespace

Report describe(const QuantizeRecipe& recipe) {
  Report inputs = Report::list(), block = Report::list();
  for (const FormatInfo& format : formats) {
    if (recipe.inputs.contains(format.id)) inputs.append(format.name);
  }
  block.append(recipe.block_rows).append(recipe.block_cols);
  return {{"name", recipe.name},
          {"what", recipe.what},
          {"project", recipe.project},
          {"version", recipe.version},
          {"commit", recipe.commit},
          {"path", recipe.path},
          {"licence", recipe.licence},
          {"evidence", print(recipe.evidence)},
          {"inputs", std::move(inputs)},
          {"block", std::move(block)},
          {"element", info(recipe.element).name},
          {"scale", info(recipe.scale_format).name},
          {"two_levels", recipe.has_two_levels()},
          {"torch", recipe.is_torch},
          {"torch_device", depends_on_device(recipe)},
          {"steps", print(recipe)}};
}

Report describe(const std::vector<QuantizeRecipe>& recipes) {
  Report list = Report::list();
  std::vector<std::vector<std::string>> table{
      {"recipe", "element", "scale", "block", "project", "version", "evidence"}};
  for (const QuantizeRecipe& recipe : recipes) {
    list.append(describe(recipe));
    table.push_back({std::string(recipe.name), std::string(info(recipe.element).name),
                     std::string(info(recipe.scale_format).name), print_block(recipe), std::string(recipe.project),
                     std::string(recipe.version), std::string(print(recipe.evidence))});
  }
  list.add_text(table);
  return list;
}

Report describe(const QuantizeRecipe& recipe, const Matrix& x, const Quantized& quantized) {
  Report block = Report::list(), scales = Report::list();
  block.append(quantized.block_rows).append(quantized.block_cols);
  scales.append(quantized.scales.rows()).append(quantized.scales.cols());
  Report report{{"recipe", recipe.name},
                {"rows", x.rows()},
                {"cols", x.cols()},
                {"input", info(x.format()).name},
                {"element", info(recipe.element).name},
                {"scale", info(recipe.scale_format).name},
                {"block", std::move(block)},
                {"scales", std::move(scales)}};
  report.add_text(fmt::format("{}: {} x {} of {} to {}, with one scale of {} per {} x {}: {} x {} scales", recipe.name,
                              x.rows(), x.cols(), info(x.format()).name, info(recipe.element).name,
                              info(recipe.scale_format).name, quantized.block_rows, quantized.block_cols,
                              quantized.scales.rows(), quantized.scales.cols()));
  if (quantized.tensor_scale) {
    const uint32_t word = (*quantized.tensor_scale)(0, 0);
    report.add("tensor_scale", fmt::format("{:#010x}", word));
    report.add_text(fmt::format("scale of the tensor: {:#010x} = {}", word, print_value(Format::f32, word)));
  }
  return report;
}

}  // namespace bitmma
