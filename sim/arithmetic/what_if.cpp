// SPDX-License-Identifier: MIT
#include "what_if.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "bitmma/formats/round.hpp"
#include "product.hpp"

namespace bitmma {
namespace {

__extension__ using Wide = unsigned __int128;

/// A significand with the position of its point.
Exact value_of(Format format, const Decoded& value) {
  return {.negative = value.negative,
          .magnitude = value.significand,
          .exponent = value.exponent - info(format).mantissa_bits};
}

uint32_t round_nearest(Format format, const ExactSum& sum) {
  return static_cast<uint32_t>(round_to(format, sum.rounded_source(), Rounding::nearest_even));
}

/// Adds the products to c one after another, rounding each sum to f32.
uint32_t fma_chain(Format output, std::span<const ExactTerm> terms, const std::optional<Decoded>& c) {
  ExactSum start;
  if (c) start.add(value_of(output, *c));
  uint32_t sum = round_nearest(Format::f32, start);
  for (const ExactTerm& term : terms) {
    const Decoded before = decode(Format::f32, sum);
    if (before.number != NumberClass::finite) break;
    ExactSum step;
    step.add(value_of(Format::f32, before));
    step.add(term.product);
    sum = round_nearest(Format::f32, step);
  }
  if (output == Format::f32) return sum;
  return static_cast<uint32_t>(convert(Format::f32, sum, output, Rounding::nearest_even, Overflow::infinity));
}

/// Product names of the GPUs that have rows. No sm_120 card has been measured.
struct GpuName {
  Target target;
  std::string_view name;
};
constexpr auto gpu_names = std::to_array<GpuName>({
    {Target::sm_70, "a V100"},
    {Target::sm_75, "a T4"},
    {Target::sm_80, "an A100"},
    {Target::sm_89, "an L40S"},
    {Target::sm_90a, "an H200"},
    {Target::sm_100a, "a B200"},
    {Target::sm_120a, "sm_120"},
});

/// "wgmma of an H200".
std::string adder_of(const AccumulatorModel& row) {
  const Target target = row.targets.first();
  const auto* const gpu_name = std::ranges::find(gpu_names, target, &GpuName::target);
  return fmt::format("{} of {}", print(row.family), gpu_name == gpu_names.end() ? print(target) : gpu_name->name);
}

}  // namespace

void ExactSum::add(const Exact& term) {
  if (term.magnitude == 0) return;
  const int position = term.exponent - lowest_exponent;  // position of the lowest bit
  const auto word = static_cast<size_t>(position / 64);
  const int shift = position % 64;
  const uint64_t low = term.magnitude << shift, high = shift == 0 ? 0 : term.magnitude >> (64 - shift);
  uint64_t carry = 0;
  for (size_t i = word; i < words; ++i) {
    const uint64_t part = i == word ? low : i == word + 1 ? high : 0;
    if (term.negative) {
      const Wide difference = Wide{words_[i]} - part - carry;
      words_[i] = static_cast<uint64_t>(difference);
      carry = static_cast<uint64_t>(difference >> 64) & 1;
    } else {
      const Wide sum = Wide{words_[i]} + part + carry;
      words_[i] = static_cast<uint64_t>(sum);
      carry = static_cast<uint64_t>(sum >> 64);
    }
  }
}

ExactSum& ExactSum::operator-=(const ExactSum& other) {
  uint64_t borrow = 0;
  for (size_t i = 0; i < words; ++i) {
    const Wide difference = Wide{words_[i]} - other.words_[i] - borrow;
    words_[i] = static_cast<uint64_t>(difference);
    borrow = static_cast<uint64_t>(difference >> 64) & 1;
  }
  return *this;
}

bool ExactSum::is_zero() const {
  return std::ranges::all_of(words_, [](uint64_t word) { return word == 0; });
}

std::array<uint64_t, ExactSum::words> ExactSum::magnitude() const {
  if (!negative()) return words_;
  ExactSum zero;
  zero -= *this;
  return zero.words_;
}

Exact ExactSum::rounded_source() const {
  const auto bits = magnitude();
  int top = words - 1;
  while (top >= 0 && bits[static_cast<size_t>(top)] == 0) --top;
  if (top < 0) return {};
  const int leading = 64 * top + 63 - std::countl_zero(bits[static_cast<size_t>(top)]);
  const int lowest = std::max(leading - 62, 0);
  Exact exact{.negative = negative(), .magnitude = 0, .exponent = lowest + lowest_exponent};
  for (int bit = leading; bit >= lowest; --bit)
    exact.magnitude = exact.magnitude << 1 | (bits[static_cast<size_t>(bit / 64)] >> bit % 64 & 1);
  for (int bit = 0; bit < lowest; ++bit) exact.magnitude |= bits[static_cast<size_t>(bit / 64)] >> bit % 64 & 1;
  return exact;
}

double ExactSum::approximate() const {
  const Exact exact = rounded_source();
  const double value = std::ldexp(static_cast<double>(exact.magnitude), exact.exponent);
  return exact.negative ? -value : value;
}

std::string ExactSum::print() const {
  const auto bits = magnitude();
  int first = 0, last = 64 * words - 1;
  const auto bit_at = [&](int bit) { return bits[static_cast<size_t>(bit / 64)] >> bit % 64 & 1; };
  while (last >= 0 && !bit_at(last)) --last;
  if (last < 0) return "0";
  while (!bit_at(first)) ++first;
  std::string digits;
  for (int low = first; low <= last; low += 4) {
    uint64_t digit = 0;
    for (int i = 0; i < 4 && low + i <= last; ++i) digit |= bit_at(low + i) << i;
    digits.insert(digits.begin(), "0123456789abcdef"[digit]);
  }
  return fmt::format("{}0x{} * 2^{}", negative() ? "-" : "", digits, first + lowest_exponent);
}

ExactSum exact_sum(Format output, std::span<const ExactTerm> terms, const std::optional<Decoded>& c) {
  ExactSum sum;
  for (const ExactTerm& term : terms) sum.add(term.product);
  if (c) sum.add(value_of(output, *c));
  return sum;
}

std::vector<WhatIf> what_ifs(const AccumulatorModel& own, Format a, Format b) {
  std::vector<WhatIf> rules;
  const auto is_sum = [](const AccumulatorModel& row) {
    return row.arithmetic == Arithmetic::fused_sum || row.arithmetic == Arithmetic::fma_pairs;
  };
  if (!is_sum(own)) return rules;
  for (const AccumulatorModel& row : accumulator_models()) {
    const bool same_sum = is_sum(row) && row.output == own.output && row.scaling == own.scaling &&
                          row.quad_pairs == own.quad_pairs && row.inputs.contains(a) && row.inputs.contains(b);
    const bool is_own = row.family == own.family && row.targets == own.targets;
    // Many GPUs add alike: lists each rule once, under the first GPU that has it.
    const bool is_known =
        std::ranges::any_of(rules, [&](const WhatIf& other) { return print_rule(other.model) == print_rule(row); });
    if (!same_sum || is_own || is_known) continue;
    rules.push_back(
        {.kind = WhatIf::Kind::model, .name = fmt::format("{}: {}", adder_of(row), print_rule(row)), .model = row});
  }
  rules.push_back({.kind = WhatIf::Kind::fma_chain, .name = "fp32 FMA chain in order of k"});
  rules.push_back({.kind = WhatIf::Kind::correctly_rounded, .name = "exact sum, rounded once to nearest even"});
  return rules;
}

Matrix compute(const WhatIf& what_if, const Operands& operands, Format output) {
  if (what_if.kind == WhatIf::Kind::model) return multiply_accumulate_unchecked(what_if.model, operands);
  Matrix d(output, operands.a.rows(), operands.b.cols());
  const Factors factors(operands);
  std::vector<ExactTerm> terms;
  for (int row = 0; row < d.rows(); ++row) {
    for (int col = 0; col < d.cols(); ++col) {
      factors.find_terms(row, col, terms);
      const std::optional<Decoded> c = exact_c(operands, row, col, output);
      if (const auto special = special_result(output, terms, c)) {
        d(row, col) = *special;
      } else if (what_if.kind == WhatIf::Kind::correctly_rounded) {
        d(row, col) = round_nearest(output, exact_sum(output, terms, c));
      } else {
        d(row, col) = fma_chain(output, terms, c);
      }
    }
  }
  return d;
}

}  // namespace bitmma
