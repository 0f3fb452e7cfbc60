// SPDX-License-Identifier: MIT
#include "bitmma/acts/operator_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "../files/matrix_tensor.hpp"
#include "bitmma/acts/quantized_file.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"

namespace bitmma {
namespace {

std::vector<std::string> names_of_tensors(const TensorFile& file) {
  std::vector<std::string> names;
  for (const Tensor& tensor : file.tensors) names.push_back(tensor.name);
  return names;
}

const Tensor& operand_in(const TensorFile& file, std::string_view operand, const std::string& other_name,
                         bool is_alone) {
  const std::string name = other_name.empty() ? std::string(operand) : other_name;
  const Tensor* tensor = file.find(name);
  if (!tensor && is_alone && other_name.empty() && file.tensors.size() == 1) tensor = &file.tensors.front();
  if (!tensor)
    throw Error({.code = ViolationCode::not_found,
                 .field = fmt::format("{} of {}", operand, file.path),
                 .seen = fmt::format("no tensor {}", shortened(printable(name))),
                 .legal = names_of_tensors(file)});
  return *tensor;
}

}  // namespace

std::vector<OperatorTensor> read_operands(const std::vector<std::string>& paths,
                                          const std::vector<std::string_view>& names, size_t required,
                                          const std::string& tensor, std::optional<Format> type) {
  const bool are_together = paths.size() == 1 && names.size() > 1;
  if (paths.empty() || paths.size() > names.size() || (!are_together && paths.size() < required))
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = "files",
                 .seen = counted(static_cast<int64_t>(paths.size()), "file"),
                 .expected = fmt::format("one file with all of {}, or a file each of {}", fmt::join(names, ", "),
                                         fmt::join(names, ", "))});
  std::vector<OperatorTensor> operands;
  std::optional<TensorFile> file;
  for (size_t i = 0; i < (are_together ? names.size() : paths.size()); ++i) {
    if (!file || !are_together) file = read_tensor_file(paths[are_together ? 0 : i]);
    const std::string& other_name = i == 0 ? tensor : std::string();
    if (are_together && i >= required && !file->find(names[i])) break;
    const Tensor& operand = operand_in(*file, names[i], other_name, !are_together || required == 1);
    operands.push_back({std::string(names[i]), operand.shape, rows_of_tensor(file->path, operand, type)});
  }
  return operands;
}

TensorFile operator_file(std::string_view name, const std::vector<OperatorTensor>& results) {
  TensorFile file;
  file.set_metadata("operator", std::string(name));
  for (const OperatorTensor& tensor : results) file.set(tensor_of(tensor.name, tensor.rows, tensor.shape));
  return file;
}

std::vector<OperatorComparison> compare_results(const std::vector<OperatorTensor>& results,
                                                const TensorFile& recorded) {
  std::vector<OperatorComparison> comparisons;
  for (const OperatorTensor& result : results) {
    const Tensor* tensor = recorded.find(result.name);
    if (!tensor && recorded.tensors.size() == 1 && &result == &results.front()) tensor = &recorded.tensors.front();
    if (!tensor) continue;
    const FormatInfo& format = info(result.rows.format());
    if (tensor->shape != result.shape || (tensor->dtype != format.dtype && tensor->dtype != format.raw_dtype))
      throw Error({.code = ViolationCode::wrong_shape,
                   .field = fmt::format("{}: tensor {}", recorded.path, tensor->name),
                   .seen = fmt::format("{} {}", tensor->dtype, print_shape(tensor->shape)),
                   .expected = fmt::format("{} {}, as {}", format.dtype, print_shape(result.shape), result.name)});
    OperatorComparison comparison{
        .name = result.name, .outputs = static_cast<int64_t>(result.rows.size()), .format = format.id};
    const TensorBytes bytes = tensor->bytes.in_memory();
    const auto size = static_cast<size_t>(dtype_bytes(tensor->dtype));
    for (int64_t i = 0; i < comparison.outputs; ++i) {
      uint64_t code = 0;
      std::memcpy(&code, bytes.view().data() + static_cast<size_t>(i) * size, size);
      const int cols = result.rows.cols();
      const uint64_t computed = result.rows.code(static_cast<int>(i / cols), static_cast<int>(i % cols));
      if (code == computed) continue;
      if (comparison.differing++ > 0) continue;
      comparison.recorded = code, comparison.computed = computed;
      comparison.first.resize(result.shape.size());
      int64_t rest = i;
      for (size_t axis = result.shape.size(); axis-- > 0; rest /= result.shape[axis])
        comparison.first[axis] = rest % result.shape[axis];
    }
    comparisons.push_back(std::move(comparison));
  }
  if (comparisons.empty()) {
    std::vector<std::string> legal;
    for (const OperatorTensor& result : results) legal.push_back(result.name);
    throw Error({.code = ViolationCode::not_found,
                 .field = fmt::format("results of {}", recorded.path),
                 .seen = fmt::format("{}", fmt::join(names_of_tensors(recorded), ", ")),
                 .legal = std::move(legal)});
  }
  return comparisons;
}

}  // namespace bitmma
