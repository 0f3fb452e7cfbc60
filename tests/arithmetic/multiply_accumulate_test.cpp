#include "bitmma/arithmetic/multiply_accumulate.hpp"

#include "bitmma/instruction/legality.hpp"
#include "bitmma/instruction/random_operands.hpp"
#include "bitmma/instruction/simulate.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

const AccumulatorModel& model(Format a, Format d) { return *find_accumulator_model(Family::wgmma, a, a, d); }

/// One output of a 1 x L times L x 1 product.
uint32_t dot(const AccumulatorModel& row, Format format, const std::vector<uint32_t>& a, const std::vector<uint32_t>& b,
             std::optional<uint32_t> c) {
  const int terms = static_cast<int>(a.size());
  Operands operands{
      .a = BitMatrix(format, 1, terms), .b = BitMatrix(format, terms, 1), .c = std::nullopt, .selected_k = {}};
  for (int k = 0; k < terms; ++k)
    operands.a(0, k) = a[static_cast<size_t>(k)], operands.b(k, 0) = b[static_cast<size_t>(k)];
  if (c) {
    operands.c = BitMatrix(row.output, 1, 1);
    (*operands.c)(0, 0) = *c;
  }
  return multiply_accumulate(row, operands)(0, 0);
}

constexpr uint32_t one = 0x3C00, minus_one = 0xBC00, infinity = 0x7C00, not_a_number = 0x7C01;  // f16

}  // namespace

TEST_CASE("a zero result is +0, always") {
  const AccumulatorModel& f32 = model(Format::f16, Format::f32);
  CHECK(dot(f32, Format::f16, {0x8000, 0x8000}, {one, one}, 0x80000000) == 0);
  CHECK(dot(f32, Format::f16, {one, minus_one}, {one, one}, std::nullopt) == 0);
  CHECK(dot(f32, Format::f16, {one, 0}, {one, 0}, 0xBF800000) == 0);
  // A negative sum that rounds to zero: f16 D of -2^-25, a tie to even.
  CHECK(dot(model(Format::f16, Format::f16), Format::f16, {0x8001}, {0x3800}, 0) == 0);
  CHECK(dot(model(Format::f16, Format::f16), Format::f16, {0x8001}, {0x3801}, 0) == 0x8001);
}

TEST_CASE("special values: NaN is canonical, infinity times zero and opposite infinities are NaN") {
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

TEST_CASE("a product of 2 or more does not raise the alignment exponent, and every term is truncated alone") {
  const AccumulatorModel& f32 = model(Format::f16, Format::f32);
  // 1.5 * 1.5 = 2.25 has exponent 0: 2^-25 still counts, and completes the last bit of f32 with a second one... four of
  // them.
  const uint32_t tiny_a = 0x0200, tiny_b = 0x1800;  // 2^-15 (subnormal) and 2^-9: 2^-24, exponent -14 - 9 unnormalised
  CHECK(dot(f32, Format::f16, {0x3E00, tiny_a, tiny_a, tiny_a, tiny_a}, {0x3E00, tiny_b, tiny_b, tiny_b, tiny_b}, 0) ==
        0x40100001);
  // 2^-26 against 1: gone one by one, though four of them would make 2^-24.
  const uint32_t small = 0x0800;  // 2^-13
  CHECK(dot(f32, Format::f16, {one, small, small, small, small}, {one, small, small, small, small}, 0) == 0x3F800000);
  CHECK(dot(f32, Format::f16, {small, small, small, small}, {small, small, small, small}, 0) == 0x33800000);
}

TEST_CASE("fp8 sums keep 13 fraction bits, also of a C that meets only zeros") {
  CHECK(dot(model(Format::e4m3, Format::f32), Format::e4m3, {0}, {0}, 0x3FFFFFFF) == 0x3FFFFC00);
  CHECK(dot(model(Format::e4m3, Format::f32), Format::e4m3, {0x38, 0x38}, {0x38, 0x01}, 0) == 0x3F804000);
}

TEST_CASE("f32 results overflow only from 2^128 on") {
  const AccumulatorModel& bf16 = model(Format::bf16, Format::f32);
  CHECK(dot(bf16, Format::bf16, {0x7F00}, {0x4000}, 0) == 0x7F800000);                  // 2^127 * 2
  CHECK(dot(bf16, Format::bf16, {0x7F00, 0x7F00}, {0x3F80, 0x3F7F}, 0) == 0x7F7F8000);  // 2^127 + 2^127 * 0.996
  CHECK(dot(bf16, Format::bf16, {0x7F7F, 0x7F7F}, {0x7F7F, 0xFF7F}, 0x3F800000) == 0);  // c far below a cancelled 2^254
}

TEST_CASE("integers wrap or clamp once; b1 counts common bits") {
  const AccumulatorModel& s32 = *find_accumulator_model(Family::wgmma, Format::s8, Format::u8, Format::s32);
  Operands operands{.a = BitMatrix(Format::s8, 1, 2),
                    .b = BitMatrix(Format::u8, 2, 1),
                    .c = BitMatrix(Format::s32, 1, 1),
                    .selected_k = {}};
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

TEST_CASE("the vector loop and the spelled-out rule agree on every row, distribution, sign and sparsity") {
  for (const LegalForm& form : legal_forms()) {
    const AccumulatorModel& row = *find_accumulator_model(form.family, form.a, form.b, form.d);
    if (row.arithmetic != Arithmetic::fused_sum) continue;
    for (const DistributionInfo& distribution : distributions) {
      for (const bool sparse : {false, true}) {
        // n = 72: one whole block of lanes and a rest.
        const Instruction instruction{.sparse = sparse,
                                      .n = 72,
                                      .k = sparse ? form.k_sparse : form.k_dense,
                                      .d = form.d,
                                      .a = form.a,
                                      .b = form.b,
                                      .imm_scale_a = sparse ? -1 : 1,
                                      .imm_scale_b = distribution.id == Distribution::bits ? -1 : 1};
        const Operands operands = random_operands(instruction, distribution.id, 17, 0);
        const BitMatrix fast = multiply_accumulate(row, operands);
        for (int r = 0; r < 64; r += 5) {
          for (int col = 0; col < 72; ++col) {
            std::vector<Term> terms;
            for (int j = 0; j < operands.a.cols(); ++j) {
              const int k = sparse ? operands.selected_k[static_cast<size_t>(r * operands.a.cols() + j)] : j;
              Term term{decode(form.a, operands.a(r, j)), decode(form.b, operands.b(k, col))};
              term.a.negative ^= operands.negate_a;
              term.b.negative ^= operands.negate_b;
              terms.push_back(term);
            }
            INFO(print(instruction) << " " << distribution.name << " row " << r << " col " << col);
            REQUIRE(fast(r, col) == fused_sum(row, form.a, form.b, terms, (*operands.c)(r, col)));
          }
        }
      }
    }
  }
}

TEST_CASE("every legal instruction has exactly one accumulator row, and every row an instruction") {
  for (const AccumulatorModel& row : accumulator_models()) {
    if (row.family != Family::wgmma) continue;  // the forms of tcgen05.mma have no types; its tests are its own
    int users = 0;
    for (const LegalForm& form : legal_forms())
      users += find_accumulator_model(form.family, form.a, form.b, form.d) == &row;
    CHECK(users > 0);
    CHECK_FALSE(row.source.empty());
  }
  for (const LegalForm& form : legal_forms()) {
    int rows = 0;
    for (const AccumulatorModel& row : accumulator_models()) {
      rows += row.family == form.family && row.output == form.d && row.inputs.contains(form.a) &&
              row.inputs.contains(form.b);
    }
    CHECK(rows == 1);
  }
}
