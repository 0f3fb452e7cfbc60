// SPDX-License-Identifier: MIT
// Whole matrix products with the bits of a library: the instructions of a plan, chained over K, and the f32 additions
// between them.
//
//   Matrix d = gemm(plan, {.a = a, .b = b});      M x N codes of plan.output
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "bitmma/core/table.hpp"
#include "bitmma/formats/matrix.hpp"
#include "bitmma/gemm/plan.hpp"

namespace bitmma {

/// The inputs of a product. A and B have the instruction's formats; tf32 is given as f32 words.
struct GemmInputs {
  Matrix a = {};                    // M x K
  Matrix b = {};                    // K x N
  std::optional<Matrix> c = {};     // M x N: f32, f16 or bf16. Read by alpha_beta with beta != 0, and by `start` = c
  std::optional<Matrix> bias = {};  // 1 x N, in the same formats
  /// f32. For A 1 x 1, M x 1 or M x blocks of K; for B 1 x 1, 1 x N, blocks x N or blocks x blocks of 128 columns.
  std::optional<Matrix> scale_a = {}, scale_b = {};
  /// Block scales of the instruction: M x K / size and K / size x N, in the order of K.
  std::optional<Matrix> sfa = {}, sfb = {};
  /// Row and column indices in the whole product; empty: the first ones. Plans with regions need them.
  std::vector<int64_t> rows = {}, cols = {};
  int64_t whole_m = 0, whole_n = 0;  // extents of the whole product; 0: those of the inputs

  bool operator==(const GemmInputs&) const = default;
};

enum class GemmOperand : uint8_t { a, b, c, bias, scale_a, scale_b, sfa, sfb };

/// How an operand is cut if only some rows (or columns) of D are computed: not at all, always, unless it has only one
/// row, or only if it has as many columns as B.
enum class OperandCut : uint8_t { none, always, unless_single, if_as_many };

struct GemmOperandInfo {
  GemmOperand id;
  std::string_view name;                                  // of the tensor in files, of the argument, and in errors
  std::optional<Matrix> GemmInputs::*optional = nullptr;  // nullptr: A and B, which every product has
  OperandCut rows = OperandCut::none, cols = OperandCut::none;
  std::string_view type_key = {};  // the key of files that names the type of raw codes
  std::string_view used_by = {};   // what in a plan reads it
};

/// The operands of a product: files, checks, selections and bindings go by these rows.
inline constexpr auto gemm_operands = [] {
  constexpr auto always = OperandCut::always;
  constexpr std::string_view scales = R"({"op": "scale_ab"} in the plan's epilogue, or promotion.scale, uses both)",
                             block_scales = "an instruction with block scales uses it";
  return std::to_array<GemmOperandInfo>(
      {{.id = GemmOperand::a, .name = "a", .rows = always, .type_key = "a_type"},
       {.id = GemmOperand::b, .name = "b", .cols = always, .type_key = "b_type"},
       {.id = GemmOperand::c,
        .name = "c",
        .optional = &GemmInputs::c,
        .rows = always,
        .cols = always,
        .used_by = R"({"op": "beta_c"} in the plan's epilogue adds it; named plans add it, too)"},
       {.id = GemmOperand::bias,
        .name = "bias",
        .optional = &GemmInputs::bias,
        .cols = always,
        .used_by = R"({"op": "bias"} in the plan's epilogue adds it)"},
       {.id = GemmOperand::scale_a,
        .name = "scale_a",
        .optional = &GemmInputs::scale_a,
        .rows = OperandCut::unless_single,
        .used_by = scales},
       {.id = GemmOperand::scale_b,
        .name = "scale_b",
        .optional = &GemmInputs::scale_b,
        .cols = OperandCut::if_as_many,
        .used_by = scales},
       {.id = GemmOperand::sfa,
        .name = "sfa",
        .optional = &GemmInputs::sfa,
        .rows = always,
        .type_key = "sf_type",
        .used_by = block_scales},
       {.id = GemmOperand::sfb,
        .name = "sfb",
        .optional = &GemmInputs::sfb,
        .cols = always,
        .type_key = "sf_type",
        .used_by = block_scales}});
}();
static_assert(are_in_enum_order(gemm_operands));
constexpr const GemmOperandInfo& info(GemmOperand operand) { return gemm_operands[static_cast<size_t>(operand)]; }

/// The operand; nullptr if the inputs do not have it.
const Matrix* find_operand(const GemmInputs& inputs, GemmOperand operand);
void set_operand(GemmInputs& inputs, GemmOperand operand, Matrix matrix);

/// Selects rows and columns of the product: of A, B and everything that belongs to them; the indices refer to the
/// inputs. Throws Error for an index outside the product, or outside an operand that is shorter.
GemmInputs part_of(const GemmInputs& whole, std::span<const int> rows, std::span<const int> cols);

/// These rows or columns, in this order. Throws Error, which names the matrix, for an index out of range.
Matrix rows_of(const Matrix& matrix, std::span<const int> rows, std::string_view name);
Matrix cols_of(const Matrix& matrix, std::span<const int> cols, std::string_view name);

/// Called with the number of finished outputs.
using GemmProgress = std::function<void(int64_t)>;

/// D, equal for any number of threads. Throws Error with all violations: shapes, formats, an illegal plan, a missing
/// operand that the plan needs.
Matrix gemm(const GemmPlan& plan, const GemmInputs& inputs, int threads = 1, const GemmProgress& progress = {});

/// D of `count` products of one shape: calls take(i, D) for the product of inputs_of(i), both from up to `threads`
/// threads. Checks everything once, as gemm does. Throws Error if the operands of some product have other types or
/// shapes than those of product 0.
void gemm_batch(const GemmPlan& plan, int64_t count, const std::function<GemmInputs(int64_t)>& inputs_of,
                const std::function<void(int64_t, const Matrix&)>& take, int threads = 1,
                const GemmProgress& progress = {});

/// The inputs that the plan does not read: c, bias, scales. One warning names each of them.
std::vector<Violation> unread_by(const GemmPlan& plan, const GemmInputs& inputs);

/// Legal operands of these types that are rarely intended: fp4 without the block scales of NVFP4 and MXFP4.
std::vector<Violation> warnings_of(const GemmPlan& plan, Format a, Format b);

/// The plan of one chain over K with the target's instruction for these types, and nothing else. Throws Error if there
/// is no such instruction.
GemmPlan flat_plan(Target target, Format a, Format b, Format output);
/// The same for the types of these inputs. With block scales, the instruction applies scales of this block size.
GemmPlan flat_plan(Target target, const GemmInputs& inputs, Format output);

}  // namespace bitmma
