// The library against the slow oracle: a million outputs of every accumulator row, from every distribution, dense and
// sparse, with and without C, negated and saturated.
#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>

#include "arithmetic/fused_sum.hpp"
#include "bitmma/arithmetic/cpu_target.hpp"
#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/stimulus/random_operands.hpp"
#include "oracle/slow_dot.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

namespace {

/// The rules again, typed a second time from the prose: F, floor, kept bits, nearest, f16 result.
const std::map<std::string, oracle::Rule> rules = {
    {"wgmma tf32 f32", {25, -133, 23, false, false}},    {"wgmma f16 f32", {25, -133, 23, false, false}},
    {"wgmma bf16 f32", {25, -133, 23, false, false}},    {"wgmma f16 f16", {25, -21, 10, true, true}},
    {"wgmma e4m3 f32", {13, -133, 13, false, false}},    {"wgmma e4m3 f16", {13, -21, 10, true, true}},
    {"tcgen05 tf32 f32", {25, -133, 23, false, false}},  {"tcgen05 f16 f32", {25, -133, 23, false, false}},
    {"tcgen05 bf16 f32", {25, -133, 23, false, false}},  {"tcgen05 f16 f16", {25, -21, 10, true, true}},
    {"tcgen05 e4m3 f32", {25, -133, 23, false, false}},  {"tcgen05 e4m3 f16", {25, -21, 10, true, true}},
    {"mma.sync e4m3 f32", {25, -133, 23, false, false}},
};

/// mma.sync, the same: a rule, the terms of a step (0: all) and whether C comes last. By the first target of a row.
struct WarpRule {
  oracle::Rule rule;
  size_t step = 0;
  bool two_steps = false;
};
const std::map<std::string, WarpRule> warp_rules = {
    {"sm_70 quads f32", {{23, -131, 23, false, false}, 4}},
    {"sm_70 quads f16", {{23, -19, 10, true, true}, 4}},
    {"sm_75 quads f32", {{23, -131, 23, false, false}, 4}},
    {"sm_75 quads f16", {{23, -19, 10, true, true}, 4}},
    {"sm_75 f16 f32", {{24, -132, 23, false, false}, 8}},
    {"sm_75 f16 f16", {{24, -20, 10, true, true}, 8}},
    {"sm_80 f16 f32", {{24, -132, 23, false, false}, 8}},
    {"sm_80 f16 f16", {{24, -20, 10, true, true}, 8}},
    {"sm_80 bf16 f32", {{24, -132, 23, false, false}, 8}},
    {"sm_80 tf32 f32", {{24, -132, 23, false, false}, 4}},
    {"sm_89 e4m3 f32", {{13, -133, 13, false, false}, 16}},
    {"sm_89 e4m3 f16", {{13, -21, 10, true, true}, 16}},
    {"sm_90a f16 f32", {{25, -133, 23, false, false}}},
    {"sm_90a f16 f16", {{25, -21, 10, true, true}}},
    {"sm_90a bf16 f32", {{25, -133, 23, false, false}}},
    {"sm_90a tf32 f32", {{25, -133, 23, false, false}}},
    {"sm_90a e4m3 f32", {{25, -133, 23, false, false}, 0, true}},
    {"sm_90a e4m3 f16", {{25, -21, 10, true, true}, 0, true}},
    {"sm_100a f16 f32", {{25, -133, 23, false, false}}},
    {"sm_100a f16 f16", {{25, -21, 10, true, true}}},
    {"sm_100a bf16 f32", {{25, -133, 23, false, false}}},
    {"sm_100a tf32 f32", {{25, -133, 23, false, false}}},
    {"sm_100a e4m3 f32", {{25, -133, 23, false, false}, 0, true}},
    {"sm_100a e4m3 f16", {{25, -21, 10, true, true}, 0, true}},
    {"sm_120a f16 f32", {{25, -133, 23, false, false}}},
    {"sm_120a f16 f16", {{25, -21, 10, true, true}}},
    {"sm_120a bf16 f32", {{25, -133, 23, false, false}}},
    {"sm_120a tf32 f32", {{25, -133, 23, false, false}}},
    {"sm_120a e4m3 f32", {{25, -133, 23, false, false}}},
    {"sm_120a e4m3 f16", {{25, -21, 10, true, true}}},
};

uint32_t warp_dot(const WarpRule& row, const std::string& type_a, const std::string& type_b, std::vector<uint32_t> a,
                  std::vector<uint32_t> b, const Operands& operands, std::optional<uint32_t> c) {
  const bool negate_a = operands.negate_a, negate_b = operands.negate_b;
  bool narrow_c = operands.c && operands.c->format() == Format::f16;
  if (row.two_steps) return oracle::two_step_dot(row.rule, type_a, type_b, a, b, negate_a, negate_b, c);
  while (row.step != 0 && a.size() > row.step) {
    const auto end = static_cast<std::ptrdiff_t>(row.step);
    c = oracle::fused_dot(row.rule, type_a, type_b, {a.begin(), a.begin() + end}, {b.begin(), b.begin() + end},
                          negate_a, negate_b, c, narrow_c);
    narrow_c = false;
    a.erase(a.begin(), a.begin() + end), b.erase(b.begin(), b.begin() + end);
  }
  return oracle::fused_dot(row.rule, type_a, type_b, a, b, negate_a, negate_b, c, narrow_c);
}

/// Row `row` of the scales of A, and column `col` of those of B.
std::pair<std::vector<uint32_t>, std::vector<uint32_t>> scales_at(const BlockScales& scales, int row, int col) {
  std::vector<uint32_t> a, b;
  for (int j = 0; j < scales.a.cols(); ++j) a.push_back(scales.a(row, j));
  for (int j = 0; j < scales.b.rows(); ++j) b.push_back(scales.b(j, col));
  return {a, b};
}

uint64_t expected(const AccumulatorModel& model, const Instruction& instruction, const Operands& operands, int row,
                  int col) {
  std::vector<uint32_t> a, b;
  std::vector<uint64_t> wide_a, wide_b;
  const Mma mma = mma_of(instruction);
  const std::string type_a(info(mma.a).name), type_b(info(mma.b).name), type_d(info(mma.d).name);
  const auto sign = [&](bool negate, Format format) { return negate ? info(format).sign_bit() : 0; };
  for (int j = 0; j < operands.a.cols(); ++j) {
    const int k =
        operands.selected_k.empty() ? j : operands.selected_k[static_cast<size_t>(row * operands.a.cols() + j)];
    wide_a.push_back(operands.a.code(row, j));
    wide_b.push_back(operands.b.code(k, col));
    a.push_back(static_cast<uint32_t>(wide_a.back()));
    b.push_back(static_cast<uint32_t>(wide_b.back()));
    // Both are there or not: b1 counts a xor b as bits that both have.
    if (operands.exclusive_or) a.back() ^= b.back(), b.back() = 1;
  }
  if (mma.d == Format::f64) {
    for (uint64_t& code : wide_a) code ^= sign(operands.negate_a, mma.a);
    for (uint64_t& code : wide_b) code ^= sign(operands.negate_b, mma.b);
    constexpr char modes[]{'z', 'n', '?', 'p', 'm'};
    return oracle::f64_chain(wide_a, wide_b, operands.c ? operands.c->code(row, col) : 0,
                             modes[static_cast<size_t>(operands.rounding)]);
  }
  std::optional<uint32_t> c = operands.c ? std::optional((*operands.c)(row, col)) : std::nullopt;
  if (mma.d == Format::s32) return oracle::integer_dot(type_a, type_b, a, b, operands.saturate, c);
  if (model.arithmetic == Arithmetic::fma_pairs) {
    for (uint32_t& code : a) code ^= static_cast<uint32_t>(sign(operands.negate_a, mma.a));
    for (uint32_t& code : b) code ^= static_cast<uint32_t>(sign(operands.negate_b, mma.b));
    if (c && mma.c == Format::f16)
      *c = static_cast<uint32_t>(convert(mma.c, *c, Format::f32, Rounding::nearest_even, Overflow::infinity));
    return oracle::f16_quad(mma.d == Format::f16, a, b, c);
  }
  oracle::Scaling scaling{.c_shift = operands.scale_input_d};
  if (operands.scales) {
    const auto [scale_a, scale_b] = scales_at(*operands.scales, row, col);
    if (mma.scaling == Scaling::exact_groups) {
      return oracle::grouped_dot(std::string(info(mma.scale_type).name), a, b, operands.negate_a != operands.negate_b,
                                 scale_a, scale_b, c, static_cast<size_t>(model.group_terms));
    }
    scaling.power = static_cast<int>(scale_a[0]) - 127 + static_cast<int>(scale_b[0]) - 127;
    scaling.nan = scale_a[0] == 255 || scale_b[0] == 255;
  }
  const std::string inputs = info(mma.a).bits <= 8 ? "e4m3" : type_a;
  if (mma.family == Family::mma_sync && mma.scaling == Scaling::none) {
    const std::string row_name =
        std::string(print(model.targets.first())) + " " + (mma.products > 1 ? "quads" : inputs) + " " + type_d;
    return warp_dot(warp_rules.at(row_name), type_a, type_b, a, b, operands, c);
  }
  return oracle::scaled_dot(rules.at(std::string(print(mma.family)) + " " + inputs + " " + type_d), scaling, type_a,
                            type_b, a, b, operands.negate_a, operands.negate_b, c);
}

/// A product that a row computes. Signs, and whether C is read, stand beside the instruction: mma.sync has neither, but
/// its rows compute with them.
struct Product {
  Instruction instruction;
  bool negate_a = false, negate_b = false, reads_c = true;

  Operands operands(Target target, Distribution distribution, uint64_t seed, uint64_t index) const {
    Operands random = random_operands(instruction, target, distribution, seed, index);
    random.negate_a = negate_a, random.negate_b = negate_b;
    if (!reads_c) random.c.reset();
    return random;
  }
};

/// The same of mma.sync without scales: both K, rounding modes, C of f16 beside D of f32, xor.
MmaSync warp_product(const AccumulatorModel& row, const FormatInfo& a, const FormatInfo& b, int variant) {
  const bool is_integer = a.kind == NumberKind::integer, is_f64 = a.id == Format::f64, is_bit = a.id == Format::b1;
  const bool is_quad = row.quad_pairs, sparse = variant % 2 == 1 && !is_bit && !is_f64 && !is_quad;
  const int bits = std::max(a.bits, is_integer ? 4 : is_bit ? 1 : 8);
  const int k = is_quad ? 4 : is_f64 ? 16 >> variant % 3 : (sparse ? 512 : 256) / bits / (variant >= 4 ? 2 : 1);
  constexpr Rounding modes[]{Rounding::nearest_even, Rounding::toward_zero, Rounding::toward_negative,
                             Rounding::toward_positive};
  MmaSync instruction{
      .m = is_quad ? 8 : 64, .n = is_quad ? 8 : 16, .d = row.output, .a = a.id, .b = b.id, .sparse = sparse, .k = k};
  if (a.bits < 8 && !is_integer && !is_bit) instruction.kind = MmaKind::f8f6f4;
  if (is_quad && row.output == Format::f32 && variant % 2 == 1) instruction.c = Format::f16;
  if (is_bit) instruction.bit_operation = variant % 2 == 1 ? BitOperation::xor_popc : BitOperation::and_popc;
  if (is_f64) instruction.rounding = modes[variant / 2];
  instruction.saturate = is_integer && variant >= 2;
  return instruction;
}

/// Variant 0..7 of the products of two types: dense and sparse, signs, saturation, without C, sizes and types of
/// scales.
Product product_of(const AccumulatorModel& row, const FormatInfo& a, const FormatInfo& b, int variant) {
  const bool is_float = a.kind == NumberKind::floating, is_integer = a.kind == NumberKind::integer;
  const bool sparse = variant % 2 == 1 && a.kind != NumberKind::bits;
  const bool grouped = row.scaling == Scaling::exact_groups, scaled = row.scaling != Scaling::none;
  const int natural = grouped ? 64 : a.bits == 1 ? 256 : 256 / std::max(a.bits, 8);
  const int k = grouped && variant == 6 ? 96 : sparse ? 2 * natural : natural;
  const MmaKind kind = grouped                   ? MmaKind::mxf4nvf4
                       : scaled                  ? MmaKind::mxf8f6f4
                       : a.id == Format::s1z4m11 ? MmaKind::ti16
                       : a.bits == 32            ? MmaKind::tf32
                       : a.bits == 16            ? MmaKind::f16
                       : is_integer              ? MmaKind::i8
                                                 : MmaKind::f8f6f4;
  const ScaleVec scale_vec = !grouped ? ScaleVec::unwritten : variant < 4 ? ScaleVec::x2 : ScaleVec::x4;
  const Format scale_type = grouped && (variant >= 6 || variant == 4) ? Format::ue4m3 : Format::ue8m0;
  const bool saturate = is_integer && variant >= 2 && kind != MmaKind::ti16;
  Product product{.instruction = {},
                  .negate_a = is_float && variant % 4 == 1,
                  .negate_b = is_float && variant % 4 == 2,
                  .reads_c = variant % 4 != 3};
  switch (row.family) {
    case Family::wgmma:
      product.instruction = Wgmma{.n = 16,
                                  .d = row.output,
                                  .a = a.id,
                                  .b = b.id,
                                  .sparse = sparse,
                                  .k = k,
                                  .saturate = saturate,
                                  .enable_input_d = product.reads_c,
                                  .negate_a = product.negate_a,
                                  .negate_b = product.negate_b};
      break;
    case Family::tcgen05:
      product.instruction = Tcgen05Mma{.kind = kind,
                                       .m = 64,
                                       .n = 16,
                                       .d = row.output,
                                       .a = a.id,
                                       .b = b.id,
                                       .sparse = sparse,
                                       .k = k,
                                       .saturate = saturate,
                                       .enable_input_d = product.reads_c,
                                       .scale_input_d = is_float && a.bits >= 16 && variant >= 4 ? 3 * variant - 9 : 0,
                                       .negate_a = product.negate_a,
                                       .negate_b = product.negate_b,
                                       .scale_vec = scale_vec,
                                       .scale_type = scale_type};
      break;
    default:
      if (!scaled) {
        product.instruction = warp_product(row, a, b, variant);
        break;
      }
      product.instruction = MmaSync{.kind = kind,
                                    .m = 64,
                                    .n = 16,
                                    .d = row.output,
                                    .a = a.id,
                                    .b = b.id,
                                    .sparse = sparse,
                                    .k = k,
                                    .scale_vec = scale_vec,
                                    .scale_type = scale_type};
  }
  return product;
}

/// Products that use the row: every pair of its types, in every variant.
std::vector<Product> products_of(const AccumulatorModel& row) {
  std::vector<Product> products;
  for (const FormatInfo& a : formats) {
    for (const FormatInfo& b : formats) {
      // A and B have the same width, but for the 8-, 6- and 4-bit types of f8f6f4.
      if (!row.inputs.contains(a.id) || !row.inputs.contains(b.id) ||
          ((a.bits > 8 || a.kind == NumberKind::integer) && a.bits != b.bits) || (a.bits > 8 && a.id != b.id))
        continue;
      for (int variant = 0; variant < 8; ++variant) products.push_back(product_of(row, a, b, variant));
    }
  }
  return products;
}

/// How many outputs of every row are compared with the slow oracle.
const int64_t outputs_per_row = test::amount<int64_t>(3'000, 200'000, 1'000'000);

void require_row_agrees(const AccumulatorModel& row) {
  const std::vector<Product> products = products_of(row);
  const Target target = row.targets.first();
  const int64_t outputs_per_case = row.quad_pairs ? 32 * 8 : 64 * 16;
  const int64_t cases = outputs_per_row / outputs_per_case + 1;
  std::atomic<int64_t> outputs{0}, wrong{0};
  parallel_for(static_cast<size_t>(cases), hardware_threads(), [&](size_t index) {
    const Product& product = products[index % products.size()];
    const Distribution distribution = distributions[index / products.size() % distributions.size()].id;
    const Operands operands = product.operands(target, distribution, 2026, index);
    const Matrix d = multiply_accumulate(row, operands);
    for (int r = 0; r < d.rows(); ++r) {
      for (int col = 0; col < d.cols(); ++col)
        wrong += d.code(r, col) != expected(row, product.instruction, operands, r, col);
    }
    outputs += d.rows() * d.cols();
  });
  CHECK(wrong == 0);
  CHECK(outputs >= outputs_per_row);
}

/// Widths that fill vectors and widths that leave a rest, of every instruction set.
constexpr std::array widths{8, 16, 24, 40, 64, 72};

/// Calls check(instruction, operands, index) for cases of every row, distribution and width.
void for_each_case(
    int cases_per_row,
    const std::function<void(const AccumulatorModel&, const Instruction&, const Operands&, size_t)>& check) {
  for (const AccumulatorModel& row : accumulator_models()) {
    const std::vector<Product> products = products_of(row);
    for (int index = 0; index < cases_per_row; ++index) {
      Product product = products[static_cast<size_t>(index) * 7 % products.size()];
      std::visit(
          [&](auto& instruction) {
            if constexpr (requires { instruction.n; }) {
              if (!row.quad_pairs) instruction.n = widths[static_cast<size_t>(index) % widths.size()];
            }
          },
          product.instruction);
      const Distribution distribution =
          distributions[static_cast<size_t>(index) / widths.size() % distributions.size()].id;
      check(row, product.instruction,
            product.operands(row.targets.first(), distribution, 77, static_cast<uint64_t>(index)),
            static_cast<size_t>(index));
    }
  }
}

const AccumulatorModel& row_of(Format a, Format d, Family family = Family::wgmma, Scaling scaling = Scaling::none) {
  const Target target = family == Family::wgmma     ? Target::sm_90a
                        : a == Format::s1z4m11      ? Target::sm_107a
                        : family == Family::tcgen05 ? Target::sm_100a
                                                    : Target::sm_120a;
  return *find_accumulator_model(target, family, a, a, d, scaling);
}

}  // namespace

TEST_CASE("oracle: wgmma tf32 to f32", "[rule:fused-sum][rule:product-exponent][rule:output-rounding][whole]") {
  require_row_agrees(row_of(Format::tf32, Format::f32));
}
TEST_CASE("oracle: wgmma f16 to f32", "[rule:fused-sum][rule:product-exponent][rule:output-rounding][whole]") {
  require_row_agrees(row_of(Format::f16, Format::f32));
}
TEST_CASE("oracle: wgmma bf16 to f32", "[rule:fused-sum][rule:product-exponent][rule:output-rounding][whole]") {
  require_row_agrees(row_of(Format::bf16, Format::f32));
}
TEST_CASE("oracle: wgmma f16 to f16", "[rule:fused-sum][rule:product-exponent][rule:output-rounding][whole]") {
  require_row_agrees(row_of(Format::f16, Format::f16));
}
TEST_CASE("oracle: wgmma fp8 to f32", "[rule:fused-sum][rule:product-exponent][rule:output-rounding][whole]") {
  require_row_agrees(row_of(Format::e4m3, Format::f32));
}
TEST_CASE("oracle: wgmma fp8 to f16", "[rule:fused-sum][rule:product-exponent][rule:output-rounding][whole]") {
  require_row_agrees(row_of(Format::e4m3, Format::f16));
}
TEST_CASE("oracle: wgmma s8 and u8", "[rule:fused-sum][rule:product-exponent][rule:output-rounding][whole]") {
  require_row_agrees(row_of(Format::s8, Format::s32));
}
TEST_CASE("oracle: wgmma b1", "[rule:fused-sum][rule:product-exponent][rule:output-rounding][whole]") {
  require_row_agrees(row_of(Format::b1, Format::s32));
}
TEST_CASE("oracle: tcgen05 tf32 to f32", "[rule:fused-sum][rule:product-exponent][rule:output-rounding][whole]") {
  require_row_agrees(row_of(Format::tf32, Format::f32, Family::tcgen05));
}
TEST_CASE("oracle: tcgen05 f16 and bf16 to f32",
          "[rule:fused-sum][rule:product-exponent][rule:output-rounding][whole]") {
  require_row_agrees(row_of(Format::f16, Format::f32, Family::tcgen05));
}
TEST_CASE("oracle: tcgen05 f16 to f16", "[rule:fused-sum][rule:product-exponent][rule:output-rounding][whole]") {
  require_row_agrees(row_of(Format::f16, Format::f16, Family::tcgen05));
}
TEST_CASE("oracle: tcgen05 f8f6f4 to f32", "[rule:fused-sum][rule:product-exponent][rule:output-rounding][whole]") {
  require_row_agrees(row_of(Format::e4m3, Format::f32, Family::tcgen05));
}
TEST_CASE("oracle: tcgen05 f8f6f4 to f16", "[rule:fused-sum][rule:product-exponent][rule:output-rounding][whole]") {
  require_row_agrees(row_of(Format::e2m1, Format::f16, Family::tcgen05));
}
TEST_CASE("oracle: tcgen05 i8", "[rule:fused-sum][rule:product-exponent][rule:output-rounding][whole]") {
  require_row_agrees(row_of(Format::s8, Format::s32, Family::tcgen05));
}
TEST_CASE("oracle: tcgen05 ti16", "[rule:fused-sum][rule:product-exponent][rule:output-rounding][whole]") {
  require_row_agrees(row_of(Format::s1z4m11, Format::s32, Family::tcgen05));
}
TEST_CASE("oracle: tcgen05 mxf8f6f4", "[rule:fused-sum][rule:product-exponent][rule:output-rounding][whole]") {
  require_row_agrees(row_of(Format::e4m3, Format::f32, Family::tcgen05, Scaling::whole_k));
}
TEST_CASE("oracle: tcgen05 mxf4 and mxf4nvf4", "[rule:fused-sum][rule:product-exponent][rule:output-rounding][whole]") {
  require_row_agrees(row_of(Format::e2m1, Format::f32, Family::tcgen05, Scaling::exact_groups));
}
TEST_CASE("oracle: mma.sync mxf8f6f4", "[rule:fused-sum][rule:product-exponent][rule:output-rounding][whole]") {
  require_row_agrees(row_of(Format::e2m3, Format::f32, Family::mma_sync, Scaling::whole_k));
}
TEST_CASE("oracle: mma.sync mxf4 and mxf4nvf4",
          "[rule:fused-sum][rule:product-exponent][rule:output-rounding][whole]") {
  require_row_agrees(row_of(Format::e2m1, Format::f32, Family::mma_sync, Scaling::exact_groups));
}
TEST_CASE("oracle: exact groups of other sizes than any row has", "[rule:fused-sum][whole]") {
  for (const int group : {2, 4, 8, 32, 64}) {
    INFO("groups of " << group);
    AccumulatorModel other = row_of(Format::e2m1, Format::f32, Family::tcgen05, Scaling::exact_groups);
    other.group_terms = group;
    int compared = 0;
    for (const ScaleVec scale_vec : {ScaleVec::x2, ScaleVec::x4}) {
      const Instruction instruction = Tcgen05Mma{.kind = MmaKind::mxf4nvf4, .m = 64, .n = 8, .scale_vec = scale_vec};
      for (const DistributionInfo& distribution : distributions) {
        const Operands operands = random_operands(instruction, Target::sm_100a, distribution.id, 7, 0);
        if (const int terms = 64 / operands.scales->a.cols(); group > terms) {
          CHECK_THROWS_AS(multiply_accumulate(other, operands), Error);
          continue;
        }
        const Matrix d = multiply_accumulate(other, operands);
        for (int row = 0; row < d.rows(); row += 3) {
          for (int col = 0; col < d.cols(); ++col) {
            REQUIRE(d(row, col) == expected(other, instruction, operands, row, col));
            ++compared;
          }
        }
      }
    }
    CHECK((compared > 0) == (group < 64));
  }
}
// mma.sync without scales: all rows that are listed under their first target.
void require_rows_agree(Target first) {
  int rows = 0;
  for (const AccumulatorModel& row : accumulator_models()) {
    if (row.family != Family::mma_sync || row.scaling != Scaling::none || row.targets.first() != first) continue;
    INFO(print_rule(row));
    require_row_agrees(row);
    ++rows;
  }
  CHECK(rows > 0);
}
TEST_CASE("oracle: mma.sync of sm_70", "[rule:fused-sum][rule:steps][rule:output-rounding][long]") {
  require_rows_agree(Target::sm_70);
}
TEST_CASE("oracle: mma.sync of sm_75", "[rule:fused-sum][rule:steps][rule:output-rounding][long]") {
  require_rows_agree(Target::sm_75);
}
TEST_CASE("oracle: mma.sync of sm_80", "[rule:fused-sum][rule:steps][rule:output-rounding][long]") {
  require_rows_agree(Target::sm_80);
}
TEST_CASE("oracle: mma.sync of sm_89", "[rule:fused-sum][rule:steps][rule:output-rounding][long]") {
  require_rows_agree(Target::sm_89);
}
TEST_CASE("oracle: mma.sync of sm_90a", "[rule:fused-sum][rule:steps][rule:output-rounding][whole]") {
  require_rows_agree(Target::sm_90a);
}
TEST_CASE("oracle: mma.sync of sm_100a", "[rule:fused-sum][rule:steps][rule:output-rounding][long]") {
  require_rows_agree(Target::sm_100a);
}
TEST_CASE("oracle: mma.sync of sm_120a", "[rule:fused-sum][rule:steps][rule:output-rounding][long]") {
  require_rows_agree(Target::sm_120a);
}
TEST_CASE("every instruction set of the processor gives the bits of the slow oracle, for every row and width",
          "[whole]") {
  const std::string_view best = cpu_target();
  CHECK(best == cpu_targets().front());
  CHECK(cpu_targets().back() == "baseline");
  for_each_case(
      static_cast<int>(outputs_per_row / 2500),
      [&](const AccumulatorModel& row, const Instruction& instruction, const Operands& operands, size_t index) {
        std::map<std::string_view, Matrix> computed;
        for (const std::string_view target : cpu_targets()) {
          use_cpu_target(target);
          computed[target] = multiply_accumulate(row, operands);
        }
        use_cpu_target(best);
        INFO(print(instruction) << ", n " << mma_of(instruction).n << ", case " << index);
        for (const auto& [target, d] : computed) {
          INFO(target);
          CHECK(d == computed.at(best));
        }
        // The oracle is slow: one row of D in turn, whole.
        const Matrix& d = computed.at(best);
        const auto r = static_cast<int>(index % static_cast<size_t>(d.rows()));
        int wrong = 0;
        for (int col = 0; col < d.cols(); ++col)
          wrong += d.code(r, col) != expected(row, instruction, operands, r, col);
        CHECK(wrong == 0);
      });
}

TEST_CASE("oracle: a sum of no terms is C, rounded", "[rule:fused-sum][rule:output-rounding][whole]") {
  RandomStream random(19, 0);
  for (const AccumulatorModel& row : accumulator_models()) {
    if (row.arithmetic != Arithmetic::fused_sum || row.scaling != Scaling::none) continue;
    const bool to_f16 = row.output == Format::f16;
    const oracle::Rule rule{row.fraction_bits, row.floor_exponent.value(), row.output_fraction_bits,
                            row.rounding == Rounding::nearest_even, to_f16};
    const FormatInfo& output = info(row.output);
    for (int i = 0; i < 2000; ++i) {
      const uint32_t c = random.word() >> (32 - output.bits);
      INFO(print(row.family) << " -> " << output.name << ", c " << c);
      REQUIRE(fused_sum(row, {}, c) == oracle::fused_dot(rule, "f16", "f16", {}, {}, false, false, c));
    }
  }
}

TEST_CASE("an instruction set that the processor lacks is refused") {
  REQUIRE_THROWS_MATCHES(use_cpu_target("x86-64-v5"), Error, refused(unknown_name, "cpu target"));
  CHECK(cpu_target() == cpu_targets().front());
}

TEST_CASE("oracle: these are all accumulator rows",
          "[rule:fused-sum][rule:product-exponent][rule:output-rounding][whole]") {
  constexpr size_t rows_above = 19;
  size_t warp_rows = 0;
  for (const AccumulatorModel& row : accumulator_models()) {
    const bool plain = row.family == Family::mma_sync && row.scaling == Scaling::none;
    const Target first = row.targets.first();
    using enum Target;
    const std::array targets_above{sm_70, sm_75, sm_80, sm_89, sm_90a, sm_100a, sm_120a};
    warp_rows += plain && std::ranges::find(targets_above, first) != targets_above.end();
  }
  CHECK(accumulator_models().size() == rows_above + warp_rows);
}
