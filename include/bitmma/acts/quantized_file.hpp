// SPDX-License-Identifier: MIT
// Files for quantisers, as safetensors: the input matrix of a recipe, and its result.
//
//   codes [rows, cols], scales [blocks of rows, blocks of columns], tensor_scale [1]; the keys recipe, project,
//   version, commit, element, scale, block_rows, block_cols, x_type
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bitmma/analysis/report.hpp"
#include "bitmma/core/error.hpp"
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

struct QuantizeRequest {
  std::string recipe = {};                       // a name of quantize_recipes()
  std::string tensor = {};                       // of the file; empty: its only one
  std::optional<Format> type = {};               // of raw codes
  std::optional<std::string> torch_device = {};  // cuda or cpu, of recipes that depend on it; default: cuda
  QuantizedLayout layout = {};
  int threads = 1;
};

struct [[nodiscard]] QuantizeRun {
  Report report = {};    // as describe() of describe_quantize.hpp, and "warnings"
  TensorFile file = {};  // as quantized_file
  std::vector<Violation> warnings = {};
};

/// Quantises a tensor of a file. Throws Error as the functions above, for an unknown recipe, and for a device on which
/// the recipe does not depend (fields recipe, tensor, type, torch_device).
QuantizeRun quantize_file(const TensorFile& file, const QuantizeRequest& request);

/// Quantises the tensor with request.recipe and with `other`, and compares them code by code: {"recipes", "codes",
/// "codes_differ", "values_differ", "scales", "scales_differ", "first"}. `first` is the first element whose codes
/// differ, with both. Throws Error as quantize_file does, and if the element formats differ (field compare).
Report compare_recipes(const TensorFile& file, const QuantizeRequest& request, const std::string& other);

}  // namespace bitmma
