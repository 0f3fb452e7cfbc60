// SPDX-License-Identifier: MIT
// Whole matrix products with a library's own bits: the instructions of a plan, chained over K, and what is added in f32
// between them.
//
//   Matrix d = gemm(plan, {.a = a, .b = b});      M x N codes of plan.output
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "bitmma/formats/matrix.hpp"
#include "bitmma/gemm/plan.hpp"

namespace bitmma {

/// What a product reads. Formats of A and B are the instruction's; tf32 is given as f32 words.
struct GemmInputs {
  Matrix a = {};                    // M x K
  Matrix b = {};                    // K x N
  std::optional<Matrix> c = {};     // M x N: f32, f16 or bf16. Read by alpha_beta with beta != 0, and by start: c
  std::optional<Matrix> bias = {};  // 1 x N, the same formats
  /// f32. Of A 1 x 1, M x 1 or M x blocks of K; of B 1 x 1, 1 x N, blocks x N or blocks x blocks of 128 columns.
  std::optional<Matrix> scale_a = {}, scale_b = {};
  /// Block scales of the instruction: M x K / size and K / size x N, in the order of K.
  std::optional<Matrix> sfa = {}, sfb = {};
  /// Which rows and columns of the whole product these are; empty: the first ones. Regions of a plan need it.
  std::vector<int64_t> rows = {}, cols = {};
  int64_t whole_m = 0, whole_n = 0;  // of the whole product; 0: as many as there are

  bool operator==(const GemmInputs&) const = default;
};

/// Rows and columns of the product alone: of A, B and everything that goes with them; numbers count in the inputs.
/// Throws Error for a number that the product, or an operand shorter than it, does not have.
GemmInputs part_of(const GemmInputs& whole, std::span<const int> rows, std::span<const int> cols);

/// These rows or columns, in this order. Throws Error, which names the matrix, for one that it does not have.
Matrix rows_of(const Matrix& matrix, std::span<const int> rows, std::string_view name);
Matrix cols_of(const Matrix& matrix, std::span<const int> cols, std::string_view name);

/// Called with the number of finished outputs.
using GemmProgress = std::function<void(int64_t)>;

/// D, the same for any number of threads. Throws Error with everything that is wrong: shapes, formats, a plan that is
/// not legal, an operand that the plan needs and that is not there.
Matrix gemm(const GemmPlan& plan, const GemmInputs& inputs, int threads = 1, const GemmProgress& progress = {});

/// What is there and what the plan does not read, for those who would rather know: c, bias, scales. Each is named.
std::vector<Violation> unread_by(const GemmPlan& plan, const GemmInputs& inputs);

/// What is legal for operands of these types and rarely meant: fp4 without the block scales that NVFP4 and MXFP4 have.
std::vector<Violation> warnings_of(const GemmPlan& plan, Format a, Format b);

/// The plan of one chain over K: the instruction that the target has for these types, nothing else. Throws Error when
/// it has none.
GemmPlan flat_plan(Target target, Format a, Format b, Format output);
/// The same for the types of these inputs. With block scales it is an instruction that scales by blocks of their size.
GemmPlan flat_plan(Target target, const GemmInputs& inputs, Format output);

}  // namespace bitmma
