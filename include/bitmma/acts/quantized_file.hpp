// SPDX-License-Identifier: MIT
// Files for quantisers, as safetensors: the input matrix of a recipe, and its result.
//
//   codes [rows, cols], scales [blocks of rows, blocks of columns], tensor_scale [1]; the keys recipe, project,
//   version, commit, element, scale, block_rows, block_cols, x_type
#pragma once

#include <optional>
#include <string>

#include "bitmma/files/tensor_file.hpp"
#include "bitmma/operators/quantize.hpp"

namespace bitmma {

/// A two-dimensional tensor as a matrix: the one with this name, or the only one if it is empty. F32, F16 and BF16
/// imply the type; for raw codes of 16 or 32 bits `type` gives it. Throws Error, which names file and tensor.
Matrix matrix_of_file(const TensorFile& file, const std::string& tensor = "", std::optional<Format> type = {});

/// The same for a tensor with any number of axes: its last one are the columns. `path` is the file's, for messages.
Matrix rows_of_tensor(const std::string& path, const Tensor& tensor, std::optional<Format> type = {});

struct QuantizedLayout {
  bool packed_codes = false;  // two e2m1 codes per byte: codes [rows, cols / 2]
  bool tiled_scales = false;  // tiles of 128 x 4 in cuBLAS' order: scales [bytes]
};

/// Throws Error as packed_codes() and tiled_scales() do.
TensorFile quantized_file(const QuantizeRecipe& recipe, const Matrix& x, const Quantized& quantized,
                          const QuantizedLayout& layout = {});

}  // namespace bitmma
