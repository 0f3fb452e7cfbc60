// SPDX-License-Identifier: MIT
#include "probes.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "../../arithmetic/terms.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/formats/round.hpp"
#include "bitmma/stimulus/random_operands.hpp"

namespace bitmma {
namespace {

enum class Probe : uint8_t {
  distances,     // few terms of A; C cancels the largest term or is absent
  steps,         // terms that cancel
  c,             // C far above or below the products
  floor,         // products and C around the smallest exponents
  zeros,         // zeros of both signs, products that round to zero
  specials,      // NaN with payloads, infinities, infinity times zero
  overflow,      // sums around the largest number of D
  empty_terms,   // zeros of A times large numbers of B, with small terms beside them
  ties,          // half an ulp of D, and a much smaller term
  cancellation,  // all terms non-zero, C close to their sum
};

struct Exponents {
  int low = 0, high = 0;
};

Exponents exponents_of(const FormatInfo& format) {
  const Decoded top = decode(format, format.max_finite());
  return {.low = format.min_exponent(), .high = top.exponent};
}

/// +-(1 + mantissa / 2^M) * 2^exponent rounded to the format and clamped to its largest number.
uint64_t number(const FormatInfo& format, bool negative, int exponent, uint64_t mantissa) {
  const uint64_t significand = uint64_t{1} << format.mantissa_bits | (mantissa & format.mantissa_mask());
  return round_to(format, {.negative = negative, .magnitude = significand, .exponent = exponent - format.mantissa_bits},
                  Rounding::toward_zero, format.mantissa_bits, Overflow::saturate);
}

class ProbeMaker {
 public:
  ProbeMaker(const Instruction& instruction, Target target, uint64_t seed, uint64_t case_index)
      : operands_(random_operands(instruction, target, Distribution::integers, seed, case_index)),
        a_(info(operands_.a.format())),
        b_(info(operands_.b.format())),
        c_(info(operands_.c->format())),
        d_(info(mma_of(instruction).d)),
        probe_(static_cast<Probe>(case_index % probe_kinds)),
        round_(case_index / probe_kinds),
        // A case has eight streams; this one follows those of random_operands.
        random_(seed, case_index * 8 + 6) {}

  Operands make() {
    if (a_.kind != NumberKind::floating) {
      make_integers();
    } else if (a_.bits > 32) {
      make_wide();
    } else {
      make_scales();
      make_b();
      make_a();
      make_c();
      if (probe_ == Probe::specials) sprinkle_specials();
    }
    return std::move(operands_);
  }

 private:
  bool coin() { return random_.one_in(2); }

  uint64_t mantissa(const FormatInfo& format) {
    const uint64_t all = format.mantissa_mask();
    switch (random_.below(6)) {
      case 0:
      case 1: return 0;
      case 2: return all;
      case 3: return 1;
      default: return random_.word() & all;
    }
  }

  // Integers: rows and columns of extremes of both signs, C close to the 32-bit limits.
  void make_integers() {
    const auto extreme = [&](const FormatInfo& format, int line) -> uint64_t {
      const uint64_t all = low_mask(format.bits) & ~uint64_t{format.zero_bits}, sign = format.sign_bit();
      if (random_.one_in(4)) return random_.word() & all;
      return line % 4 == 0 ? sign : line % 4 == 1 ? all ^ sign : line % 4 == 2 ? 0 : all;
    };
    for (int row = 0; row < operands_.a.rows(); ++row) {
      for (int col = 0; col < operands_.a.cols(); ++col) operands_.a.set_code(row, col, extreme(a_, row + col / 4));
    }
    for (int row = 0; row < operands_.b.rows(); ++row) {
      for (int col = 0; col < operands_.b.cols(); ++col) operands_.b.set_code(row, col, extreme(b_, col));
    }
    for (uint32_t& code : operands_.c->words()) {
      const uint32_t near = random_.below(1u << random_.below(24));
      code = coin() ? 0x7FFFFFFFu - near : 0x80000000u + near;
    }
  }

  // f64: which NaN is returned if several operands are NaN.
  void make_wide() {
    const auto fill = [&](Matrix& matrix) {
      const FormatInfo& format = info(matrix.format());
      for (int row = 0; row < matrix.rows(); ++row) {
        for (int col = 0; col < matrix.cols(); ++col) {
          const uint64_t sign = coin() ? format.sign_bit() : 0, payload = random_.word64() & format.mantissa_mask();
          const uint32_t kind = random_.below(12);
          const uint64_t code = kind == 0   ? *format.infinity()
                                : kind == 1 ? *format.infinity() | payload
                                : kind == 2 ? 0
                                            : number(format, false, random_.between(-60, 60), payload);
          matrix.set_code(row, col, sign | code);
        }
      }
    };
    fill(operands_.a);
    fill(operands_.b);
    fill(*operands_.c);
  }

  /// Powers of two; with significands if the type has them.
  void make_scales() {
    if (!operands_.scales) return;
    const int reach = static_cast<int>(round_ % 3) * 6;
    for (Matrix* const scales : {&operands_.scales->a, &operands_.scales->b}) {
      const FormatInfo& format = info(scales->format());
      const auto [low, high] = exponents_of(format);
      // Around the smallest f32 number, for both scales together.
      const int center = probe_ == Probe::floor      ? std::max(low, -75)
                         : probe_ == Probe::overflow ? std::min(high, 60)
                                                     : 0;
      if (probe_ == Probe::floor) scale_exponent_ += center;
      for (uint32_t& code : scales->words()) {
        const uint64_t significand_bits = mantissa(format);
        const int exponent = std::clamp(center + random_.between(-reach, reach), low, high);
        code = static_cast<uint32_t>(number(format, false, exponent, significand_bits));
      }
    }
  }

  /// Exponents for the products, chosen by the range of D.
  Exponents products() const {
    const Exponents a = exponents_of(a_), b = exponents_of(b_), d = exponents_of(d_);
    Exponents whole{.low = a.low - a_.mantissa_bits + b.low - b_.mantissa_bits, .high = a.high + b.high};
    switch (probe_) {
      case Probe::floor: {
        const int bottom = d.low - scale_exponent_;
        return {.low = std::max(whole.low, bottom - 40), .high = std::min(whole.high, bottom + 8)};
      }
      case Probe::overflow: return {.low = std::max(whole.low, d.high - 12), .high = std::min(whole.high, d.high)};
      case Probe::zeros: return {.low = whole.low, .high = std::min(whole.high, std::max(whole.low + 20, d.low))};
      default: {
        // Far from both ends of D's range, so that neither matters: f16 ends at 2^15.
        const int high = std::min({whole.high, d.high - 2, 40}), reach = std::min(high - whole.low, 60);
        return {.low = high - reach, .high = high};
      }
    }
  }

  /// Half an ulp of D's subnormals, without the scales.
  int half_of_last_place() const { return d_.min_exponent() - d_.mantissa_bits - 1 - scale_exponent_; }

  // Columns of B: every k at the top exponent or up to `reach_b_` below it; powers of two, and in half of the columns
  // arbitrary significands.
  void make_b() {
    const Exponents range = products(), own = exponents_of(b_);
    // For floors: A and B are normal where their product is half an ulp of D; subnormals have larger exponents.
    const int middle = probe_ == Probe::floor ? half_of_last_place() : range.high;
    top_b_ = std::clamp(middle / 2, own.low, own.high);
    const int lowest = probe_ == Probe::floor ? own.low - b_.mantissa_bits : own.low;
    reach_b_ = std::max(0, std::min(top_b_ - lowest, (range.high - range.low) / 2));
    const bool exact = probe_ == Probe::steps || probe_ == Probe::ties;
    const bool positive = exact || probe_ == Probe::zeros;
    for (int col = 0; col < operands_.b.cols(); ++col) {
      for (int k = 0; k < operands_.b.rows(); ++k) {
        uint64_t bits = exact || col % 4 < 2 ? 0 : mantissa(b_);
        const bool negative = !positive && coin();
        int below = random_.between(0, reach_b_);
        if (probe_ == Probe::steps || col % 4 == 0) below = 0;
        if (probe_ == Probe::floor && col % 4 == 1) below = coin() ? reach_b_ : 0;
        if (probe_ == Probe::floor && col % 4 == 2) below = (col / 4) % (reach_b_ + 1);
        if (probe_ == Probe::ties) below = random_.one_in(4) ? reach_b_ : 0;
        if (probe_ == Probe::ties && col % 4 == 3 && below == 0 && coin()) bits = half_more(b_);
        const bool is_large = probe_ == Probe::empty_terms && coin();
        operands_.b.set_code(k, col, with_junk(b_, number(b_, negative, is_large ? own.high : top_b_ - below, bits)));
      }
    }
  }

  uint64_t with_junk(const FormatInfo& format, uint64_t code) {
    return format.ignored_bits == 0 ? code : code | (random_.word() & low_mask(format.ignored_bits));
  }

  static uint64_t half_more(const FormatInfo& format) { return (format.mantissa_mask() + 1) / 2; }

  struct Element {
    bool negative = false;
    int exponent = 0;
    uint64_t bits = 0;
  };

  /// The non-zero elements of a row of A, with exponents from `low` to `high`.
  std::vector<Element> elements_of(int row, int low, int high) {
    const auto any = [&] {
      const bool negative = coin();
      const int exponent = random_.between(low, high);
      return Element{negative, exponent, mantissa(a_)};
    };
    const auto some = [&](int count) {
      std::vector<Element> elements;
      for (int i = 0; i < count; ++i) elements.push_back(any());
      return elements;
    };
    const int few = 2 + static_cast<int>(random_.below(4));
    std::vector<Element> elements = some(probe_ == Probe::cancellation ? operands_.a.cols() : few);
    switch (probe_) {
      case Probe::steps:
        elements[0] = elements[1] = {.negative = false, .exponent = high, .bits = mantissa(a_)};
        elements[1].negative = true;
        break;
      case Probe::zeros:
        if (row % 4 == 1) elements.clear();
        break;
      case Probe::floor:
        if (row % 4 == 3) elements.clear();  // only C
        if (row % 4 != 0) break;
        // Half an ulp of D and a much smaller term: a tie, if the floor drops the smaller term.
        elements.resize(2);
        elements[0] = {.negative = false, .exponent = half_of_last_place() + random_.between(0, 1) - top_b_, .bits = 0};
        elements[1].exponent = coin() ? low : low + random_.between(0, 8);
        elements[1].bits = 0;
        break;
      case Probe::ties: {
        // Large terms that may carry, half an ulp of their sum in D, and terms that may be too small to matter.
        const int large = 1 + row % 3;
        elements = some(large + 2 + (row % 4 == 3));
        for (int i = 0; i < large; ++i)
          elements[static_cast<size_t>(i)] = {.negative = false, .exponent = high, .bits = 0};
        if (row % 8 == 7) elements[0].bits = a_.mantissa_mask();
        if (row % 4 == 2) elements[0].bits = half_more(a_);  // 1.5: the product of two is greater than 2
        const auto half = static_cast<size_t>(large);
        const int carry = large > 1;
        elements[half] = {.negative = random_.one_in(4),
                          .exponent = high - d_.mantissa_bits - 1 + carry + (random_.one_in(4) ? 1 : 0),
                          .bits = 0};
        for (size_t i = half + 1; i < elements.size(); ++i) {
          int exponent = high - d_.mantissa_bits - random_.between(2, 22);
          if (exponent < low) exponent += reach_b_;  // if B is below its top exponent
          elements[i].exponent = exponent;
          if (coin()) elements[i].bits = 0;
        }
        break;
      }
      case Probe::c: break;
      default: elements[0].exponent = high;
    }
    return elements;
  }

  void make_a() {
    const int terms = operands_.a.cols();
    const Exponents range = products(), own = exponents_of(a_);
    const int high = std::clamp(range.high - top_b_, own.low, own.high),
              low = std::clamp(range.low - top_b_, own.low - a_.mantissa_bits, high);
    for (int row = 0; row < operands_.a.rows(); ++row) {
      for (int j = 0; j < terms; ++j) {
        const bool negative_zero = probe_ == Probe::zeros ? row % 4 != 0 : coin();
        operands_.a.set_code(row, j, with_junk(a_, negative_zero ? a_.sign_bit() : 0));
      }
      const std::vector<Element> elements = elements_of(row, low, high);
      const std::vector<int> places = places_of(std::min(elements.size(), static_cast<size_t>(terms)));
      for (size_t i = 0; i < places.size(); ++i) {
        const auto& [negative, exponent, bits] = elements[i];
        operands_.a.set_code(row, places[i], with_junk(a_, number(a_, negative, exponent, bits)));
      }
    }
  }

  /// Random positions in K: adjacent, four apart, in both halves, or anywhere.
  std::vector<int> places_of(size_t count) {
    const int terms = operands_.a.cols();
    const auto first = static_cast<int>(random_.below(static_cast<uint32_t>(terms)));
    const int by = std::array{1, 4, terms / 2, 0}[random_.below(4)];
    std::vector<int> places;
    for (int next = first; places.size() < count;) {
      while (std::ranges::find(places, next) != places.end()) next = (next + 1) % terms;
      places.push_back(next);
      next = (next + (by == 0 ? static_cast<int>(random_.below(static_cast<uint32_t>(terms))) : by)) % terms;
    }
    return places;
  }

  void make_c() {
    const Factors factors(operands_);
    std::vector<ExactTerm> terms;
    const Exponents own = exponents_of(c_);
    for (int row = 0; row < operands_.c->rows(); ++row) {
      for (int col = 0; col < operands_.c->cols(); ++col) {
        factors.find_terms(row, col, terms);
        const auto largest = std::ranges::max_element(terms, {}, [](const ExactTerm& term) {
          return term.product.magnitude == 0 ? std::pair(0, 0) : std::pair(1, term.exponent());
        });
        Exact product = largest->product;
        const int top = product.magnitude == 0 ? 0 : largest->exponent();
        const uint64_t bits = mantissa(c_);
        const bool negative = coin();
        uint64_t code = negative ? c_.sign_bit() : 0;
        const uint32_t choice = random_.below(4);
        if (probe_ == Probe::c) {
          code = number(c_, negative, std::clamp(top + random_.between(-48, 48), own.low, own.high), bits);
        } else if (probe_ == Probe::floor) {
          const int exponent = random_.between(own.low - c_.mantissa_bits, own.low + 30);
          if (choice == 0 || row % 4 == 3) code = number(c_, negative, exponent, bits);
        } else if (probe_ == Probe::overflow) {
          code = number(c_, negative, choice == 0 ? own.low : own.high - static_cast<int>(random_.below(3)), bits);
        } else if (probe_ == Probe::zeros) {
          code = col % 2 == 0 ? c_.sign_bit() : code;
        } else if (probe_ == Probe::ties) {
          if (choice == 0) code = number(c_, negative, std::clamp(top - c_.mantissa_bits - 1, own.low, own.high), 0);
        } else if (choice < 2) {  // C cancels the largest term; the aligned remainders of the others stay
          product.negative = !product.negative;
          code = round_to(c_, product, Rounding::toward_zero, c_.mantissa_bits, Overflow::saturate);
        } else if (choice == 2) {
          code = number(c_, negative, std::clamp(top + random_.between(-30, 4), own.low, own.high), bits);
        }
        operands_.c->set_code(row, col, code);
      }
    }
  }

  /// Puts a few special values into each operand, so rarely that most affected outputs see only one.
  void sprinkle_specials() {
    const auto sprinkle = [&](Matrix& matrix, uint32_t one_in) {
      const FormatInfo& format = info(matrix.format());
      for (uint32_t& code : matrix.words()) {
        if (!random_.one_in(one_in)) continue;
        const auto sign = static_cast<uint32_t>(coin() ? format.sign_bit() : 0);
        const uint32_t kind = random_.below(4);
        if (kind == 0) {
          code = sign;
        } else if (kind == 1 && format.infinity()) {
          code = static_cast<uint32_t>(sign | *format.infinity());
        } else if (kind == 2 && format.infinity()) {
          const uint64_t payload = (random_.word() & format.mantissa_mask()) | 1;
          code = static_cast<uint32_t>(sign | *format.infinity() | payload << format.ignored_bits);
        } else if (format.canonical_nan()) {
          code = static_cast<uint32_t>(sign | *format.canonical_nan());
        }
      }
    };
    const auto terms = static_cast<uint32_t>(operands_.a.cols());
    sprinkle(operands_.a, 4 * terms);
    sprinkle(operands_.b, 4 * terms);
    sprinkle(*operands_.c, 3);
    if (operands_.scales) sprinkle(operands_.scales->a, 16), sprinkle(operands_.scales->b, 16);
  }

  Operands operands_;
  const FormatInfo &a_, &b_, &c_, &d_;
  const Probe probe_;
  const uint64_t round_;
  RandomStream random_;
  int scale_exponent_ = 0;       // of the scales of A and B together, for the floor probe
  int top_b_ = 0, reach_b_ = 0;  // the largest exponent of B, and how far below it the others may be
};

}  // namespace

Operands probe_operands(const Instruction& instruction, Target target, uint64_t seed, uint64_t case_index) {
  return ProbeMaker(instruction, target, seed, case_index).make();
}

}  // namespace bitmma
