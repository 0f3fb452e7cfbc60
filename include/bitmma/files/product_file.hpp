// SPDX-License-Identifier: MIT
// Files of whole products: a plain safetensors file of one product, with or without D.
//
//   a [M, K], b [K, N] or b_t [N, K]; optional c, d [M, N], bias [N], scale_a, scale_b (F32), sfa, sfb (codes)
//
// Types follow the dtypes: F16, BF16, F32 (as inputs: tf32), F64, F8_E4M3, F8_E5M2, I8, I32. Raw codes need the keys
// a_type, b_type, d_type. Sampled products carry rows, cols (I32) and the keys m, n of the whole one. The key plan is
// the one that gave d, and is taken where no other is asked for. Keys that do nothing are refused. Operands that are
// not there are made by the generator that the keys generator, seed, k name (bitmma/stimulus/generated.hpp). See
// docs/products.md.
#pragma once

#include <optional>
#include <string>

#include "bitmma/files/tensor_file.hpp"
#include "bitmma/gemm/gemm.hpp"

namespace bitmma {

struct ProductFile {
  TensorFile file = {};
  GemmInputs inputs = {};
  std::optional<Matrix> d = {};
  std::optional<Target> target = {};  // the key
  /// The type of D that the file has or names.
  std::optional<Format> output() const;
  std::optional<Format> output_type = {};  // the key d_type
  float alpha = 1, beta = 1;               // the keys, of the call that gave d
};

/// Throws Error that names the file and the tensor.
ProductFile read_product_file(const std::string& path);
/// The same of a file in memory, as arrays of NumPy make one.
ProductFile read_product_file(TensorFile file);

/// Only these rows and columns of A, B and all that belongs to them; the numbers are indices in the file.
ProductFile part_of(const ProductFile& product, std::span<const int> rows, std::span<const int> cols);

/// The file with D computed by the plan, which is recorded in it with its target; of a part with the operands of the
/// part, so that it can be read back.
TensorFile with_d(const ProductFile& product, const GemmPlan& plan, const Matrix& d);

}  // namespace bitmma
