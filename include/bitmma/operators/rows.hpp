// SPDX-License-Identifier: MIT
// Operators on the rows of a matrix as PyTorch 2.11 computes them eagerly on a GPU, bit for bit: softmax, norms, sums
// and means, and functions of single elements. All arithmetic is f32; a result is rounded once to its type.
//
//   const Matrix p = softmax(x, {.to = Format::bf16});
//   const Norm norm = layer_norm(x, &weight, &bias, 1e-5F);
//   const Matrix means = reduce(x, {.what = RowReduction::mean});      one column
//   const Matrix y = elementwise("silu", x);
//
// Which thread adds which elements depends on the number of columns, on the type, and, for rows whose bytes are no
// multiple of 16, on the place of the row in memory: RowsOf gives it for rows that were cut out of a matrix. Source:
// measured on an H100 and an H200 (docs/operators.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "bitmma/formats/matrix.hpp"

namespace bitmma {

/// Where rows come from. The first row of the whole matrix begins at a multiple of 16 bytes.
struct RowsOf {
  std::vector<int64_t> rows = {};  // the number of each; empty: 0, 1, 2, ...
  int64_t whole = 0;               // rows of the whole matrix; 0: as many as there are

  bool operator==(const RowsOf&) const = default;
};

struct SoftmaxOptions {
  std::optional<Format> to = {};  // f32, f16 or bf16; default: the type of x
  bool logarithm = false;         // log_softmax
  RowsOf of = {};
  int threads = 1;  // no bit depends on it
};

/// softmax or log_softmax over the columns. Throws Error for other types than f32, f16, bf16.
Matrix softmax(const Matrix& x, const SoftmaxOptions& options = {});

struct Norm {
  Matrix out;
  std::optional<Matrix> mean = {};  // one column of f32; layer_norm
  Matrix rstd;                      // one column of f32: 1 / sqrt(variance + eps)

  bool operator==(const Norm&) const = default;
};

/// (x - mean) * rstd * weight + bias, and x * rstd * weight. Weight and bias have one row, the columns and the type of
/// x; nullptr: none. Throws Error when they do not.
Norm layer_norm(const Matrix& x, const Matrix* weight, const Matrix* bias, float eps, int threads = 1);
Norm rms_norm(const Matrix& x, const Matrix* weight, float eps, int threads = 1);

enum class RowReduction : uint8_t { sum, mean, amax, argmax };
/// "sum", "mean", ...; parse_row_reduction throws Error for another name.
std::string_view print(RowReduction what);
RowReduction parse_row_reduction(std::string_view name);

struct ReduceOptions {
  RowReduction what = RowReduction::sum;
  std::optional<Format> to = {};  // f32 of sums and means; default: the type of x
  bool over_rows = false;         // dim = 0: one result a column. RowsOf is of no matter then
  int multiprocessors = 132;      // of the GPU: few rows of many columns are cut into parts by it
  RowsOf of = {};
  int threads = 1;
};

/// One column of results, of the type of x; s32 for argmax, which gives the first of equal numbers, and the first NaN.
Matrix reduce(const Matrix& x, const ReduceOptions& options = {});

/// "exp", "silu", "add": a function of each element. `y` has the shape and the type of x, for functions of two. Throws
/// Error, which lists the names, for another name, and when `y` is missing or not read.
Matrix elementwise(std::string_view name, const Matrix& x, const Matrix* y = nullptr, int threads = 1);

struct ElementwiseFunction {
  std::string_view name = {};
  int operands = 1;
  std::string_view computed_by = {};  // the function of C or the instruction
};
const std::vector<ElementwiseFunction>& elementwise_functions();

}  // namespace bitmma
