#include "bitmma/arithmetic/what_if.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "bitmma/formats/round.hpp"

namespace bitmma {
namespace {

__extension__ using Wide = unsigned __int128;

/// A significand and where its point is.
Exact value_of(Format format, const Decoded& value) {
  return {.negative = value.negative,
          .magnitude = value.significand,
          .exponent = value.exponent - info(format).mantissa_bits};
}

}  // namespace

void ExactSum::add(const Exact& term) {
  if (term.magnitude == 0) return;
  const int position = term.exponent - lowest_exponent;  // of the lowest bit
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

bool ExactTerm::is_finite() const {
  const auto finite = [](const std::optional<Decoded>& value) {
    return !value || value->number == NumberClass::finite;
  };
  return finite(a) && finite(b) && finite(scale_a) && finite(scale_b);
}

std::vector<ExactTerm> exact_terms(const Operands& operands, int row, int col) {
  const int stored = operands.a.cols();
  std::vector<ExactTerm> terms(static_cast<size_t>(stored));
  for (int j = 0; j < stored; ++j) {
    ExactTerm& term = terms[static_cast<size_t>(j)];
    term.k = operands.selected_k.empty()
                 ? j
                 : operands.selected_k[static_cast<size_t>(row) * static_cast<size_t>(stored) + static_cast<size_t>(j)];
    term.a = decode(operands.a.format, operands.a(row, j));
    term.b_bits = operands.b(term.k, col);
  }
  const auto [first, last] = std::ranges::equal_range(operands.mixed, row, {}, &MixedTerm::row);
  for (auto mixed = first; mixed != last; ++mixed) {
    const auto half = [&](int h) { return operands.b(h / 2, col) >> 16 * (h % 2) & 0xFFFF; };
    terms[mixed->stored].b_bits = half(mixed->high_half) << 16 | half(mixed->low_half);
  }
  for (int j = 0; j < stored; ++j) {
    ExactTerm& term = terms[static_cast<size_t>(j)];
    term.b = decode(operands.b.format, term.b_bits);
    term.a.negative ^= operands.negate_a;
    term.b.negative ^= operands.negate_b;
    term.product = {.negative = term.a.negative != term.b.negative,
                    .magnitude = uint64_t{term.a.significand} * term.b.significand,
                    .exponent = term.a.exponent + term.b.exponent - info(operands.a.format).mantissa_bits -
                                info(operands.b.format).mantissa_bits};
    if (operands.scales) {
      const int chunk = j * operands.scales->a.cols() / stored;
      term.scale_a = decode(operands.scales->a.format, operands.scales->a(row, chunk));
      term.scale_b = decode(operands.scales->b.format, operands.scales->b(chunk, col));
      for (const auto& scale : {*term.scale_a, *term.scale_b}) {
        term.product.magnitude *= scale.significand;
        term.product.exponent += scale.exponent - info(operands.scales->a.format).mantissa_bits;
      }
    }
    if (!term.is_finite()) term.product.magnitude = 0;
  }
  return terms;
}

std::optional<Decoded> exact_c(const Operands& operands, int row, int col) {
  if (!operands.c) return std::nullopt;
  Decoded c = decode(operands.c->format, (*operands.c)(row, col));
  c.exponent -= operands.scale_input_d;
  return c;
}

std::optional<uint32_t> special_result(Format output, const std::vector<ExactTerm>& terms,
                                       const std::optional<Decoded>& c) {
  const FormatInfo& format = info(output);
  bool nan = c && c->number == NumberClass::nan;
  bool positive = c && c->number == NumberClass::infinity && !c->negative,
       negative = c && c->number == NumberClass::infinity && c->negative;
  for (const ExactTerm& term : terms) {
    const bool infinite = term.a.number == NumberClass::infinity || term.b.number == NumberClass::infinity;
    nan |= term.a.number == NumberClass::nan || term.b.number == NumberClass::nan;
    nan |= (term.scale_a && term.scale_a->number == NumberClass::nan) ||
           (term.scale_b && term.scale_b->number == NumberClass::nan);
    nan |= infinite && (term.a.is_zero() || term.b.is_zero());
    if (infinite) (term.a.negative != term.b.negative ? negative : positive) = true;
  }
  if (nan || (positive && negative)) return format.canonical_nan();
  if (positive) return format.infinity();
  if (negative) return format.sign_bit() | *format.infinity();
  return std::nullopt;
}

ExactSum exact_sum(Format output, const std::vector<ExactTerm>& terms, const std::optional<Decoded>& c) {
  ExactSum sum;
  for (const ExactTerm& term : terms) sum.add(term.product);
  if (c) sum.add(value_of(output, *c));
  return sum;
}

std::vector<WhatIf> what_ifs(const AccumulatorModel& own, Format a, Format b) {
  std::vector<WhatIf> found;
  if (own.arithmetic != Arithmetic::fused_sum) return found;
  for (const AccumulatorModel& row : accumulator_models()) {
    if (row.arithmetic != Arithmetic::fused_sum || row.family == own.family || row.output != own.output ||
        row.scaling != own.scaling)
      continue;
    if (!row.inputs.contains(a) || !row.inputs.contains(b)) continue;
    found.push_back({.kind = WhatIf::Kind::model,
                     .name = fmt::format("{}: {}",
                                         row.family == Family::wgmma     ? "wgmma of an H200"
                                         : row.family == Family::tcgen05 ? "tcgen05 of a B200"
                                                                         : "mma.sync of sm_120",
                                         print_rule(row)),
                     .model = row});
  }
  found.push_back({.kind = WhatIf::Kind::fma_chain, .name = "fp32 FMA chain in order of k", .model = {}});
  found.push_back(
      {.kind = WhatIf::Kind::correctly_rounded, .name = "exact sum, rounded once to nearest even", .model = {}});
  return found;
}

BitMatrix compute(const WhatIf& what_if, const Operands& operands, Format output) {
  if (what_if.kind == WhatIf::Kind::model) return multiply_accumulate(what_if.model, operands);
  BitMatrix d(output, operands.a.rows(), operands.b.cols());
  for (int row = 0; row < d.rows(); ++row) {
    for (int col = 0; col < d.cols(); ++col) {
      const std::vector<ExactTerm> terms = exact_terms(operands, row, col);
      const std::optional<Decoded> c = exact_c(operands, row, col);
      if (const auto special = special_result(output, terms, c)) {
        d(row, col) = *special;
      } else if (what_if.kind == WhatIf::Kind::correctly_rounded) {
        d(row, col) = round_to(output, exact_sum(output, terms, c).rounded_source(), Rounding::nearest_even);
      } else {
        ExactSum start;
        if (c) start.add(value_of(output, *c));
        uint32_t sum = round_to(Format::f32, start.rounded_source(), Rounding::nearest_even);
        for (const ExactTerm& term : terms) {
          const Decoded before = decode(Format::f32, sum);
          if (before.number != NumberClass::finite) break;
          ExactSum step;
          step.add(value_of(Format::f32, before));
          step.add(term.product);
          sum = round_to(Format::f32, step.rounded_source(), Rounding::nearest_even);
        }
        d(row, col) =
            output == Format::f32 ? sum : convert(Format::f32, sum, output, Rounding::nearest_even, Overflow::infinity);
      }
    }
  }
  return d;
}

}  // namespace bitmma
