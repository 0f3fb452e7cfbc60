#include "bitmma/operators/attention.hpp"

#include <algorithm>
#include <cmath>

#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/formats/ieee.hpp"
#include "bitmma/formats/round.hpp"
#include "bitmma/math/c_function.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

constexpr uint32_t minus_infinity = 0xFF800000;

uint32_t narrow(uint32_t word) {
  return static_cast<uint32_t>(convert(Format::f32, word, Format::f16, Rounding::nearest_even, Overflow::infinity));
}
uint32_t mul(uint32_t a, uint32_t b) { return static_cast<uint32_t>(ieee_mul(Format::f32, a, b)); }
uint32_t add(uint32_t a, uint32_t b) { return static_cast<uint32_t>(ieee_add(Format::f32, a, b)); }
uint32_t sub(uint32_t a, uint32_t b) { return add(a, b ^ 0x80000000); }
uint32_t fma(uint32_t a, uint32_t b, uint32_t c) { return static_cast<uint32_t>(ieee_fma(Format::f32, a, b, c)); }
uint32_t call(std::string_view name, uint32_t x) { return compute(parse_c_function(name), x); }
float value(uint32_t word) { return std::bit_cast<float>(word); }

/// One number as instructions of m16n8k16 add it up, one after the other.
uint32_t dot(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b, uint32_t c) {
  const AccumulatorModel& model =
      *find_accumulator_model(Target::sm_90a, Family::mma_sync, Format::f16, Format::f16, Format::f32);
  for (size_t first = 0; first < a.size(); first += 16) {
    Matrix row(Format::f16, 1, 16), column(Format::f16, 16, 1), sum(Format::f32, 1, 1);
    for (size_t i = 0; i < 16 && first + i < a.size(); ++i)
      row(0, static_cast<int>(i)) = a[first + i], column(static_cast<int>(i), 0) = b[first + i];
    sum(0, 0) = c;
    c = multiply_accumulate(model, {.a = row, .b = column, .c = sum})(0, 0);
  }
  return c;
}

/// FlashAttention-2 of one query in integers, step by step, head size 32: tiles of 128 keys, the last ones first.
std::vector<uint32_t> one_query(const Matrix& q, const Matrix& k, const Matrix& v, int query, bool causal) {
  const int keys = k.rows(), size = q.cols(), last = causal ? query + keys - q.rows() : keys - 1;
  const float scale = static_cast<float>(1 / std::sqrt(static_cast<double>(size)));
  const auto scale2 = std::bit_cast<uint32_t>(static_cast<float>(static_cast<double>(scale) * 1.4426950408889634));
  const auto row = [](const Matrix& m, int i) { return std::vector<uint32_t>(m.row(i).begin(), m.row(i).end()); };
  uint32_t largest = minus_infinity;
  std::vector<uint32_t> sums(4), out(static_cast<size_t>(size));
  // A tile of 128 queries begins at 0: it ends where its last query does.
  const int end = causal ? std::min(keys, 128 + keys - q.rows()) : keys;
  const int tiles = (end + 127) / 128;
  for (int tile = tiles - 1; tile >= 0; --tile) {
    std::vector<uint32_t> p(128, minus_infinity);
    const uint32_t before = largest;
    for (int j = 0; j < 128; ++j) {
      const int key = 128 * tile + j;
      if (key > last) continue;
      p[static_cast<size_t>(j)] = dot(row(q, query), row(k, key), 0);
      if (value(p[static_cast<size_t>(j)]) > value(largest)) largest = p[static_cast<size_t>(j)];
    }
    const uint32_t base = largest == minus_infinity ? 0 : largest;
    const uint32_t rescale = call("exp2f", mul(sub(before, base), scale2)), offset = mul(base, scale2);
    for (uint32_t& one : p) one = call("exp2f", sub(mul(one, scale2), offset));
    for (size_t lane = 0; lane < 4; ++lane) {
      sums[lane] = tile == tiles - 1 ? p[2 * lane] : fma(sums[lane], rescale, p[2 * lane]);
      sums[lane] = add(sums[lane], p[2 * lane + 1]);
      for (size_t j = 8 + 2 * lane; j < 128; j += 8) sums[lane] = add(add(sums[lane], p[j]), p[j + 1]);
    }
    for (int col = 0; col < size; ++col) {
      std::vector<uint32_t> weights, values;
      for (int j = 0; j < 128; ++j) {
        const int key = 128 * tile + j;
        weights.push_back(narrow(p[static_cast<size_t>(j)]));
        values.push_back(key < keys ? v(key, col) : 0);
      }
      uint32_t& one = out[static_cast<size_t>(col)];
      one = dot(weights, values, tile == tiles - 1 ? 0 : mul(one, rescale));
    }
  }
  const uint32_t sum = add(add(sums[0], sums[2]), add(sums[1], sums[3]));
  const auto inverse = static_cast<uint32_t>(ieee_div(Format::f32, 0x3F800000, sum));
  for (uint32_t& one : out) one = narrow(mul(one, inverse));
  return out;
}

Matrix random_matrix(int rows, int cols, uint64_t seed) {
  RandomStream random(seed, 0);
  Matrix matrix(Format::f16, rows, cols);
  for (uint32_t& code : matrix.words()) {
    const float x = (static_cast<float>(random.below(1 << 16)) - 32768) * 0x1p-14F;
    code = narrow(std::bit_cast<uint32_t>(x));
  }
  return matrix;
}

}  // namespace

TEST_CASE("attention of a tile is what the steps of one query give in integers") {
  const int queries = 9, keys = 200, size = 32;
  const Matrix q = random_matrix(queries, size, 1), k = random_matrix(keys, size, 2), v = random_matrix(keys, size, 3);
  const AttentionShape shape{.queries = queries, .keys = keys, .head_size = size};
  for (const bool causal : {false, true}) {
    const AttentionPlan plan = attention_plan(shape, {.causal = causal, .splits = 1});
    CHECK((plan.tile_queries == 128 && plan.tile_keys == 128));
    const Attention result = attention(plan, shape, q, k, v);
    for (int query = 0; query < queries; query += 4) {
      INFO(query << (causal ? " causal" : ""));
      const std::vector<uint32_t> expected = one_query(q, k, v, query, causal);
      CHECK(std::ranges::equal(result.out.row(query), expected));
    }
    CHECK(attention(plan, shape, q, k, v, 3) == result);
  }
}

TEST_CASE("heads share key heads, and a single query of several heads is split as one head's queries") {
  const AttentionShape one{.heads = 2, .kv_heads = 1, .queries = 5, .keys = 40, .head_size = 64};
  const Matrix q = random_matrix(10, 64, 4), k = random_matrix(40, 64, 5), v = random_matrix(40, 64, 6);
  const Attention shared = attention(attention_plan(one), one, q, k, v);
  const AttentionShape alone{.queries = 5, .keys = 40, .head_size = 64};
  const Attention second = attention(attention_plan(alone), alone, block_of(q, 5, 5, 0, 64), k, v);
  CHECK(block_of(shared.out, 5, 5, 0, 64) == second.out);
  CHECK(block_of(shared.lse, 1, 1, 0, 5) == second.lse);

  // 212 tiles, 0.8 of 264 slots, are not split; the splits of fewer are those of PyTorch's calls (data/operators).
  const auto splits = [](int heads, int queries, int keys, int size) {
    return attention_plan({.heads = heads, .kv_heads = heads, .queries = queries, .keys = keys, .head_size = size})
        .splits;
  };
  CHECK(splits(212, 64, 4096, 64) == 1);
  CHECK(splits(210, 64, 256, 64) == 1);
  CHECK(splits(8, 1, 4096, 64) == 16);
  CHECK(splits(8, 1, 64, 64) == 1);
}

TEST_CASE("attention refuses shapes and types that its kernels do not take") {
  CHECK_THROWS_AS(attention_plan({.head_size = 12}), Error);
  CHECK_THROWS_AS(attention_plan({.head_size = 264}), Error);
  CHECK_THROWS_AS(attention_plan({.heads = 3, .kv_heads = 2}), Error);
  CHECK_THROWS_AS(attention_plan({.queries = 0}), Error);
  CHECK_THROWS_AS(attention_plan({}, {.splits = 129}), Error);
  CHECK_THROWS_AS(attention_plan({.head_size = 192}, {.kernel = AttentionKernel::memory_efficient}), Error);
  CHECK_THROWS_AS(attention_plan({}, {.kernel = AttentionKernel::memory_efficient, .window_left = 3}), Error);
  CHECK_THROWS_AS(attention_plan({}, {.scale = 0.0F}), Error);
  CHECK_THROWS_AS(attention_plan({}, {.window_left = -2}), Error);
  CHECK_THROWS_AS(attention_plan({}, {.multiprocessors = 0}), Error);
  CHECK_THROWS_AS(attention_plan({.heads = 65536, .queries = 65536}), Error);
  const AttentionShape shape{.queries = 2, .keys = 3, .head_size = 8};
  const AttentionPlan plan = attention_plan(shape);
  const Matrix q = random_matrix(2, 8, 7), k = random_matrix(3, 8, 8);
  CHECK_NOTHROW(attention(plan, shape, q, k, k));
  for (const AttentionPlan& wrong : {AttentionPlan{.tile_queries = 0}, AttentionPlan{.tile_keys = 0},
                                     AttentionPlan{.tile_keys = 33}, AttentionPlan{.splits = 0}})
    CHECK_THROWS_AS(attention(wrong, shape, q, k, k), Error);
  CHECK_THROWS_AS(attention(plan, shape, q, q, k), Error);
  // Only the memory-efficient kernel has f32.
  const Matrix wide(Format::f32, 2, 8), wide_keys(Format::f32, 3, 8);
  CHECK_THROWS_AS(attention(plan, shape, wide, wide_keys, wide_keys), Error);
  const AttentionPlan efficient = attention_plan(shape, {.kernel = AttentionKernel::memory_efficient});
  CHECK(attention(efficient, shape, wide, wide_keys, wide_keys).out == wide);
  CHECK_THROWS_AS(attention(plan, shape, Matrix(Format::f32, 2, 8), k, k), Error);
  CHECK_THROWS_AS(attention(plan, shape, q, k, Matrix(Format::bf16, 3, 8)), Error);
}
