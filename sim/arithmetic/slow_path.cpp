// SPDX-License-Identifier: MIT
#include "slow_path.hpp"

#include <optional>
#include <vector>

#include "../formats/matrix_inside.hpp"
#include "fused_sum.hpp"
#include "special_values.hpp"
#include "terms.hpp"

namespace bitmma {
namespace {

/// Computes outputs one after another.
class SlowOutputs {
 public:
  SlowOutputs(const AccumulatorModel& model, const Operands& operands)
      : model_(model), operands_(operands), factors_(operands) {}

  uint32_t at(int row, int col) {
    factors_.find_terms(row, col, terms_);
    if (!operands_.c) return fused_sum(model_, terms_, std::nullopt);
    return fused_sum(model_, terms_, (*operands_.c)(row, col), operands_.scale_input_d, operands_.c->format());
  }

 private:
  const AccumulatorModel& model_;
  const Operands& operands_;
  const Factors factors_;
  std::vector<ExactTerm> terms_;
};

/// Special values in the rows of A or the columns of B. From factor 64 on factors share bits, and a bit means "any
/// special value".
class Lines {
 public:
  static Lines rows_of(const Matrix& a, bool negate, const Matrix* scales) {
    Lines lines(a.rows());
    lines.add<true>(a, negate);
    if (scales) lines.add_scales<true>(*scales);
    return lines;
  }
  static Lines cols_of(const Matrix& b, bool negate, const Matrix* scales) {
    Lines lines(b.cols());
    lines.add<false>(b, negate);
    if (scales) lines.add_scales<false>(*scales);
    return lines;
  }
  const SpecialFactors& operator[](int line) const { return factors_[static_cast<size_t>(line)]; }

 private:
  explicit Lines(int count) : factors_(static_cast<size_t>(count)) {}

  template <bool lines_are_rows>
  void add(const Matrix& matrix, bool negate) {
    const FormatInfo& format = info(matrix.format());
    for (int row = 0; row < matrix.rows(); ++row) {
      for (int col = 0; col < matrix.cols(); ++col) {
        Decoded factor = decode(format, matrix(row, col));
        factor.negative ^= negate;
        factors_[lines_are_rows ? row : col].add(factor, (lines_are_rows ? col : row) % 64);
      }
    }
  }
  /// A NaN scale makes its whole line NaN.
  template <bool lines_are_rows>
  void add_scales(const Matrix& scales) {
    const FormatInfo& format = info(scales.format());
    for (int row = 0; row < scales.rows(); ++row) {
      for (int col = 0; col < scales.cols(); ++col)
        factors_[lines_are_rows ? row : col].nan |= decode(format, scales(row, col)).number == NumberClass::nan;
    }
  }

  std::vector<SpecialFactors> factors_;
};

}  // namespace

Matrix slow_product(const AccumulatorModel& model, const Operands& operands) {
  SlowOutputs outputs(model, operands);
  Matrix d = unfilled_matrix(model.output, operands.a.rows(), operands.b.cols());
  for (int row = 0; row < d.rows(); ++row) {
    for (int col = 0; col < d.cols(); ++col) d(row, col) = outputs.at(row, col);
  }
  return d;
}

void replace_outputs_of_subnormal_c(const AccumulatorModel& model, const Operands& operands, Matrix& d) {
  const FormatInfo& format = info(operands.c->format());
  std::optional<SlowOutputs> outputs;
  for (int row = 0; row < d.rows(); ++row) {
    for (int col = 0; col < d.cols(); ++col) {
      const Decoded c = decode(format, (*operands.c)(row, col));
      if (c.significand == 0 || c.significand >> format.mantissa_bits != 0) continue;
      if (!outputs) outputs.emplace(model, operands);
      d(row, col) = outputs->at(row, col);
    }
  }
}

void replace_special_outputs(const AccumulatorModel& model, const Operands& operands, Matrix& d) {
  const std::optional<BlockScales>& scales = operands.scales;
  const Lines of_a = Lines::rows_of(operands.a, operands.negate_a, scales ? &scales->a : nullptr),
              of_b = Lines::cols_of(operands.b, operands.negate_b, scales ? &scales->b : nullptr);
  std::vector<bool> is_mixed(static_cast<size_t>(d.rows()));
  for (const MixedTerm& mixed : operands.mixed) is_mixed[mixed.row] = true;
  // Sparse rows multiply their own rows of B, term by term. For groups only scales are special, for whole lines.
  const bool at_once =
      model.scaling == Scaling::exact_groups || (operands.selected_k.empty() && operands.a.cols() <= 64);
  std::optional<SlowOutputs> outputs;
  const FormatInfo& output = info(model.output);
  for (int row = 0; row < d.rows(); ++row) {
    const SpecialFactors& a = of_a[row];
    for (int col = 0; col < d.cols(); ++col) {
      const SpecialFactors& b = of_b[col];
      const Decoded c = operands.c ? decode(output, (*operands.c)(row, col)) : Decoded{};
      const bool special = ((a.nan | a.infinite | b.nan | b.infinite) != 0) || c.number != NumberClass::finite;
      if (!special && !is_mixed[static_cast<size_t>(row)]) continue;
      if (at_once) {
        SpecialValues met = special_values(a, b);
        met.add_c(c);
        d(row, col) = *met.code(output);
      } else {
        if (!outputs) outputs.emplace(model, operands);
        d(row, col) = outputs->at(row, col);
      }
    }
  }
}

}  // namespace bitmma
