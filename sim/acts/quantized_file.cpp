// SPDX-License-Identifier: MIT
#include "bitmma/acts/quantized_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "../core/ieee_environment.hpp"
#include "../files/matrix_tensor.hpp"
#include "bitmma/acts/describe_quantize.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/formats/codes.hpp"
#include "bitmma/formats/round.hpp"

namespace bitmma {
namespace {

/// The format of `tensor`: that of its dtype, or `type` for raw codes. Throws Error if `type` is needed or useless.
Format type_of(const std::string& field, const Tensor& tensor, std::optional<Format> type) {
  std::vector<std::string> raw;
  for (const FormatInfo& format : formats) {
    if (!quantize_inputs.contains(format.id)) continue;
    if (tensor.dtype == format.dtype) {
      if (!type) return format.id;
      throw Error({.code = ViolationCode::no_effect,
                   .field = "type",
                   .seen = std::string(info(*type).name),
                   .expected = fmt::format("none: {} is {}", field, tensor.dtype)});
    }
    if (tensor.dtype == format.raw_dtype) raw.emplace_back(format.name);
  }
  if (raw.empty()) {
    throw Error({.code = ViolationCode::wrong_type,
                 .field = field,
                 .seen = tensor.dtype,
                 .legal = {"F32", "F16", "BF16", "U16 of raw codes", "U32 of raw codes"}});
  }
  if (type && std::ranges::find(raw, info(*type).name) != raw.end()) return *type;
  throw Error({.code = type ? ViolationCode::illegal_value : ViolationCode::missing_type,
               .field = "type",
               .seen = type ? std::string(info(*type).name) : "missing",
               .legal = raw,
               .fix = fmt::format("{} for the raw codes of {}", field, tensor.dtype)});
}

Tensor tensor_of_bytes(std::string name, std::vector<int64_t> shape, std::vector<uint8_t> bytes) {
  return Tensor::from_bytes(std::move(name), "U8", std::move(shape), std::move(bytes));
}

}  // namespace

Matrix matrix_of_file(const TensorFile& file, const std::string& name, std::optional<Format> type) {
  const Tensor* const tensor = name.empty() && file.tensors.size() == 1 ? &file.tensors.front() : file.find(name);
  if (!tensor) {
    std::vector<std::string> names;
    for (const Tensor& candidate : file.tensors) names.push_back(candidate.name);
    throw Error({.code = name.empty() ? ViolationCode::missing_argument : ViolationCode::not_found,
                 .field = name.empty() ? "tensor" : fmt::format("tensor of {}", file.path),
                 .seen = name.empty() ? "missing" : shortened(printable(name)),
                 .expected = fmt::format("one of {}: {}", file.path, alternatives(names))});
  }
  if (tensor->shape.size() != 2)
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = fmt::format("{}: tensor {}", file.path, tensor->name),
                 .seen = print_shape(tensor->shape),
                 .expected = "two axes, rows and columns"});
  return rows_of_tensor(file.path, *tensor, type);
}

Matrix rows_of_tensor(const std::string& path, const Tensor& tensor, std::optional<Format> type) {
  const std::string field = fmt::format("{}: tensor {}", path, tensor.name);
  constexpr int64_t most = std::numeric_limits<int>::max();
  const int64_t cols = tensor.shape.empty() ? 1 : tensor.shape.back();
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) rows = std::min(rows, most) * std::min(tensor.shape[i], most);
  if (rows > most || cols > most)
    throw Error({.code = ViolationCode::too_large,
                 .field = field,
                 .seen = print_shape(tensor.shape),
                 .expected = "at most 2^31 - 1 rows and columns"});
  const Format format = type_of(field, tensor, type);
  if (cols == 0) return Matrix(format, static_cast<int>(rows), 0);  // up to 2^31 rows
  const TensorBytes bytes = tensor.bytes.in_memory();
  const int64_t size = code_bytes(format);
  return matrix_of(format, static_cast<int>(rows), static_cast<int>(cols),
                   {.data = bytes.view().data(), .row_stride = size * cols, .col_stride = size});
}

TensorFile quantized_file(const QuantizeRecipe& recipe, const Matrix& x, const Quantized& quantized,
                          const QuantizedLayout& layout) {
  const Matrix &codes = quantized.codes, &scales = quantized.scales;
  TensorFile file;
  const auto set_key = [&](std::string_view key, auto value) { file.set_metadata(key, fmt::format("{}", value)); };
  set_key("recipe", recipe.name);
  set_key("project", recipe.project);
  set_key("version", recipe.version);
  set_key("commit", recipe.commit);
  set_key("element", info(recipe.element).name);
  set_key("scale", info(recipe.scale_format).name);
  set_key("block_rows", quantized.block_rows);
  set_key("block_cols", quantized.block_cols);
  set_key("x_type", info(x.format()).name);
  if (layout.packed_codes) {
    std::vector<uint8_t> packed = packed_codes(codes);
    file.set(tensor_of_bytes("codes", {codes.rows(), codes.cols() / 2}, std::move(packed)));
  } else {
    file.set(tensor_of("codes", codes, {codes.rows(), codes.cols()}));
  }
  if (layout.tiled_scales) {
    std::vector<uint8_t> tiles = tiled_scales(quantized);
    const auto size = static_cast<int64_t>(tiles.size());
    file.set(tensor_of_bytes("scales", {size}, std::move(tiles)));
  } else {
    file.set(tensor_of("scales", scales, {scales.rows(), scales.cols()}));
  }
  if (quantized.tensor_scale) file.set(tensor_of("tensor_scale", *quantized.tensor_scale, {1}));
  return file;
}

QuantizeRun quantize_file(const TensorFile& file, const QuantizeRequest& request) {
  const QuantizeRecipe& recipe = recipe_named(request.recipe);
  const Matrix x = matrix_of_file(file, request.tensor, request.type);
  const std::optional<std::string>& device = request.torch_device;
  const Quantized quantized =
      quantize(recipe, x, torch_device_of(recipe, device ? std::optional<std::string_view>(*device) : std::nullopt),
               request.threads);
  QuantizeRun run{.report = describe(recipe, x, quantized),
                  .file = quantized_file(recipe, x, quantized, request.layout),
                  .warnings = warnings_of(recipe, quantized)};
  run.report.add("warnings", run.warnings);
  return run;
}

namespace {

Quantized quantized_by(const QuantizeRecipe& recipe, const Matrix& x, const QuantizeRequest& request) {
  const auto device = depends_on_device(recipe) && request.torch_device
                          ? std::optional<std::string_view>(*request.torch_device)
                          : std::nullopt;
  return quantize(recipe, x, torch_device_of(recipe, device), request.threads);
}

/// code * scale of the block * scale of the tensor, in f64: exact but for its last rounding.
double value_of(const Quantized& quantized, int row, int col) {
  const auto number = [](Format format, uint64_t code) {
    return std::bit_cast<double>(convert(format, code, Format::f64, Rounding::nearest_even, Overflow::infinity));
  };
  const Matrix& scales = quantized.scales;
  const double block = number(scales.format(), scales(row / quantized.block_rows, col / quantized.block_cols));
  const double tensor = quantized.tensor_scale ? number(Format::f32, (*quantized.tensor_scale)(0, 0)) : 1;
  return number(quantized.codes.format(), quantized.codes(row, col)) * block * tensor;
}

}  // namespace

Report compare_recipes(const TensorFile& file, const QuantizeRequest& request, const std::string& other) {
  const QuantizeRecipe* const recipes[]{&recipe_named(request.recipe), &recipe_named(other)};
  if (recipes[0]->element != recipes[1]->element)
    throw Error({.code = ViolationCode::wrong_type,
                 .field = "compare",
                 .seen = fmt::format("{} to {}", other, info(recipes[1]->element).name),
                 .expected = fmt::format("a recipe to {}, as {}", info(recipes[0]->element).name, request.recipe)});
  if (request.torch_device && !depends_on_device(*recipes[0]) && !depends_on_device(*recipes[1]))
    static_cast<void>(torch_device_of(*recipes[0], *request.torch_device));  // refuses a name without effect
  const Matrix x = matrix_of_file(file, request.tensor, request.type);
  const Quantized first = quantized_by(*recipes[0], x, request), second = quantized_by(*recipes[1], x, request);
  return in_ieee_environment([&] {
    const FormatInfo& element = info(first.codes.format());
    const bool same_scales = first.scales.format() == second.scales.format() &&
                             first.scales.rows() == second.scales.rows() && first.scales.cols() == second.scales.cols();
    int64_t codes = 0, values = 0;
    std::optional<std::pair<int, int>> place;
    for (int row = 0; row < x.rows(); ++row) {
      for (int col = 0; col < x.cols(); ++col) {
        const bool differs = first.codes(row, col) != second.codes(row, col);
        codes += differs, values += value_of(first, row, col) != value_of(second, row, col);
        if (differs && !place) place = {row, col};
      }
    }
    const auto size = static_cast<int64_t>(x.size());
    Report report{{"recipes", {{"first", recipes[0]->name}, {"second", recipes[1]->name}}},
                  {"codes", size},
                  {"codes_differ", codes},
                  {"values_differ", values},
                  {"scales", first.scales.size()},
                  {"scales_differ", same_scales ? Report(count_differing(first.scales, second.scales)) : Report()},
                  {"first", Report()}};
    report.add_text(
        fmt::format("{} and {}: {} of {} differ", recipes[0]->name, recipes[1]->name, codes, counted(size, "code")));
    report.add_text(fmt::format("values (code * scale * scale of the tensor): {} of {} differ", values, size));
    report.add_text(same_scales ? fmt::format("scales: {} of {} differ", count_differing(first.scales, second.scales),
                                              first.scales.size())
                                : "scales: of another type or another size of blocks");
    if (!place) return report;
    const auto [row, col] = *place;
    Report difference{{"row", row}, {"col", col}};
    std::vector<std::vector<std::string>> table{{"first", "code", "scale", "value"}};
    for (size_t i = 0; i < 2; ++i) {
      const Quantized& quantized = i == 0 ? first : second;
      const Format scale = quantized.scales.format();
      const uint32_t scale_code = quantized.scales(row / quantized.block_rows, col / quantized.block_cols);
      table.push_back({std::string(recipes[i]->name),
                       fmt::format("{} ({})", print_bits(element.id, quantized.codes(row, col)),
                                   print_value(element.id, quantized.codes(row, col))),
                       fmt::format("{} ({})", print_bits(scale, scale_code), print_value(scale, scale_code)),
                       fmt::format("{:.9g}", value_of(quantized, row, col))});
      difference.add(i == 0 ? "code" : "other_code", quantized.codes(row, col));
      difference.add(i == 0 ? "scale" : "other_scale", scale_code);
    }
    table[0][0] = fmt::format("x({}, {}) = {}", row, col, print_value(x.format(), x(row, col)));
    report.add_text(table);
    report["first"] = std::move(difference);
    return report;
  });
}

}  // namespace bitmma
