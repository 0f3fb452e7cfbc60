// SPDX-License-Identifier: MIT
// Files of whole products: a plain safetensors file of one product, with or without D.
//
//   a [M, K], b [K, N] or b_t [N, K]; optional c, d [M, N], bias [N], scale_a, scale_b (F32), sfa, sfb (codes)
//
// Types follow the dtypes: F16, BF16, F32 (as inputs: tf32), F64, F8_E4M3, F8_E5M2, I8, I32. Raw codes need the
// keys a_type, b_type, d_type. Sampled products have rows, cols (I32), and the keys m, n of the whole product.
// The key plan names the plan that produced d, and is the default. Keys without effect are refused. The
// generator in the keys generator, seed, k (bitmma/stimulus/generated.hpp) makes missing operands. See
// docs/vectors.md.
#pragma once

#include <optional>
#include <string>

#include "bitmma/files/tensor_file.hpp"
#include "bitmma/gemm/gemm.hpp"

namespace bitmma {

struct [[nodiscard]] ProductFile {
  TensorFile file = {};
  GemmInputs inputs = {};
  std::optional<Matrix> d = {};
  std::optional<Target> target = {};  // the key target
  /// The type of the D that the file contains or names.
  std::optional<Format> output() const;
  std::optional<Format> output_type = {};  // the key d_type
  float alpha = 1, beta = 1;               // the keys: factors of the call that produced d
};

/// Throws Error, which names the file and the tensor.
ProductFile read_product_file(const std::string& path);
/// The same for a file in memory, for instance from NumPy arrays.
ProductFile read_product_file(TensorFile file);

/// Selects these rows and columns of A, B and everything that belongs to them, by their indices in the file.
ProductFile part_of(const ProductFile& product, std::span<const int> rows, std::span<const int> cols);

/// The file with D computed by the plan, and with the plan and its target as keys. For a part it has the operands of
/// the part, so that it can be read back.
TensorFile with_d(const ProductFile& product, const GemmPlan& plan, const Matrix& d);

}  // namespace bitmma
