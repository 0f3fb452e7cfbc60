#include "../../sim/arithmetic/exact_steps.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cfenv>

#include "../../sim/arithmetic/product.hpp"
#include "../../sim/arithmetic/slow_path.hpp"
#include "bitmma/arithmetic/cpu_target.hpp"
#include "bitmma/core/random.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

const AccumulatorModel& fp8_row(Target target) {
  return *find_accumulator_model(target, Family::mma_sync, Format::e4m3, Format::e5m2, Format::f32);
}

/// Term by term, step by step.
Matrix by_terms(const AccumulatorModel& model, const Operands& operands) {
  return product_by_steps(model, operands, [step_row = step_model(model)](const Operands& step, const KStep&) {
    return slow_product(step_row, step);
  });
}

/// Codes whose exponent fields are `first` to `first + span - 1`; some zeros.
Matrix random_codes(Format format, int rows, int cols, uint32_t first, uint32_t span, bool positive,
                    RandomStream& random) {
  const auto mantissa_bits = static_cast<uint32_t>(info(format).mantissa_bits);
  Matrix matrix(format, rows, cols);
  for (uint32_t& code : matrix.words()) {
    code = (first + random.below(span)) << mantissa_bits | random.below(1u << mantissa_bits);
    if (!positive && random.one_in(2)) code |= 0x80;
    if (random.one_in(8)) code &= 0x80;
  }
  return matrix;
}

}  // namespace

TEST_CASE("fp8 in two steps: sums of integers give the bits of single terms, and every limit falls back",
          "[exact_steps]") {
  struct BestAgain {
    ~BestAgain() { use_cpu_target(cpu_targets().front()); }
  } best_again;
  RandomStream random(51, 0);
  int compared = 0;
  for (const Target target : {Target::sm_90a, Target::sm_100a}) {
    const AccumulatorModel& row = fp8_row(target);
    for (const Format of_a : {Format::e4m3, Format::e5m2}) {
      for (const Format of_b : {Format::e4m3, Format::e5m2}) {
        for (int round = 0; round < 150; ++round) {
          const int m = round % 5 == 0 ? 8 : 16, k = round % 3 == 0 ? 16 : 32;
          // All widths of the ranges of exponents, including whole formats with NaN; sums of one sign are the largest.
          const auto codes = [&](Format format, int rows, int cols) {
            const uint32_t fields = 1u << info(format).exponent_bits, span = 1 + random.below(fields);
            return random_codes(format, rows, cols, random.below(fields - span + 1), span, round % 4 == 0, random);
          };
          Operands operands{.a = codes(of_a, m, k), .b = codes(of_b, k, 8), .c = Matrix(Format::f32, m, 8)};
          for (uint32_t& c : operands.c->words())
            c = random.one_in(3) ? random.word() : 0x3F800000 ^ random.word() >> 9;
          const Matrix expected = by_terms(row, operands);
          for (const std::string_view set : cpu_targets()) {
            use_cpu_target(set);
            INFO(info(of_a).name << " x " << info(of_b).name << ", " << round << ", " << set);
            REQUIRE(multiply_accumulate(row, operands) == expected);
            ++compared;
          }
        }
      }
    }
  }
  REQUIRE(compared >= 1200);
}

TEST_CASE("sums of integers are taken up to F bits between the largest and the smallest product", "[exact_steps]") {
  const AccumulatorModel& row = fp8_row(Target::sm_90a);
  REQUIRE(row.fraction_bits == 25);
  REQUIRE(may_have_exact_steps(row, Format::e4m3, Format::e5m2, 32));
  REQUIRE_FALSE(may_have_exact_steps(fp8_row(Target::sm_89), Format::e4m3, Format::e4m3, 32));
  REQUIRE_FALSE(may_have_exact_steps(
      *find_accumulator_model(Target::sm_90a, Family::mma_sync, Format::e4m3, Format::e4m3, Format::f16), Format::e4m3,
      Format::e4m3, 32));
  constexpr int terms = 16;
  std::array<uint32_t, terms * 16> a{};
  std::array<uint32_t, 8 * terms> b{};
  std::array<uint32_t, 8 * 16> d{};
  const auto sum = [&](Format format) {
    return sum_exactly({.a_format = format,
                        .b_format = format,
                        .a = a.data(),
                        .b = b.data(),
                        .terms = terms,
                        .fraction_bits = row.fraction_bits,
                        .d = d.data()});
  };
  a.fill(0x38), b.fill(0xB8);  // 1 and -1
  REQUIRE(sum(Format::e4m3));
  REQUIRE(d[127] == std::bit_cast<uint32_t>(-16.0F));
  a[5] = 0x69, b[7] = 0x01;  // 2^6 * 1.125, whose lowest bit is 2^3; 2^-9: ranges of 6 and 9 bits
  REQUIRE(sum(Format::e4m3));
  a[6] = 0x01;  // 2^-9: 15 bits
  REQUIRE_FALSE(sum(Format::e4m3));
  a.fill(0x38), b.fill(0x38);
  a[5] = 0x68, a[6] = 0x02;  // 2^6 and 2^-8: 14 bits; with 12 of B these are 26
  b[5] = 0x50, b[6] = 0x01;
  REQUIRE_FALSE(sum(Format::e4m3));
  b[6] = 0x02;  // 11 bits of B: 25
  REQUIRE(sum(Format::e4m3));
  a[9] = 0x7F;  // NaN
  REQUIRE_FALSE(sum(Format::e4m3));
  a.fill(0x3C), b.fill(0x3C);
  REQUIRE(sum(Format::e5m2));
  a[3] = 0x7C;  // infinity
  REQUIRE_FALSE(sum(Format::e5m2));
  a.fill(0);
  REQUIRE_FALSE(sum(Format::e5m2));
}
