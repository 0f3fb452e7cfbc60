// Directed cases for block scales: every boundary of the rules with both its neighbours, by hand, and by the slow
// oracle.
#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "oracle/slow_dot.hpp"
#include "support/catch.hpp"
#include "support/mutants.hpp"

using namespace bitmma;

namespace {

/// Codes of e2m1, and the bit of its sign.
constexpr uint32_t half = 1, one = 2, two = 4, six = 7, minus = 8;

/// One fp4 output: four groups of 16, each with one product (a, b) or two, and scales. What is not named is zero.
struct Group {
  std::vector<std::pair<uint32_t, uint32_t>> products;
  uint32_t scale_a = 127, scale_b = 127;  // ue8m0: 2^0
};

struct GroupedCase {
  const char* what;
  std::vector<Group> groups;
  uint32_t c = 0;
  uint32_t d = 0;
  Format scale_type = Format::ue8m0;
};

uint32_t f32(int exponent) { return static_cast<uint32_t>(exponent + 127) << 23; }

Operands operands_of(const GroupedCase& one_case) {
  Operands operands{.a = Matrix(Format::e2m1, 1, 64), .b = Matrix(Format::e2m1, 64, 1), .c = Matrix(Format::f32, 1, 1)};
  operands.scales = BlockScales{.a = Matrix(one_case.scale_type, 1, 4), .b = Matrix(one_case.scale_type, 4, 1)};
  const FormatInfo& scale = info(one_case.scale_type);
  const auto unit = static_cast<uint32_t>(scale.bias) << scale.mantissa_bits;
  for (int g = 0; g < 4; ++g) {
    operands.scales->a(0, g) = operands.scales->b(g, 0) = unit;
    if (g >= static_cast<int>(one_case.groups.size())) continue;
    const Group& group = one_case.groups[static_cast<size_t>(g)];
    operands.scales->a(0, g) = group.scale_a;
    operands.scales->b(g, 0) = group.scale_b;
    for (size_t i = 0; i < group.products.size(); ++i) {
      operands.a(0, 16 * g + 5 * static_cast<int>(i)) = group.products[i].first;
      operands.b(16 * g + 5 * static_cast<int>(i), 0) = group.products[i].second;
    }
  }
  (*operands.c)(0, 0) = one_case.c;
  return operands;
}

const std::vector<GroupedCase>& cases() {
  static const std::vector<GroupedCase> table = {
      {"nothing at all is +0", {}, 0, 0},
      {"-0 in C is +0", {}, 0x80000000, 0},
      {"one product", {{{{two, six}}}}, 0, f32(3) | 0x400000},
      {"36 * 2^-127 * 2^-127 is below every f32", {{{{six, six}}, 0, 0}}, 0, 0},
      {"the largest scales overflow to infinity", {{{{one, one}}, 0xFE, 0xFE}}, 0, 0x7F800000},
      {"... to minus infinity", {{{{one | minus, one}}, 0xFE, 0xFE}}, 0, 0xFF800000},
      {"2^127 does not", {{{{one, one}}, 0xFE, 127}}, 0, f32(127)},
      {"2^128 does", {{{{two, one}}, 0xFE, 127}}, 0, 0x7F800000},
      {"a NaN scale of A", {{{{one, one}}, 0xFF, 127}}, 0, 0x7FFFFFFF},
      {"a NaN scale of B", {{{{one, one}}, 127, 0xFF}}, 0, 0x7FFFFFFF},
      {"a NaN scale of a group of zeros", {{{}, 127, 0xFF}, {{{one, one}}}}, 0, 0x7FFFFFFF},
      {"NaN in C keeps no payload", {{{{one, one}}}}, 0x7F800001, 0x7FFFFFFF},
      {"infinity in C wins", {{{{one, one}}}}, 0xFF800000, 0xFF800000},
      {"infinity in C and a NaN scale", {{{{one, one}}, 0xFF, 127}}, 0xFF800000, 0x7FFFFFFF},
      // 2^(e_max - 35) is the last bit that is kept. e_max = 35 by the scales, a sum of 2^35 that C takes away again.
      {"a term of one last bit is kept", {{{{one, one}}, 162, 127}, {{{one, one}}}}, f32(35) | 0x80000000, f32(0)},
      {"half of it is dropped", {{{{one, one}}, 162, 127}, {{{one, half}}}}, f32(35) | 0x80000000, 0},
      {"three quarters of it too, toward zero",
       {{{{one, one}}, 162, 127}, {{{half | minus, 3}}}},
       f32(35) | 0x80000000,
       0},
      {"one and a half keep one", {{{{one, one}}, 162, 127}, {{{one, 3}}}}, f32(35) | 0x80000000, f32(0)},
      {"truncation is term by term: two halves are nothing",
       {{{{one, one}}, 162, 127}, {{{one, half}}}, {{{one, half}}}},
       f32(35) | 0x80000000,
       0},
      {"but in one group they are summed first",
       {{{{one, one}}, 162, 127}, {{{one, half}, {one, half}}}},
       f32(35) | 0x80000000,
       f32(0)},
      // Only the scales' exponents count: 36 in a group does not raise e_max.
      {"products do not raise the exponent",
       {{{{six, six}}, 162, 127}, {{{one, one}}}, {{{six | minus, six}}, 162, 127}},
       0,
       f32(0)},
      {"a group that cancels keeps its exponent", {{{{one, one}, {one | minus, one}}, 163, 127}, {{{one, one}}}}, 0, 0},
      {"... and one binade less lets the other through",
       {{{{one, one}, {one | minus, one}}, 162, 127}, {{{one, one}}}},
       0,
       f32(0)},
      {"a group of zeros has no exponent, whatever its scale",
       {{{{one, 0}, {0, six}}, 0xFE, 0xFE}, {{{one, one}}}},
       0,
       f32(0)},
      // C above and below the scales.
      {"C raises e_max: 2^36 drops 1", {{{{one, one}}}}, f32(36) | 1, f32(36) | 1},
      {"C of 2^35 keeps 1, and the f32 drops it", {{{{one | minus, one}}}}, f32(35), 0x50FFFFFF},
      {"C of 2^36 does not: nothing is taken away", {{{{one | minus, one}}}}, f32(36), f32(36)},
      {"C below the scales loses what is under their last bit",
       {{{{one, one}}, 162, 127}, {{{one | minus, one}}, 162, 127}},
       f32(-1),
       0},
      {"C of one last bit is kept", {{{{one, one}}, 162, 127}, {{{one | minus, one}}, 162, 127}}, f32(0), f32(0)},
      {"C of one and a half keeps one",
       {{{{one, one}}, 162, 127}, {{{one | minus, one}}, 162, 127}},
       f32(0) | 0x400000,
       f32(0)},
      {"C that is subnormal counts with exponent -126", {{{{one, one}}, 1, 127}}, 1, f32(-126) | 1},
      // The exponent of nothing, -139, is a floor: 2^-174 is the last bit under it. 2^-149 is the smallest f32.
      {"a term under the floor's last bit is dropped", {{{{one, one}}, 0, 105}, {{{half, half | minus}}, 0, 81}}, 0, 1},
      {"one of its last bit is kept, and truncation takes the f32",
       {{{{one, one}}, 0, 105}, {{{half, half | minus}}, 0, 82}},
       0,
       0},
      // ue4m3: significand and subnormals live, bit 7 ignored.
      {"ue4m3 1.875 * 1.875", {{{{one, one}}, 0x3F, 0x3F}}, 0, 0x40610000, Format::ue4m3},
      {"ue4m3 bit 7 is ignored", {{{{one, one}}, 0xBF, 0x3F}}, 0, 0x40610000, Format::ue4m3},
      {"ue4m3 subnormal 2^-9", {{{{one, one}}, 0x01, 0x38}}, 0, f32(-9), Format::ue4m3},
      {"ue4m3 0x7F is NaN", {{{{one, one}}, 0x7F, 0x38}}, 0, 0x7FFFFFFF, Format::ue4m3},
      {"ue4m3 0xFF is NaN", {{{{one, one}}, 0x38, 0xFF}}, 0, 0x7FFFFFFF, Format::ue4m3},
      {"ue4m3 448 * 448 * 36", {{{{six, six}}, 0x7E, 0x7E}}, 0, 0x4ADC8000, Format::ue4m3},
      {"a zero scale makes the group vanish, exponent and all",
       {{{{six, six}}, 0x00, 0x7E}, {{{one, one}}, 0x38, 0x38}},
       0,
       f32(0),
       Format::ue4m3},
      {"-1 at a zero scale is +0", {{{{one | minus, one}}, 0x00, 0x38}}, 0, 0, Format::ue4m3},
      // ue5m3 has five bits of exponent, and bit 7 is one of them.
      {"ue5m3 1.875 * 1.875", {{{{one, one}}, 0x7F, 0x7F}}, 0, 0x40610000, Format::ue5m3},
      {"ue5m3 bit 7 counts", {{{{one, one}}, 0xF8, 0x78}}, 0, f32(16), Format::ue5m3},
      {"ue5m3 subnormal 2^-17", {{{{one, one}}, 0x01, 0x78}}, 0, f32(-17), Format::ue5m3},
      {"ue5m3 0xFF is NaN", {{{{one, one}}, 0xFF, 0x78}}, 0, 0x7FFFFFFF, Format::ue5m3},
  };
  return table;
}

const AccumulatorModel& grouped_row() {
  return *find_accumulator_model(Target::sm_100a, Family::tcgen05, Format::e2m1, Format::e2m1, Format::f32,
                                 Scaling::exact_groups);
}
const AccumulatorModel& whole_row() {
  return *find_accumulator_model(Target::sm_100a, Family::tcgen05, Format::e5m2, Format::e5m2, Format::f32,
                                 Scaling::whole_k);
}

std::vector<uint32_t> codes(const Matrix& matrix) { return {matrix.words().begin(), matrix.words().end()}; }

/// One mxf8f6f4 output with e5m2: products of powers of two, 2^x * 2^y, negative where asked.
struct WholeCase {
  const char* what;
  std::vector<std::pair<int, bool>> products;  // exponent, negative
  uint32_t scale_a, scale_b, c, d;
};

Operands operands_of(const WholeCase& one_case) {
  Operands operands{.a = Matrix(Format::e5m2, 1, 32), .b = Matrix(Format::e5m2, 32, 1), .c = Matrix(Format::f32, 1, 1)};
  operands.scales = BlockScales{.a = Matrix(Format::ue8m0, 1, 1), .b = Matrix(Format::ue8m0, 1, 1)};
  operands.scales->a(0, 0) = one_case.scale_a;
  operands.scales->b(0, 0) = one_case.scale_b;
  for (size_t i = 0; i < one_case.products.size(); ++i) {
    const auto& [exponent, negative] = one_case.products[i];
    const int first = exponent / 2;
    operands.a(0, static_cast<int>(i) * 3) = static_cast<uint32_t>(first + 15) << 2 | (negative ? 0x80 : 0);
    operands.b(static_cast<int>(i) * 3, 0) = static_cast<uint32_t>(exponent - first + 15) << 2;
  }
  (*operands.c)(0, 0) = one_case.c;
  return operands;
}

const std::vector<WholeCase>& whole_cases() {
  static const std::vector<WholeCase> table = {
      {"one product", {{3, false}}, 127, 127, 0, f32(3)},
      {"scales multiply", {{3, false}}, 130, 120, 0, f32(-1)},
      {"NaN scale with no product", {}, 0xFF, 127, 0, 0x7FFFFFFF},
      {"NaN scale of B", {{0, false}}, 127, 0xFF, 0, 0x7FFFFFFF},
      {"C is not scaled", {}, 137, 137, f32(0), f32(0)},
      {"overflow", {{0, false}}, 0xFE, 0xFE, 0, 0x7F800000},
      {"2^127 is not overflow", {{0, false}}, 0xFE, 127, 0, f32(127)},
      {"scales raise e_max: at 25 C's 1 is kept", {{0, false}, {0, true}}, 152, 127, f32(0), f32(0)},
      {"at 26 it is dropped", {{0, false}, {0, true}}, 153, 127, f32(0), 0},
      {"products 25 binades apart", {{14, false}, {-11, false}, {14, true}}, 127, 127, 0, f32(-11)},
      {"products 26 binades apart", {{14, false}, {-12, false}, {14, true}}, 127, 127, 0, 0},
      // The floor is -133: 2^-158 is the last bit under it.
      {"under the floor's last bit: dropped", {{0, false}, {-10, true}}, 0, 105, 0, 1},
      {"the floor's last bit: kept, and the f32 truncates", {{0, false}, {-9, true}}, 0, 105, 0, 0},
      {"C below 2^25 of the products", {{0, false}, {0, true}}, 152, 127, f32(-1), 0},
  };
  return table;
}

}  // namespace

TEST_CASE("fp4 with block scales: every boundary and both its neighbours, as computed by hand and by the oracle",
          "[rule:groups-of-16]") {
  for (const GroupedCase& one_case : cases()) {
    INFO(one_case.what);
    const Operands operands = operands_of(one_case);
    CHECK(print_bits(Format::f32, multiply_accumulate(grouped_row(), operands)(0, 0)) ==
          print_bits(Format::f32, one_case.d));
    CHECK(oracle::grouped_dot(std::string(info(one_case.scale_type).name), codes(operands.a), codes(operands.b), false,
                              codes(operands.scales->a), codes(operands.scales->b), one_case.c) == one_case.d);
  }
}

TEST_CASE("mxf8f6f4: every boundary and both its neighbours, as computed by hand and by the oracle",
          "[rule:whole-k-scales]") {
  for (const WholeCase& one_case : whole_cases()) {
    INFO(one_case.what);
    const Operands operands = operands_of(one_case);
    CHECK(print_bits(Format::f32, multiply_accumulate(whole_row(), operands)(0, 0)) ==
          print_bits(Format::f32, one_case.d));
    const oracle::Scaling scaling{.power = static_cast<int>(one_case.scale_a + one_case.scale_b) - 254,
                                  .nan = one_case.scale_a == 255 || one_case.scale_b == 255};
    CHECK(oracle::scaled_dot({25, -133, 23, false, false}, scaling, "e5m2", "e5m2", codes(operands.a),
                             codes(operands.b), false, false, one_case.c) == one_case.d);
  }
}

TEST_CASE("the directed cases refute every neighbouring rule of the block-scaled rows") {
  for (const char* name : {"F-1", "F+1", "floor-1", "floor+1", "no floor", "other rounding"}) {
    const auto mutant = std::ranges::find(test::mutants(), std::string(name), &test::Mutant::name);
    REQUIRE(mutant != test::mutants().end());
    AccumulatorModel grouped = grouped_row(), whole = whole_row();
    mutant->change(grouped);
    mutant->change(whole);
    INFO(name);
    CHECK(std::ranges::any_of(cases(), [&](const GroupedCase& one_case) {
      return multiply_accumulate(grouped, operands_of(one_case))(0, 0) != one_case.d;
    }));
    CHECK(std::ranges::any_of(whole_cases(), [&](const WholeCase& one_case) {
      return multiply_accumulate(whole, operands_of(one_case))(0, 0) != one_case.d;
    }));
  }
}

TEST_CASE("scale-input-d: C counts C * 2^-s exactly, both sides of the last bit", "[rule:scale-input-d]") {
  const AccumulatorModel& row =
      *find_accumulator_model(Target::sm_100a, Family::tcgen05, Format::f16, Format::f16, Format::f32);
  Operands operands{.a = Matrix(Format::f16, 1, 16), .b = Matrix(Format::f16, 16, 1), .c = Matrix(Format::f32, 1, 1)};
  const auto d = [&](uint32_t c, int scale) {
    (*operands.c)(0, 0) = c;
    operands.scale_input_d = scale;
    return multiply_accumulate(row, operands)(0, 0);
  };
  CHECK(d(f32(10), 10) == f32(0));
  CHECK(d(f32(-126), 10) == 1u << 13);  // into the subnormals, not flushed
  CHECK(d(1, 1) == 0);
  CHECK(d(0x7F800000, 15) == 0x7F800000);
  CHECK(d(0x7F800001, 3) == 0x7FFFFFFF);
  operands.a(0, 0) = 0x3C00, operands.b(0, 0) = 0x3C00;  // 1
  operands.a(0, 1) = 0xBC00, operands.b(1, 0) = 0x3C00;  // -1
  CHECK(d(f32(-10), 15) == f32(-25));                    // the last bit under e_max = 0
  CHECK(d(f32(-11), 15) == 0);
}
