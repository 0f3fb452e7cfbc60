// SPDX-License-Identifier: MIT
#include "bitmma/stimulus/random_operands.hpp"

#include <algorithm>

#include "../instruction/family.hpp"
#include "bitmma/formats/round.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/memory/metadata.hpp"

namespace bitmma {
namespace {

/// The random streams of one case. Each operand has its own, so its size never shifts the values of another.
enum StreamId : uint64_t {
  stream_a,
  stream_b,
  stream_c,
  stream_positions,
  stream_filler,
  stream_scales,
  streams_per_case = 8
};

RandomStream stream_of(uint64_t seed, uint64_t case_index, StreamId id) {
  return {seed, case_index * streams_per_case + id};
}

/// A code with the given unbiased exponent, clamped to the format's largest exponent; a subnormal if it is too small.
uint64_t code_of(const FormatInfo& format, bool negative, int exponent, uint64_t mantissa) {
  const uint64_t top = format.max_finite() >> format.ignored_bits;
  const int field = std::max(exponent + format.bias, 0);
  const uint64_t code =
      std::min<uint64_t>(uint64_t(field) << format.mantissa_bits | (mantissa & format.mantissa_mask()), top);
  return (negative ? format.sign_bit() : 0) | code << format.ignored_bits;
}

/// Returns enough random bits for a mantissa or a whole code.
uint64_t random_bits(const FormatInfo& format, RandomStream& random) {
  return format.bits > 32 ? random.word64() : random.word();
}

/// A code with a random mantissa and an exponent in [low, high]. Each draw is a statement, mantissa before exponent:
/// only then does a seed give the same code with every compiler.
uint64_t random_code(const FormatInfo& format, bool negative, int low, int high, RandomStream& random) {
  const uint64_t mantissa = random_bits(format, random);
  const int exponent = random.between(low, high);
  return code_of(format, negative, exponent, mantissa);
}

/// The same with a random sign, which it draws last.
uint64_t random_code(const FormatInfo& format, int low, int high, RandomStream& random) {
  const uint64_t mantissa = random_bits(format, random);
  const int exponent = random.between(low, high);
  const bool negative = random.one_in(2);
  return code_of(format, negative, exponent, mantissa);
}

/// Integer approximation of N(0,1): twelve uniform numbers, summed exactly (Irwin-Hall), in units of 2^-16.
int64_t normal_fixed_point(RandomStream& random) {
  int64_t sum = -6 * 65536;
  for (int i = 0; i < 6; ++i) {
    const uint32_t word = random.word();
    sum += (word & 0xFFFF) + (word >> 16);
  }
  return sum;
}

uint64_t round_fixed_point(const FormatInfo& format, int64_t value, int exponent) {
  return round_to(format,
                  {.negative = value < 0, .magnitude = static_cast<uint64_t>(std::abs(value)), .exponent = exponent},
                  Rounding::nearest_even, format.mantissa_bits);
}

/// Mantissas near the edges: none, lowest bit, highest bit, all, or random.
uint64_t sparse_mantissa(const FormatInfo& format, RandomStream& random) {
  const uint64_t all = format.mantissa_mask();
  switch (random.below(6)) {
    case 0: return 0;
    case 1: return 1;
    case 2: return all ^ (all >> 1);
    case 3: return all;
    case 4: return all - 1;
    default: return random_bits(format, random);
  }
}

uint64_t special_code(const FormatInfo& format, RandomStream& random, bool non_finite) {
  const uint64_t sign = random.one_in(2) ? format.sign_bit() : 0;
  if (non_finite) {
    if (format.infinity() && !random.one_in(3)) return sign | *format.infinity();
    if (format.canonical_nan()) return sign | *format.canonical_nan();
  }
  switch (random.below(4)) {
    case 0: return sign;  // zero
    case 1: return sign | format.max_finite();
    case 2: return sign | 1u << format.ignored_bits;  // smallest subnormal
    default: return code_of(format, sign != 0, format.min_exponent(), 0);
  }
}

/// 2^exponent if the format has it, otherwise the nearest number of the format.
uint64_t power_code(const FormatInfo& format, bool negative, int exponent) {
  return round_to(format, {.negative = negative, .magnitude = 1, .exponent = exponent}, Rounding::nearest_even,
                  format.mantissa_bits);
}

/// The element to draw. Some distributions treat certain rows, columns or one k specially.
struct Spot {
  enum Operand : uint8_t { a, b, c } operand = a;
  bool large = false;   // the k whose product dominates
  bool absent = false;  // the k where A is zero and B is large
  int outer = 0;        // row of A or C, column of B
};

/// Draws floating-point elements.
struct FloatSource {
  const AccumulatorModel& model;
  Distribution distribution;
  FormatInfo format_a, format_b;
  uint64_t case_index;

  /// ties: lifts all values in some cases, so that the low bits of a small C fall below the bits that alignment keeps.
  int lift() const { return static_cast<int>(case_index % 3) * 5; }

  /// Exponents at the bottom of D: a dominating power of two in the last place of D (or half of it), and others around
  /// the last bit that alignment keeps. If the inputs cannot be this small, the smallest possible exponents.
  struct Bottom {
    int large, small;
  };
  Bottom bottom() const {
    const FormatInfo& d = info(model.output);
    const int lowest =
        format_a.min_exponent() - format_a.mantissa_bits + format_b.min_exponent() - format_b.mantissa_bits;
    const auto small = [&](int large) {
      return std::max(model.floor_exponent.value_or(large), large) - model.fraction_bits;
    };
    int large = d.min_exponent() - d.mantissa_bits;
    if (small(large) < lowest) large = lowest + model.fraction_bits;
    return {large, small(large)};
  }

  uint64_t at_floor(const FormatInfo& format, RandomStream& random, const Spot& spot) const {
    if (spot.operand == Spot::c) return random.one_in(8) ? format.sign_bit() : 0;
    if (spot.absent) return spot.operand == Spot::a ? 0 : format.max_finite();
    const Bottom exponents = bottom();
    const int product = spot.large ? exponents.large : exponents.small;
    if (spot.operand == Spot::b) return power_code(format, random.one_in(2), product - product / 2);
    const int shift = spot.large ? -(spot.outer % 2) : random.between(-1, 1);  // odd rows: half an ulp, a tie
    return power_code(format, random.one_in(2), product / 2 + shift);
  }

  uint64_t special(const FormatInfo& format, RandomStream& random, const Spot& spot) const {
    const bool is_c = spot.operand == Spot::c;
    if (spot.operand == Spot::a && spot.outer % 8 == 1) return format.sign_bit();  // rows that give only zeros
    const uint64_t code = random.one_in(is_c ? 8 : 24) ? special_code(format, random, random.one_in(is_c ? 2 : 8))
                          : is_c && random.one_in(4)   ? format.sign_bit()
                                                       : random_code(format, -3, 3, random);
    // These columns have one sign, so that the zeros are all negative.
    return spot.operand == Spot::b && spot.outer % 4 == 1 ? code & ~format.sign_bit() : code;
  }

  uint64_t operator()(const FormatInfo& format, RandomStream& random, const Spot& spot) const {
    const bool negative = random.one_in(2), is_c = spot.operand == Spot::c;
    const auto largest_exponent = [](const FormatInfo& f) {
      return static_cast<int>(f.exponent_mask()) - f.bias - (f.non_finite == NonFinite::ieee);
    };
    const int emin = format.min_exponent(), emax = largest_exponent(format);
    switch (distribution) {
      case Distribution::bits: return random_bits(format, random) & low_mask(format.bits);
      case Distribution::normal: return round_fixed_point(format, normal_fixed_point(random), -16);
      case Distribution::wide:
        if (is_c && random.one_in(2)) {  // near the products; uniform f32 exponents would hide most of them
          const int low = format_a.min_exponent() + format_b.min_exponent(),
                    high = largest_exponent(format_a) + largest_exponent(format_b);
          return random_code(format, negative, std::max(low, emin - 1), std::min(high, emax), random);
        }
        return random_code(format, negative, emin - 1, emax, random);
      case Distribution::narrow:
      case Distribution::cancel: return random_code(format, negative, -3, 3, random);
      case Distribution::subnormal: {
        if (case_index % 2 == 1) return at_floor(format, random, spot);
        if (random.one_in(4)) return code_of(format, negative, emin - 1, random_bits(format, random));
        const int smallest = info(model.output).min_exponent();
        const int center = is_c ? smallest : smallest / 2;
        return random_code(format, negative, center - 9, center + 6, random);
      }
      case Distribution::ties: {
        // Rows with only the large term: its products are exact ties, which only the dropped bits of C could break.
        if (spot.operand == Spot::a && !spot.large && spot.outer % 4 == 3) return 0;
        const int last_bit = random.one_in(2) ? model.output_fraction_bits : model.fraction_bits;
        const int operand_lift = spot.operand == Spot::a ? lift() / 2 : lift() - lift() / 2;
        const int exponent =
            is_c ? lift() + (random.one_in(2) ? random.between(-1, 2) : -last_bit + random.between(-2, 6))
                 : operand_lift + (spot.large ? random.between(0, 1) : -last_bit / 2 + random.between(-2, 1));
        return code_of(format, negative, exponent, sparse_mantissa(format, random));
      }
      case Distribution::special: return special(format, random, spot);
      default: return round_fixed_point(format, random.between(is_c ? -64 : -4, is_c ? 64 : 4), 0);
    }
  }
};

uint32_t integer_element(const FormatInfo& format, Distribution distribution, RandomStream& random) {
  const auto mask = static_cast<uint32_t>(low_mask(format.bits));
  if (format.id == Format::s1z4m11) {  // a sign and the magnitude of a small or of any number
    const uint32_t drawn = random.word(), sign = drawn >> 16 & 0x8000;
    switch (distribution) {
      case Distribution::subnormal:
      case Distribution::integers: return sign | drawn % 5;
      case Distribution::special:
      case Distribution::wide: return sign | std::array<uint32_t, 4>{0, 1, 0x7FE, 0x7FF}[drawn % 4];
      default: return sign | (drawn & 0x7FF);
    }
  }
  switch (distribution) {
    case Distribution::normal: return static_cast<uint32_t>(normal_fixed_point(random) >> 11) & mask;
    case Distribution::subnormal:
    case Distribution::integers: return static_cast<uint32_t>(random.between(format.is_signed ? -4 : 0, 4)) & mask;
    case Distribution::special:
    case Distribution::wide: {
      const std::array<uint32_t, 5> edges{0, 1, mask >> 1, mask ^ mask >> 1, mask};
      return edges[random.below(5)];
    }
    default: return random.word() & mask;
  }
}

uint32_t bit_element(Distribution distribution, RandomStream& random) {
  switch (distribution) {
    case Distribution::wide:
    case Distribution::special: return !random.one_in(16);
    case Distribution::subnormal:
    case Distribution::integers: return random.one_in(16);
    default: return random.word() & 1;
  }
}

/// Accumulators of which half overflow in either direction, unless the distribution is tame.
uint32_t integer_accumulator(Distribution distribution, RandomStream& random) {
  switch (distribution) {
    case Distribution::normal:
    case Distribution::subnormal:
    case Distribution::integers: return static_cast<uint32_t>(random.between(-1000, 1000));
    case Distribution::bits: return random.word();
    default: {
      const uint32_t near = random.below(1u << 20);
      return random.one_in(2) ? 0x7FFFFFFFu - near : 0x80000000u + near;
    }
  }
}

std::vector<uint16_t> random_positions(const Mma& mma, RandomStream& random) {
  const SparsePattern& pattern = sparse_pattern(mma.a_container_bits, mma.sparsity_version);
  static constexpr std::array<std::array<int, 2>, 6> pairs{{{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}}};
  std::vector<uint16_t> k;
  for (int row = 0; row < mma.m; ++row) {
    for (int chunk = 0; chunk < mma.k; chunk += pattern.chunk) {
      if (pattern.stored_per_chunk == 1) {
        k.push_back(static_cast<uint16_t>(chunk + static_cast<int>(random.below(2))));
        continue;
      }
      for (const int position : pairs[random.below(6)]) {
        for (int i = 0; i < pattern.unit; ++i) k.push_back(static_cast<uint16_t>(chunk + position * pattern.unit + i));
      }
    }
  }
  return k;
}

/// Scales for which products affect each other and C; in the wilder distributions also extremes and NaN.
uint32_t random_scale(const FormatInfo& format, Distribution distribution, RandomStream& random) {
  const int one = format.bias << format.mantissa_bits;
  const auto clamped = [&](int code) {
    return static_cast<uint32_t>(std::clamp(code, 0, static_cast<int>(format.max_finite())));
  };
  switch (distribution) {
    case Distribution::bits: return random.word() & 0xFF;
    case Distribution::wide: return random.below(format.max_finite() + 1);
    case Distribution::subnormal: return random.below(format.mantissa_bits ? 16 : 8);  // the smallest powers
    case Distribution::special:
      switch (random.below(8)) {
        case 0: return 0;
        case 1: return format.max_finite();
        case 2: return random.one_in(8) ? *format.canonical_nan() : 1;
        case 3: return random.one_in(8) ? 0x80 | *format.canonical_nan() : clamped(one);
        default: return clamped(one + random.between(-6, 6));
      }
    case Distribution::integers: return clamped(one);
    case Distribution::ties: return clamped(one + (random.between(-14, 14) << format.mantissa_bits));
    case Distribution::cancel: return clamped(one + (random.between(-1, 1) << format.mantissa_bits));
    default: return clamped(one + random.between(-(3 << format.mantissa_bits), 3 << format.mantissa_bits));
  }
}

Matrix random_scales(Format type, int rows, int cols, Distribution distribution, RandomStream& random) {
  Matrix scales(type, rows, cols);
  for (int row = 0; row < rows; ++row) {
    for (int col = 0; col < cols; ++col) scales(row, col) = random_scale(info(type), distribution, random);
  }
  return scales;
}

/// Makes neighbouring terms of the even columns opposites, except for an occasional last bit.
void pair_opposites(Operands& operands, RandomStream& random) {
  const FormatInfo format_a = info(operands.a.format()), format_b = info(operands.b.format());
  for (int row = 0; row < operands.a.rows(); ++row) {
    for (int j = 0; j + 1 < operands.a.cols(); j += 2) {
      const uint64_t last_bit = random.one_in(8) ? uint64_t{1} << format_a.ignored_bits : 0;
      operands.a.set_code(row, j + 1, operands.a.code(row, j) ^ last_bit);
    }
  }
  for (int col = 0; col < operands.b.cols(); col += 2) {
    for (int k = 0; k + 1 < operands.b.rows(); k += 2) {
      const uint64_t last_bit = random.one_in(8) ? uint64_t{1} << format_b.ignored_bits : 0;
      operands.b.set_code(k + 1, col, operands.b.code(k, col) ^ format_b.sign_bit() ^ last_bit);
    }
  }
}

/// In the odd columns, makes C the negated sum of the products, sometimes plus one unit in the last place.
void oppose_c(const AccumulatorModel& model, Operands& operands, RandomStream& random) {
  Operands products = operands;
  products.c.reset();
  const Matrix sums = multiply_accumulate(model, products);
  const Format format = operands.c->format();
  for (int row = 0; row < sums.rows(); ++row) {
    for (int col = 1; col < sums.cols(); col += 2) {
      const uint64_t sum = sums.format() == format ? sums.code(row, col)
                                                   : convert(sums.format(), sums.code(row, col), format,
                                                             Rounding::nearest_even, Overflow::infinity);
      const uint32_t first = random.word(), second = random.word();
      operands.c->set_code(row, col, sum ^ info(format).sign_bit() ^ (first & 3 & second));
    }
  }
}

/// The drawn values depend only on types and extents, not on the form that lists them.
void require_extents(const Instruction& instruction, Target target, const Mma& mma) {
  constexpr int most = 4096;
  const int chunk = mma.sparse ? sparse_pattern(mma.a_container_bits, mma.sparsity_version).chunk : 1;
  const auto fits = [](int extent) { return extent > 0 && extent <= most; };
  if (mma.k % chunk != 0 || !fits(mma.k) || !fits(mma.m) || !fits(mma.n)) require_legal(instruction, target);
}

}  // namespace

std::optional<Distribution> distribution_named(std::string_view name) {
  for (const DistributionInfo& row : distributions) {
    if (row.name == name) return row.id;
  }
  return std::nullopt;
}

RandomStream filler_stream(uint64_t seed, uint64_t case_index) { return stream_of(seed, case_index, stream_filler); }

Operands random_operands(const Instruction& instruction, Target target, Distribution distribution, uint64_t seed,
                         uint64_t case_index) {
  const Mma mma = mma_of(instruction);
  require_extents(instruction, target, mma);
  const AccumulatorModel& model = model_for(instruction, target);
  const FormatInfo format_a = info(mma.a), format_b = info(mma.b), format_c = info(mma.c);
  RandomStream random_a = stream_of(seed, case_index, stream_a);
  RandomStream random_b = stream_of(seed, case_index, stream_b);
  RandomStream random_c = stream_of(seed, case_index, stream_c);
  RandomStream random_k = stream_of(seed, case_index, stream_positions);
  Operands operands = family::options_of(mma);
  operands.a = Matrix(mma.a, mma.m, mma.stored_k());
  operands.b = Matrix(mma.b, mma.k, mma.n);
  operands.c = Matrix(mma.c, mma.m, mma.n);
  if (mma.sparse) operands.selected_k = random_positions(mma, random_k);
  if (mma.products > 1) operands.selected_k = family::positions_of_products(mma);
  if (const int count = mma.scale_count) {
    RandomStream random_scale_words = stream_of(seed, case_index, stream_scales);
    operands.scales = BlockScales{.a = random_scales(mma.scale_type, mma.m, count, distribution, random_scale_words),
                                  .b = random_scales(mma.scale_type, count, mma.n, distribution, random_scale_words)};
  }

  const FloatSource source{model, distribution, format_a, format_b, case_index};
  const auto element = [&](const FormatInfo& format, RandomStream& random, const Spot& spot) -> uint64_t {
    if (format.kind == NumberKind::bits) return bit_element(distribution, random);
    if (format.kind == NumberKind::integer) return integer_element(format, distribution, random);
    return source(format, random, spot);
  };
  // The dominating k differs from case to case. In a sparse row, a stored element meets one k of its chunk, so the
  // whole chunk of B dominates.
  const SparsePattern& pattern = sparse_pattern(mma.a_container_bits, mma.sparsity_version);
  const int chunk = mma.sparse ? pattern.chunk : 1, stored = mma.sparse ? pattern.stored_per_chunk : 1;
  const int depth = mma.k / mma.products;  // of one product
  const int large_chunk = static_cast<int>(random_k.below(static_cast<uint32_t>(depth / chunk)));
  const int absent_chunk = (large_chunk + 1) % (depth / chunk);
  for (int row = 0; row < operands.a.rows(); ++row) {
    for (int j = 0; j < operands.a.cols(); ++j) {
      operands.a.set_code(row, j,
                          element(format_a, random_a,
                                  {.operand = Spot::a,
                                   .large = j == large_chunk * stored,
                                   .absent = j / stored == absent_chunk,
                                   .outer = row}));
    }
  }
  for (int k = 0; k < operands.b.rows(); ++k) {
    for (int col = 0; col < operands.b.cols(); ++col) {
      operands.b.set_code(k, col,
                          element(format_b, random_b,
                                  {.operand = Spot::b,
                                   .large = k % depth / chunk == large_chunk,
                                   .absent = k % depth / chunk == absent_chunk,
                                   .outer = col}));
    }
  }
  const bool is_floating = format_a.kind == NumberKind::floating;
  if (distribution == Distribution::cancel && is_floating) pair_opposites(operands, random_k);
  // tf32 elements always carry junk in the low 13 bits, which must not affect the result.
  const auto junk = [&](Matrix& matrix, RandomStream& random) {
    if (const int ignored = info(matrix.format()).ignored_bits) {
      for (int row = 0; row < matrix.rows(); ++row) {
        for (int col = 0; col < matrix.cols(); ++col) {
          matrix(row, col) |= random.word() & static_cast<uint32_t>(low_mask(ignored));
        }
      }
    }
  };
  junk(operands.a, random_a);
  junk(operands.b, random_b);
  for (int row = 0; row < operands.a.rows(); ++row) {
    for (int col = 0; col < operands.b.cols(); ++col) {
      operands.c->set_code(row, col,
                           is_floating ? source(format_c, random_c, {.operand = Spot::c, .outer = row})
                                       : integer_accumulator(distribution, random_c));
    }
  }
  if (distribution == Distribution::cancel && is_floating) oppose_c(model, operands, random_c);
  if (!mma.enable_input_d) operands.c.reset();
  // The last two of 32 lanes give the instruction the same row.
  for (int row = 31; mma.repeats_last_rows && row < operands.a.rows(); row += 32)
    std::ranges::copy(operands.a.row(row - 1), operands.a.row(row).begin());
  return operands;
}

}  // namespace bitmma
