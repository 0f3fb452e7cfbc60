// SPDX-License-Identifier: MIT
#include "bitmma/analysis/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "../arithmetic/fma.hpp"
#include "../arithmetic/fused_sum.hpp"
#include "../arithmetic/product.hpp"
#include "../arithmetic/special_values.hpp"
#include "../arithmetic/terms.hpp"
#include "../arithmetic/what_if.hpp"
#include "../core/ieee_environment.hpp"
#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/instruction/evidence.hpp"
#include "bitmma/instruction/statement.hpp"
#include "explain_text.hpp"

namespace bitmma {
namespace {

ExplainedScales explained_scales(const BlockScales& scales, int part) {
  return {.format = scales.a.format(), .a = scales.a(0, part), .b = scales.b(part, 0)};
}

/// An aligned sum in the form in which it was added (fused_sum.hpp).
class ShownSum {
 public:
  ShownSum(const AccumulatorModel& model, std::span<const ExactTerm> terms, const std::optional<Decoded>& c)
      : terms_(aligned_terms(model, terms)), c_(aligned_c(model, c.value_or(Decoded{}))) {
    step_ = sum_aligned(model, terms_, c.value_or(Decoded{}), &kept_);
  }

  /// `name(i)` names term i.
  template <typename Name>
  Alignment alignment(const Name& name) const {
    return {.max_exponent = step_.max_exponent,
            .by = step_.max_by == StepSum::by_floor ? "the floor"
                  : step_.max_by == StepSum::by_c   ? "C"
                                                    : name(static_cast<size_t>(step_.max_by)),
            .quantum = step_.quantum};
  }
  size_t size() const { return terms_.size(); }
  int64_t sum() const { return step_.sum; }
  AlignedNumber c(ExactSum& lost) const { return shown(c_, kept_.front(), lost); }
  AlignedNumber term(size_t i, ExactSum& lost) const { return shown(terms_[i], kept_[i + 1], lost); }

 private:
  /// The number with its kept part; the rest is added to `lost`.
  AlignedNumber shown(const AlignedTerm& term, int64_t kept, ExactSum& lost) const {
    const Exact value{
        .negative = term.negative, .magnitude = term.magnitude, .exponent = term.exponent - term.fraction};
    const Exact less{
        .negative = kept >= 0, .magnitude = static_cast<uint64_t>(std::abs(kept)), .exponent = step_.quantum};
    ExactSum dropped;
    for (ExactSum* const sum : {&dropped, &lost}) sum->add(value), sum->add(less);
    return {.exponent = term.has_exponent ? std::optional(term.exponent) : std::nullopt,
            .kept = kept,
            .loses_bits = !dropped.is_zero(),
            .dropped = std::ldexp(dropped.approximate(), -step_.quantum)};
  }

  std::vector<AlignedTerm> terms_;
  AlignedTerm c_;
  StepSum step_;
  std::vector<int64_t> kept_;
};

SumOfProducts sum_of_products(const AccumulatorModel& model, std::span<const ExactTerm> terms,
                              const std::optional<Decoded>& c, ExactSum& lost) {
  const ShownSum shown(model, terms, c);
  SumOfProducts sum{.alignment = shown.alignment([&](size_t i) { return fmt::format("k = {}", terms[i].k); }),
                    .c = shown.c(lost),
                    .sum = shown.sum()};
  for (size_t i = 0; i < shown.size(); ++i) sum.terms.push_back(shown.term(i, lost));
  return sum;
}

SumOfGroups sum_of_groups(const AccumulatorModel& model, const BlockScales& scales, std::span<const ExactTerm> terms,
                          const std::optional<Decoded>& c, ExactSum& lost) {
  const ShownSum shown(model, terms, c);
  SumOfGroups sum{.alignment = shown.alignment([](size_t i) { return fmt::format("the scales of group {}", i); }),
                  .c = shown.c(lost),
                  .sum = shown.sum()};
  const auto group_terms = static_cast<size_t>(model.group_terms);
  for (size_t g = 0; g < shown.size(); ++g) {
    ExplainedGroup group{
        .first_term = static_cast<int>(g * group_terms),
        .scales = explained_scales(scales, static_cast<int>(g) * scales.a.cols() / static_cast<int>(shown.size())),
        .aligned = shown.term(g, lost)};
    for (const ExactTerm& term : terms.subspan(g * group_terms, group_terms)) group.sum_quarters += quarters(term);
    sum.groups.push_back(group);
  }
  return sum;
}

SumOfIntegers sum_of_integers(const AccumulatorModel& model, const Operands& operands,
                              std::span<const ExplainedTerm> terms) {
  SumOfIntegers sum{.c = operands.c ? decode_integer(model.output, (*operands.c)(0, 0)) : 0};
  sum.sum = sum.c;
  for (const ExplainedTerm& term : terms) {
    const uint64_t bits = operands.exclusive_or ? term.a_bits ^ term.b_bits : term.a_bits & term.b_bits;
    const int64_t product =
        decode_integer(operands.a.format(), term.a_bits) * decode_integer(operands.b.format(), term.b_bits);
    sum.products.push_back(model.arithmetic == Arithmetic::popcount ? static_cast<int64_t>(bits & 1)
                           : operands.negate_a != operands.negate_b ? -product
                                                                    : product);
    sum.sum += sum.products.back();
  }
  return sum;
}

ExplainedSum sum_of_floats(const AccumulatorModel& model, const Operands& operands, std::span<const ExactTerm> terms,
                           ExactSum& lost) {
  const std::optional<Decoded> c = exact_c(operands, 0, 0, model.output);
  if (const std::optional<uint32_t> code = special_result(model.output, terms, c)) return SpecialResult{*code};
  if (model.scaling == Scaling::exact_groups) return sum_of_groups(model, *operands.scales, terms, c, lost);
  return sum_of_products(model, terms, c, lost);
}

/// (code - exact) in units of the last place of `code`.
std::optional<double> error_in_ulp(Format format, uint64_t code, const ExactSum& exact) {
  const FormatInfo& row = info(format);
  const Decoded value = decode(row, code);
  if (value.number != NumberClass::finite) return std::nullopt;
  ExactSum difference;
  difference.add(
      {.negative = value.negative, .magnitude = value.significand, .exponent = value.exponent - row.mantissa_bits});
  difference -= exact;
  return std::ldexp(difference.approximate(), row.mantissa_bits - value.exponent);
}

/// The loss of the step of `sum`; nothing for sums that do not align.
std::optional<StepLoss> loss_of(const ExplainedSum& sum, const ExactSum& lost, Format format, uint64_t d) {
  const auto loss = [&](const Alignment& alignment, int64_t kept) {
    StepLoss step{.aligning = std::ldexp(lost.approximate(), -alignment.quantum)};
    const FormatInfo& row = info(format);
    const Decoded value = decode(row, d);
    if (value.number != NumberClass::finite) return step;
    ExactSum summed;
    summed.add(
        {.negative = kept < 0, .magnitude = static_cast<uint64_t>(std::abs(kept)), .exponent = alignment.quantum});
    step.aligning_ulp = std::ldexp(lost.approximate(), row.mantissa_bits - value.exponent);
    if (const std::optional<double> error = error_in_ulp(format, d, summed)) step.rounding_ulp = 0 - *error;
    return step;
  };
  if (const auto* const products = std::get_if<SumOfProducts>(&sum)) return loss(products->alignment, products->sum);
  if (const auto* const groups = std::get_if<SumOfGroups>(&sum)) return loss(groups->alignment, groups->sum);
  return std::nullopt;
}

/// Selects the upper half of a 32-bit element.
struct UpperHalf {
  Place operator()(SmemRead place) const {
    place.linear += 2, place.place.byte += 2;
    return place;
  }
  template <typename P>
  Place operator()(P place) const {
    place.bit += 16;
    return place;
  }
};

/// The four bits at a place of metadata.
struct NibbleAt {
  const State& state;

  uint32_t operator()(const SmemRead&) const { return 0; }  // metadata is never in shared memory
  uint32_t operator()(const RegisterPlace& place) const {
    return state.words(Field::metadata)[static_cast<size_t>(place.thread)] >> place.bit & 0xF;
  }
  uint32_t operator()(const TmemPlace& place) const {
    const auto lane = static_cast<size_t>(place.cta * tmem_lanes + place.lane);
    const auto columns = static_cast<size_t>(state.columns());
    return state.words(Field::tmem)[lane * columns + static_cast<size_t>(place.column)] >> place.bit & 0xF;
  }
};

/// The places of a case's operands.
struct Places {
  PlaceMap a, b, c;
  std::optional<PlaceMap> metadata = {};
  const State& state;
  int stored_per_chunk = 0;

  explicit Places(const Case& of)
      : a(of.instruction, of.target, of.before, Role::a),
        b(of.instruction, of.target, of.before, Role::b),
        c(of.instruction, of.target, of.before, Role::d),
        state(of.before) {
    if (const Mma mma = mma_of(of.instruction); mma.sparse) {
      metadata.emplace(of.instruction, of.target, of.before, Role::metadata);
      stored_per_chunk = mma.stored_k() / metadata->cols();
    }
  }

  ExplainedMetadata metadata_of(int row, int stored) const {
    const int chunk = stored / stored_per_chunk;
    const Place place = metadata->place_of(row, chunk);
    return {.chunk = chunk, .bits = std::visit(NibbleAt{state}, place), .place = place};
  }

  /// Half `half` of a column of B; see MixedTerm.
  Place half_of_b(int half, int col) const {
    const Place place = b.place_of(half / 2, col);
    return half % 2 ? std::visit(UpperHalf{}, place) : place;
  }
};

/// Explains one output, step by step.
class Explainer {
 public:
  /// `operands` holds only the operands of output (row, col).
  Explainer(const Case& of, const AccumulatorModel& model, const Operands& operands, int row, int col)
      : model_(model), operands_(operands), row_(row), col_(col) {
    if (of.has_state()) places_.emplace(of);
  }

  std::vector<ExplainedStep> steps() const {
    if (model_.arithmetic == Arithmetic::fma_chain || model_.arithmetic == Arithmetic::fma_pairs) return operations();
    std::vector<ExplainedStep> steps;
    static_cast<void>(product_by_steps(model_, operands_, [&](const Operands& operands, const KStep& step) {
      steps.push_back(explain_step(operands, step, steps.empty() && !model_.c_last));
      return code_of_d(steps.back().d);
    }));
    if (model_.c_last && operands_.c) steps.push_back(c_at_last(steps.back().d));
    return steps;
  }

 private:
  bool is_floating() const { return model_.arithmetic == Arithmetic::fused_sum; }
  Matrix code_of_d(uint64_t d) const {
    Matrix c(model_.output, 1, 1);
    c.set_code(0, 0, d);
    return c;
  }

  void put_c(ExplainedStep& step) const {
    step.c_bits = operands_.c->code(0, 0), step.c_format = operands_.c->format();
    // An f16 C with an f32 D is in other registers than D.
    if (places_ && operands_.c->format() == model_.output) step.c_place = places_->c.place_of(row_, col_);
  }

  ExplainedStep c_at_last(uint64_t sum) const {
    const Matrix d = with_c_last(model_, code_of_d(sum), operands_.c);
    ExplainedStep step{.d_format = model_.output,
                       .sum = IeeeOperation{.what = "add, to nearest even", .other = sum},
                       .d = d.code(0, 0)};
    put_c(step);
    return step;
  }

  /// For models that chain IEEE operations, one per step.
  std::vector<ExplainedStep> operations() const {
    std::vector<ExplainedStep> steps;
    const Format inside = model_.arithmetic == Arithmetic::fma_pairs ? Format::f32 : model_.output;
    for (const FmaStep& fma_step : fma_steps(model_, operands_, 0, 0)) {
      ExplainedStep step{.c_bits = fma_step.addend, .c_format = inside, .d_format = inside, .d = fma_step.result};
      switch (fma_step.kind) {
        case FmaStep::Kind::fma:
          step.terms.push_back(term_of(fma_step.term));
          step.sum = IeeeOperation{.what = "fma" + rounding_text()};
          break;
        case FmaStep::Kind::add:
          step.sum = IeeeOperation{.what = "add" + rounding_text(), .other = fma_step.first};
          break;
        case FmaStep::Kind::convert:
          step.sum = IeeeOperation{.what = "converted, to nearest even", .other = fma_step.first};
          step.c_bits.reset(), step.d_format = model_.output;
          break;
      }
      if (steps.empty() && model_.arithmetic == Arithmetic::fma_chain && operands_.c) put_c(step);
      steps.push_back(std::move(step));
    }
    return steps;
  }

  std::string rounding_text() const {
    switch (operands_.rounding) {
      case Rounding::toward_zero: return ", toward zero";
      case Rounding::toward_positive: return ", toward plus infinity";
      case Rounding::toward_negative: return ", toward minus infinity";
      default: return ", to nearest even";
    }
  }

  ExplainedTerm term_of(int stored) const {
    const int k = operands_.selected_k.empty() ? stored : operands_.selected_k[static_cast<size_t>(stored)];
    ExplainedTerm term{.k = k, .a_bits = operands_.a.code(0, stored), .b_bits = operands_.b.code(k, 0)};
    if (places_) put_places(term, stored);
    return term;
  }

  /// `step` holds only the stored columns of `of`.
  ExplainedStep explain_step(const Operands& step, const KStep& of, bool has_own_c) const {
    ExplainedStep explained{.c_format = model_.output,
                            .d_format = model_.output,
                            .d = multiply_accumulate_unchecked(step_model(model_), step).code(0, 0)};
    if (has_own_c && operands_.c) put_c(explained);
    else if (step.c) explained.c_bits = step.c->code(0, 0);
    std::vector<ExactTerm> exact = is_floating() ? exact_terms(step, 0, 0) : std::vector<ExactTerm>{};
    for (int j = 0; j < of.count; ++j) {
      ExplainedTerm term = term_of(of.term(j));
      if (is_floating()) {
        ExactTerm& factors = exact[static_cast<size_t>(j)];
        if (step.b.format() == operands_.b.format()) term.b_bits = factors.b_bits;
        term.product = factors.product;
        term.special = !factors.is_finite();
        factors.k = term.k;
      }
      explained.terms.push_back(std::move(term));
    }
    if (is_floating()) {
      ExactSum lost;
      explained.sum = sum_of_floats(model_, step, exact, lost);
      explained.loss = loss_of(explained.sum, lost, explained.d_format, explained.d);
    } else {
      explained.sum = sum_of_integers(model_, step, explained.terms);
    }
    return explained;
  }

  void put_places(ExplainedTerm& term, int stored) const {
    term.a_place = places_->a.place_of(row_, stored);
    if (places_->metadata) term.metadata = places_->metadata_of(row_, stored);
    const auto mixed = std::ranges::find(operands_.mixed, stored, &MixedTerm::stored);
    if (mixed == operands_.mixed.end()) {
      term.b_place = places_->b.place_of(term.k, col_);
    } else {
      term.b_place = places_->half_of_b(mixed->low_half, col_);
      term.b_high_place = places_->half_of_b(mixed->high_half, col_);
    }
  }

  const AccumulatorModel& model_;
  const Operands& operands_;
  int row_, col_;
  std::optional<Places> places_;
};

/// Adds the exact result, and the results of other rules for the same operands.
void compare(Explanation& e, const AccumulatorModel& model, const Operands& operands) {
  const std::vector<ExactTerm> terms = exact_terms(operands, 0, 0);
  const std::optional<Decoded> c = exact_c(operands, 0, 0, model.output);
  std::optional<ExactSum> exact;
  if (!special_result(model.output, terms, c)) {
    exact = exact_sum(model.output, terms, c);
    e.exact = ExactResult{
        .text = exact->print(), .value = exact->approximate(), .error_ulp = error_in_ulp(model.output, e.d, *exact)};
  }
  for (const WhatIf& what_if : what_ifs(model, operands.a.format(), operands.b.format())) {
    const uint64_t d = compute(what_if, operands, model.output).code(0, 0);
    e.alternatives.push_back({.name = what_if.name,
                              .d = d,
                              .same = d == e.d,
                              .error_ulp = exact ? error_in_ulp(model.output, d, *exact) : std::nullopt});
  }
}

std::string ulp_text(const std::optional<double>& error) {
  return error ? fmt::format("{:+.4g} ulp", *error) : "not finite";
}

std::string kept_text(const AlignedNumber& number) {
  return fmt::format("kept {}{}", number.kept,
                     number.loses_bits ? fmt::format(", dropped {:.4g}", number.dropped) : "");
}

std::string aligned_text(const AlignedNumber& number) {
  return fmt::format("{}  {}", number.exponent ? fmt::format("  e {}", *number.exponent) : "", kept_text(number));
}

std::string loss_text(const StepLoss& loss, int quantum) {
  if (loss.aligning == 0 && loss.rounding_ulp == 0.0) return "dropped: nothing\n";
  const std::string aligning = fmt::format("dropped by aligning: {:.4g} * 2^{}", loss.aligning, quantum);
  if (!loss.aligning_ulp || !loss.rounding_ulp) return aligning + "\n";
  return fmt::format("{}, {:.4g} ulp of D; by rounding the sum to D: {:.4g} ulp\n", aligning, *loss.aligning_ulp,
                     *loss.rounding_ulp);
}

std::string sum_text(const Alignment& alignment, int64_t sum) {
  return fmt::format("largest exponent {} by {}; terms are multiples of 2^{}\nsum of the kept bits: {} * 2^{}\n",
                     alignment.max_exponent, alignment.by, alignment.quantum, sum, alignment.quantum);
}

/// A zero term has no effect and is not shown.
struct ShowsTerm {
  const ExplainedTerm& term;
  size_t j;

  bool operator()(const IeeeOperation&) const { return true; }
  bool operator()(const SumOfIntegers& sum) const { return sum.products[j] != 0; }
  template <typename Sum>
  bool operator()(const Sum&) const {
    return term.product.magnitude != 0 || term.special;
  }
};

std::string scales_text(const ExplainedScales& scales) {
  return fmt::format("scales {} ({}) and {} ({})", print_bits(scales.format, scales.a),
                     print_value(scales.format, scales.a), print_bits(scales.format, scales.b),
                     print_value(scales.format, scales.b));
}

struct AboveTerm {
  size_t j;

  std::string operator()(const SumOfGroups& sum) const {
    const auto position = std::ranges::find(sum.groups, static_cast<int>(j), &ExplainedGroup::first_term);
    if (position == sum.groups.end()) return "";
    const ExplainedGroup& group = *position;
    return fmt::format("group {}: sum {} exactly, {}, {}\n", position - sum.groups.begin(),
                       static_cast<double>(group.sum_quarters) / 4, scales_text(group.scales),
                       group.aligned.exponent
                           ? fmt::format("exponent {}, {}", *group.aligned.exponent, kept_text(group.aligned))
                           : "has no effect");
  }
  template <typename Sum>
  std::string operator()(const Sum&) const {
    return "";
  }
};

struct BesideTerm {
  size_t j;

  std::string operator()(const SumOfProducts& sum) const { return aligned_text(sum.terms[j]); }
  std::string operator()(const SumOfIntegers& sum) const { return fmt::format("  kept {}", sum.products[j]); }
  template <typename Sum>
  std::string operator()(const Sum&) const {
    return "";
  }
};

/// Whether aligning cuts off bits of a term.
struct LosesBits {
  size_t j;

  bool operator()(const SumOfProducts& sum) const { return sum.terms[j].loses_bits; }
  template <typename Sum>
  bool operator()(const Sum&) const {
    return false;
  }
};

struct BesideC {
  std::string operator()(const IeeeOperation&) const { return ""; }
  std::string operator()(const SumOfIntegers& sum) const { return fmt::format("  kept {}", sum.c); }
  std::string operator()(const SpecialResult&) const { return ""; }
  template <typename Sum>
  std::string operator()(const Sum& sum) const {
    return aligned_text(sum.c);
  }
};

/// Adds lines of text, or nothing.
void add_lines(Report& text, std::string lines) {
  if (!lines.empty()) text.add_text(std::move(lines));
}

struct LossOf {
  const std::optional<StepLoss>& loss;

  std::string operator()(const IeeeOperation&) const { return ""; }
  std::string operator()(const SpecialResult&) const { return ""; }
  std::string operator()(const SumOfIntegers&) const { return ""; }
  template <typename Sum>
  std::string operator()(const Sum& sum) const {
    return loss ? loss_text(*loss, sum.alignment.quantum) : "";
  }
};

struct BelowTerms {
  Format d, c;

  std::string operator()(const IeeeOperation& operation) const {
    const std::string other =
        operation.other ? fmt::format("{} ({}) ", print_bits(c, *operation.other), print_value(c, *operation.other))
                        : "";
    return fmt::format("{}{}\n", other, operation.what);
  }
  std::string operator()(const SpecialResult& special) const {
    return fmt::format("an operand is NaN or infinity, which decides the result: {}\n", print_value(d, special.code));
  }
  std::string operator()(const SumOfIntegers& sum) const { return fmt::format("sum {}\n", sum.sum); }
  template <typename Sum>
  std::string operator()(const Sum& sum) const {
    return sum_text(sum.alignment, sum.sum);
  }
};

/// "0xb193f5fe (-4.3e-09)"; if hardware ignores bits, also the bits that it uses.
std::string factor_text(Format format, uint64_t bits) {
  const uint64_t used = used_bits(format, bits);
  return fmt::format("{}{} ({})", print_bits(format, bits), used == bits ? "" : ", used " + print_bits(format, used),
                     print_value(format, used));
}

std::string places_text(const ExplainedTerm& term) {
  if (!term.a_place || !term.b_place) return "";
  const std::string b = term.b_high_place ? fmt::format("{} (lower half) and {} (upper half)", print(*term.b_place),
                                                        print(*term.b_high_place))
                                          : print(*term.b_place);
  std::string text = fmt::format("         a from {}; b from {}\n", print(*term.a_place), b);
  if (term.metadata) {
    text += fmt::format("         metadata {:#06b} of chunk {} from {}\n", term.metadata->bits, term.metadata->chunk,
                        print(term.metadata->place));
  }
  return text;
}

void add_step(Report& text, const Explanation& e, const ExplainedStep& step) {
  for (size_t j = 0; j < step.terms.size(); ++j) {
    const ExplainedTerm& term = step.terms[j];
    add_lines(text, std::visit(AboveTerm{j}, step.sum));
    if (!std::visit(ShowsTerm{term, j}, step.sum)) continue;
    text.add_text(fmt::format("  k {:>3}  a {} x b {}{}", term.k, factor_text(e.a, term.a_bits),
                              factor_text(e.b, term.b_bits), std::visit(BesideTerm{j}, step.sum)),
                  std::visit(LosesBits{j}, step.sum) ? Tone::warning : Tone::plain);
    add_lines(text, places_text(term));
  }
  if (step.c_bits) {
    add_lines(text, fmt::format("  C      {} ({}){}", print_bits(step.c_format, *step.c_bits),
                                print_value(step.c_format, *step.c_bits), std::visit(BesideC{}, step.sum)));
    if (step.c_place) add_lines(text, fmt::format("         from {}", print(*step.c_place)));
  }
  if (!std::holds_alternative<IeeeOperation>(step.sum)) add_lines(text, "terms that are zero are not shown\n\n");
  add_lines(text, std::visit(BelowTerms{e.d_format, step.c_format}, step.sum));
  if (const std::string loss = std::visit(LossOf{step.loss}, step.sum); !loss.empty())
    text.add_text(loss, step.loss->aligning == 0 ? Tone::plain : Tone::warning);
}

}  // namespace

uint64_t used_bits(Format format, uint64_t bits) { return bits & ~low_mask(info(format).ignored_bits); }

namespace {

Explanation explained(const Case& this_case, int row, int col, const AccumulatorModel* replacement) {
  const Mma mma = mma_of(this_case.instruction);
  if (row < 0 || row >= mma.m || col < 0 || col >= mma.n) {
    throw Error({.field = "row, col",
                 .seen = fmt::format("{}, {}", row, col),
                 .expected = fmt::format("0..{}, 0..{}", mma.m - 1, mma.n - 1)});
  }
  const AccumulatorModel& hardware = model_for(this_case.instruction, this_case.target);
  const AccumulatorModel& model = replacement ? *replacement : hardware;
  const Operands operands = block_of(operands_of(this_case), row, 1, col, 1);
  Explanation e{
      .instruction = print(this_case.instruction),
      .rule = print_rule(model),
      .target = this_case.target,
      .evidence = model == hardware ? evidence_of(this_case.instruction, this_case.target) : Evidence::model_choice,
      .a = operands.a.format(),
      .b = operands.b.format(),
      .d_format = mma.d,
      .row = row,
      .col = col,
      .steps = Explainer(this_case, model, operands, row, col).steps()};
  if (model.scaling == Scaling::whole_k) {
    const int parts = operands.scales->a.cols();
    for (int part = 0; part < parts; ++part) {
      e.scales.push_back({.first_k = part * mma.k / parts,
                          .last_k = (part + 1) * mma.k / parts - 1,
                          .scales = explained_scales(*operands.scales, part)});
    }
  }
  e.d = e.steps.back().d;
  if (this_case.has_recorded_d()) e.recorded_d = recorded_d(this_case).code(row, col);
  // Sums of f64 are too wide for the comparison.
  if (model.arithmetic == Arithmetic::fused_sum || model.arithmetic == Arithmetic::fma_pairs)
    compare(e, model, operands);
  return e;
}

}  // namespace

Explanation explain(const Case& this_case, int row, int col, const AccumulatorModel* replacement) {
  return in_ieee_environment([&] { return explained(this_case, row, col, replacement); });
}

std::vector<Explanation> explain_steps(const Case& whole, int row, int col) {
  const Tiling tiling = tiling_of(whole);
  if (tiling.is_one_instruction()) return {explain(whole, row, col)};
  const Mma mma = mma_of(whole.instruction);
  std::vector<Explanation> steps;
  std::optional<Matrix> block;
  for (int step = 0; step < tiling.k; ++step) {
    const Case instruction = instruction_at(whole, row, col, step, block ? &*block : nullptr);
    steps.push_back(explain(instruction, row % mma.m, col % mma.n));
    block = computed_d(instruction);
  }
  return steps;
}

namespace {

Report lines_of(const Explanation& e) {
  Report text = Report::list();
  add_lines(text, fmt::format("{}, row {}, col {}\nrule: {}; {}\n\n", e.instruction, e.row, e.col, e.rule,
                              print(e.evidence, e.target)));
  for (const ScaledPart& part : e.scales) {
    add_lines(text, fmt::format("k {}..{}: {}; their exponents are added to that of every product", part.first_k,
                                part.last_k, scales_text(part.scales)));
  }
  for (size_t i = 0; i < e.steps.size(); ++i) {
    const ExplainedStep& step = e.steps[i];
    if (e.steps.size() > 1) add_lines(text, fmt::format("step {} of {}", i + 1, e.steps.size()));
    add_step(text, e, step);
    add_lines(text, fmt::format("D = {} ({})", print_bits(step.d_format, step.d), print_value(step.d_format, step.d)));
    if (i + 1 < e.steps.size()) {
      const ExplainedStep& next = e.steps[i + 1];
      add_lines(text, next.c_bits == step.d && !next.terms.empty() ? "this D is C of the next step\n\n" : "\n");
    }
  }
  if (e.recorded_d && *e.recorded_d == e.d) text.add_text("the recorded D is equal", Tone::good);
  else if (e.recorded_d)
    text.add_text(fmt::format("the recorded D is {} ({})", print_bits(e.d_format, *e.recorded_d),
                              print_value(e.d_format, *e.recorded_d)),
                  Tone::bad);
  if (info(e.a).ignored_bits > 0) {
    add_lines(text, fmt::format("of {}, only the upper {} bits are used", info(e.a).name,
                                info(e.a).bits - info(e.a).ignored_bits));
  }
  if (e.exact) {
    add_lines(text, fmt::format("exact: {} = {:.17g}; D is {}{}", e.exact->text, e.exact->value,
                                e.exact->error_ulp ? "off by " : "", ulp_text(e.exact->error_ulp)));
  }
  for (const Alternative& other : e.alternatives) {
    add_lines(text, fmt::format("{}: {} ({}){}{}", other.name, print_bits(e.d_format, other.d),
                                print_value(e.d_format, other.d), e.exact ? ", " + ulp_text(other.error_ulp) : "",
                                other.same ? ", the same" : ""));
  }
  return text;
}

}  // namespace

Report describe_in_words(const Explanation& e) {
  return in_ieee_environment([&] { return lines_of(e); });
}

std::string print(const Explanation& e) { return print(describe_in_words(e)); }

}  // namespace bitmma
