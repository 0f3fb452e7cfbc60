// SPDX-License-Identifier: MIT
#include "outputs.hpp"

#include <algorithm>
#include <utility>

#include "../../arithmetic/product.hpp"
#include "../../arithmetic/special_values.hpp"
#include "hypotheses.hpp"

namespace bitmma {
namespace {

bool can_take_pairs(const Operands& operands) { return !operands.scales && operands.a.cols() % 4 == 0; }

Operands ordered_in_pairs(const AccumulatorModel& blank, const Operands& operands) {
  AccumulatorModel model = blank;
  model.step_order = StepOrder::byte_pairs;
  std::vector<int> columns;
  for_each_step(model, operands.a.cols(), [&](const KStep& step) {
    for (int i = 0; i < step.count; ++i) columns.push_back(step.term(i));
  });
  return step_of(model, operands, columns);
}

/// Index of a product variant: the order of steps and the overrides of a term.
size_t index_of(const AccumulatorModel& model) {
  return (model.step_order == StepOrder::byte_pairs ? 4u : 0u) + (model.overrides.product_normalised ? 2u : 0u) +
         (model.overrides.zero_product_has_exponent ? 1u : 0u);
}

}  // namespace

AnsweredCase::AnsweredCase(const AccumulatorModel& blank, Operands operands, Matrix d)
    : operands_(std::move(operands)), d_(std::move(d)) {
  const FormatInfo& a = info(operands_.a.format());
  if (a.kind != NumberKind::floating || a.bits > 32) return;
  factors_.emplace(operands_);
  if (!can_take_pairs(operands_)) return;
  in_pairs_ = ordered_in_pairs(blank, operands_);
  factors_in_pairs_.emplace(*in_pairs_);
}

void AnsweredCase::find_terms(StepOrder order, int row, int col, std::vector<ExactTerm>& terms) const {
  (order == StepOrder::byte_pairs ? factors_in_pairs_ : factors_)->find_terms(row, col, terms);
}

AnsweredOutput::AnsweredOutput(const AnsweredCase& answered, const AccumulatorModel& blank, int row, int col)
    : case_(&answered), row_(row), col_(col), d_(answered.d()(row, col)) {
  const Operands& operands = answered.operands();
  if (operands.c) {
    c_code_ = static_cast<uint32_t>(convert(operands.c->format(), (*operands.c)(row, col), blank.output,
                                            Rounding::nearest_even, Overflow::infinity));
    c_ = *exact_c(operands, row, col, blank.output);
  }
  std::vector<ExactTerm> terms;
  answered.find_terms(StepOrder::ascending, row, col, terms);
  special_ = special_result(blank.output, terms, c_).has_value();
  if (special_) return;

  const auto fill = [&](Variant& variant, const AccumulatorModel& model) {
    variant.length = static_cast<int>(terms.size());
    const std::vector<AlignedTerm> all = aligned_terms(model, terms);
    const size_t places = terms.size() / all.size();
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].magnitude == 0 && !all[i].has_exponent) continue;
      variant.terms.push_back(all[i]);
      variant.place.push_back(static_cast<uint16_t>(i * places));
    }
  };
  AccumulatorModel model = blank;
  model.scaling = operands.scales ? Scaling::whole_k : Scaling::none;
  for (const StepOrder order : {StepOrder::ascending, StepOrder::byte_pairs}) {
    if (order == StepOrder::byte_pairs) {
      if (!can_take_pairs(operands)) break;
      answered.find_terms(order, row, col, terms);
    }
    model.step_order = order;
    for (const bool normalised : {false, true}) {
      for (const bool zeros : {false, true}) {
        model.overrides = {.product_normalised = normalised, .zero_product_has_exponent = zeros};
        fill(variants_[index_of(model)], model);
      }
    }
  }
  model.scaling = Scaling::exact_groups;
  const int scales = operands.scales ? operands.scales->a.cols() : 0;
  for (const int group : group_terms_of(operands.a.format(), operands.b.format(), operands.a.cols(), scales)) {
    model.group_terms = group;
    fill(grouped_[group], model);
  }
}

const AnsweredOutput::Variant& AnsweredOutput::variant_of(const AccumulatorModel& model) const {
  return model.scaling == Scaling::exact_groups ? grouped_.at(model.group_terms) : variants_[index_of(model)];
}

Prediction AnsweredOutput::predict(const AccumulatorModel& model) const {
  if (special_) return {.code = spelled_out(model), .highest_idle_floor = StepSum{}.highest_idle_floor};
  const Variant& variant = variant_of(model);
  Decoded c = model.c_last ? decode(model.output, 0) : c_;
  Prediction prediction{.highest_idle_floor = StepSum{}.highest_idle_floor};
  size_t first = 0;
  int end = 0;
  for_each_step(model, variant.length, [&](const KStep& step) {
    if (c.number != NumberClass::finite) return;  // infinities persist
    end += step.count;
    size_t last = first;
    while (last < variant.terms.size() && variant.place[last] < end) ++last;
    const StepSum sum = sum_aligned(model, std::span(variant.terms).subspan(first, last - first), c);
    prediction.code = sum.code;
    prediction.highest_idle_floor = std::min(prediction.highest_idle_floor, sum.highest_idle_floor);
    c = decode(model.output, sum.code);
    first = last;
  });
  prediction.code = with_c_last(model, prediction.code, c_code_, model.output);
  // The sign of a zero may depend on terms that were left out.
  const bool is_zero = (prediction.code & ~info(model.output).sign_bit()) == 0;
  if (is_zero && model.overrides.zero_keeps_sign) prediction.code = spelled_out(model);
  return prediction;
}

uint32_t AnsweredOutput::spelled_out(const AccumulatorModel& model) const {
  thread_local std::vector<ExactTerm> terms;
  case_->find_terms(model.step_order, row_, col_, terms);
  const Operands& operands = case_->operands();
  if (!operands.c) return fused_sum(model, terms, std::nullopt);
  return fused_sum(model, terms, (*operands.c)(row_, col_), operands.scale_input_d, operands.c->format());
}

}  // namespace bitmma
