// SPDX-License-Identifier: MIT
// Files around quantisers: the matrix that a recipe takes, and what it makes, as safetensors.
//
//   codes [rows, cols], scales [blocks of rows, blocks of columns], tensor_scale [1]; the keys recipe, project,
//   version, commit, element, scale, block_rows, block_cols, x_type
#pragma once

#include <optional>
#include <string>

#include "bitmma/files/tensor_file.hpp"
#include "bitmma/operators/quantize.hpp"

namespace bitmma {

/// A tensor of two axes as a matrix: the one of this name, or without a name the only one. F32, F16 and BF16 say their
/// type; of raw codes of 16 or 32 bits `type` says it. Throws Error that names the file and the tensor.
Matrix matrix_of_file(const TensorFile& file, const std::string& tensor = "", std::optional<Format> type = {});

struct QuantizedLayout {
  bool packed_codes = false;  // two of e2m1 a byte: codes [rows, cols / 2]
  bool tiled_scales = false;  // tiles of 128 x 4, as cuBLAS reads them: scales [bytes]
};

/// Throws Error as packed_codes() and tiled_scales() do.
TensorFile quantized_file(const QuantizeRecipe& recipe, const Matrix& x, const Quantized& quantized,
                          const QuantizedLayout& layout = {});

}  // namespace bitmma
