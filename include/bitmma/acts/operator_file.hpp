// SPDX-License-Identifier: MIT
// Files of operators: their operands and results, as safetensors or NumPy's arrays.
//
//   const std::vector<OperatorTensor> x = read_operands({"x.npy"}, {"x", "weight", "bias"}, 1);
//   const OperatorTensor out{.name = "out", .shape = x[0].shape, .rows = softmax(x[0].rows)};
//   write_tensor_file("out.safetensors", operator_file("softmax", {out}));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/files/tensor_file.hpp"
#include "bitmma/formats/matrix.hpp"

namespace bitmma {

/// An operand or a result of an operator.
struct OperatorTensor {
  std::string name = {};
  std::vector<int64_t> shape = {};  // all extents
  Matrix rows = {};                 // of the last axis

  bool operator==(const OperatorTensor&) const = default;
};

/// The operands of these names, in order: each from a file of its own, or all from one file. From a file the tensor
/// with the operand's name is taken, or its only one; `tensor` is another name of the first operand. The first
/// `required` operands have to be there. Floats of 16 bits that NumPy writes as raw codes are of `type`. Throws Error,
/// which names file and operand.
std::vector<OperatorTensor> read_operands(const std::vector<std::string>& paths,
                                          const std::vector<std::string_view>& names, size_t required,
                                          const std::string& tensor = "", std::optional<Format> type = {});

/// The results under their names; the key "operator".
TensorFile operator_file(std::string_view name, const std::vector<OperatorTensor>& results);

/// A result and what was recorded of it.
struct [[nodiscard]] OperatorComparison {
  std::string name = {};
  int64_t outputs = 0, differing = 0;
  std::vector<int64_t> first = {};  // the place of the first difference, an index for each axis
  Format format = Format::f32;
  uint64_t recorded = 0, computed = 0;  // the codes there

  bool operator==(const OperatorComparison&) const = default;
};

/// Compares each result that the file has: under its name, or, of a file with a single tensor, the first result. Throws
/// Error if the file has none of them, or another type or shape.
std::vector<OperatorComparison> compare_results(const std::vector<OperatorTensor>& results, const TensorFile& recorded);

}  // namespace bitmma
