// SPDX-License-Identifier: MIT
#include "bitmma/gemm/product_faults.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "../core/ieee_environment.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/interrupt.hpp"
#include "bitmma/gemm/find.hpp"

namespace bitmma {
namespace {

using Lines = std::vector<int>;
/// Line i, of `extent` lines, is read from this line; -1: it is zero.
using From = std::function<int(int i, int extent)>;

/// D at some rows and columns, as a wrong program computes it.
using Compute =
    std::function<Matrix(const GemmPlan&, const GemmInputs&, const Lines& rows, const Lines& cols, int threads)>;

struct FaultRow {
  ProductFault fault = {};
  Compute compute = {};
};

int extent_m(const GemmInputs& inputs) { return inputs.a.rows(); }
int extent_n(const GemmInputs& inputs) { return inputs.b.cols(); }
int extent_k(const GemmInputs& inputs) { return inputs.a.cols(); }

Lines all_of(int extent) {
  Lines lines(static_cast<size_t>(extent));
  std::iota(lines.begin(), lines.end(), 0);
  return lines;
}

Lines mapped(const Lines& lines, int extent, const From& from) {
  Lines result;
  for (const int line : lines) result.push_back(from(line, extent));
  return result;
}

/// The matrix with its columns (or rows) read from others.
Matrix moved(const Matrix& before, bool along_cols, const From& from) {
  Matrix after = before;
  for (int row = 0; row < before.rows(); ++row) {
    for (int col = 0; col < before.cols(); ++col) {
      const int line = along_cols ? from(col, before.cols()) : from(row, before.rows());
      after.set_code(row, col, line < 0 ? 0 : along_cols ? before.code(row, line) : before.code(line, col));
    }
  }
  return after;
}

From shifted(int by) {
  return [by](int i, int n) { return ((i + by) % n + n) % n; };
}

/// Rows and columns of D as the right program computes them.
Matrix right_d(const GemmPlan& plan, const GemmInputs& inputs, const Lines& rows, const Lines& cols, int threads) {
  return gemm(plan, part_of(inputs, rows, cols), threads);
}

/// The operands have other rows of A's side, or other columns of B's side.
Compute with_other_lines(std::vector<GemmOperand> operands, bool of_rows, From from) {
  return [operands = std::move(operands), of_rows, from = std::move(from)](
             const GemmPlan& plan, const GemmInputs& inputs, const Lines& rows, const Lines& cols, int threads) {
    GemmInputs part = part_of(inputs, rows, cols);
    const GemmInputs other = of_rows ? part_of(inputs, mapped(rows, extent_m(inputs), from), cols)
                                     : part_of(inputs, rows, mapped(cols, extent_n(inputs), from));
    for (const GemmOperand operand : operands) set_operand(part, operand, *find_operand(other, operand));
    return gemm(plan, part, threads);
  };
}

/// Changes the operands of the part.
Compute with_part(std::function<void(GemmInputs&)> change) {
  return [change = std::move(change)](const GemmPlan& plan, const GemmInputs& inputs, const Lines& rows,
                                      const Lines& cols, int threads) {
    GemmInputs part = part_of(inputs, rows, cols);
    change(part);
    return gemm(plan, part, threads);
  };
}

/// A, B or both have other elements along K.
Compute with_other_k(bool of_a, bool of_b, const From& from) {
  return with_part([of_a, of_b, from](GemmInputs& part) {
    if (of_a) part.a = moved(part.a, true, from);
    if (of_b) part.b = moved(part.b, false, from);
  });
}

class Catalogue {
 public:
  explicit Catalogue(const GemmInputs& inputs) : inputs_(inputs) {
    const int m = extent_m(inputs), n = extent_n(inputs);
    if (inputs.scale_a && inputs.scale_a->rows() == m && m > 1) add_lines("scale_a", GemmOperand::scale_a, true);
    if (inputs.scale_b && inputs.scale_b->cols() == n && n > 1) add_lines("scale_b", GemmOperand::scale_b, false);
    if (inputs.sfa) add_lines("sfa", GemmOperand::sfa, true);
    if (inputs.sfb) add_lines("sfb", GemmOperand::sfb, false);
    add_exchanged_scales();
    for (const GemmOperand scale : {GemmOperand::scale_a, GemmOperand::scale_b, GemmOperand::sfa, GemmOperand::sfb})
      add_scales(scale);
    if (inputs.bias) {
      add_absent("bias", GemmOperand::bias);
      add_lines("bias", GemmOperand::bias, false);
    }
    if (inputs.c) add_absent("c", GemmOperand::c);
    add_lines("a", GemmOperand::a, true);
    add_lines("b", GemmOperand::b, false);
    add_transposed();
    add_k();
    add_outputs();
  }

  std::vector<FaultRow> rows = {};

 private:
  void add(std::string id, std::string what, std::string_view fix, Compute compute) {
    rows.push_back({.fault = {.id = std::move(id), .what = std::move(what), .fix = std::string(fix)},
                    .compute = std::move(compute)});
  }

  void add_lines(std::string_view name, GemmOperand operand, bool of_rows) {
    const std::string_view line = of_rows ? "row" : "column", letter = of_rows ? "r" : "c";
    const std::string fix = fmt::format("the {} from which {} is read", line, name);
    const int extent = of_rows ? extent_m(inputs_) : extent_n(inputs_);
    for (int by = 1; by <= 256 && by < extent; by *= 2) {
      for (const int signed_by : {by, -by}) {
        add(fmt::format("{}.{}.{:+}", name, line, signed_by),
            fmt::format("{}: that of {} {} {} {}", name, line, letter, signed_by < 0 ? '-' : '+', by), fix,
            with_other_lines({operand}, of_rows, shifted(signed_by)));
      }
      add(fmt::format("{}.{}.exchanged.{}", name, line, by),
          fmt::format("{}: blocks of {} {}s exchanged", name, by, line), fix,
          with_other_lines({operand}, of_rows, [by](int i, int n) { return (i ^ by) < n ? i ^ by : i; }));
    }
    if (extent > 1) {
      add(fmt::format("{}.{}.0", name, line), fmt::format("{}: that of {} 0 everywhere", name, line), fix,
          with_other_lines({operand}, of_rows, [](int, int) { return 0; }));
    }
  }

  void add_absent(std::string_view name, GemmOperand operand) {
    add(fmt::format("{}.absent", name), fmt::format("{} is not added", name), "the epilogue of the call",
        with_part([operand](GemmInputs& part) {
          Matrix zero = *find_operand(part, operand);
          zero.fill(0);
          set_operand(part, operand, std::move(zero));
        }));
  }

  /// Scales of other blocks of K, or none.
  void add_scales(GemmOperand operand) {
    const Matrix* const scales = find_operand(inputs_, operand);
    if (!scales) return;
    const std::string_view name = info(operand).name;
    const bool of_a = operand == GemmOperand::scale_a || operand == GemmOperand::sfa;
    add(fmt::format("{}.ignored", name), fmt::format("{}: not applied", name), "the pointer to the scales in the call",
        with_part([operand](GemmInputs& part) {
          Matrix ones = *find_operand(part, operand);
          const FormatInfo& format = info(ones.format());
          ones.fill(static_cast<uint64_t>(format.bias) << format.mantissa_bits);
          set_operand(part, operand, std::move(ones));
        }));
    const int blocks = of_a ? scales->cols() : scales->rows();
    if (blocks < 2) return;
    const auto add_blocks = [&](std::string_view id, std::string_view what, const From& from) {
      add(fmt::format("{}.block.{}", name, id), fmt::format("{}: {}", name, what),
          "the block of K that a scale belongs to", with_part([operand, of_a, from](GemmInputs& part) {
            set_operand(part, operand, moved(*find_operand(part, operand), of_a, from));
          }));
    };
    add_blocks("+1", "that of the next block of K", shifted(1));
    add_blocks("-1", "that of the previous block of K", shifted(-1));
    add_blocks("0", "that of the first block for all of K", [](int, int) { return 0; });
    add_blocks("exchanged", "neighbouring blocks of K exchanged", [](int i, int n) { return (i ^ 1) < n ? i ^ 1 : i; });
  }

  void add_exchanged_scales() {
    const auto add_pair = [&](GemmOperand of_a, GemmOperand of_b) {
      const Matrix *const a = find_operand(inputs_, of_a), *const b = find_operand(inputs_, of_b);
      if (!a || !b || a->rows() != b->cols() || a->cols() != b->rows() || a->rows() != extent_m(inputs_) ||
          b->cols() != extent_n(inputs_))
        return;
      add(fmt::format("{}.exchanged", info(of_a).name),
          fmt::format("{} and {} exchanged", info(of_a).name, info(of_b).name), "the order of the scales in the call",
          [of_a, of_b](const GemmPlan& plan, const GemmInputs& inputs, const Lines& rows, const Lines& cols,
                       int threads) {
            GemmInputs part = part_of(inputs, rows, cols);
            const Matrix &whole_a = *find_operand(inputs, of_a), &whole_b = *find_operand(inputs, of_b);
            Matrix a_part = *find_operand(part, of_a), b_part = *find_operand(part, of_b);
            for (int i = 0; i < a_part.rows(); ++i)
              for (int j = 0; j < a_part.cols(); ++j)
                a_part.set_code(i, j, whole_b.code(j, rows[static_cast<size_t>(i)]));
            for (int i = 0; i < b_part.rows(); ++i)
              for (int j = 0; j < b_part.cols(); ++j)
                b_part.set_code(i, j, whole_a.code(cols[static_cast<size_t>(j)], i));
            set_operand(part, of_a, std::move(a_part)), set_operand(part, of_b, std::move(b_part));
            return gemm(plan, part, threads);
          });
    };
    add_pair(GemmOperand::scale_a, GemmOperand::scale_b);
    add_pair(GemmOperand::sfa, GemmOperand::sfb);
  }

  void add_transposed() {
    if (inputs_.a.rows() == inputs_.a.cols()) {
      add("a.transposed", "a: transposed", "the layout of A in the call",
          [](const GemmPlan& plan, const GemmInputs& inputs, const Lines& rows, const Lines& cols, int threads) {
            GemmInputs part = part_of(inputs, rows, cols);
            for (int i = 0; i < part.a.rows(); ++i)
              for (int k = 0; k < part.a.cols(); ++k)
                part.a.set_code(i, k, inputs.a.code(k, rows[static_cast<size_t>(i)]));
            return gemm(plan, part, threads);
          });
    }
    if (inputs_.b.rows() != inputs_.b.cols()) return;
    add("b.transposed", "b: transposed", "the layout of B in the call",
        [](const GemmPlan& plan, const GemmInputs& inputs, const Lines& rows, const Lines& cols, int threads) {
          GemmInputs part = part_of(inputs, rows, cols);
          for (int k = 0; k < part.b.rows(); ++k)
            for (int j = 0; j < part.b.cols(); ++j)
              part.b.set_code(k, j, inputs.b.code(cols[static_cast<size_t>(j)], k));
          return gemm(plan, part, threads);
        });
  }

  /// Tiles of K that are read from the stage before, or that are missing.
  void add_k() {
    constexpr int most_tiles = 32;
    const int k = extent_k(inputs_);
    constexpr std::string_view wait = "the wait for the stage's barrier, and its phase",
                               bounds = "the number of tiles of K, and the tail";
    for (const int tile : {32, 64, 128, 256}) {
      const int tiles = (k + tile - 1) / tile;
      if (tiles < 2) continue;
      const auto behind = [tile](int i, int) { return i < tile ? i : i - tile; };
      add(fmt::format("a.behind.{}", tile), fmt::format("a: every tile of {} of K is that of the tile before", tile),
          wait, with_other_k(true, false, behind));
      add(fmt::format("b.behind.{}", tile), fmt::format("b: every tile of {} of K is that of the tile before", tile),
          wait, with_other_k(false, true, behind));
      add(fmt::format("k.without_last.{}", tile), fmt::format("K: the last tile of {} is missing", tile), bounds,
          with_other_k(true, false, [tile, tiles](int i, int) { return i / tile == tiles - 1 ? -1 : i; }));
      if (tiles > most_tiles) continue;
      for (int stale = 1; stale < tiles; ++stale) {
        const auto from = [tile, stale](int i, int) { return i / tile == stale ? i - tile : i; };
        const std::string which = fmt::format("tile {} of {} of K is that of the tile before", stale, tile);
        add(fmt::format("k.stale.{}.{}", tile, stale), "a and b: " + which, wait, with_other_k(true, true, from));
        add(fmt::format("a.stale.{}.{}", tile, stale), "a: " + which, wait, with_other_k(true, false, from));
        add(fmt::format("b.stale.{}.{}", tile, stale), "b: " + which, wait, with_other_k(false, true, from));
      }
      for (int missing = 0; missing + 1 < tiles; ++missing) {
        add(fmt::format("k.without.{}.{}", tile, missing), fmt::format("K: tile {} of {} is missing", missing, tile),
            bounds, with_other_k(true, false, [tile, missing](int i, int) { return i / tile == missing ? -1 : i; }));
      }
    }
  }

  void add_outputs() {
    constexpr std::string_view fix = "the row and the column to which the epilogue stores";
    const auto add_from = [&](std::string id, std::string what, bool of_rows, From from) {
      add(std::move(id), std::move(what), fix,
          [of_rows, from = std::move(from)](const GemmPlan& plan, const GemmInputs& inputs, const Lines& d_rows,
                                            const Lines& d_cols, int threads) {
            return of_rows ? right_d(plan, inputs, mapped(d_rows, extent_m(inputs), from), d_cols, threads)
                           : right_d(plan, inputs, d_rows, mapped(d_cols, extent_n(inputs), from), threads);
          });
    };
    for (const bool of_rows : {true, false}) {
      const std::string_view line = of_rows ? "row" : "column";
      const int extent = of_rows ? extent_m(inputs_) : extent_n(inputs_);
      for (int by = 1; by <= 256 && by < extent; by *= 2) {
        for (const int signed_by : {by, -by})
          add_from(fmt::format("d.{}.{:+}", line, signed_by),
                   fmt::format("d: that of the {} {} further {}", line, by, signed_by < 0 ? "back" : "on"), of_rows,
                   shifted(signed_by));
        add_from(fmt::format("d.{}.exchanged.{}", line, by), fmt::format("d: blocks of {} {}s exchanged", by, line),
                 of_rows, [by](int i, int n) { return (i ^ by) < n ? i ^ by : i; });
      }
    }
    if (extent_m(inputs_) != extent_n(inputs_)) return;
    add("d.transposed", "d: transposed", fix,
        [](const GemmPlan& plan, const GemmInputs& inputs, const Lines& d_rows, const Lines& d_cols, int threads) {
          const Matrix d = right_d(plan, inputs, d_cols, d_rows, threads);
          Matrix turned(d.format(), d.cols(), d.rows());
          for (int row = 0; row < turned.rows(); ++row)
            for (int col = 0; col < turned.cols(); ++col) turned.set_code(row, col, d.code(col, row));
          return turned;
        });
  }

  const GemmInputs& inputs_;
};

/// Up to `most` of the lines that have a wrong output, spread out.
template <typename Differs>
Lines spread_out(int extent, size_t most, const Differs& differs) {
  Lines wrong;
  for (int i = 0; i < extent; ++i)
    if (differs(i)) wrong.push_back(i);
  if (wrong.size() <= most) return wrong;
  Lines picked;
  for (size_t i = 0; i < most; ++i) picked.push_back(wrong[i * wrong.size() / most]);
  return picked;
}

/// A value of D; nothing for zero, subnormals, infinity and NaN, whose ratios say nothing.
std::optional<double> value_of(Format format, uint64_t code) {
  const Decoded value = decode(format, code);
  const FormatInfo& row = info(format);
  if (value.number != NumberClass::finite || value.is_zero() || row.kind != NumberKind::floating) return std::nullopt;
  const double magnitude = std::ldexp(static_cast<double>(value.significand), value.exponent - row.mantissa_bits);
  if (magnitude < std::ldexp(1.0, 1 - row.bias)) return std::nullopt;
  return value.negative ? -magnitude : magnitude;
}

/// The one factor between the right and the wrong outputs of a line, if the intervals of all their ratios meet.
class FactorOfLine {
 public:
  FactorOfLine(double tolerance) : tolerance_(tolerance) {}
  void add(double ratio) {
    const double width = std::abs(ratio) * tolerance_;
    low_ = std::max(low_, ratio - width), high_ = std::min(high_, ratio + width);
    ++count_;
  }
  std::optional<double> value() const {
    return count_ > 1 && low_ <= high_ ? std::optional((low_ + high_) / 2) : std::nullopt;
  }

 private:
  double tolerance_, low_ = -INFINITY, high_ = INFINITY;
  int count_ = 0;
};

double tolerance_of(Format format) { return std::ldexp(1.0, 1 - info(format).mantissa_bits); }

/// Which line's scale gives each factor; empty if some line has none.
std::vector<int> scales_of_factors(const std::vector<double>& factors, const Matrix* scales, double tolerance) {
  if (!scales || scales->size() != factors.size() || scales->format() != Format::f32) return {};
  std::vector<double> values;
  for (const uint32_t code : scales->words()) {
    const std::optional<double> value = value_of(Format::f32, code);
    if (!value) return {};
    values.push_back(*value);
  }
  std::vector<int> from;
  for (size_t i = 0; i < factors.size(); ++i) {
    const auto fits = [&](double value) {
      return std::abs(value / values[i] - factors[i]) <= 2 * tolerance * std::abs(factors[i]);
    };
    const auto line = std::ranges::find_if(values, fits);
    if (line == values.end()) return {};
    from.push_back(static_cast<int>(line - values.begin()));
  }
  return from;
}

std::optional<ConstantFactor> factor_between(const Matrix& right, const Matrix& wrong, const GemmInputs& inputs) {
  const double tolerance = tolerance_of(right.format());
  std::vector<FactorOfLine> rows(static_cast<size_t>(right.rows()), tolerance),
      cols(static_cast<size_t>(right.cols()), tolerance);
  FactorOfLine product(tolerance);
  for (int row = 0; row < right.rows(); ++row) {
    for (int col = 0; col < right.cols(); ++col) {
      const auto x = value_of(right.format(), right.code(row, col)), y = value_of(wrong.format(), wrong.code(row, col));
      if (!x || !y) continue;
      rows[static_cast<size_t>(row)].add(*y / *x), cols[static_cast<size_t>(col)].add(*y / *x);
      product.add(*y / *x);
    }
  }
  const auto is_1 = [&](double factor) { return std::abs(factor - 1) <= tolerance; };
  if (const std::optional<double> factor = product.value()) {
    if (is_1(*factor)) return std::nullopt;
    return ConstantFactor{.of = FactorOf::product, .factors = {*factor}};
  }
  for (const FactorOf of : {FactorOf::rows, FactorOf::cols}) {
    const std::vector<FactorOfLine>& lines = of == FactorOf::rows ? rows : cols;
    ConstantFactor factor{.of = of};
    for (const FactorOfLine& line : lines) {
      if (!line.value()) break;
      factor.factors.push_back(*line.value());
    }
    if (factor.factors.size() != lines.size()) continue;
    factor.scale_from = scales_of_factors(
        factor.factors, find_operand(inputs, of == FactorOf::rows ? GemmOperand::scale_a : GemmOperand::scale_b),
        tolerance);
    return factor;
  }
  return std::nullopt;
}

class ProductSearch {
 public:
  ProductSearch(const GemmInputs& inputs, const Matrix& d, int threads)
      : inputs_(inputs), d_(d), threads_(threads), catalogue_(inputs) {}

  /// False if no fault of this plan explains everything.
  bool try_plan(const GemmPlan& plan) {
    const Matrix right = gemm(plan, inputs_, threads_);
    if (right.format() != d_.format()) return false;
    ProductDiagnosis now{.plan = plan, .outputs = static_cast<int64_t>(d_.size()), .wrong = count_differing(right, d_)};
    if (now.wrong > 0) {
      find_faults(plan, right, now);
      if (now.findings.empty() || !now.findings.front().explains_all) now.factor = factor_between(right, d_, inputs_);
    }
    const bool explains = now.wrong == 0 || (!now.findings.empty() && now.findings.front().explains_all);
    if (!best_ || explains || rank(now) > rank(*best_)) best_ = std::move(now);
    return explains;
  }

  ProductDiagnosis finish() && {
    if (!best_)
      throw Error({.code = ViolationCode::wrong_type,
                   .field = "type of d",
                   .seen = std::string(info(d_.format()).name),
                   .expected = "the output type of the plan"});
    best_->tried = tried_;
    return *std::move(best_);
  }

 private:
  static int64_t rank(const ProductDiagnosis& diagnosis) {
    if (diagnosis.findings.empty()) return diagnosis.factor ? 1 : 0;
    return 2 + diagnosis.findings.front().wrong_explained - diagnosis.findings.front().right_broken;
  }

  void find_faults(const GemmPlan& plan, const Matrix& right, ProductDiagnosis& now) {
    const auto row_differs = [&](int row) {
      for (int col = 0; col < d_.cols(); ++col)
        if (right.code(row, col) != d_.code(row, col)) return true;
      return false;
    };
    const auto col_differs = [&](int col) {
      for (int row = 0; row < d_.rows(); ++row)
        if (right.code(row, col) != d_.code(row, col)) return true;
      return false;
    };
    const Lines rows = spread_out(d_.rows(), 4, row_differs), cols = spread_out(d_.cols(), 8, col_differs);
    const Lines all_rows = all_of(d_.rows()), all_cols = all_of(d_.cols());
    for (const FaultRow& row : catalogue_.rows) {
      check_interrupt();
      ++tried_;
      const Matrix sample = row.compute(plan, inputs_, rows, cols, 1);
      size_t fitting = 0, wrong_fitting = 0;
      for (int i = 0; i < sample.rows(); ++i) {
        for (int j = 0; j < sample.cols(); ++j) {
          const int r = rows[static_cast<size_t>(i)], c = cols[static_cast<size_t>(j)];
          const bool fits = sample.code(i, j) == d_.code(r, c);
          fitting += fits, wrong_fitting += fits && right.code(r, c) != d_.code(r, c);
        }
      }
      if (wrong_fitting == 0 || fitting * 10 < 9 * sample.size()) continue;
      const Matrix faulty = row.compute(plan, inputs_, all_rows, all_cols, threads_);
      ProductFinding finding{.fault = row.fault};
      for (int r = 0; r < d_.rows(); ++r) {
        for (int c = 0; c < d_.cols(); ++c) {
          const bool was_wrong = right.code(r, c) != d_.code(r, c), fits = faulty.code(r, c) == d_.code(r, c);
          finding.wrong_explained += was_wrong && fits, finding.right_broken += !was_wrong && !fits;
        }
      }
      finding.explains_all = finding.wrong_explained == now.wrong && finding.right_broken == 0;
      if (finding.wrong_explained > finding.right_broken) now.findings.push_back(std::move(finding));
    }
    std::ranges::stable_sort(now.findings, std::greater(), [](const ProductFinding& finding) {
      return finding.wrong_explained - finding.right_broken;
    });
    constexpr size_t most = 5;
    if (!now.findings.empty() && now.findings.front().explains_all)
      std::erase_if(now.findings, [](const ProductFinding& finding) { return !finding.explains_all; });
    if (now.findings.size() > most) now.findings.resize(most);
  }

  const GemmInputs& inputs_;
  const Matrix& d_;
  int threads_;
  Catalogue catalogue_;
  std::optional<ProductDiagnosis> best_;
  int64_t tried_ = 0;
};

}  // namespace

std::vector<GemmPlan> usual_plans(const GemmInputs& inputs, const Matrix& d, Target target) {
  constexpr size_t most = 24;
  std::vector<GemmPlan> plans = candidate_plans(inputs, d, {.target = target}, SearchStage::usual);
  if (plans.size() > most) plans.resize(most);
  return plans;
}

std::vector<ProductFault> product_faults(const GemmInputs& inputs) {
  std::vector<ProductFault> faults;
  for (FaultRow& row : Catalogue(inputs).rows) faults.push_back(std::move(row.fault));
  return faults;
}

Matrix faulty_product(const GemmPlan& plan, const GemmInputs& inputs, std::string_view fault_id, int threads) {
  const Catalogue catalogue(inputs);
  const auto row = std::ranges::find(catalogue.rows, fault_id,
                                     [](const FaultRow& fault_row) { return std::string_view(fault_row.fault.id); });
  if (row == catalogue.rows.end()) {
    throw Error({.code = ViolationCode::unknown_name,
                 .field = "fault",
                 .seen = std::string(fault_id),
                 .expected = "the id of a fault that is possible in this product",
                 .fix = "the list of faults names them"});
  }
  return row->compute(plan, inputs, all_of(inputs.a.rows()), all_of(inputs.b.cols()), threads);
}

ProductDiagnosis diagnose_product(std::span<const GemmPlan> plans, const GemmInputs& inputs, const Matrix& d,
                                  int threads) {
  if (plans.empty()) throw Error({.field = "plans", .seen = "none", .expected = "one or more"});
  if (d.rows() != inputs.a.rows() || d.cols() != inputs.b.cols()) {
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = "d",
                 .seen = fmt::format("{} x {}", d.rows(), d.cols()),
                 .expected = fmt::format("{} x {}", inputs.a.rows(), inputs.b.cols())});
  }
  return in_ieee_environment([&] {
    ProductSearch search(inputs, d, threads);
    for (const GemmPlan& plan : plans)
      if (search.try_plan(plan)) break;
    return std::move(search).finish();
  });
}

}  // namespace bitmma
