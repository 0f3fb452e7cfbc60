// What ISA 9.4 adds to tcgen05.mma on sm_107: computed where a definition fixes it, and places of everything.
#include <cmath>

#include "bitmma/instruction/evidence.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/stimulus/random_case.hpp"
#include "support/catch.hpp"
#include "support/instructions.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

namespace {

constexpr Target rubin = Target::sm_107a;

/// A sign and a magnitude, read here once more.
int64_t value_of(uint32_t code) { return (code >> 15 == 1 ? -1 : 1) * static_cast<int64_t>(code % 2048); }

}  // namespace

TEST_CASE("ti16 is the exact sum of products of signs and magnitudes, modulo 2^32, dense, sparse and negated") {
  for (const bool sparse : {false, true}) {
    for (const auto& [negate_a, negate_b] : {std::pair(false, false), std::pair(true, false), std::pair(true, true)}) {
      for (const Distribution distribution : {Distribution::bits, Distribution::wide}) {
        const Tcgen05Mma instruction{
            .kind = MmaKind::ti16, .m = 64, .n = 16, .sparse = sparse, .negate_a = negate_a, .negate_b = negate_b};
        const Operands operands = random_operands(instruction, rubin, distribution, 7, sparse);
        const Matrix d = multiply_accumulate(model_for(instruction, rubin), operands);
        for (int row = 0; row < d.rows(); ++row) {
          for (int col = 0; col < d.cols(); ++col) {
            int64_t sum = 0;
            for (int j = 0; j < operands.a.cols(); ++j) {
              const int k = sparse ? operands.selected_k[static_cast<size_t>(row * operands.a.cols() + j)] : j;
              sum += value_of(operands.a(row, j)) * value_of(operands.b(k, col));
            }
            if (negate_a != negate_b) sum = -sum;
            REQUIRE(d(row, col) == static_cast<uint32_t>(sum + (*operands.c)(row, col)));
          }
        }
      }
    }
  }
}

TEST_CASE("a code of ti16 with one of its four zero bits set is refused by name") {
  const Tcgen05Mma instruction{.kind = MmaKind::ti16, .m = 64, .n = 8};
  Operands operands = random_operands(instruction, rubin, Distribution::bits, 1, 0);
  operands.b(3, 4) = 0x0800;
  const std::vector<Violation> refusal =
      test::refusal_of([&] { multiply_accumulate(model_for(instruction, rubin), operands); });
  CHECK_THAT(refusal, refused(illegal_value, "s1z4m11 of B"));
}

TEST_CASE("every code of ue5m3 has the value that CUDA 13.5 gives it, and 0xFF alone is NaN") {
  for (uint32_t code = 0; code < 255; ++code) {
    const Decoded decoded = decode(Format::ue5m3, code);
    const int e = static_cast<int>(code >> 3), m = static_cast<int>(code & 7);
    const double value = std::ldexp(static_cast<double>(decoded.significand), decoded.exponent - 3);
    CHECK(value == (e == 0 ? std::ldexp(m, -17) : std::ldexp(8 + m, e - 18)));
  }
  CHECK(decode(Format::ue5m3, 0xFF).number == NumberClass::nan);
  CHECK(print_value(Format::ue5m3, 0xFE) == "114688");
  CHECK(print_value(Format::ue5m3, 0x78) == "1");
}

TEST_CASE("twice the K of mxf8f6f4 has two scales, each of half of K") {
  const Tcgen05Mma instruction{.kind = MmaKind::mxf8f6f4, .n = 8, .k = 64};
  Operands operands = random_operands(instruction, rubin, Distribution::bits, 1, 0);
  constexpr uint32_t unit = 0x38;  // 1 in e4m3
  operands.a.fill(unit), operands.b.fill(unit), operands.c->fill(0);
  operands.scales->a.fill(127), operands.scales->b.fill(127);
  operands.scales->a(5, 1) = 129, operands.scales->b(0, 3) = 124;
  const Matrix d = multiply_accumulate(model_for(instruction, rubin), operands);
  CHECK(print_value(Format::f32, d(0, 0)) == "64");
  CHECK(print_value(Format::f32, d(5, 0)) == "160");  // 32 + 32 * 4
  CHECK(print_value(Format::f32, d(0, 3)) == "36");   // 32 / 8 + 32
  CHECK(print_value(Format::f32, d(5, 3)) == "132");
}

TEST_CASE("what is laid out for an instruction of sm_107 is read back, and computes what the operands do") {
  using enum Format;
  constexpr auto block16 = ScaleVec::block16, block32 = ScaleVec::block32;
  for (const Tcgen05Mma& instruction : {
           Tcgen05Mma{.kind = MmaKind::ti16, .n = 16},
           Tcgen05Mma{.kind = MmaKind::ti16, .cta_group = 2, .n = 32, .sparse = true, .a_source = OperandSource::tmem},
           Tcgen05Mma{.kind = MmaKind::ti16, .weight_stationary = true, .m = 32, .n = 64, .sparse = true},
           Tcgen05Mma{.kind = MmaKind::f8f6f4, .n = 16, .a = e5m2, .k = 64},
           Tcgen05Mma{.kind = MmaKind::f8f6f4, .n = 16, .sparse = true, .k = 128},
           Tcgen05Mma{.kind = MmaKind::mxf8f6f4, .cta_group = 2, .n = 16, .k = 64, .scale_a_id = 2},
           Tcgen05Mma{.kind = MmaKind::mxf8f6f4, .n = 16, .sparse = true, .k = 128, .scale_b_id = 2},
           Tcgen05Mma{.kind = MmaKind::mxf4, .n = 16, .k = 128},
           Tcgen05Mma{.kind = MmaKind::mxf4nvf4, .n = 256, .k = 128, .scale_vec = block16, .scale_type = ue5m3},
           Tcgen05Mma{.kind = MmaKind::mxf4nvf4, .n = 16, .scale_vec = block32, .scale_type = ue4m3},
           Tcgen05Mma{.kind = MmaKind::mxf4, .n = 16, .sparse = true, .sparsity_version = 1},
           Tcgen05Mma{.kind = MmaKind::mxf4nvf4,
           .n = 16,
           .sparse = true,
           .k = 192,
           .scale_vec = block16,
           .scale_type = ue5m3,
           .sparsity_version = 1},
       }) {
    INFO(print(instruction) << " K = " << instruction.k);
    REQUIRE(violations_of(instruction, rubin).empty());
    REQUIRE(with_idesc(instruction, idesc_of(instruction)) == instruction);
    const Case drawn = random_case(instruction, rubin, {}, Distribution::normal, 3, 1);
    const Operands operands = random_operands(instruction, rubin, Distribution::normal, 3, 1),
                   read = gather_operands(instruction, rubin, drawn.before);
    CHECK(read.a == operands.a);
    CHECK(read.b == operands.b);
    CHECK(read.scales == operands.scales);
    CHECK(read.selected_k == operands.selected_k);
    CHECK(result_of(instruction, rubin, drawn.before) == multiply_accumulate(model_for(instruction, rubin), operands));
    CHECK(evidence_of(instruction, rubin) == Evidence::model_choice);
  }
}

TEST_CASE("addresses behind 256 KiB, which descriptors of sm_107 can say, are refused on it") {
  const Tcgen05Mma instruction{.n = 16};
  Case drawn = random_case(instruction, rubin, {}, Distribution::normal, 3, 1);
  drawn.before.set(Field::a_desc, drawn.before.number(Field::a_desc) | uint64_t{1} << 14);
  CHECK_THAT(test::refusal_of([&] { result_of(instruction, rubin, drawn.before); }), refused(too_large, "a_desc"));
  CHECK(test::refusal_of([&] { result_of(instruction, Target::sm_100a, drawn.before); }).empty());
}
