// SPDX-License-Identifier: MIT
#include "checks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bitmma/core/error.hpp"
#include "budget.hpp"
#include "kernels/kernels.hpp"

namespace bitmma {
namespace {

std::string extents(const Matrix& matrix) { return fmt::format("{} x {}", matrix.rows(), matrix.cols()); }
std::string name_of(Format format) { return std::string(info(format).name); }

/// Limit for a model: the slow path then adds 2^16 terms in 64 bits.
constexpr int most_fraction_bits = 45;
constexpr int most_group_terms = 128;

/// True if the functions of the model's arithmetic support the format.
bool can_read(const AccumulatorModel& model, Format format) {
  if (model.arithmetic == Arithmetic::integer)
    return info(format).kind == NumberKind::integer && info(format).is_operand;
  if (model.arithmetic == Arithmetic::popcount) return format == Format::b1;
  if (model.arithmetic == Arithmetic::fma_chain) return format == model.output;
  if (model.arithmetic == Arithmetic::fma_pairs) return format == Format::f16;
  if (model.scaling == Scaling::exact_groups) return format == Format::e2m1;
  const FormatInfo& row = info(format);
  return row.kind == NumberKind::floating && row.is_signed && row.bits <= 32;
}

/// Collects violations. A passed check costs only a comparison: text is made only for violations.
class Agreement {
 public:
  Agreement(const AccumulatorModel& model, const Operands& operands, Inputs inputs)
      : model_(model), operands_(operands), inputs_(inputs) {}

  std::vector<Violation> violations() {
    check_model();
    check_formats();
    check_shapes();
    check_selection();
    check_scales();
    check_options();
    return std::move(found_);
  }

 private:
  bool is_fused() const { return model_.arithmetic == Arithmetic::fused_sum; }
  bool is_grouped() const { return is_fused() && model_.scaling == Scaling::exact_groups; }
  bool has_group() const { return model_.group_terms >= 1 && model_.group_terms <= most_group_terms; }

  bool is_legal(Format format) const {
    return can_read(model_, format) && (inputs_ == Inputs::of_arithmetic || model_.inputs.contains(format));
  }
  std::string legal_formats() const {
    std::string text;
    for (const FormatInfo& row : formats) {
      if (is_legal(row.id)) text += (text.empty() ? "" : " or ") + std::string(row.name);
    }
    return text;
  }

  void refuse(std::string field, std::string seen, std::string expected, std::string fix = {}) {
    found_.push_back(
        {.field = std::move(field), .seen = std::move(seen), .expected = std::move(expected), .fix = std::move(fix)});
  }

  /// The table's rows are correct; this checks models that a caller changed.
  void check_model() {
    const FormatInfo& output = info(model_.output);
    const bool is_chain = model_.arithmetic == Arithmetic::fma_chain || model_.arithmetic == Arithmetic::fma_pairs;
    const bool fits = is_fused() ? output.infinity() && output.bits <= 32
                      : is_chain ? output.infinity().has_value()
                                 : model_.output == Format::s32;
    if (!fits) refuse("output of the model", name_of(model_.output), is_fused() || is_chain ? "f32 or f16" : "s32");
    if (is_fused() && (model_.output_fraction_bits < 0 || model_.output_fraction_bits > output.mantissa_bits))
      refuse("output_fraction_bits of the model", std::to_string(model_.output_fraction_bits),
             fmt::format("0..{}", output.mantissa_bits));
    if (is_fused() && model_.fraction_bits > most_fraction_bits)
      refuse("fraction_bits of the model", std::to_string(model_.fraction_bits),
             fmt::format("at most {}", most_fraction_bits));
    if (is_grouped() && !has_group()) {
      refuse("group_terms of the model", std::to_string(model_.group_terms), fmt::format("1..{}", most_group_terms));
      return;
    }
    const bool whole_groups = !is_grouped() || model_.terms_per_step % model_.group_terms == 0;
    if (model_.terms_per_step < 0 || !whole_groups)
      refuse("terms_per_step of the model", std::to_string(model_.terms_per_step),
             is_grouped() ? fmt::format("0 or a multiple of {}", model_.group_terms) : "0 or more");
  }

  void check_formats() {
    for (const auto& [name, matrix] : {std::pair("A", &operands_.a), std::pair("B", &operands_.b)}) {
      if (!is_legal(matrix->format()))
        refuse(fmt::format("format of {}", name), name_of(matrix->format()), legal_formats());
    }
    const bool is_narrow_c = model_.quad_pairs && operands_.c && operands_.c->format() == Format::f16;
    for (const auto& [name, matrix] : {std::pair("A", &operands_.a), std::pair("B", &operands_.b)}) {
      const auto zero_bits = static_cast<uint32_t>(info(matrix->format()).zero_bits);
      if (zero_bits == 0) continue;
      const auto words = matrix->words();
      const auto wrong = std::ranges::find_if(words, [&](uint32_t code) { return (code & zero_bits) != 0; });
      if (wrong == words.end()) continue;
      refuse(fmt::format("{} of {}", name_of(matrix->format()), name), fmt::format("{:#06x}", *wrong),
             fmt::format("codes without the bits {:#06x}", zero_bits), "their meaning is not defined");
    }
    if (operands_.c && operands_.c->format() != model_.output && !is_narrow_c)
      refuse("format of C", name_of(operands_.c->format()), name_of(model_.output));
  }

  void check_shapes() {
    const Matrix &a = operands_.a, &b = operands_.b;
    if (a.size() == 0) refuse("A", extents(a), "at least 1 x 1");
    if (b.size() == 0) refuse("B", extents(b), "at least 1 x 1");
    if (operands_.selected_k.empty() && a.cols() != b.rows())
      refuse("B", extents(b), fmt::format("{} rows, the number of columns of A", a.cols()),
             "or given with selected_k, if A is sparse");
    if (operands_.c && (operands_.c->rows() != a.rows() || operands_.c->cols() != b.cols()))
      refuse("C", extents(*operands_.c), fmt::format("{} x {}", a.rows(), b.cols()));
    if (model_.arithmetic == Arithmetic::fma_pairs && a.cols() != 4)
      refuse("A", extents(a), "4 columns: the model's row is that of m8n8k4");
    if (model_.step_order == StepOrder::byte_pairs && a.cols() % 4 != 0)
      refuse("A", extents(a), "a multiple of 4 columns: steps take two of every four", "pad it with zeros");
    if (is_grouped() && has_group() && a.cols() % model_.group_terms != 0)
      refuse("A", extents(a), fmt::format("a multiple of {} columns", model_.group_terms), "pad it with zeros");
    if (model_.arithmetic == Arithmetic::integer && a.cols() > kernels::most_integer_terms)
      refuse("A", extents(a), fmt::format("at most {} columns", kernels::most_integer_terms), "split K");
  }

  void check_selection() {
    const std::vector<uint16_t>& selected = operands_.selected_k;
    const Matrix &a = operands_.a, &b = operands_.b;
    if (!selected.empty()) {
      if (selected.size() != a.size())
        refuse("selected_k", fmt::format("{} entries", selected.size()),
               fmt::format("{}, one per element of A", a.size()));
      uint16_t largest = 0;
      for (const uint16_t k : selected) largest = std::max(largest, k);
      if (largest >= b.rows()) refuse("selected_k", std::to_string(largest), fmt::format("0..{}", b.rows() - 1));
      if (operands_.swapped) refuse("selected_k", "given", "absent with swapped operands");
      if (model_.arithmetic == Arithmetic::popcount) refuse("selected_k", "given", "none with b1");
    }
    if (!operands_.mixed.empty()) check_mixed();
  }

  void check_mixed() {
    const Matrix &a = operands_.a, &b = operands_.b;
    if (operands_.selected_k.empty() || info(b.format()).bits != 32)
      refuse("mixed", fmt::format("{} terms", operands_.mixed.size()), "absent except with sparse tf32");
    if (!std::ranges::is_sorted(operands_.mixed, {}, &MixedTerm::row))
      refuse("mixed", "another order", "terms ordered by row");
    for (const MixedTerm& mixed : operands_.mixed) {
      if (mixed.row < a.rows() && mixed.stored < a.cols() && mixed.low_half < 2 * b.rows() &&
          mixed.high_half < 2 * b.rows())
        continue;
      refuse(
          "mixed",
          fmt::format("row {}, stored {}, halves {} and {}", mixed.row, mixed.stored, mixed.low_half, mixed.high_half),
          fmt::format("inside {}, halves inside 0..{}", extents(a), 2 * b.rows() - 1));
      return;
    }
  }

  void check_scales() {
    if ((model_.scaling != Scaling::none) != operands_.scales.has_value()) {
      refuse("scales", operands_.scales ? "given" : "none",
             operands_.scales ? "absent: the model has no scaling" : "given: the model scales its terms");
      return;
    }
    if (!operands_.scales) return;
    const Matrix &a = operands_.scales->a, &b = operands_.scales->b;
    // A hypothesis may give every product of shorter blocks its own scales.
    const bool whole_k = model_.scaling == Scaling::whole_k && inputs_ == Inputs::of_model;
    for (const auto& [name, matrix] : {std::pair("A", &a), std::pair("B", &b)}) {
      const Format format = matrix->format();
      const bool is_fraction = format == Format::ue4m3 || format == Format::ue5m3;
      if (format != Format::ue8m0 && (whole_k || !is_fraction))
        refuse(fmt::format("format of the scales of {}", name), name_of(format),
               whole_k ? "ue8m0" : "ue8m0, ue4m3 or ue5m3");
    }
    constexpr int most_k_of_scale = 32;  // in stored elements, for scales that span all of K
    const int terms = whole_k                       ? most_k_of_scale
                      : is_grouped() && has_group() ? model_.group_terms
                                                    : group_size,
              groups = std::max(whole_k ? 1 : 0, operands_.a.cols() / terms), chunks = a.cols();
    if (a.rows() != operands_.a.rows() || chunks < 1 || groups % chunks != 0)
      refuse("scales of A", extents(a),
             fmt::format("{} rows, the number of rows of A, and {}", operands_.a.rows(),
                         whole_k ? (groups == 1 ? "1 column" : fmt::format("1 or {} columns", groups))
                                 : fmt::format("a number of columns that divides {}", groups)));
    if (const int step = model_.terms_per_step; step > 0 && chunks > 1 && operands_.a.cols() % chunks == 0) {
      const int block = operands_.a.cols() / chunks;
      if (step % block != 0 && block % step != 0)
        refuse("terms_per_step of the model", std::to_string(step),
               fmt::format("0, or a multiple or divisor of {}, the number of terms per scale", block));
    }
    if (b.rows() != chunks || b.cols() != operands_.b.cols())
      refuse("scales of B", extents(b), fmt::format("{} x {}", chunks, operands_.b.cols()));
  }

  void check_options() {
    const int largest = is_fused() ? 15 : 0;
    if (operands_.scale_input_d < 0 || operands_.scale_input_d > largest)
      refuse("scale_input_d", std::to_string(operands_.scale_input_d), is_fused() ? "0..15" : "0 for integers");
    if (operands_.exclusive_or && model_.arithmetic != Arithmetic::popcount)
      refuse("exclusive_or", "true", "false except for b1");
    if (operands_.rounding != Rounding::nearest_even && model_.arithmetic != Arithmetic::fma_chain)
      refuse("rounding", "another", "nearest_even except for f64");
  }

  const AccumulatorModel& model_;
  const Operands& operands_;
  Inputs inputs_;
  std::vector<Violation> found_;
};

}  // namespace

void require_agreement(const AccumulatorModel& model, const Operands& operands, Inputs inputs) {
  std::vector<Violation> violations = Agreement(model, operands, inputs).violations();
  if (!violations.empty()) throw Error(std::move(violations));
}

}  // namespace bitmma
