// SPDX-License-Identifier: MIT
// Whether inputs fit a plan: what a plan reads of each operand, in which types and shapes.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "../core/ieee_environment.hpp"
#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/gemm/gemm.hpp"
#include "bitmma/instruction/execute.hpp"
#include "gemm_inside.hpp"

namespace bitmma {
namespace {

constexpr FormatSet sum_types{Format::f32, Format::f16, Format::bf16};

using Extents = std::pair<int, int>;

/// What a plan reads of an operand: one of the types, one of the shapes.
struct OperandUse {
  GemmOperand operand;
  FormatSet types;
  std::vector<Extents> shapes;
};

std::string print_operand(const Matrix& matrix) {
  return fmt::format("{} x {} {}", matrix.rows(), matrix.cols(), info(matrix.format()).name);
}

/// Scales of blocks of 128 of K, which the promotion reads.
void add_block_scales(std::vector<OperandUse>& uses, const Promotion& promotion, const GemmInputs& inputs) {
  const int m = inputs.a.rows(), n = inputs.b.cols(), blocks = ceil_div(inputs.a.cols(), 128),
            blocks_of_n = ceil_div(std::max(static_cast<int>(inputs.whole_n), n), 128);
  uses.push_back({GemmOperand::scale_a, {Format::f32}, {{m, blocks}, {1, 1}, {m, 1}}});
  std::vector<Extents> shapes{{1, 1}};
  if (promotion.columns_of_sb != 128) shapes.insert(shapes.end(), {{1, n}, {blocks, n}});
  if (promotion.columns_of_sb != 1) shapes.emplace_back(blocks, blocks_of_n);
  uses.push_back({GemmOperand::scale_b, {Format::f32}, std::move(shapes)});
}

/// All operands but A and B that the plan reads.
std::vector<OperandUse> uses_of(const GemmPlan& plan, const GemmInputs& inputs) {
  const int m = inputs.a.rows(), n = inputs.b.cols();
  std::vector<OperandUse> uses;
  const TensorCoreChain* const chain = plan.tensor_cores();
  const Mma mma = types_of(plan, inputs);
  if (chain && chain->start_with_c) uses.push_back({GemmOperand::c, {mma.d}, {{m, n}}});
  if (scales_blocks(plan)) add_block_scales(uses, *chain->promotion, inputs);
  if (mma.scale_count > 0) {
    const int count = ceil_div(inputs.a.cols(), mma.k / mma.scale_count);
    uses.push_back({GemmOperand::sfa, {mma.scale_type}, {{m, count}}});
    uses.push_back({GemmOperand::sfb, {mma.scale_type}, {{count, n}}});
  }
  for (const EpilogueOp& op : plan.epilogue) {
    switch (op.kind) {
      case EpilogueKind::alpha_beta:
        if (op.beta != 0) uses.push_back({GemmOperand::c, sum_types, {{m, n}}});
        break;
      case EpilogueKind::beta_c: uses.push_back({GemmOperand::c, sum_types, {{m, n}}}); break;
      case EpilogueKind::bias: uses.push_back({GemmOperand::bias, sum_types, {{1, n}}}); break;
      case EpilogueKind::scale_ab:
        uses.push_back({GemmOperand::scale_a, {Format::f32}, {{1, 1}, {m, 1}}});
        uses.push_back({GemmOperand::scale_b, {Format::f32}, {{1, 1}, {1, n}}});
        break;
      case EpilogueKind::row_scale: uses.push_back({GemmOperand::scale_a, {Format::f32}, {{m, 1}}}); break;
      case EpilogueKind::col_scale: uses.push_back({GemmOperand::scale_b, {Format::f32}, {{1, n}}}); break;
      case EpilogueKind::relu:
      case EpilogueKind::d_scale:
      case EpilogueKind::round: break;
    }
  }
  return uses;
}

class InputChecks {
 public:
  InputChecks(const GemmPlan& plan, const GemmInputs& inputs) : plan_(plan), inputs_(inputs) {}

  std::vector<Violation> violations() {
    violations_ = violations_of(plan_);
    if (!violations_.empty()) return std::move(violations_);
    check_a_and_b();
    for (const OperandUse& use : uses_of(plan_, inputs_)) check(use);
    if (scales_blocks(plan_)) check_block_scales(*plan_.tensor().promotion);
    const int k = inputs_.a.cols();
    require(k == 0 || !slices_of(plan_.split_k, k).empty(), "split_k.count", std::to_string(plan_.split_k.count),
            fmt::format("slices that contain a part of K = {}: all of these are empty", k));
    constexpr int64_t longest = int64_t{1} << 31;
    require(inputs_.whole_m >= 0 && inputs_.whole_m <= longest && inputs_.whole_n >= 0 && inputs_.whole_n <= longest,
            "whole", fmt::format("{} x {}", inputs_.whole_m, inputs_.whole_n), "extents of 0 to 2^31");
    check_indices("rows", inputs_.rows, inputs_.whole_m > 0 ? inputs_.whole_m : longest, inputs_.a.rows(), "rows", "A");
    check_indices("cols", inputs_.cols, inputs_.whole_n > 0 ? inputs_.whole_n : longest, inputs_.b.cols(), "columns",
                  "B");
    return std::move(violations_);
  }

 private:
  void require(bool holds, std::string_view field, std::string seen, std::string expected, std::string fix = {}) {
    if (holds) return;
    violations_.push_back(
        {.field = std::string(field), .seen = std::move(seen), .expected = std::move(expected), .fix = std::move(fix)});
  }

  void check_a_and_b() {
    const Matrix &a = inputs_.a, &b = inputs_.b;
    const auto shape = [](const Matrix& matrix) { return fmt::format("{} x {}", matrix.rows(), matrix.cols()); };
    const std::string a_type(info(a.format()).name), b_type(info(b.format()).name);
    if (plan_.cuda_cores()) {
      require(multiplies(plan_, a.format(), b.format()), "a, b", a_type + ", " + b_type,
              "f32, f16 or bf16 on CUDA cores");
    } else {
      const Mma mma = types_of(plan_, inputs_);
      require(a.format() == mma.a, "a", a_type, std::string(info(mma.a).name));
      require(b.format() == mma.b, "b", b_type, std::string(info(mma.b).name));
    }
    require(a.rows() > 0 && b.cols() > 0, "a, b", shape(a) + " and " + shape(b),
            "at least one row of A and one column of B");
    require(a.cols() == b.rows(), "b", shape(b), fmt::format("{} rows, the number of columns of A", a.cols()),
            a.cols() == b.cols() ? "it has so many columns: transpose it, b.T or the tensor b_t" : "");
  }

  void check(const OperandUse& use) {
    const Matrix* const operand = find_operand(inputs_, use.operand);
    const bool fits = operand && use.types.contains(operand->format()) &&
                      std::ranges::find(use.shapes, Extents(operand->rows(), operand->cols())) != use.shapes.end();
    if (fits) return;
    std::vector<Extents> shapes = use.shapes;
    std::ranges::sort(shapes, std::greater());  // a product of one row or block fits one shape in several ways
    shapes.erase(std::ranges::unique(shapes).begin(), shapes.end());
    Violation violation{.field = std::string(info(use.operand).name),
                        .seen = operand ? print_operand(*operand) : "(missing)",
                        .fix = operand ? "" : "the plan uses it"};
    for (const auto& [rows, cols] : shapes) {
      for (const FormatInfo& type : rows_of(use.types))
        violation.legal.push_back(fmt::format("{} x {} {}", rows, cols, type.name));
    }
    violations_.push_back(std::move(violation));
  }

  void check_block_scales(const Promotion& promotion) {
    // In a sample with as many columns as there are blocks of 128, scale_b may belong to either.
    const int n = inputs_.b.cols(), whole_n = std::max(static_cast<int>(inputs_.whole_n), n);
    const bool could_be_both = promotion.columns_of_sb == 0 && inputs_.scale_b && inputs_.scale_b->cols() > 1 &&
                               whole_n > n && ceil_div(whole_n, 128) == n;
    require(!could_be_both, "promotion.sb", "(missing)",
            "[1, 128] or [128, 128]: scale_b could be of columns or of blocks");
    require(promotion.every == 128, "promotion.every", std::to_string(promotion.every), "128 with scales");
  }

  /// Indices of rows or columns in the whole product.
  void check_indices(std::string_view field, const std::vector<int64_t>& indices, int64_t whole, int count,
                     std::string_view lines, std::string_view matrix) {
    const auto outside = std::ranges::find_if(indices, [&](int64_t index) { return index < 0 || index >= whole; });
    if (outside != indices.end())
      require(false, field, std::to_string(*outside), fmt::format("0..{}: {} of the whole product", whole - 1, lines));
    require(indices.empty() || std::ssize(indices) == count, field, std::to_string(indices.size()),
            fmt::format("{}, the number of {} of {}", count, lines, matrix),
            fmt::format("it tells where the {} of {} are in a larger product", lines, matrix));
  }

  const GemmPlan& plan_;
  const GemmInputs& inputs_;
  std::vector<Violation> violations_ = {};
};

}  // namespace

Mma types_of(const GemmPlan& plan, const GemmInputs& inputs) {
  if (const TensorCoreChain* const chain = plan.tensor_cores()) return step_of(chain->instruction);
  return {.a = inputs.a.format(), .b = inputs.b.format()};
}

void require_fits(const GemmPlan& plan, const GemmInputs& inputs) {
  std::vector<Violation> violations = in_ieee_environment([&] { return InputChecks(plan, inputs).violations(); });
  if (!violations.empty()) throw Error(std::move(violations));
}

std::vector<Violation> unread_by(const GemmPlan& plan, const GemmInputs& inputs) {
  const std::vector<OperandUse> uses = in_ieee_environment([&] { return uses_of(plan, inputs); });
  std::vector<Violation> violations;
  for (const GemmOperandInfo& row : gemm_operands) {
    const bool is_read = !row.optional || std::ranges::find(uses, row.id, &OperandUse::operand) != uses.end();
    if (is_read || !find_operand(inputs, row.id)) continue;
    violations.push_back({.code = ViolationCode::no_effect,
                          .field = std::string(row.name),
                          .seen = "given",
                          .expected = "absent: the plan does not use it",
                          .fix = std::string(row.used_by)});
  }
  return violations;
}

std::vector<Violation> warnings_of(const GemmPlan& plan, Format a, Format b) {
  const TensorCoreChain* const tensor = plan.tensor_cores();
  const bool is_fp4 = a == Format::e2m1 && b == Format::e2m1;
  if (!is_fp4 || !tensor || mma_of(tensor->instruction).scale_count > 0) return {};
  return {{.field = "sfa, sfb",
           .seen = "(missing)",
           .expected = "block scales for fp4 operands",
           .fix = fmt::format("NVFP4 and MXFP4 have block scales; without them, {} multiplies the codes themselves",
                              print_instruction(plan)),
           .severity = Severity::warning}};
}

void require_like_first(const GemmInputs& inputs, const GemmInputs& first, int64_t index) {
  const auto text = [](const Matrix* operand) { return operand ? print_operand(*operand) : "absent"; };
  for (const GemmOperandInfo& row : gemm_operands) {
    const Matrix *const operand = find_operand(inputs, row.id), *const wanted = find_operand(first, row.id);
    if (!operand && !wanted) continue;
    if (operand && wanted && operand->format() == wanted->format() && operand->rows() == wanted->rows() &&
        operand->cols() == wanted->cols())
      continue;
    throw Error({.field = fmt::format("{} of product {}", row.name, index),
                 .seen = text(operand),
                 .expected = fmt::format("{}, as product 0 has", text(wanted))});
  }
  if (inputs.rows == first.rows && inputs.cols == first.cols && inputs.whole_m == first.whole_m &&
      inputs.whole_n == first.whole_n)
    return;
  throw Error({.field = fmt::format("rows, cols, whole of product {}", index),
               .seen = "others",
               .expected = "those of product 0"});
}

}  // namespace bitmma
