#include "bitmma/arithmetic/multiply_accumulate.hpp"

#include <fmt/format.h>

#include <cfenv>
#include <functional>
#include <numeric>

#include "../../sim/arithmetic/fused_sum.hpp"
#include "../../sim/arithmetic/product.hpp"
#include "../../sim/arithmetic/slow_path.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/stimulus/random_operands.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

namespace {

constexpr Target hopper = Target::sm_90a;

const AccumulatorModel& model(Format a, Format d) { return *find_accumulator_model(hopper, Family::wgmma, a, a, d); }

const AccumulatorModel& grouped_model() {
  return *find_accumulator_model(Target::sm_100a, Family::tcgen05, Format::e2m1, Format::e2m1, Format::f32,
                                 Scaling::exact_groups);
}

/// One output of a 1 x L times L x 1 product.
uint32_t dot(const AccumulatorModel& row, Format format, const std::vector<uint32_t>& a, const std::vector<uint32_t>& b,
             std::optional<uint32_t> c) {
  const int terms = static_cast<int>(a.size());
  Operands operands{.a = Matrix(format, 1, terms), .b = Matrix(format, terms, 1)};
  for (int k = 0; k < terms; ++k)
    operands.a(0, k) = a[static_cast<size_t>(k)], operands.b(k, 0) = b[static_cast<size_t>(k)];
  if (c) {
    operands.c = Matrix(row.output, 1, 1);
    (*operands.c)(0, 0) = *c;
  }
  return multiply_accumulate(row, operands)(0, 0);
}

constexpr uint32_t one = 0x3C00, minus_one = 0xBC00, infinity = 0x7C00, not_a_number = 0x7C01;  // f16

/// Any codes at all; every eighth number is near 1, so that sums have something to lose.
Matrix random_matrix(Format format, int rows, int cols, RandomStream& random) {
  const FormatInfo& row = info(format);
  Matrix matrix(format, rows, cols);
  for (uint32_t& word : matrix.words()) {
    word = random.word() & static_cast<uint32_t>(low_mask(row.bits) & ~uint64_t{row.zero_bits});
    if (row.kind == NumberKind::floating && row.bits <= 32 && row.is_signed && random.one_in(2)) {
      const uint32_t near_one = static_cast<uint32_t>(row.bias) << (row.mantissa_bits + row.ignored_bits);
      word = near_one ^ (word & static_cast<uint32_t>(row.sign_bit() | row.mantissa_mask() << row.ignored_bits));
    }
  }
  return matrix;
}

struct Shape {
  int m = 0, n = 0, terms = 0;
  bool sparse = false;
};

Operands random_product(const AccumulatorModel& row, Format a, Format b, const Shape& shape, RandomStream& random) {
  const int k = shape.sparse ? 2 * shape.terms : shape.terms;
  const bool is_float = row.arithmetic == Arithmetic::fused_sum;
  Operands operands{.a = random_matrix(a, shape.m, shape.terms, random),
                    .b = random_matrix(b, k, shape.n, random),
                    .negate_a = is_float && random.one_in(2),
                    .negate_b = is_float && random.one_in(2),
                    .saturate = !is_float && random.one_in(2),
                    .scale_input_d = is_float && random.one_in(2) ? random.between(0, 15) : 0};
  if (!random.one_in(4)) operands.c = random_matrix(row.output, shape.m, shape.n, random);
  for (size_t i = 0; i < operands.a.size() && shape.sparse; ++i)
    operands.selected_k.push_back(static_cast<uint16_t>(random.between(0, k - 1)));
  for (int r = 0; r < shape.m && shape.sparse && a == Format::tf32; r += 3) {
    operands.mixed.push_back({.row = static_cast<uint16_t>(r),
                              .stored = static_cast<uint16_t>(random.between(0, shape.terms - 1)),
                              .low_half = static_cast<uint16_t>(random.between(0, 2 * k - 1)),
                              .high_half = static_cast<uint16_t>(random.between(0, 2 * k - 1))});
  }
  if (row.scaling == Scaling::none) return operands;
  const bool whole_k = row.scaling == Scaling::whole_k;
  constexpr std::array types{Format::ue8m0, Format::ue4m3, Format::ue5m3};
  const Format type = types[whole_k ? 0 : random.below(types.size())];
  const int chunks = whole_k ? 1 : shape.terms / 16;
  operands.scales =
      BlockScales{.a = random_matrix(type, shape.m, chunks, random), .b = random_matrix(type, chunks, shape.n, random)};
  return operands;
}

/// Calls check(row, operands) with products of every row and pair of its types, of shapes that fill vectors and shapes
/// that do not.
void for_each_product(const std::function<void(const AccumulatorModel&, const Operands&)>& check) {
  uint64_t stream = 0;
  for (const AccumulatorModel& row : accumulator_models()) {
    const bool grouped = row.scaling == Scaling::exact_groups;
    for (const FormatInfo& a : formats) {
      for (const FormatInfo& b : formats) {
        if (!row.inputs.contains(a.id) || !row.inputs.contains(b.id)) continue;
        RandomStream random(5, ++stream);
        for (const Shape& shape : {Shape{.m = 20, .n = 24, .terms = 8}, Shape{.m = 40, .n = 3, .terms = 5},
                                   Shape{.m = 3, .n = 17, .terms = 31}, Shape{.m = 5, .n = 40, .terms = 70},
                                   Shape{.m = 17, .n = 9, .terms = 20, .sparse = true}}) {
          if (shape.sparse && row.arithmetic == Arithmetic::popcount) continue;
          if (row.arithmetic == Arithmetic::fma_pairs) continue;  // four terms, no more and no fewer

          Shape fitting = shape;
          if (grouped) fitting.terms = (shape.terms + 15) / 16 * 16;
          else if (row.step_order == StepOrder::byte_pairs) fitting.terms = (shape.terms + 3) / 4 * 4;
          const Operands operands = random_product(row, a.id, b.id, fitting, random);
          INFO(print(row.family) << " " << a.name << " " << b.name << ", m " << shape.m << " n " << shape.n << " terms "
                                 << fitting.terms << (shape.sparse ? " sparse" : ""));
          check(row, operands);
        }
      }
    }
  }
}

std::vector<int> numbers_to(int end) {
  std::vector<int> numbers(static_cast<size_t>(end));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

/// What multiply_accumulate says of operands that are refused.
std::vector<Violation> refusal(const AccumulatorModel& row, const Operands& operands) {
  return test::refusal_of([&] { multiply_accumulate(row, operands); });
}

}  // namespace

TEST_CASE("a zero result is +0, always", "[rule:zero]") {
  const AccumulatorModel& f32 = model(Format::f16, Format::f32);
  CHECK(dot(f32, Format::f16, {0x8000, 0x8000}, {one, one}, 0x80000000) == 0);
  CHECK(dot(f32, Format::f16, {one, minus_one}, {one, one}, std::nullopt) == 0);
  CHECK(dot(f32, Format::f16, {one, 0}, {one, 0}, 0xBF800000) == 0);
  // A negative sum that rounds to zero: f16 D of -2^-25, a tie to even.
  CHECK(dot(model(Format::f16, Format::f16), Format::f16, {0x8001}, {0x3800}, 0) == 0);
  CHECK(dot(model(Format::f16, Format::f16), Format::f16, {0x8001}, {0x3801}, 0) == 0x8001);
}

TEST_CASE("special values: NaN is canonical, infinity times zero and opposite infinities are NaN", "[rule:nan]") {
  const AccumulatorModel& f32 = model(Format::f16, Format::f32);
  CHECK(dot(f32, Format::f16, {not_a_number, one}, {one, one}, 0) == 0x7FFFFFFF);
  CHECK(dot(f32, Format::f16, {one}, {one}, 0xFFC12345) == 0x7FFFFFFF);
  CHECK(dot(f32, Format::f16, {infinity}, {0x8000}, 0) == 0x7FFFFFFF);
  CHECK(dot(f32, Format::f16, {infinity, infinity}, {one, minus_one}, 0) == 0x7FFFFFFF);
  CHECK(dot(f32, Format::f16, {infinity}, {one}, 0xFF800000) == 0x7FFFFFFF);
  CHECK(dot(f32, Format::f16, {infinity}, {minus_one}, 0x7F7FFFFF) == 0xFF800000);
  CHECK(dot(f32, Format::f16, {one}, {one}, 0x7F800000) == 0x7F800000);
  CHECK(dot(f32, Format::f16, {one}, {one}, std::nullopt) == 0x3F800000);
  CHECK(dot(model(Format::f16, Format::f16), Format::f16, {not_a_number}, {one}, 0) == 0x7FFF);
  CHECK(dot(model(Format::f16, Format::f16), Format::f16, {0x7BFF}, {0x7BFF}, 0) == 0x7C00);
}

TEST_CASE("a product of 2 or more does not raise the alignment exponent, and every term is truncated alone",
          "[rule:product-exponent][rule:fused-sum]") {
  const AccumulatorModel& f32 = model(Format::f16, Format::f32);
  // 1.5 * 1.5 = 2.25 has exponent 0, so that 2^-24 counts: four of them make the last bit of f32 at 2.25.
  const uint32_t tiny_a = 0x0200, tiny_b = 0x1800;  // 2^-15 (subnormal) and 2^-9: 2^-24, exponent -14 - 9 unnormalised
  CHECK(dot(f32, Format::f16, {0x3E00, tiny_a, tiny_a, tiny_a, tiny_a}, {0x3E00, tiny_b, tiny_b, tiny_b, tiny_b}, 0) ==
        0x40100001);
  // 2^-26 against 1: gone one by one, though four of them would make 2^-24.
  const uint32_t small = 0x0800;  // 2^-13
  CHECK(dot(f32, Format::f16, {one, small, small, small, small}, {one, small, small, small, small}, 0) == 0x3F800000);
  CHECK(dot(f32, Format::f16, {small, small, small, small}, {small, small, small, small}, 0) == 0x33800000);
}

TEST_CASE("fp8 sums keep 13 fraction bits, also of a C that meets only zeros", "[rule:fp8-13-bits]") {
  CHECK(dot(model(Format::e4m3, Format::f32), Format::e4m3, {0}, {0}, 0x3FFFFFFF) == 0x3FFFFC00);
  CHECK(dot(model(Format::e4m3, Format::f32), Format::e4m3, {0x38, 0x38}, {0x38, 0x01}, 0) == 0x3F804000);
}

TEST_CASE("f32 results overflow only from 2^128 on", "[rule:output-rounding]") {
  const AccumulatorModel& bf16 = model(Format::bf16, Format::f32);
  CHECK(dot(bf16, Format::bf16, {0x7F00}, {0x4000}, 0) == 0x7F800000);                  // 2^127 * 2
  CHECK(dot(bf16, Format::bf16, {0x7F00, 0x7F00}, {0x3F80, 0x3F7F}, 0) == 0x7F7F8000);  // 2^127 + 2^127 * 0.996
  CHECK(dot(bf16, Format::bf16, {0x7F7F, 0x7F7F}, {0x7F7F, 0xFF7F}, 0x3F800000) == 0);  // c far below a cancelled 2^254
}

TEST_CASE("integers wrap or clamp once", "[rule:integers][rule:popcount]") {
  const AccumulatorModel& s32 = *find_accumulator_model(hopper, Family::wgmma, Format::s8, Format::u8, Format::s32);
  Operands operands{.a = Matrix(Format::s8, 1, 2), .b = Matrix(Format::u8, 2, 1), .c = Matrix(Format::s32, 1, 1)};
  operands.a(0, 0) = 0x7F, operands.a(0, 1) = 0x80, operands.b(0, 0) = 255, operands.b(1, 0) = 255;
  (*operands.c)(0, 0) = 0x7FFFFFFF;
  CHECK(multiply_accumulate(s32, operands)(0, 0) ==
        0x7FFFFFFF - 255);  // the sum passes 2^31 and comes back: no clamp on the way
  operands.saturate = true;
  CHECK(multiply_accumulate(s32, operands)(0, 0) == 0x7FFFFFFF - 255);
  operands.a(0, 1) = 1;
  CHECK(multiply_accumulate(s32, operands)(0, 0) == 0x7FFFFFFF);
  operands.saturate = false;
  CHECK(multiply_accumulate(s32, operands)(0, 0) == 0x7FFFFFFFu + 128 * 255);
}

TEST_CASE("b1 counts positions where both bits are set, behind word boundaries too", "[rule:popcount]") {
  Operands operands{.a = Matrix(Format::b1, 1, 70), .b = Matrix(Format::b1, 70, 1), .c = Matrix(Format::s32, 1, 1)};
  operands.a.fill(1);
  for (int k = 0; k < 70; k += 3) operands.b(k, 0) = 1;
  (*operands.c)(0, 0) = 100;
  CHECK(multiply_accumulate(model(Format::b1, Format::s32), operands)(0, 0) == 124);
}

TEST_CASE("the vector loops and the rule spelled out agree on every row, type, shape and option") {
  for_each_product([](const AccumulatorModel& row, const Operands& operands) {
    // Of chains that are not in order every step is such a sum.
    if (row.arithmetic != Arithmetic::fused_sum || row.step_order != StepOrder::ascending) return;
    const Matrix fast = multiply_accumulate(row, operands);
    for (int r = 0; r < fast.rows(); ++r) {
      for (int col = 0; col < fast.cols(); ++col) {
        const std::optional<uint32_t> c = operands.c ? std::optional((*operands.c)(r, col)) : std::nullopt;
        INFO("row " << r << " col " << col);
        REQUIRE(fast(r, col) == fused_sum(row, exact_terms(operands, r, col), c, operands.scale_input_d));
      }
    }
  });
}

TEST_CASE("the vector loops and the rule spelled out agree on every distribution") {
  for (const AccumulatorModel& row : accumulator_models()) {
    if (row.family != Family::wgmma || row.arithmetic != Arithmetic::fused_sum) continue;
    for (const FormatInfo& type : formats) {
      if (!row.inputs.contains(type.id)) continue;
      for (const DistributionInfo& distribution : distributions) {
        for (const bool sparse : {false, true}) {
          // n = 72: one whole block of vectors and a rest.
          const Instruction instruction = Wgmma{.n = 72,
                                                .d = row.output,
                                                .a = type.id,
                                                .b = type.id,
                                                .sparse = sparse,
                                                .negate_a = sparse,
                                                .negate_b = distribution.id == Distribution::bits};
          const Operands operands = random_operands(instruction, hopper, distribution.id, 17, 0);
          const Matrix fast = multiply_accumulate(row, operands);
          for (int r = 0; r < 64; r += 5) {
            for (int col = 0; col < 72; ++col) {
              INFO(type.name << " " << distribution.name << " row " << r << " col " << col);
              REQUIRE(fast(r, col) == fused_sum(row, exact_terms(operands, r, col), (*operands.c)(r, col)));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("a sum of no terms is C, rounded: by the vector loops and the rule spelled out") {
  RandomStream random(19, 0);
  for (const AccumulatorModel& row : accumulator_models()) {
    if (row.arithmetic != Arithmetic::fused_sum || row.scaling != Scaling::none) continue;
    const FormatInfo& output = info(row.output);
    const auto sign = static_cast<uint32_t>(output.sign_bit()), infinite = static_cast<uint32_t>(*output.infinity()),
               unit = static_cast<uint32_t>(output.bias) << output.mantissa_bits;
    for (const FormatInfo& type : formats) {
      if (!row.inputs.contains(type.id)) continue;
      for (const Shape& shape : {Shape{.m = 20, .n = 24}, Shape{.m = 40, .n = 3}, Shape{.m = 3, .n = 40}}) {
        // The loops have seen other products before.
        multiply_accumulate(row, random_product(row, type.id, type.id, {shape.m, shape.n, 8}, random));
        Operands operands{.a = Matrix(type.id, shape.m, 0),
                          .b = Matrix(type.id, 0, shape.n),
                          .c = Matrix(row.output, shape.m, shape.n)};
        for (uint32_t& word : operands.c->words()) {
          const uint32_t plain[]{unit, unit + 1, 2 * unit - 1, 0, 1, infinite - 1, infinite, infinite + 1};
          word = plain[random.below(8)] | (random.one_in(2) ? sign : 0);
        }
        (*operands.c)(0, 0) = sign | unit;
        const Matrix fast = fused_product(row, operands);
        CHECK(fast(0, 0) == (sign | unit));
        for (int r = 0; r < shape.m; ++r) {
          for (int col = 0; col < shape.n; ++col) {
            const uint32_t c = (*operands.c)(r, col);
            INFO(print(row.family) << " " << type.name << " -> " << output.name << ", c " << c);
            REQUIRE(fast(r, col) == fused_sum(row, {}, c));
          }
        }
        operands.c.reset();
        REQUIRE(fused_product(row, operands) == Matrix(row.output, shape.m, shape.n));
      }
    }
  }
}

TEST_CASE("an f16 C of an f32 D keeps its exponent: a subnormal one is aligned at 2^-14", "[rule:fused-sum]") {
  for (const Target target : {Target::sm_70, Target::sm_72, Target::sm_75}) {
    const AccumulatorModel& row =
        *find_accumulator_model(target, Family::mma_sync, Format::f16, Format::f16, Format::f32, Scaling::none, true);
    Operands operands{.a = Matrix(Format::f16, 1, 4), .b = Matrix(Format::f16, 4, 1), .c = Matrix(Format::f16, 1, 1)};
    operands.a(0, 0) = 0x0020, operands.b(0, 0) = 0x0020;  // 2^-19 each: 2^-38 is less than a unit, 2^(-14 - 23)
    const auto d_of = [&](Format format, uint32_t code) {
      operands.c = Matrix(format, 1, 1);
      (*operands.c)(0, 0) = code;
      return multiply_accumulate(row, operands)(0, 0);
    };
    CHECK(d_of(Format::f16, 0x0001) == 0x33800000);      // 2^-24
    CHECK(d_of(Format::f32, 0x33800000) == 0x33800200);  // the same number, aligned at 2^-24
    CHECK(d_of(Format::f16, 0x8001) == 0xB3800000);
    CHECK(d_of(Format::f16, 0x0400) == 0x38800000);  // 2^-14, normal
    CHECK(d_of(Format::f16, 0x0000) == 0x2C800000);  // 2^-38: a zero has no exponent
    CHECK(d_of(Format::f16, 0x8000) == 0x2C800000);
    CHECK(d_of(Format::f16, 0x7C00) == 0x7F800000);
    CHECK(d_of(Format::f16, 0xFC01) == 0x7FFFFFFF);
  }
}

TEST_CASE("D of a step of K is C of the next: the same as one product after the other", "[rule:steps]") {
  for_each_product([](const AccumulatorModel& row, const Operands& operands) {
    // The rows of mma.sync that are chained already have tests of their own.
    if (row.arithmetic != Arithmetic::fused_sum || is_chained(row, operands.a.cols()) || row.quad_pairs) return;
    const int terms = operands.a.cols();
    for (const int step : {4, 16, 32}) {
      if (row.scaling == Scaling::exact_groups && step % 16 != 0) continue;
      AccumulatorModel in_steps = row;
      in_steps.terms_per_step = step;
      const Matrix d = multiply_accumulate(in_steps, operands);
      std::optional<Matrix> c = operands.c;
      for (int first = 0; first < terms; first += step) {
        std::vector<int> columns(static_cast<size_t>(std::min(step, terms - first)));
        std::iota(columns.begin(), columns.end(), first);
        Operands of_step = step_of(row, operands, columns);
        of_step.c = c;
        of_step.scale_input_d = first == 0 ? operands.scale_input_d : 0;
        c = multiply_accumulate(row, of_step);
      }
      INFO("steps of " << step);
      REQUIRE(d == *c);
      for (int col = 0; col < d.cols(); ++col) {
        const std::optional<uint32_t> first_c = operands.c ? std::optional((*operands.c)(0, col)) : std::nullopt;
        REQUIRE(d(0, col) == fused_sum(in_steps, exact_terms(operands, 0, col), first_c, operands.scale_input_d));
      }
    }
  });
}

TEST_CASE("steps change results: what the first one rounds away is gone, and NaN and infinity pass on",
          "[rule:steps]") {
  AccumulatorModel in_steps = model(Format::f16, Format::f32);
  in_steps.terms_per_step = 1;
  // 2^-13 squared is 2^-26: kept beside 2^-13 alone, dropped beside 1.
  CHECK(dot(in_steps, Format::f16, {one, 0x0800, minus_one}, {one, 0x0800, one}, std::nullopt) == 0);
  CHECK(dot(in_steps, Format::f16, {one, minus_one, 0x0800}, {one, one, 0x0800}, std::nullopt) == 0x32800000);
  CHECK(dot(in_steps, Format::f16, {infinity, one}, {one, one}, 0) == 0x7F800000);
  CHECK(dot(in_steps, Format::f16, {infinity, infinity}, {one, minus_one}, 0) == 0x7FFFFFFF);
  CHECK(dot(in_steps, Format::f16, {not_a_number, one}, {one, one}, 0) == 0x7FFFFFFF);
}

TEST_CASE("swapped operands give D transposed, whatever the shape") {
  for_each_product([](const AccumulatorModel& row, const Operands& operands) {
    if (!operands.selected_k.empty()) return;
    const Operands other_way = swapped(operands);
    CHECK(other_way.swapped);
    REQUIRE(multiply_accumulate(row, other_way) == transposed(multiply_accumulate(row, operands)));
  });
}

TEST_CASE("products of few columns prefer A and B swapped") {
  const AccumulatorModel& f16 = model(Format::f16, Format::f32);
  CHECK(prefers_swapped(f16, 64, 8));
  CHECK_FALSE(prefers_swapped(f16, 64, 16));
  CHECK_FALSE(prefers_swapped(f16, 8, 8));
  CHECK(prefers_swapped(grouped_model(), 128, 16));
  CHECK_FALSE(prefers_swapped(model(Format::b1, Format::s32), 64, 8));
}

TEST_CASE("a block of operands gives the block of D") {
  for_each_product([](const AccumulatorModel& row, const Operands& operands) {
    const Matrix d = multiply_accumulate(row, operands);
    const std::vector<int> rows{2, 0, 2}, cols{1, 2};
    const Matrix picked = multiply_accumulate(row, block_of(operands, rows, cols));
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 2; ++j)
        REQUIRE(picked.code(i, j) == d.code(rows[static_cast<size_t>(i)], cols[static_cast<size_t>(j)]));
    }
    REQUIRE(multiply_accumulate(row, block_of(operands, 1, 2, 1, 2)) == block_of(d, 1, 2, 1, 2));
    REQUIRE(block_of(operands, numbers_to(d.rows()), numbers_to(d.cols())) == operands);
  });
}

TEST_CASE("a block of operands that reaches outside is refused") {
  const Operands operands{.a = Matrix(Format::f16, 4, 8), .b = Matrix(Format::f16, 8, 6)};
  CHECK_THROWS_MATCHES(block_of(operands, 2, 3, 0, 6), Error, refused(illegal_value, "row of a block of D"));
  CHECK_THROWS_MATCHES(block_of(operands, 0, 4, -1, 2), Error, refused(illegal_value, "column of a block of D"));
}

TEST_CASE("multiply_accumulate refuses what does not agree, with everything that is wrong") {
  const AccumulatorModel& f16 = model(Format::f16, Format::f32);
  const Operands good{.a = Matrix(Format::f16, 4, 16), .b = Matrix(Format::f16, 16, 8), .c = Matrix(Format::f32, 4, 8)};
  CHECK(refusal(f16, good).empty());
  const auto with = [&](const std::function<void(Operands&)>& change) {
    Operands operands = good;
    change(operands);
    return refusal(f16, operands);
  };
  CHECK_THAT(with([](Operands& o) { o.b = Matrix(Format::f16, 8, 8); }), refused(illegal_value, "B"));
  CHECK_THAT(with([](Operands& o) { o.a = {}; }), refused(illegal_value, "format of A") && refused(illegal_value, "A"));
  CHECK_THAT(with([](Operands& o) { o.a = Matrix(Format::bf16, 4, 16); }), refused(illegal_value, "format of A"));
  CHECK_THAT(with([](Operands& o) { o.b = Matrix(Format::s8, 16, 8); }), refused(illegal_value, "format of B"));
  CHECK_THAT(with([](Operands& o) { o.c = Matrix(Format::f32, 8, 4); }), refused(illegal_value, "C"));
  CHECK_THAT(with([](Operands& o) { o.c = Matrix(Format::f16, 4, 8); }), refused(illegal_value, "format of C"));
  CHECK_THAT(with([](Operands& o) { o.scale_input_d = 16; }), refused(illegal_value, "scale_input_d"));
  CHECK_THAT(with([](Operands& o) { o.scales.emplace(); }), refused(illegal_value, "scales"));
  CHECK_THAT(with([](Operands& o) { o.selected_k = {1, 2}; }), refused(illegal_value, "selected_k"));
  CHECK_THAT(with([](Operands& o) { o.selected_k.assign(64, 16); }), refused(illegal_value, "selected_k"));
  CHECK_THAT(with([](Operands& o) { o.selected_k.assign(64, 0), o.swapped = true; }),
             refused(illegal_value, "selected_k"));
  CHECK_THAT(with([](Operands& o) { o.mixed.emplace_back(); }), refused(illegal_value, "mixed"));
  CHECK_THAT(
      with([](Operands& o) { o.a = Matrix(Format::e4m3, 4, 8), o.scale_input_d = -1; }),
      refused(illegal_value, "format of A") && refused(illegal_value, "B") && refused(illegal_value, "scale_input_d"));
}

TEST_CASE("sparse operands add up as the rule of their row, and a K that two steps cannot share is refused") {
  RandomStream random(31, 0);
  int compared = 0, refused = 0;
  for (const AccumulatorModel& row : accumulator_models()) {
    if (row.arithmetic != Arithmetic::fused_sum || row.scaling != Scaling::none || row.family != Family::mma_sync)
      continue;
    const auto input =
        std::ranges::find_if(formats, [&](const auto& format) { return row.inputs.contains(format.id); });
    for (const int terms : {1, 2, 3, 4, 5, 6, 8, 16, 32}) {
      for (const bool sparse : {false, true}) {
        const Operands operands =
            random_product(row, input->id, input->id, {.m = 4, .n = 8, .terms = terms, .sparse = sparse}, random);
        INFO(print_rule(row) << ", " << input->name << (sparse ? ", sparse" : "") << ", K = " << terms);
        if (row.step_order == StepOrder::byte_pairs && terms % 4 != 0) {
          try {
            multiply_accumulate(row, operands);
            FAIL("not refused");
          } catch (const Error& error) {
            REQUIRE(error.violations().size() == 1);
            CHECK(error.violations()[0].field == "A");
          }
          ++refused;
          continue;
        }
        const auto by_rule = [&](const Operands& step, const KStep&) { return slow_product(step_model(row), step); };
        REQUIRE(multiply_accumulate(row, operands) == product_by_steps(row, operands, by_rule));
        ++compared;
      }
    }
  }
  CHECK(compared > 200);
  CHECK(refused > 20);
}

TEST_CASE("sparse tf32 is refused when a mixed term lies outside") {
  Operands operands{.a = Matrix(Format::tf32, 2, 4), .b = Matrix(Format::tf32, 8, 3)};
  operands.selected_k.assign(8, 7);
  const AccumulatorModel& tf32 = model(Format::tf32, Format::f32);
  operands.mixed = {{.row = 1, .stored = 3, .low_half = 15, .high_half = 0}};
  CHECK(refusal(tf32, operands).empty());
  operands.mixed.push_back({.row = 0, .stored = 0, .low_half = 0, .high_half = 16});
  CHECK_THAT(refusal(tf32, operands), refused(illegal_value, "mixed"));
}

TEST_CASE("scales are refused when they do not fit") {
  Operands operands{.a = Matrix(Format::e2m1, 4, 64), .b = Matrix(Format::e2m1, 64, 8)};
  const auto scaled = [&](Format type, int a_rows, int chunks, int b_chunks, int cols) {
    operands.scales = BlockScales{.a = Matrix(type, a_rows, chunks), .b = Matrix(type, b_chunks, cols)};
    return refusal(grouped_model(), operands);
  };
  CHECK_THAT(refusal(grouped_model(), operands), refused(illegal_value, "scales"));
  CHECK(scaled(Format::ue8m0, 4, 4, 4, 8).empty());
  CHECK(scaled(Format::ue4m3, 4, 2, 2, 8).empty());
  CHECK_THAT(scaled(Format::ue4m3, 4, 3, 3, 8), refused(illegal_value, "scales of A"));
  CHECK_THAT(scaled(Format::ue4m3, 4, 4, 2, 8), refused(illegal_value, "scales of B"));
  CHECK_THAT(scaled(Format::e4m3, 4, 4, 4, 8), refused(illegal_value, "format of the scales of A") &&
                                                   refused(illegal_value, "format of the scales of B"));
  operands.a = Matrix(Format::e2m1, 4, 24), operands.b = Matrix(Format::e2m1, 24, 8);
  CHECK_THAT(scaled(Format::ue8m0, 4, 1, 1, 8), refused(illegal_value, "A"));
  const AccumulatorModel& whole_k = *find_accumulator_model(Target::sm_100a, Family::tcgen05, Format::e4m3,
                                                            Format::e4m3, Format::f32, Scaling::whole_k);
  operands = {.a = Matrix(Format::e4m3, 4, 32), .b = Matrix(Format::e4m3, 32, 8)};
  operands.scales = BlockScales{.a = Matrix(Format::ue4m3, 4, 2), .b = Matrix(Format::ue8m0, 2, 8)};
  CHECK_THAT(refusal(whole_k, operands),
             refused(illegal_value, "format of the scales of A") && refused(illegal_value, "scales of A"));
}

TEST_CASE("models that somebody changed are refused when nothing can compute them") {
  const Operands operands{.a = Matrix(Format::f16, 4, 16), .b = Matrix(Format::f16, 16, 8)};
  AccumulatorModel changed = model(Format::f16, Format::f32);
  changed.output = Format::s32, changed.output_fraction_bits = 0;
  CHECK_THAT(refusal(changed, operands), refused(illegal_value, "output of the model"));
  changed = model(Format::f16, Format::f16);
  changed.output_fraction_bits = 11, changed.terms_per_step = -1;
  CHECK_THAT(refusal(changed, operands), refused(illegal_value, "output_fraction_bits of the model") &&
                                             refused(illegal_value, "terms_per_step of the model"));

  Operands scaled{.a = Matrix(Format::e2m1, 4, 96), .b = Matrix(Format::e2m1, 96, 8)};
  scaled.scales = BlockScales{.a = Matrix(Format::ue8m0, 4, 6), .b = Matrix(Format::ue8m0, 6, 8)};
  changed = grouped_model();
  for (const int none : {0, -16, 129}) {
    changed.group_terms = none;
    CHECK_THAT(refusal(changed, scaled), refused(illegal_value, "group_terms of the model"));
  }
  changed.group_terms = 8;
  CHECK(refusal(changed, scaled).empty());
  changed.group_terms = 32;  // of two scales each
  CHECK_THAT(refusal(changed, scaled), refused(illegal_value, "scales of A"));
  changed.group_terms = 8, changed.terms_per_step = 24;
  CHECK_THAT(refusal(changed, scaled), refused(illegal_value, "terms_per_step of the model"));
  changed.terms_per_step = 48;
  CHECK(refusal(changed, scaled).empty());
}

TEST_CASE("types that a row lacks are computed only by the unchecked entry, for what-if questions") {
  const Operands operands{.a = Matrix(Format::bf16, 4, 16), .b = Matrix(Format::f16, 16, 8)};
  const AccumulatorModel& f16 = model(Format::f16, Format::f32);
  CHECK_THROWS_AS(multiply_accumulate(f16, operands), Error);
  CHECK_NOTHROW(multiply_accumulate_unchecked(f16, operands));
  CHECK_THROWS_AS(multiply_accumulate_unchecked(f16, {.a = Matrix(Format::s8, 4, 16), .b = operands.b}), Error);
  CHECK_THROWS_AS(multiply_accumulate_unchecked(f16, {.a = operands.a, .b = Matrix(Format::f16, 8, 8)}), Error);
}

TEST_CASE("every wgmma form has an accumulator row for each of its types, and every row of wgmma a form") {
  std::vector<const AccumulatorModel*> used;
  for (const Form& form : forms()) {
    if (form.family != Family::wgmma) continue;
    for (const FormatInfo& a : formats) {
      for (const FormatInfo& b : formats) {
        if (!form.a.contains(a.id) || !form.b.contains(b.id)) continue;
        used.push_back(find_accumulator_model(hopper, form.family, a.id, b.id, form.d));
        INFO(form.name << " " << a.name << " " << b.name);
        CHECK(used.back());
      }
    }
  }
  for (const AccumulatorModel& row : accumulator_models()) {
    if (row.family == Family::wgmma) CHECK(std::ranges::find(used, &row) != used.end());
  }
}

namespace {

/// Only codes with one of the two lowest exponents: zeros, subnormals and the smallest normal numbers.
void make_small(Matrix& matrix) {
  const FormatInfo& row = info(matrix.format());
  const uint64_t kept = row.sign_bit() | low_mask(row.mantissa_bits + 1) << row.ignored_bits;
  for (uint32_t& word : matrix.words()) word &= static_cast<uint32_t>(kept);
}

}  // namespace

TEST_CASE("A product in the shape of mma.sync has the same bits with A and B exchanged") {
  RandomStream random(7, 0);
  size_t compared = 0;
  for (const AccumulatorModel& row : accumulator_models()) {
    if (row.family != Family::mma_sync || row.scaling != Scaling::none || row.quad_pairs ||
        (row.arithmetic != Arithmetic::fused_sum && row.arithmetic != Arithmetic::integer))
      continue;
    for (const FormatInfo& a : formats) {
      for (const FormatInfo& b : formats) {
        if (!row.inputs.contains(a.id) || !row.inputs.contains(b.id)) continue;
        for (const int m : {8, 16}) {
          for (const int k : {4, 8, 12, 16, 32, 64}) {
            for (int round = 0; round < 6; ++round) {
              Operands operands{.a = random_matrix(a.id, m, k, random),
                                .b = random_matrix(b.id, k, 8, random),
                                .c = random_matrix(row.output, m, 8, random),
                                .saturate = row.arithmetic == Arithmetic::integer && round % 2 == 1};
              if (a.kind == NumberKind::floating && round >= 2) {
                make_small(operands.a);
                if (round >= 4) make_small(operands.b);
                if (round == 5) operands.c->fill(0);
              }
              INFO(print_rule(row) << ", " << a.name << " x " << b.name << ", m " << m << ", k " << k << ", " << round);
              REQUIRE(multiply_accumulate(row, operands) == transposed(multiply_accumulate(row, swapped(operands))));
              ++compared;
            }
          }
        }
      }
    }
  }
  REQUIRE(compared > 5000);
}

TEST_CASE("The caller's rounding mode changes no bit where C is added last") {
  struct NearestAgain {
    ~NearestAgain() { std::fesetround(FE_TONEAREST); }
  } nearest_again;
  RandomStream random(9, 0);
  for (const Format output : {Format::f32, Format::f16}) {
    const AccumulatorModel& row = *find_accumulator_model(hopper, Family::mma_sync, Format::e4m3, Format::e4m3, output);
    REQUIRE(row.c_last);
    for (int round = 0; round < 20; ++round) {
      const Operands operands{.a = random_matrix(Format::e4m3, 16, 32, random),
                              .b = random_matrix(Format::e4m3, 32, 8, random),
                              .c = random_matrix(output, 16, 8, random)};
      std::fesetround(FE_TONEAREST);
      const Matrix expected = multiply_accumulate(row, operands);
      for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
        std::fesetround(mode);
        REQUIRE(multiply_accumulate(row, operands) == expected);
        REQUIRE(std::fegetround() == mode);
      }
    }
  }
}
