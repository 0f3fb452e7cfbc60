#include "bitmma/operators/rows.hpp"

#include <array>
#include <bit>
#include <limits>

#include "../../sim/formats/sixteen_bits.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/formats/ieee.hpp"
#include "bitmma/formats/round.hpp"
#include "bitmma/math/c_function.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

uint32_t word(float value) { return std::bit_cast<uint32_t>(value); }
uint32_t add(uint32_t a, uint32_t b) { return static_cast<uint32_t>(ieee_add(Format::f32, a, b)); }

Matrix random_rows(int rows, int cols, uint64_t seed) {
  RandomStream random(seed, 0);
  Matrix matrix(Format::f32, rows, cols);
  for (uint32_t& code : matrix.words()) code = word((static_cast<float>(random.below(1 << 20)) - 0x1p19F) * 0x1p-18F);
  return matrix;
}

}  // namespace

TEST_CASE("codes of 16 bits are widened and rounded in loops as convert rounds them") {
  for (uint32_t code = 0; code < 65536; ++code) {
    for (const Format format : {Format::f16, Format::bf16}) {
      const uint64_t wide = convert(format, code, Format::f32, Rounding::nearest_even, Overflow::infinity);
      const uint32_t mine = format == Format::f16 ? f32_of_f16(code) : f32_of_bf16(code);
      const bool is_nan = (wide & 0x7FFFFFFF) > 0x7F800000;
      if (is_nan ? (mine & 0x7FFFFFFF) <= 0x7F800000 : mine != wide) FAIL("widened " << code);
      for (const uint32_t offset : {0u, 1u, 0xFFFu, 0x1000u, 0x1001u, 0x7FFFu, 0x8000u, 0x8001u}) {
        const uint32_t at = mine + offset;
        const uint64_t rounded = convert(Format::f32, at, format, Rounding::nearest_even, Overflow::infinity);
        if ((format == Format::f16 ? f16_code(at) : bf16_code(at)) != rounded) FAIL("rounded " << at);
      }
    }
  }
  SUCCEED();
}

TEST_CASE("softmax of a warp adds the exponentials of every lane, then joins the lanes") {
  const Matrix x = random_rows(3, 100, 1);
  const Matrix p = softmax(x);
  const CFunction& expf = parse_c_function("expf");
  for (int row = 0; row < 3; ++row) {
    float largest = -std::numeric_limits<float>::infinity();
    for (const uint32_t one : x.row(row)) largest = std::max(largest, std::bit_cast<float>(one));
    std::array<uint32_t, 32> lanes{};
    std::vector<uint32_t> e;
    for (int i = 0; i < 100; ++i) {
      e.push_back(compute(expf, add(x(row, i), word(-largest))));
      lanes[static_cast<size_t>(i % 32)] = add(lanes[static_cast<size_t>(i % 32)], e.back());
    }
    for (size_t half = 16; half > 0; half /= 2) {
      for (size_t i = 0; i < half; ++i) lanes[i] = add(lanes[i], lanes[i + half]);
    }
    for (int i = 0; i < 100; ++i) CHECK(p(row, i) == ieee_div(Format::f32, e[static_cast<size_t>(i)], lanes[0]));
  }
}

TEST_CASE("row operators give the same for any number of threads, and know where a row begins") {
  const Matrix x = random_rows(9, 50257, 2);
  const Matrix p = softmax(x);
  CHECK(softmax(x, {.threads = 3}) == p);
  // Rows of 50257 begin at four different places of 16 bytes.
  const Matrix fifth = block_of(x, 5, 1, 0, x.cols());
  CHECK(softmax(fifth, {.of = {.rows = {5}, .whole = 9}}) == block_of(p, 5, 1, 0, x.cols()));
  CHECK(softmax(fifth, {.of = {.rows = {9}}}) == softmax(fifth, {.of = {.rows = {5}}}));
  const Matrix sums = reduce(x, {.what = RowReduction::sum});
  CHECK(reduce(x, {.what = RowReduction::sum, .threads = 2}) == sums);
  CHECK(reduce(fifth, {.what = RowReduction::sum, .of = {.rows = {5}, .whole = 9}})(0, 0) == sums(5, 0));
  const Norm norm = layer_norm(x, nullptr, nullptr, 1e-5F);
  CHECK(layer_norm(x, nullptr, nullptr, 1e-5F, 4) == norm);
  CHECK(rms_norm(x, nullptr, 1e-5F, 4) == rms_norm(x, nullptr, 1e-5F));
}

TEST_CASE("amax gives back the largest number or the NaN itself, argmax the first place") {
  Matrix x(Format::f32, 2, 5);
  for (int i = 0; i < 5; ++i) x(0, i) = word(static_cast<float>(i % 3)), x(1, i) = word(1.0F);
  x(1, 3) = 0x7FC12345;
  CHECK(reduce(x, {.what = RowReduction::amax})(0, 0) == word(2));
  CHECK(reduce(x, {.what = RowReduction::amax})(1, 0) == 0x7FC12345);
  const Matrix places = reduce(x, {.what = RowReduction::argmax});
  CHECK((places(0, 0) == 2 && places(1, 0) == 3));
  CHECK(reduce(x, {.what = RowReduction::amax, .over_rows = true}).rows() == 5);
}

TEST_CASE("functions of elements are C's functions as nvcc compiles them, and relu passes NaN on") {
  Matrix x(Format::f16, 1, 2);
  x(0, 0) = 0x3E00, x(0, 1) = 0xFC01;  // 1.5, a signalling NaN
  const uint32_t silu = compute(parse_c_function("silu"), word(1.5F));
  CHECK(elementwise("silu", x)(0, 0) ==
        convert(Format::f32, silu, Format::f16, Rounding::nearest_even, Overflow::infinity));
  CHECK(elementwise("silu", x)(0, 1) == 0x7FFF);
  CHECK(elementwise("relu", x)(0, 1) == 0xFC01);
  CHECK(elementwise("add", x, &x)(0, 0) == 0x4200);
  for (const ElementwiseFunction& one : elementwise_functions())
    CHECK_NOTHROW(elementwise(one.name, x, one.operands == 2 ? &x : nullptr));
}

TEST_CASE("row operators refuse other types, shapes and names") {
  const Matrix x = random_rows(2, 8, 3), small(Format::s32, 1, 1);
  CHECK_THROWS_AS(softmax(small), Error);
  CHECK_THROWS_AS(softmax(Matrix(Format::f32, 0, 4)), Error);
  CHECK_THROWS_AS(softmax(x, {.to = Format::f16}), Error);
  CHECK_THROWS_AS(softmax(x, {.of = {.rows = {1}}}), Error);
  CHECK_THROWS_AS(softmax(x, {.of = {.rows = {0, -1}}}), Error);
  CHECK_THROWS_AS(softmax(x, {.of = {.whole = 1}}), Error);
  CHECK_THROWS_AS(softmax(x, {.of = {.rows = {0, 5}, .whole = 5}}), Error);
  CHECK_THROWS_AS(reduce(x, {.of = {.whole = int64_t{1} << 61}}), Error);
  CHECK_THROWS_AS(reduce(x, {.multiprocessors = 0}), Error);
  CHECK_NOTHROW(softmax(x, {.of = {.rows = {0, std::numeric_limits<int64_t>::max()}}}));
  CHECK_THROWS_AS(layer_norm(x, &x, nullptr, 1e-5F), Error);
  const Matrix weight = random_rows(1, 8, 4);
  CHECK_THROWS_AS(layer_norm(x, nullptr, &weight, 1e-5F), Error);
  CHECK_THROWS_AS(reduce(x, {.what = RowReduction::amax, .to = Format::bf16}), Error);
  CHECK_THROWS_AS(elementwise("exq", x), Error);
  CHECK_THROWS_AS(elementwise("add", x), Error);
  CHECK_THROWS_AS(elementwise("exp", x, &x), Error);
  CHECK_THROWS_AS(elementwise("add", x, &weight), Error);
}
