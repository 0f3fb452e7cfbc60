#include "probes.hpp"

#include <algorithm>
#include <array>

#include "../../arithmetic/terms.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/formats/round.hpp"
#include "bitmma/stimulus/random_operands.hpp"

namespace bitmma {
namespace {

enum class Probe : uint8_t {
  distances,     // few terms of A, C that cancels the largest or is not there
  steps,         // terms that cancel each other
  c,             // C far above or below the products
  floor,         // products and C around the smallest exponents
  zeros,         // zeros of both signs, products that round to zero
  specials,      // NaN with payloads, infinities, infinity times zero
  overflow,      // sums around the largest number of D
  empty_terms,   // zeros of A that meet large numbers of B, small terms beside them
  last_places,   // small terms around the last bit that D keeps
  cancellation,  // all terms there, C near what they sum to
};

struct Exponents {
  int low = 0, high = 0;
};

Exponents exponents_of(const FormatInfo& format) {
  const Decoded top = decode(format, format.max_finite());
  return {.low = format.min_exponent(), .high = top.exponent};
}

/// +-(1 + mantissa / 2^M) * 2^exponent, or what is nearest to zero from it in the format; never more than its largest.
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
        // Behind the streams of random_operands, of which a case has eight.
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

  // Integers: extremes of both signs by rows and columns, C close to where 32 bits end.
  void make_integers() {
    const auto extreme = [&](const FormatInfo& format, int line) -> uint64_t {
      const uint64_t all = low_mask(format.bits), sign = format.sign_bit();
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

  // f64: which NaN comes out where several meet.
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

  /// Powers of two; with significands where the type has them.
  void make_scales() {
    if (!operands_.scales) return;
    const int reach = static_cast<int>(round_ % 3) * 6;
    for (Matrix* const scales : {&operands_.scales->a, &operands_.scales->b}) {
      const FormatInfo& format = info(scales->format());
      const auto [low, high] = exponents_of(format);
      const int center = probe_ == Probe::floor      ? std::max(low, -70)
                         : probe_ == Probe::overflow ? std::min(high, 60)
                                                     : 0;
      for (uint32_t& code : scales->words()) {
        const uint64_t significand_bits = mantissa(format);
        const int exponent = std::clamp(center + random_.between(-reach, reach), low, high);
        code = static_cast<uint32_t>(number(format, false, exponent, significand_bits));
      }
    }
  }

  /// The exponents that products should have, by what D can hold.
  Exponents products() const {
    const Exponents a = exponents_of(a_), b = exponents_of(b_), d = exponents_of(d_);
    Exponents whole{.low = a.low - a_.mantissa_bits + b.low - b_.mantissa_bits, .high = a.high + b.high};
    switch (probe_) {
      case Probe::floor: return {.low = std::max(whole.low, d.low - 40), .high = std::min(whole.high, d.low + 28)};
      case Probe::overflow: return {.low = std::max(whole.low, d.high - 12), .high = std::min(whole.high, d.high)};
      case Probe::zeros: return {.low = whole.low, .high = std::min(whole.high, std::max(whole.low + 20, d.low))};
      default: {
        // Well inside D, so that neither end of it matters: f16 ends at 2^15.
        const int high = std::min({whole.high, d.high - 4, 40}), reach = std::min(high - whole.low, 60);
        return {.low = high - reach, .high = high};
      }
    }
  }

  // Columns of B: powers of two or any number; every k of a column lies up to `spread` below the top.
  void make_b() {
    const Exponents range = products(), own = exponents_of(b_);
    top_b_ = std::clamp(range.high / 2, own.low, own.high);
    const int reach = std::max(0, std::min(top_b_ - own.low, (range.high - range.low) / 2));
    for (int col = 0; col < operands_.b.cols(); ++col) {
      const int spread = probe_ == Probe::steps || col % 4 == 0 ? 0 : reach;
      for (int k = 0; k < operands_.b.rows(); ++k) {
        const uint64_t bits = probe_ == Probe::steps || col % 4 < 2 ? 0 : mantissa(b_);
        int exponent = top_b_ - (spread == 0 ? 0 : static_cast<int>(random_.below(static_cast<uint32_t>(spread + 1))));
        if (probe_ == Probe::floor && col % 2 == 0) exponent = top_b_ - (col / 2) % (reach + 1);
        if (probe_ == Probe::empty_terms && coin()) exponent = own.high;
        const bool negative = probe_ != Probe::steps && probe_ != Probe::zeros && coin();
        operands_.b.set_code(k, col, with_junk(b_, number(b_, negative, exponent, bits)));
      }
    }
  }

  uint64_t with_junk(const FormatInfo& format, uint64_t code) {
    return format.ignored_bits == 0 ? code : code | (random_.word() & low_mask(format.ignored_bits));
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
      const bool all = probe_ == Probe::cancellation;
      const int few = all ? terms : std::min(terms, 2 + static_cast<int>(random_.below(4)));
      const int first = static_cast<int>(random_.below(static_cast<uint32_t>(terms)));
      for (int i = 0; i < few; ++i) {
        const int j = all ? i : i == 0 ? first : place_beside(first, row, i, terms);
        int exponent = random_.between(low, high);
        uint64_t bits = mantissa(a_);
        bool negative = coin();
        if (i == 0 && probe_ != Probe::floor && probe_ != Probe::c) exponent = high;
        if (probe_ == Probe::last_places && i > 0) {
          const int last = d_.mantissa_bits + random_.between(-2, 4);
          exponent = std::max(high - last, low);
        }
        if (probe_ == Probe::steps && i < 2) exponent = high, bits = first_bits_, negative = i == 1;
        if (probe_ == Probe::steps && i == 0) bits = first_bits_ = mantissa(a_), negative = false;
        if (probe_ == Probe::zeros && row % 4 == 1) continue;  // nothing but zeros, all negative
        operands_.a.set_code(row, j, with_junk(a_, number(a_, negative, exponent, bits)));
      }
    }
  }

  /// Another place of K: near the first one, half of K away, or anywhere.
  int place_beside(int first, int row, int i, int terms) {
    const auto anywhere = static_cast<int>(random_.below(static_cast<uint32_t>(terms - 1))) + 1;
    const int by = row % 3 == 0 ? 1 << random_.below(7) : row % 3 == 1 ? terms / 2 : anywhere;
    return (first + (i == 1 ? by : anywhere)) % terms;
  }

  void make_c() {
    const Factors factors(operands_);
    std::vector<ExactTerm> terms;
    const Exponents own = exponents_of(c_), range = products();
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
          const int exponent = random_.between(std::max(own.low - c_.mantissa_bits, range.low), own.low + 4);
          if (choice == 0) code = number(c_, negative, exponent, bits);
        } else if (probe_ == Probe::overflow) {
          code = number(c_, negative, choice == 0 ? own.low : own.high - static_cast<int>(random_.below(3)), bits);
        } else if (probe_ == Probe::zeros) {
          code = col % 2 == 0 ? c_.sign_bit() : code;
        } else if (choice < 2) {  // the largest term goes, and what alignment left of the others stays
          product.negative = !product.negative;
          code = round_to(c_, product, Rounding::toward_zero, c_.mantissa_bits, Overflow::saturate);
        } else if (choice == 2) {
          code = number(c_, negative, std::clamp(top + random_.between(-30, 4), own.low, own.high), bits);
        }
        operands_.c->set_code(row, col, code);
      }
    }
  }

  /// A few of every operand, rarely enough that outputs with one of them are the most.
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
  int top_b_ = 0;
  uint64_t first_bits_ = 0;
};

}  // namespace

Operands probe_operands(const Instruction& instruction, Target target, uint64_t seed, uint64_t case_index) {
  return ProbeMaker(instruction, target, seed, case_index).make();
}

}  // namespace bitmma
