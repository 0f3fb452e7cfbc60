// SPDX-License-Identifier: MIT
// softmax(Q K^T * scale) V: the loop over tiles of keys that all attention kernels have, and what joins the splits of
// FlashAttention-2. What a kernel does with the scores of a tile are its steps (attention_steps.cpp).
// Host floats are single IEEE operations here: nothing is contracted (CMakeLists.txt), and each tile runs inside an
// IeeeEnvironment.
#include "bitmma/operators/attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "../arithmetic/chain.hpp"
#include "../math/f32.hpp"
#include "attention_steps.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "bitmma/operators/c_function.hpp"
#include "row_lanes.hpp"

namespace bitmma {
namespace {

using namespace operators;

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

/// The head size that the kernel is compiled for: Q, K and V are padded with zeros to it.
int padded_head_size(int head_size) {
  for (const int size : {32, 64, 96, 128, 192}) {
    if (head_size <= size) return size;
  }
  return 256;
}

void require_matrix(std::string_view name, const Matrix& matrix, Format format, int rows, int cols) {
  if (matrix.format() != format)
    throw Error({.code = ViolationCode::wrong_type,
                 .field = fmt::format("type of {}", name),
                 .seen = std::string(info(matrix.format()).name),
                 .expected = fmt::format("{}, as Q", info(format).name)});
  if (matrix.rows() != rows || matrix.cols() != cols)
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = fmt::format("shape of {}", name),
                 .seen = fmt::format("{} x {}", matrix.rows(), matrix.cols()),
                 .expected = fmt::format("{} x {}", rows, cols)});
}

float exp_of(float x) {
  static const CFunction& expf = parse_c_function("expf@cuda_13");
  return value(compute(expf, word(x)));
}
float log_of(float x) {
  static const CFunction& logf = parse_c_function("logf@cuda_13");
  return value(compute(logf, word(x)));
}

/// K of f32 operands as CUTLASS' OpMultiplyAddFastF32 multiplies them: an f32 number is a tf32 number toward zero and
/// the tf32 number nearest to the rest, halves away from zero. Every 8 of K become 24: small * big, big * small, big *
/// big.
enum class Side : uint8_t { a, b };
constexpr int split_k = 8;

uint32_t big_part(uint32_t x) { return x & 0xFFFFE000; }
uint32_t small_part(uint32_t x) { return (word(value(x) - value(big_part(x))) + 0x1000) & 0xFFFFE000; }

/// Rows with K in three parts.
BITMMA_IN_ENVIRONMENT Matrix split_rows(const Matrix& x, Side side) {
  Matrix parts(Format::tf32, x.rows(), 3 * split_k * ceil_div(x.cols(), split_k));
  for (int row = 0; row < x.rows(); ++row) {
    for (int k = 0; k < x.cols(); ++k) {
      const uint32_t big = big_part(x(row, k)), small = small_part(x(row, k));
      const int at = 3 * split_k * (k / split_k) + k % split_k;
      parts(row, at) = side == Side::a ? small : big;
      parts(row, at + split_k) = side == Side::a ? big : small;
      parts(row, at + 2 * split_k) = big;
    }
  }
  return parts;
}

/// The operand as the instructions of the kernel read it.
Matrix operand_a(const Matrix& x) { return x.format() == Format::f32 ? split_rows(x, Side::a) : x; }
Matrix operand_b(const Matrix& x) {
  return x.format() == Format::f32 ? transposed(split_rows(transposed(x), Side::b)) : x;
}

/// The output that is explained, by its row in a tile of queries.
struct Watched {
  Notes& notes;
  int row, col;
  std::string split = {};  // "split 2, "
};

/// What a tile of queries gives: o * (1 / sum) and the logarithm of the sum of each row.
struct TileResult {
  Matrix out;  // f32
  std::vector<float> lse;
};

/// Of one key head, as the instructions of the kernel read them.
struct KeysAndValues {
  Matrix k_transposed, v;
};

/// A tile of the queries of one head, from first_query on.
struct QueryTile {
  const AttentionPlan& plan;
  const AttentionShape& shape;
  const Matrix& q;  // of all heads, as the instructions of the kernel read it
  const KeysAndValues& kv;
  int head, first_query;
  const Watched* watched = nullptr;

  int count() const { return std::min(plan.tile_queries, shape.queries - first_query); }
};

/// One query: its largest score in units of the kernel's exponents, and its sums.
struct QueryState {
  float largest = minus_infinity;
  LaneSums sums = {};
};

/// Takes a tile of queries through tiles of keys.
class TileLoop {
 public:
  explicit TileLoop(const QueryTile& tile)
      : tile_(tile),
        plan_(tile.plan),
        shape_(tile.shape),
        watched_(tile.watched),
        steps_(attention_steps_of(plan_.kernel)),
        constants_(constants_of(plan_)),
        type_(tile.kv.v.format()),
        model_(*find_accumulator_model(Target::sm_90a, steps_.family, tile.q.format(), tile.q.format(), Format::f32)),
        count_(tile.count()),
        states_(static_cast<size_t>(count_)) {}

  /// Tiles of keys [first, last) of those that the mask leaves.
  TileResult run(int first_tile, int last_tile) {
    const int first = tile_.first_query, past = place_of(0);
    if (plan_.window_right >= 0)
      last_tile =
          std::min(last_tile, ceil_div(first + plan_.tile_queries + past + plan_.window_right, plan_.tile_keys));
    if (plan_.window_left >= 0) first_tile = std::max(first_tile, (first + past - plan_.window_left) / plan_.tile_keys);
    for (int i = 0; i < last_tile - first_tile; ++i)
      take(steps_.takes_last_keys_first ? last_tile - 1 - i : first_tile + i);
    return finished();
  }

 private:
  void take(int tile) {
    const int first_key = tile * plan_.tile_keys, keys = std::min(plan_.tile_keys, shape_.keys - first_key);
    if (watched_) watched_->notes.begin(fmt::format("{}keys {}..{}", watched_->split, first_key, first_key + keys - 1));
    const Matrix scores = added({.a = tile_.q,
                                 .b = tile_.kv.k_transposed,
                                 .row = tile_.head * shape_.queries + tile_.first_query,
                                 .rows = count_,
                                 .col = first_key,
                                 .cols = keys},
                                {});
    note("scores", fmt::format("q . k of each key, {}", print_chain(shape_.head_size)), rule(), scores);
    Matrix p(Format::f32, count_, plan_.tile_keys);
    std::vector<float> rescale(static_cast<size_t>(count_), 1);
    for (int i = 0; i < count_; ++i)
      rescale[static_cast<size_t>(i)] = exponents_of(i, first_key, scores.row(i), p.row(i));
    steps_.weights.compute(p.words());
    if (watched_) note("weights", steps_.weights, p.row(watched_->row));
    for (int i = 0; i < count_; ++i) {
      const auto row = static_cast<size_t>(i);
      steps_.sum.compute(states_[row].sums, p.row(i), rescale[row]);
    }
    note_sums();
    Matrix rounded(type_, count_, keys);
    for (int i = 0; i < count_; ++i) narrow(p.row(i).first(static_cast<size_t>(keys)), type_, rounded.row(i));
    note("rounded", fmt::format("the weights of the keys as {}", info(type_).name),
         type_ == Format::f32 ? is_exact : to_nearest, rounded);
    std::optional<Matrix> c;
    if (!is_first_) {
      for (int i = 0; i < count_; ++i) {
        const float factor = rescale[static_cast<size_t>(i)];
        for (uint32_t& element : out_.row(i)) element = word(value(element) * factor);
      }
      note_out("rescaled", "accumulator * rescale", to_nearest);
      c = std::move(out_);
    }
    const Matrix weights = operand_a(rounded),
                 values = operand_b(block_of(tile_.kv.v, first_key, keys, 0, shape_.head_size));
    out_ = added({.a = weights, .b = values, .rows = count_, .cols = shape_.head_size}, std::move(c));
    note_out("accumulator",
             fmt::format("{} + rounded . v, {}", is_first_ ? "0" : "rescaled", print_chain(rounded.cols())), rule());
    is_first_ = false;
  }

  /// Writes the exponents of query i, in units of ln 2, less the largest so far. Returns what its earlier sums and
  /// outputs are multiplied by.
  float exponents_of(int i, int first_key, std::span<const uint32_t> scores, std::span<uint32_t> exponents) {
    QueryState& state = states_[static_cast<size_t>(i)];
    const bool is_watched = watched_ && watched_->row == i;
    const int keys = static_cast<int>(scores.size()), place = place_of(tile_.first_query + i) - first_key;
    const auto begin = static_cast<size_t>(plan_.window_left < 0 ? 0 : std::clamp(place - plan_.window_left, 0, keys));
    const auto end =
        static_cast<size_t>(plan_.window_right < 0 ? keys : std::clamp(place + plan_.window_right + 1, 0, keys));
    const size_t count = end > begin ? end - begin : 0;
    const std::span<uint32_t> unmasked = exponents.subspan(begin, count);
    std::ranges::fill(exponents.first(begin), word(minus_infinity));
    std::ranges::fill(exponents.subspan(begin + count), word(minus_infinity));
    scores = scores.subspan(begin, count);
    if (steps_.scale.compute) {
      steps_.scale.compute(constants_, scores, unmasked);
      if (is_watched) note("scaled", steps_.scale, exponents);
      scores = unmasked;
    }
    const float before = state.largest;
    for (const uint32_t score : scores) state.largest = std::fmax(state.largest, value(score));
    // Of a row of masked scores alone nothing is subtracted.
    const float subtracted = state.largest == minus_infinity ? 0.0F : state.largest;
    float rescale = 1;
    if (!is_first_) rescale = steps_.rescale.compute(constants_, before, plan_.masks ? subtracted : state.largest);
    steps_.exponent.compute(constants_, scores, subtracted, unmasked);
    if (is_watched) {
      note("largest", fmt::format("the largest {} so far", steps_.scale.compute ? "scaled score" : "score"), is_exact,
           state.largest);
      if (!is_first_) note("rescale", steps_.rescale, rescale);
      note("exponents", steps_.exponent, exponents);
    }
    return rescale;
  }

  TileResult finished() {
    TileResult result{.out = Matrix(Format::f32, count_, shape_.head_size),
                      .lse = std::vector<float>(static_cast<size_t>(count_))};
    for (int i = 0; i < count_; ++i) {
      const auto& [largest, sums] = states_[static_cast<size_t>(i)];
      const float sum = steps_.total.compute ? steps_.total.compute(sums) : sums[0];
      const float lse = steps_.log_sum_exp.compute(constants_, largest, sum), inverse = steps_.inverse.compute(sum);
      result.lse[static_cast<size_t>(i)] = lse;
      if (!is_first_) {
        for (int j = 0; j < shape_.head_size; ++j) result.out(i, j) = word(value(out_(i, j)) * inverse);
      }
      if (!watched_ || watched_->row != i) continue;
      watched_->notes.begin(watched_->split + "after the last tile");
      if (steps_.total.compute) note("sum", steps_.total, sum);
      note("log-sum-exp", steps_.log_sum_exp, lse);
      note("inverse", steps_.inverse, inverse);
      note("result", "accumulator * inverse", to_nearest, value(result.out(i, watched_->col)));
    }
    return result;
  }

  // What is noted of the output that is explained.
  void note(const char* what, const std::string& operation, std::string_view rounding, const Matrix& of_rows) const {
    if (watched_)
      watched_->notes.add(what, operation, rounding, words_of(of_rows.row(watched_->row)), of_rows.format());
  }
  void note(const char* what, const std::string& operation, std::string_view rounding, float result) const {
    if (watched_) watched_->notes.add(what, operation, rounding, words_of(result));
  }
  void note_out(const char* what, const std::string& operation, std::string_view rounding) const {
    if (watched_) note(what, operation, rounding, value(out_(watched_->row, watched_->col)));
  }
  void note_sums() const {
    if (!watched_) return;
    const std::span<const float> sums = states_[static_cast<size_t>(watched_->row)].sums;
    if (steps_.total.compute) return note("sums", steps_.sum, sums);
    note("sum", steps_.sum, sums.first(1));
  }
  template <typename Function>
  void note(const char* what, const AttentionStep<Function>& step, const auto& values) const {
    if (watched_) watched_->notes.add(what, std::string(step.operation), step.rounding, words_of(values));
  }
  std::string rule() const {
    return print_rule(model_) + (type_ == Format::f32 ? "; sums of accumulators to nearest even" : "");
  }
  /// "chain of 4 mma.sync.m16n8k16".
  std::string print_chain(int k) const {
    const int count = ceil_div(k, steps_.k);
    if (type_ != Format::f32) return fmt::format("a chain of {} {}", count, steps_.instruction);
    return fmt::format("{} {} of 3xTF32, added up after 8, 40, 72, ... of K", 3 * count, steps_.instruction);
  }

  std::vector<ChainUpdate> updates_of(int first, int last) const {
    std::vector<ChainUpdate> updates;
    for (int at = first; at < last; at += steps_.k) updates.push_back({at, std::min(steps_.k, last - at)});
    return updates;
  }

  /// C plus the product of the block. Of f32 operands CUTLASS adds up tiles of 32 of K in an accumulator of their own,
  /// which the next tile's first 8 still go into, and then adds that to C.
  Matrix added(const ChainBlock& block, std::optional<Matrix> c) const {
    const int k = block.a.cols();
    if (type_ != Format::f32) return chain(model_, block, updates_of(0, k), steps_.k, std::move(c));
    Matrix sum = c ? std::move(*c) : Matrix(Format::f32, block.rows, block.cols);
    constexpr int group = 3 * split_k, tile = 4 * group;
    for (int first = 0, last = group; first < k; first = last, last += tile) {
      f32::add(sum, chain(model_, block, updates_of(first, std::min(last, k)), steps_.k, {}));
    }
    return sum;
  }

  /// The key at the place of a query: causal masks end there.
  int place_of(int query) const { return query + (steps_.ends_at_last_key ? shape_.keys - shape_.queries : 0); }

  const QueryTile& tile_;
  const AttentionPlan& plan_;
  const AttentionShape& shape_;
  const Watched* watched_;  // or nullptr
  const AttentionSteps& steps_;
  AttentionConstants constants_;
  Format type_;  // of Q, K and V
  const AccumulatorModel& model_;
  int count_;
  std::vector<QueryState> states_;
  Matrix out_;
  bool is_first_ = true;  // no tile of keys was taken
};

/// What flash_fwd_splitkv_combine_kernel makes of the parts of one row: their weights, and the logarithm of the sum.
float weights_of(std::span<const float> lse, int head_size, std::span<float> weights, Notes* notes) {
  const int rows = head_size % 128 == 0 ? 4 : head_size % 64 == 0 ? 8 : 16;
  const auto splits = lse.size();
  const size_t threads = std::min(static_cast<size_t>(128 / rows), std::bit_ceil(splits));
  float largest = minus_infinity;
  for (const float part : lse) largest = std::fmax(largest, part);
  if (largest == minus_infinity) largest = 0;
  std::array<float, 32> sums = {};
  for (size_t i = 0; i < splits; ++i) {
    float& own = sums[i % threads];
    own = i < threads ? exp_of(lse[i] - largest) : own + exp_of(lse[i] - largest);
  }
  if (notes) {
    notes->begin("combination of the splits");
    notes->add("log-sum-exps", "one of each split", is_exact, words_of(lse));
    notes->add("largest", "the largest of them", is_exact, words_of(largest));
    notes->add("lanes", fmt::format("lane i adds expf(lse - largest) of splits i, i + {}, ...", threads),
               "each operation to nearest even, expf@cuda_13", words_of(std::span<const float>(sums).first(threads)));
  }
  const float sum = shuffle_down(std::span<float>(sums), threads, add, notes);
  const bool has_none = sum == 0 || sum != sum;
  const float joined = has_none ? -minus_infinity : log_of(sum) + largest;
  for (size_t i = 0; i < splits; ++i) weights[i] = exp_of(lse[i] - joined);
  if (notes) {
    notes->add("log-sum-exp", "logf(sum of lane 0) + largest", "to nearest even, logf@cuda_13", words_of(joined));
    notes->add("weights", "expf(lse of the split - log-sum-exp)", "to nearest even, expf@cuda_13", words_of(weights));
  }
  return joined;
}

/// All parts of the keys, joined.
TileResult result_of(const QueryTile& tile) {
  const AttentionPlan& plan = tile.plan;
  const Watched* const watched = tile.watched;
  const int key_tiles = ceil_div(tile.shape.keys, plan.tile_keys);
  if (plan.splits == 1) return TileLoop(tile).run(0, key_tiles);
  const int share = ceil_div(key_tiles, plan.splits);
  std::vector<TileResult> parts;
  for (int i = 0; i < plan.splits; ++i) {
    std::optional<Watched> of_split;
    if (watched) of_split.emplace(*watched).split = fmt::format("split {}, ", i);
    QueryTile of_keys = tile;
    of_keys.watched = of_split ? &*of_split : nullptr;
    parts.push_back(TileLoop(of_keys).run(std::min(i * share, key_tiles), std::min((i + 1) * share, key_tiles)));
  }
  TileResult joined = parts.front();
  std::vector<float> lse(parts.size()), weights(parts.size()), sums(parts.size());
  for (int row = 0; row < joined.out.rows(); ++row) {
    Notes* const notes = watched && watched->row == row ? &watched->notes : nullptr;
    for (size_t i = 0; i < parts.size(); ++i) lse[i] = parts[i].lse[static_cast<size_t>(row)];
    joined.lse[static_cast<size_t>(row)] = weights_of(lse, padded_head_size(tile.shape.head_size), weights, notes);
    for (int col = 0; col < joined.out.cols(); ++col) {
      float sum = 0;
      for (size_t i = 0; i < parts.size(); ++i)
        sums[i] = sum = std::fma(weights[i], value(parts[i].out(row, col)), sum);
      joined.out(row, col) = word(sum);
      if (notes && watched->col == col)
        notes->add("sums", "fma(weight, result of the split, sum), after each split", to_nearest, words_of(sums));
    }
  }
  return joined;
}

BITMMA_IN_ENVIRONMENT void write_tile(const QueryTile& tile, Attention& result) {
  const TileResult computed = result_of(tile);
  for (int i = 0; i < computed.out.rows(); ++i) {
    const int query = tile.first_query + i, row = tile.head * tile.shape.queries + query;
    result.lse(tile.head, query) = math::canonical(word(computed.lse[static_cast<size_t>(i)]));
    narrow(computed.out.row(i), tile.kv.v.format(), result.out.row(row));
  }
}

/// The result, still empty, of arguments that are right.
Attention attention_of(const AttentionPlan& plan, const AttentionShape& shape, const Matrix& q, const Matrix& k,
                       const Matrix& v) {
  require_shape(shape);
  require_plan(plan);
  const bool has_f32 = plan.kernel == AttentionKernel::memory_efficient;
  if (q.format() != Format::f16 && q.format() != Format::bf16 && !(has_f32 && q.format() == Format::f32))
    throw Error({.code = ViolationCode::wrong_type,
                 .field = "type of Q",
                 .seen = std::string(info(q.format()).name),
                 .expected = !has_f32 ? "f16 or bf16; the memory-efficient kernel takes f32" : "f16, bf16 or f32"});
  require_matrix("Q", q, q.format(), shape.heads * shape.queries, shape.head_size);
  require_matrix("K", k, q.format(), shape.kv_heads * shape.keys, shape.head_size);
  require_matrix("V", v, q.format(), shape.kv_heads * shape.keys, shape.head_size);
  return {.out = Matrix(q.format(), q.rows(), q.cols()), .lse = Matrix(Format::f32, shape.heads, shape.queries)};
}

KeysAndValues head_of(const AttentionShape& shape, const Matrix& k, const Matrix& v, int kv_head) {
  const int first = kv_head * shape.keys;
  return {.k_transposed = operand_b(transposed(block_of(k, first, shape.keys, 0, shape.head_size))),
          .v = block_of(v, first, shape.keys, 0, shape.head_size)};
}

void note_plan(Notes& notes, const AttentionPlan& plan) {
  const AttentionSteps& steps = attention_steps_of(plan.kernel);
  notes.choose("kernel", std::string(title_of(plan)));
  notes.choose("tile", fmt::format("{} queries x {} keys, the {} keys first", plan.tile_queries, plan.tile_keys,
                                   steps.takes_last_keys_first ? "last" : "first"));
  if (plan.splits > 1) notes.choose("splits", std::to_string(plan.splits));
  if (plan.window_left >= 0) notes.choose("keys before the query's own", std::to_string(plan.window_left));
  if (plan.window_right >= 0) notes.choose("keys after the query's own", std::to_string(plan.window_right));
  notes.choose("scale", print_value(Format::f32, word(plan.scale)));
  if (steps.scale2.compute)
    notes.choose("scale2", fmt::format("{}: {}, {}", print_value(Format::f32, word(constants_of(plan).scale2)),
                                       steps.scale2.operation, steps.scale2.rounding));
}

}  // namespace

Attention attention(const AttentionPlan& plan, const AttentionShape& shape, const Matrix& q, const Matrix& k,
                    const Matrix& v, int threads) {
  Attention result = attention_of(plan, shape, q, k, v);
  const math::IeeeEnvironment environment;
  const Matrix q_operand = operand_a(q);
  std::vector<KeysAndValues> heads;
  for (int head = 0; head < shape.kv_heads; ++head) heads.push_back(head_of(shape, k, v, head));
  const int tiles_of_head = ceil_div(shape.queries, plan.tile_queries), shared = shape.heads / shape.kv_heads;
  parallel_for(static_cast<size_t>(shape.heads * tiles_of_head), threads, [&](size_t i) {
    const int head = static_cast<int>(i) / tiles_of_head;
    const KeysAndValues& kv = heads[static_cast<size_t>(head / shared)];
    // The last tiles see the most keys: first come those that take long.
    const int tile = tiles_of_head - 1 - static_cast<int>(i) % tiles_of_head;
    const math::IeeeEnvironment environment_of_thread;
    write_tile(
        {.plan = plan, .shape = shape, .q = q_operand, .kv = kv, .head = head, .first_query = tile * plan.tile_queries},
        result);
  });
  return result;
}

OperatorTrace trace_attention(const AttentionPlan& plan, const AttentionShape& shape, const Matrix& q, const Matrix& k,
                              const Matrix& v, int head, int query, int col) {
  Attention result = attention_of(plan, shape, q, k, v);
  require_place("head", head, shape.heads);
  require_place("query", query, shape.queries);
  OperatorTrace trace = trace_of("attention", result.out, head * shape.queries + query, col, [&](Notes& notes) {
    note_plan(notes, plan);
    const KeysAndValues kv = head_of(shape, k, v, head / (shape.heads / shape.kv_heads));
    const int row = query % plan.tile_queries;
    const Watched watched{.notes = notes, .row = row, .col = col};
    write_tile({.plan = plan,
                .shape = shape,
                .q = operand_a(q),
                .kv = kv,
                .head = head,
                .first_query = query - row,
                .watched = &watched},
               result);
  });
  trace.output = {head, query, col};
  return trace;
}

}  // namespace bitmma
