#include "bitmma/operators/rows.hpp"

#include <array>
#include <bit>
#include <limits>

#include "../../sim/formats/sixteen_bits.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/formats/ieee.hpp"
#include "bitmma/formats/round.hpp"
#include "bitmma/operators/c_function.hpp"
#include "bitmma/operators/trace.hpp"
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
    for (const uint32_t code : x.row(row)) largest = std::max(largest, std::bit_cast<float>(code));
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
  for (const ElementwiseFunction& function : elementwise_functions())
    CHECK_NOTHROW(elementwise(function.name, x, function.operands == 2 ? &x : nullptr));
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
  CHECK_NOTHROW(layer_norm(x, nullptr, &weight, 1e-5F));
  CHECK_THROWS_AS(reduce(x, {.what = RowReduction::amax, .to = Format::bf16}), Error);
  CHECK_THROWS_AS(elementwise("exq", x), Error);
  CHECK_THROWS_AS(elementwise("add", x), Error);
  CHECK_THROWS_AS(elementwise("exp", x, &x), Error);
  CHECK_THROWS_AS(elementwise("add", x, &weight), Error);
}

namespace {

/// The words of a step; fails if it is missing, or if a step does not say how it is rounded.
std::vector<uint32_t> words(const OperatorTrace& trace, std::string_view what) {
  for (const OperatorStep& step : trace.steps) {
    if (step.operation.empty() || step.rounding.empty()) FAIL(step.what << " says nothing");
    if (step.what == what) return step.words;
  }
  FAIL("no step " << what);
  return {};
}

/// The words after each step of a tree are sums of those before it.
void check_joins(const OperatorTrace& trace) {
  int joins = 0;
  for (size_t i = 1; i < trace.steps.size(); ++i) {
    const OperatorStep &before = trace.steps[i - 1], &step = trace.steps[i];
    if (!step.what.starts_with("offset ")) continue;
    const auto half = static_cast<size_t>(std::stoi(step.what.substr(7)));
    REQUIRE((step.words.size() == half && before.words.size() >= 2 * half));
    for (size_t lane = 0; lane < half; ++lane)
      CHECK(step.words[lane] == add(before.words[lane], before.words[lane + half]));
    ++joins;
  }
  CHECK(joins > 0);
}

}  // namespace

TEST_CASE("the steps of a softmax are those that lead to its bits") {
  const CFunction &expf = parse_c_function("expf"), &logf = parse_c_function("logf");
  for (const int cols : {1, 100, 4097, 12288, 50257}) {
    const Matrix x = random_rows(2, cols, 7);
    for (const bool logarithm : {false, true}) {
      const SoftmaxOptions options{.logarithm = logarithm};
      const Matrix p = softmax(x, options);
      for (const int col : {0, cols - 1}) {
        const OperatorTrace trace = trace_softmax(x, options, 1, col);
        CHECK(trace.steps.back().words == std::vector{p(1, col)});
        CHECK(trace.name == (logarithm ? "log_softmax" : "softmax"));
        const uint32_t difference = words(trace, "difference")[0], sum = words(trace, "sum")[0];
        CHECK(difference == add(x(1, col), words(trace, "largest")[0] ^ 0x80000000));
        CHECK(words(trace, "exponential")[0] == compute(expf, difference));
        if (cols > 1) check_joins(trace);
        if (logarithm) CHECK(p(1, col) == add(difference, compute(logf, sum) ^ 0x80000000));
        else CHECK(p(1, col) == ieee_div(Format::f32, words(trace, "exponential")[0], sum));
      }
    }
  }
  // The lanes of a warp add the exponentials of all columns.
  const Matrix x = random_rows(1, 70, 8);
  std::array<uint32_t, 32> lanes{};
  for (int col = 0; col < 70; ++col) {
    uint32_t& lane = lanes[static_cast<size_t>(col % 32)];
    lane = add(lane, words(trace_softmax(x, {}, 0, col), "exponential")[0]);
  }
  CHECK(std::ranges::equal(words(trace_softmax(x, {}, 0, 0), "lanes"), lanes));
  CHECK_THROWS_AS(trace_softmax(x, {}, 1, 0), Error);
  CHECK_THROWS_AS(trace_softmax(x, {}, 0, 70), Error);
}

TEST_CASE("the steps of norms are those that lead to their bits") {
  const CFunction& rsqrtf = parse_c_function("rsqrtf");
  for (const int cols : {99, 100, 4096}) {
    const Matrix x = random_rows(3, cols, 9), weight = random_rows(1, cols, 10), bias = random_rows(1, cols, 11);
    for (const bool rms : {false, true}) {
      const Norm norm = rms ? rms_norm(x, &weight, 1e-5F) : layer_norm(x, &weight, &bias, 1e-5F);
      const int col = cols - 2;
      const OperatorTrace trace =
          rms ? trace_rms_norm(x, &weight, 1e-5F, 2, col) : trace_layer_norm(x, &weight, &bias, 1e-5F, 2, col);
      CHECK(trace.steps.back().words == std::vector{norm.out(2, col)});
      CHECK(words(trace, "weighted")[0] == norm.out(2, col));
      CHECK(words(trace, "rstd")[0] == norm.rstd(2, 0));
      CHECK(words(trace, "shifted")[0] == add(words(trace, "v")[0], word(1e-5F)));
      CHECK(compute(rsqrtf, words(trace, "shifted")[0]) == norm.rstd(2, 0));
      if (!rms) CHECK(words(trace, "difference")[0] == add(x(2, col), (*norm.mean)(2, 0) ^ 0x80000000));
      if (!rms) CHECK(words(trace, "offset 1: mean")[0] == (*norm.mean)(2, 0));
      CHECK(words(trace, "threads: squares").size() == (cols == 99 ? 512 : 128));
    }
  }
  // A bias alone: the first number of a vector of four has a sum of its own, all others are joined with the product.
  for (const int cols : {8, 9}) {
    const Matrix row = random_rows(1, cols, 16), bias = random_rows(1, cols, 17);
    const Norm norm = layer_norm(row, nullptr, &bias, 0);
    for (int col = 0; col < cols; ++col) {
      const OperatorTrace trace = trace_layer_norm(row, nullptr, &bias, 0, 0, col);
      const auto product = [&] { return ieee_mul(Format::f32, norm.rstd(0, 0), words(trace, "difference")[0]); };
      CHECK(norm.out(0, col) == (cols == 8 && col % 4 == 0 ? add(static_cast<uint32_t>(product()), bias(0, col))
                                                           : ieee_fma(Format::f32, norm.rstd(0, 0),
                                                                      words(trace, "difference")[0], bias(0, col))));
      CHECK(words(trace, "biased")[0] == norm.out(0, col));
    }
  }
  const Matrix x = random_rows(1, 8, 12);
  CHECK(trace_layer_norm(x, nullptr, nullptr, 0, 0, 3).steps.back().words[0] ==
        layer_norm(x, nullptr, nullptr, 0).out(0, 3));
  CHECK_THROWS_AS(trace_rms_norm(x, nullptr, 0, 0, 8), Error);
}

TEST_CASE("the steps of reductions are those that lead to their bits") {
  for (const RowReduction what : {RowReduction::sum, RowReduction::mean, RowReduction::amax, RowReduction::argmax}) {
    CHECK(parse_row_reduction(print(what)) == what);
    // One row of threads, several, several blocks.
    for (const int cols : {1, 31, 600, 50257, 1 << 20}) {
      const Matrix x = random_rows(2, cols, 13);
      for (const bool over_rows : {false, true}) {
        if (over_rows && cols > 600) continue;
        const ReduceOptions options{.what = what, .over_rows = over_rows};
        const Matrix out = reduce(x, options);
        const int output = out.rows() - 1;
        INFO(print(what) << " " << cols << " " << over_rows);
        const OperatorTrace trace = trace_reduce(x, options, output);
        CHECK(trace.output == std::vector{output});
        CHECK((trace.name == print(what) && trace.steps.back().format == out.format()));
        CHECK(trace.steps.back().words == std::vector{out(output, 0)});
        if (what != RowReduction::argmax) CHECK_FALSE(words(trace, "accumulators").empty());
        if (what == RowReduction::sum) CHECK(words(trace, "sum")[0] == out(output, 0));
        if (what == RowReduction::sum && cols >= 50257) check_joins(trace);
        if (what == RowReduction::mean)
          CHECK(out(output, 0) == ieee_mul(Format::f32, words(trace, "sum")[0], words(trace, "factor")[0]));
      }
    }
  }
  // A thread joins its accumulators in order.
  const Matrix x = random_rows(1, 31, 14);
  const OperatorTrace trace = trace_reduce(x, {}, 0);
  const std::vector<uint32_t> accumulators = words(trace, "accumulators"), threads = words(trace, "threads");
  for (size_t i = 0; i < threads.size(); ++i) {
    uint32_t sum = accumulators[i];
    for (size_t at = i + threads.size(); at < accumulators.size(); at += threads.size())
      sum = add(sum, accumulators[at]);
    CHECK(threads[i] == sum);
  }
  CHECK_THROWS_AS(trace_reduce(x, {}, 1), Error);
  CHECK_THROWS_AS(parse_row_reduction("median"), Error);
}

TEST_CASE("the steps of a function of elements end with its bits") {
  Matrix x(Format::bf16, 1, 300), y(Format::bf16, 1, 300);
  RandomStream random(15, 0);
  for (Matrix* const matrix : {&x, &y}) {
    for (uint32_t& code : matrix->words()) code = static_cast<uint32_t>(random.below(1 << 16));
  }
  for (const ElementwiseFunction& function : elementwise_functions()) {
    const Matrix* const other = function.operands == 2 ? &y : nullptr;
    const Matrix out = elementwise(function.name, x, other);
    for (int col = 0; col < 300; col += 37) {
      const OperatorTrace trace = trace_elementwise(function.name, x, other, 0, col);
      CHECK(trace.steps.back().words == std::vector{out(0, col)});
      CHECK(words(trace, "x")[0] == x(0, col) << 16);
      if (function.name != "relu") CHECK(bf16_code(words(trace, "result")[0]) == out(0, col));
    }
  }
  CHECK_THROWS_AS(trace_elementwise("exp", x, nullptr, 0, 300), Error);
}
