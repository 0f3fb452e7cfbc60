#include "bitmma/operators/attention.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/formats/ieee.hpp"
#include "bitmma/formats/round.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "bitmma/operators/c_function.hpp"
#include "bitmma/operators/trace.hpp"
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

/// One number as instructions with K of 16 add it up, one after the other.
uint32_t dot(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b, uint32_t c,
             Family family = Family::mma_sync) {
  const AccumulatorModel& model =
      *find_accumulator_model(Target::sm_90a, family, Format::f16, Format::f16, Format::f32);
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
    for (uint32_t& weight : p) weight = call("exp2f", sub(mul(weight, scale2), offset));
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
      uint32_t& element = out[static_cast<size_t>(col)];
      element = dot(weights, values, tile == tiles - 1 ? 0 : mul(element, rescale));
    }
  }
  const uint32_t sum = add(add(sums[0], sums[2]), add(sums[1], sums[3]));
  const auto inverse = static_cast<uint32_t>(ieee_div(Format::f32, 0x3F800000, sum));
  for (uint32_t& element : out) element = narrow(mul(element, inverse));
  return out;
}

std::vector<uint32_t> row_of(const Matrix& m, int row) { return {m.row(row).begin(), m.row(row).end()}; }

/// cuDNN's kernels of one query: tiles of 128 or 64 keys, the first ones first. The last number is the log-sum-exp.
std::vector<uint32_t> one_query_of_cudnn(const Matrix& q, const Matrix& k, const Matrix& v, int query, bool causal,
                                         bool is_sm80) {
  const int tile = is_sm80 ? 64 : 128;
  const Family family = is_sm80 ? Family::mma_sync : Family::wgmma;
  const auto ptx = [](std::string_view name, uint32_t x) {
    return static_cast<uint32_t>(compute(parse_math_instruction(name), x));
  };
  const auto scale = std::bit_cast<uint32_t>(static_cast<float>(1 / std::sqrt(static_cast<double>(q.cols()))));
  const uint32_t log2_e = 0x3FB8AA3B, ln_2 = 0x3F317218;
  const int end = causal ? std::min(query + 1, k.rows()) : k.rows();
  uint32_t largest = minus_infinity;
  std::vector<uint32_t> sums(4), out(static_cast<size_t>(q.cols()));
  for (int first = 0; first < end; first += tile) {
    std::vector<uint32_t> p(static_cast<size_t>(tile), minus_infinity);
    const uint32_t before = largest;
    for (int j = 0; j < std::min(tile, end - first); ++j) {
      uint32_t& score = p[static_cast<size_t>(j)];
      score = dot(row_of(q, query), row_of(k, first + j), 0, family);
      score = is_sm80 ? mul(mul(score, scale), log2_e) : mul(score, mul(scale, log2_e));
      if (value(score) > value(largest)) largest = score;
    }
    const uint32_t rescale = ptx("ex2.approx.ftz.f32", sub(before, largest));
    for (uint32_t& weight : p) weight = ptx("ex2.approx.ftz.f32", sub(weight, largest));
    for (size_t lane = 0; lane < 4; ++lane) {
      uint32_t sum = 0;
      for (size_t j = 2 * lane; j < p.size(); j += 8) sum = add(add(sum, p[j]), p[j + 1]);
      sums[lane] = fma(sums[lane], rescale, sum);
    }
    for (uint32_t& weight : p) weight = narrow(weight);
    for (int col = 0; col < q.cols(); ++col) {
      std::vector<uint32_t> values(p.size());
      for (int j = 0; j < std::min(tile, k.rows() - first); ++j) values[static_cast<size_t>(j)] = v(first + j, col);
      uint32_t& element = out[static_cast<size_t>(col)];
      element = dot(p, values, mul(element, rescale), family);
    }
  }
  const uint32_t sum = add(add(sums[0], sums[1]), add(sums[2], sums[3]));
  const uint32_t inverse = ptx("rcp.approx.ftz.f32", sum);
  for (uint32_t& element : out) element = narrow(mul(element, inverse));
  const uint32_t logarithm = ptx("lg2.approx.ftz.f32", sum);
  out.push_back(is_sm80 ? fma(logarithm, ln_2, mul(largest, ln_2)) : fma(largest, ln_2, mul(logarithm, ln_2)));
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

TEST_CASE("attention of cuDNN is what the steps of one query give in integers, and its explained steps lead there") {
  const int keys = 200;
  struct Call {
    int queries, size;
    bool causal;
  };
  for (const auto& [queries, size, causal] : {Call{9, 40, false}, Call{9, 40, true}, Call{1, 128, false}}) {
    const Matrix q = random_matrix(queries, size, 1), k = random_matrix(keys, size, 2),
                 v = random_matrix(keys, size, 3);
    const AttentionShape shape{.queries = queries, .keys = keys, .head_size = size};
    const AttentionPlan plan = attention_plan(shape, {.kernel = AttentionKernel::cudnn, .causal = causal});
    CHECK(plan.kernel == (queries == 1 ? AttentionKernel::cudnn_sm80 : AttentionKernel::cudnn));
    const Attention result = attention(plan, shape, q, k, v);
    CHECK(attention(plan, shape, q, k, v, 3) == result);
    for (int query = 0; query < queries; query += 4) {
      INFO(query << (causal ? " causal" : ""));
      std::vector<uint32_t> expected = one_query_of_cudnn(q, k, v, query, causal, queries == 1);
      CHECK(result.lse(0, query) == expected.back());
      const OperatorTrace trace = trace_attention(plan, shape, q, k, v, 0, query, 5);
      CHECK(trace.steps.back().words == std::vector{expected[5]});
      expected.pop_back();
      CHECK(std::ranges::equal(result.out.row(query), expected));
    }
  }
}

TEST_CASE("heads share key heads, and a single query of several heads is split as one head's queries") {
  const AttentionShape shape{.heads = 2, .kv_heads = 1, .queries = 5, .keys = 40, .head_size = 64};
  const Matrix q = random_matrix(10, 64, 4), k = random_matrix(40, 64, 5), v = random_matrix(40, 64, 6);
  const Attention shared = attention(attention_plan(shape), shape, q, k, v);
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
  CHECK_THROWS_AS(attention_plan({.queries = 2, .head_size = 152}, {.kernel = AttentionKernel::cudnn}), Error);
  CHECK_THROWS_AS(attention_plan({.keys = 300}, {.kernel = AttentionKernel::cudnn}), Error);
  CHECK_NOTHROW(attention_plan({.keys = 300}, {.kernel = AttentionKernel::cudnn_sm80}));
  CHECK_THROWS_AS(attention_plan({.head_size = 32}, {.kernel = AttentionKernel::cudnn}), Error);
  CHECK_THROWS_AS(attention_plan({}, {.kernel = AttentionKernel::cudnn, .causal = true}), Error);
  CHECK_THROWS_AS(attention_plan({.queries = 2}, {.kernel = AttentionKernel::cudnn_sm80}), Error);
  CHECK_THROWS_AS(attention_plan({.queries = 2}, {.kernel = AttentionKernel::cudnn, .splits = 1}), Error);
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

namespace {

/// The steps of each part by their names.
using StepsOfPart = std::map<std::string, std::vector<uint32_t>>;
std::vector<std::pair<std::string, StepsOfPart>> parts_of(const OperatorTrace& trace) {
  std::vector<std::pair<std::string, StepsOfPart>> parts;
  for (const OperatorStep& step : trace.steps) {
    CHECK_FALSE((step.operation.empty() || step.rounding.empty() || step.words.empty()));
    if (parts.empty() || parts.back().first != step.part) parts.emplace_back(step.part, StepsOfPart{});
    parts.back().second[step.what] = step.words;
  }
  return parts;
}

/// A tile of keys, after the tile `before`, if there was one.
void check_tile(StepsOfPart& steps, StepsOfPart& before, std::span<const uint32_t> query, const Matrix& keys,
                const std::vector<uint32_t>& column, uint32_t scale2) {
  const bool is_first = before.empty();
  uint32_t largest = is_first ? minus_infinity : before["largest"][0];
  for (int j = 0; j < keys.rows(); ++j) {
    const auto i = static_cast<size_t>(j);
    const uint32_t score = steps["scores"][i], exponent = steps["exponents"][i], weight = steps["weights"][i];
    CHECK(score == dot({query.begin(), query.end()}, {keys.row(j).begin(), keys.row(j).end()}, 0));
    if (exponent != minus_infinity) {
      if (value(score) > value(largest)) largest = score;
      CHECK(exponent == sub(mul(score, scale2), mul(steps["largest"][0], scale2)));
    }
    CHECK(weight == call("exp2f", exponent));
    CHECK(steps["rounded"][i] == narrow(weight));
  }
  CHECK(steps["largest"] == std::vector{largest});
  uint32_t c = 0;
  if (!is_first) {
    CHECK(steps["rescale"][0] == call("exp2f", mul(sub(before["largest"][0], largest), scale2)));
    c = mul(before["accumulator"][0], steps["rescale"][0]);
    CHECK(steps["rescaled"] == std::vector{c});
  }
  CHECK(steps["accumulator"] == std::vector{dot(steps["rounded"], column, c)});
  const std::vector<uint32_t>& p = steps["weights"];
  for (size_t lane = 0; lane < 4; ++lane) {
    uint32_t sum = is_first ? p[2 * lane] : fma(before["sums"][lane], steps["rescale"][0], p[2 * lane]);
    sum = add(sum, p[2 * lane + 1]);
    for (size_t j = 8 + 2 * lane; j < p.size(); j += 8) sum = add(add(sum, p[j]), p[j + 1]);
    CHECK(steps["sums"][lane] == sum);
  }
}

}  // namespace

TEST_CASE("the steps of an output of attention are those that lead to its bits") {
  const int queries = 9, keys = 300, size = 32, head = 1, query = 4, col = 7, row = head * queries + query;
  const Matrix q = random_matrix(2 * queries, size, 1), k = random_matrix(keys, size, 2),
               v = random_matrix(keys, size, 3);
  const AttentionShape shape{.heads = 2, .queries = queries, .keys = keys, .head_size = size};
  for (const AttentionOptions& options :
       {AttentionOptions{.splits = 1}, AttentionOptions{.causal = true, .splits = 1},
        AttentionOptions{.window_left = 3, .window_right = 2, .splits = 1}, AttentionOptions{.splits = 2}}) {
    const AttentionPlan plan = attention_plan(shape, options);
    const Attention result = attention(plan, shape, q, k, v);
    const OperatorTrace trace = trace_attention(plan, shape, q, k, v, head, query, col);
    CHECK(trace.output == std::vector<int>{head, query, col});
    CHECK(trace.steps.back().format == Format::f16);
    CHECK(trace.steps.back().words == std::vector{result.out(row, col)});
    auto parts = parts_of(trace);
    CHECK(parts.size() == (plan.splits == 2 ? 5u : plan.window_left < 0 ? 4u : 2u));
    const float scale2 = static_cast<float>(static_cast<double>(plan.scale) * 1.4426950408889634);
    StepsOfPart before;
    for (auto& [part, steps] : parts) {
      INFO(part);
      if (const size_t at = part.find("keys "); at != std::string::npos) {
        const int first = std::stoi(part.substr(at + 5)), count = std::min(plan.tile_keys, keys - first);
        std::vector<uint32_t> column;
        for (int j = 0; j < count; ++j) column.push_back(v(first + j, col));
        check_tile(steps, before, q.row(row), block_of(k, first, count, 0, size), column,
                   std::bit_cast<uint32_t>(scale2));
        before = steps;
      } else if (part.ends_with("after the last tile")) {
        const std::vector<uint32_t>& sums = before["sums"];
        CHECK(steps["sum"] == std::vector{add(add(sums[0], sums[2]), add(sums[1], sums[3]))});
        CHECK(steps["inverse"][0] == ieee_div(Format::f32, 0x3F800000, steps["sum"][0]));
        CHECK(steps["result"][0] == mul(before["accumulator"][0], steps["inverse"][0]));
        if (plan.splits == 1) CHECK(narrow(steps["result"][0]) == steps["output"][0]);
        if (plan.splits == 1) CHECK(steps["log-sum-exp"][0] == result.lse(head, query));
        before.clear();
      } else {
        REQUIRE(part == "combination of the splits");
        uint32_t sum = 0;
        for (size_t split = 0; split < 2; ++split) {
          StepsOfPart& end = parts[2 * split + 1].second;
          CHECK(steps["log-sum-exps"][split] == end["log-sum-exp"][0]);
          CHECK(steps["weights"][split] == call("expf", sub(end["log-sum-exp"][0], steps["log-sum-exp"][0])));
          sum = fma(steps["weights"][split], end["result"][0], sum);
          CHECK(steps["sums"][split] == sum);
        }
        CHECK(steps["log-sum-exp"][0] == result.lse(head, query));
        CHECK(steps["output"][0] == narrow(sum));
      }
    }
  }
}

TEST_CASE("each kernel's steps follow from one another by the functions that their notes name") {
  const auto computed_by = [](std::string_view name, uint32_t x) {
    return name.ends_with("@cuda_13") ? call(name, x) : static_cast<uint32_t>(compute(parse_math_instruction(name), x));
  };
  for (const AttentionKernel kernel : {AttentionKernel::flash_2, AttentionKernel::memory_efficient,
                                       AttentionKernel::cudnn, AttentionKernel::cudnn_sm80}) {
    INFO(print(kernel));
    const int queries = kernel == AttentionKernel::cudnn_sm80 ? 1 : 3, keys = 200, size = 64;
    const Matrix q = random_matrix(queries, size, 1), k = random_matrix(keys, size, 2),
                 v = random_matrix(keys, size, 3);
    const AttentionShape shape{.queries = queries, .keys = keys, .head_size = size};
    const AttentionPlan plan = attention_plan(shape, {.kernel = kernel});
    const OperatorTrace trace = trace_attention(plan, shape, q, k, v, 0, queries - 1, 5);
    std::map<std::string_view, OperatorStep> last;
    const uint32_t scale = std::bit_cast<uint32_t>(plan.scale), log2_e = 0x3FB8AA3B;
    for (const OperatorStep& step : trace.steps) {
      if (step.what == "scaled") {
        for (size_t i = 0; i < static_cast<size_t>(last["scores"].words.size()); ++i) {
          const uint32_t score = last["scores"].words[i];
          CHECK(step.words[i] ==
                (kernel == AttentionKernel::cudnn ? mul(score, mul(scale, log2_e)) : mul(mul(score, scale), log2_e)));
        }
      }
      if (step.what == "exponents" && kernel != AttentionKernel::flash_2) {
        for (size_t i = 0; i < step.words.size(); ++i)
          CHECK(step.words[i] == sub(last["scaled"].words[i], last["largest"].words[0]));
      }
      if (step.what == "weights" && !step.part.empty()) {
        for (size_t i = 0; i < step.words.size(); ++i)
          CHECK(step.words[i] == computed_by(step.rounding, last["exponents"].words[i]));
      }
      if (step.what == "inverse" && step.rounding.ends_with(".f32"))
        CHECK(step.words[0] == computed_by(step.rounding, last["sum"].words[0]));
      last[step.what] = step;
    }
    CHECK(last.contains("scaled") == (kernel != AttentionKernel::flash_2));
    CHECK(last.contains("inverse"));
  }
}

TEST_CASE("the steps of a memory-efficient attention end with its bits, and outputs that do not exist are refused") {
  const AttentionShape shape{.queries = 70, .keys = 150, .head_size = 40};
  const AttentionPlan plan = attention_plan(shape, {.kernel = AttentionKernel::memory_efficient, .causal = true});
  Matrix q(Format::f32, 70, 40), k(Format::f32, 150, 40), v(Format::f32, 150, 40);
  RandomStream random(9, 0);
  for (Matrix* const matrix : {&q, &k, &v}) {
    for (uint32_t& word : matrix->words())
      word = std::bit_cast<uint32_t>((static_cast<float>(random.below(1 << 20)) - 0x1p19F) * 0x1p-18F);
  }
  const Attention result = attention(plan, shape, q, k, v);
  for (const int query : {0, 63, 64, 69}) {
    const OperatorTrace trace = trace_attention(plan, shape, q, k, v, 0, query, 39);
    CHECK(trace.steps.back().words == std::vector{result.out(query, 39)});
    auto parts = parts_of(trace);
    const size_t last = parts.size() - 2;
    CHECK(mul(parts[last].second["accumulator"][0], parts[last + 1].second["inverse"][0]) == result.out(query, 39));
    CHECK(parts[last + 1].second["log-sum-exp"][0] == result.lse(0, query));
  }
  CHECK_THROWS_AS(trace_attention(plan, shape, q, k, v, 1, 0, 0), Error);
  CHECK_THROWS_AS(trace_attention(plan, shape, q, k, v, 0, 70, 0), Error);
  CHECK_THROWS_AS(trace_attention(plan, shape, q, k, v, 0, 0, -1), Error);
}
