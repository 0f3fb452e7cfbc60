// SPDX-License-Identifier: MIT
// Converts a matrix to a tensor.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bitmma/files/tensor_file.hpp"
#include "bitmma/formats/matrix.hpp"

namespace bitmma {

/// The codes of `matrix`, row by row, in the dtype of its format.
inline Tensor tensor_of(std::string name, const Matrix& matrix, std::vector<int64_t> shape) {
  const std::string_view dtype = info(matrix.format()).dtype;
  const auto size = static_cast<size_t>(dtype_bytes(dtype));
  std::vector<uint8_t> bytes;
  bytes.reserve(matrix.size() * size);
  for (int row = 0; row < matrix.rows(); ++row) {
    for (int col = 0; col < matrix.cols(); ++col) {
      const uint64_t code = matrix.code(row, col);
      for (size_t byte = 0; byte < size; ++byte) bytes.push_back(static_cast<uint8_t>(code >> 8 * byte));
    }
  }
  return Tensor::from_bytes(std::move(name), std::string(dtype), std::move(shape), std::move(bytes));
}

}  // namespace bitmma
