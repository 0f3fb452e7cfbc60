// SPDX-License-Identifier: MIT
// Host floats are single IEEE operations here: nothing is contracted (CMakeLists.txt), and each tile runs inside an
// IeeeEnvironment.
#include "bitmma/operators/attention.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "../arithmetic/chain.hpp"
#include "../math/f32.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "bitmma/operators/c_function.hpp"
#include "row_lanes.hpp"

namespace bitmma {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity(), log2_e = 1.44269504F, ln_2 = 0.693147182F;
constexpr std::string_view source = "flash_fwd_kernel.h of FlashAttention-2";

using operators::each_to_nearest, operators::is_exact, operators::to_nearest;
using operators::narrow, operators::value, operators::word, operators::words_of;

constexpr std::array<std::string_view, 4> kernel_names = {"flash", "efficient", "cudnn", "cudnn_sm80"};

/// Tiles by head size: flash_fwd_launch_template.h, for sm_90.
struct TileRow {
  int largest_head, queries, keys, split_keys;
};
constexpr auto tiles = std::to_array<TileRow>({
    {.largest_head = 64, .queries = 128, .keys = 128, .split_keys = 256},
    {.largest_head = 128, .queries = 128, .keys = 64, .split_keys = 128},
    {.largest_head = 192, .queries = 128, .keys = 64, .split_keys = 64},
    {.largest_head = 256, .queries = 64, .keys = 64, .split_keys = 64},
});
constexpr int split_queries = 64;

const TileRow& tiles_of(int head_size) {
  return *std::ranges::find_if(tiles, [&](const TileRow& row) { return head_size <= row.largest_head; });
}

/// Of cuDNN's kernel, those that were compared with a GPU: multiples of 8 up to 144, and these.
constexpr std::array large_cudnn_head_sizes = {160, 192, 256};

/// The head size that the kernel is compiled for: Q, K and V are padded with zeros to it.
int padded_head_size(int head_size) {
  for (const int size : {32, 64, 96, 128, 192}) {
    if (head_size <= size) return size;
  }
  return 256;
}

/// num_splits_heuristic of flash_api.cpp.
int splits_for(int query_tiles, int multiprocessors, int key_tiles) {
  const int slots = 2 * multiprocessors;
  if (static_cast<float>(query_tiles) >= 0.8F * static_cast<float>(slots)) return 1;
  const int most = std::min({128, slots, key_tiles});
  const auto is_eligible = [&](int n) { return n == 1 || ceil_div(key_tiles, n) != ceil_div(key_tiles, n - 1); };
  const auto efficiency = [&](int n) {
    const float waves = static_cast<float>(query_tiles * n) / static_cast<float>(slots);
    return waves / std::ceil(waves);
  };
  float best = 0;
  for (int n = 1; n <= most; ++n) {
    if (is_eligible(n)) best = std::max(best, efficiency(n));
  }
  for (int n = 1; n <= most; ++n) {
    if (is_eligible(n) && efficiency(n) >= 0.85F * best) return n;
  }
  return 1;
}

void require_shape(const AttentionShape& shape) {
  std::vector<Violation> violations;
  const auto require = [&](bool good, std::string_view field, int seen, std::string_view expected) {
    if (!good)
      violations.push_back({.field = std::string(field),
                            .seen = std::to_string(seen),
                            .expected = std::string(expected),
                            .source = std::string(source)});
  };
  require(shape.heads >= 1, "heads", shape.heads, "1 or more");
  require(shape.kv_heads >= 1 && shape.heads % std::max(shape.kv_heads, 1) == 0, "kv_heads", shape.kv_heads,
          "a divisor of the heads of Q");
  require(shape.queries >= 1, "queries", shape.queries, "1 or more");
  require(shape.keys >= 1, "keys", shape.keys, "1 or more");
  constexpr int64_t most = std::numeric_limits<int>::max();
  require(int64_t{shape.heads} * shape.queries <= most && int64_t{shape.kv_heads} * shape.keys <= most, "heads",
          shape.heads, "at most 2^31 - 1 queries and keys over all heads");
  require(shape.head_size >= 8 && shape.head_size <= 256 && shape.head_size % 8 == 0, "head_size", shape.head_size,
          "a multiple of 8 up to 256");
  if (!violations.empty()) throw Error(std::move(violations));
}

void require_plan(const AttentionPlan& plan) {
  const auto require = [](bool good, std::string_view field, std::string seen, std::string_view expected) {
    if (!good) throw Error({.field = std::string(field), .seen = std::move(seen), .expected = std::string(expected)});
  };
  require(plan.tile_queries >= 1 && plan.tile_queries <= 128, "tile_queries", std::to_string(plan.tile_queries),
          "1 to 128");
  require(plan.tile_keys >= 32 && plan.tile_keys <= 256 && plan.tile_keys % 32 == 0, "tile_keys",
          std::to_string(plan.tile_keys), "a multiple of 32 up to 256");
  require(plan.splits >= 1 && plan.splits <= 128, "splits", std::to_string(plan.splits), "1 to 128");
  require(std::isfinite(plan.scale) && plan.scale > 0, "scale", fmt::format("{}", plan.scale),
          "a number above 0: other values were not compared with a GPU");
  for (const int window : {plan.window_left, plan.window_right})
    require(window >= -1 && window <= 1 << 30, "window", std::to_string(window), "-1 (all keys) to 2^30");
}

void require_matrix(std::string_view name, const Matrix& matrix, Format format, int rows, int cols) {
  if (matrix.format() != format)
    throw Error({.field = fmt::format("type of {}", name),
                 .seen = std::string(info(matrix.format()).name),
                 .expected = fmt::format("{}, as Q", info(format).name)});
  if (matrix.rows() != rows || matrix.cols() != cols)
    throw Error({.field = fmt::format("shape of {}", name),
                 .seen = fmt::format("{} x {}", matrix.rows(), matrix.cols()),
                 .expected = fmt::format("{} x {}", rows, cols)});
}

bool is_of_cudnn(AttentionKernel kernel) {
  return kernel == AttentionKernel::cudnn || kernel == AttentionKernel::cudnn_sm80;
}

/// 2^x of every word: exp2f, and in cuDNN's kernels the instruction alone.
void exp2_all(AttentionKernel kernel, std::span<uint32_t> words) {
  static const CFunction& exp2f = parse_c_function("exp2f@cuda_13");
  static const MathInstruction ex2 = parse_math_instruction("ex2.approx.ftz.f32");
  if (is_of_cudnn(kernel)) return compute(ex2, words, {}, {}, words);
  compute(exp2f, words, {}, words);
}
float exp2_of(AttentionKernel kernel, float x) {
  uint32_t one = word(x);
  exp2_all(kernel, std::span(&one, 1));
  return value(one);
}
float approximate(std::string_view instruction, float x) {
  return value(static_cast<uint32_t>(compute(parse_math_instruction(instruction), word(x))));
}
/// CUDA's __logf: lg2.approx * ln 2.
float fast_log(float x) {
  static const CFunction& logf = parse_c_function("__logf@cuda_13");
  return value(compute(logf, word(x)));
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

float scale2_of(const AttentionPlan& plan) {
  if (plan.kernel == AttentionKernel::cudnn) return plan.scale * log2_e;
  return static_cast<float>(static_cast<double>(plan.scale) * 1.4426950408889634);
}

/// What the notes of a kernel say of its steps.
struct Texts {
  AttentionKernel kernel;
  std::string_view exp2, largest, rescale, exponents, sums, sum, lse, lse_rounding, inverse, inverse_rounding;
};
constexpr auto texts = std::to_array<Texts>({
    {.kernel = AttentionKernel::flash_2,
     .exp2 = "exp2f@cuda_13",
     .largest = "the largest score so far",
     .rescale = "exp2f((largest before - largest) * scale2)",
     .exponents = "score * scale2 - largest * scale2; -inf where masked",
     .sums = "lane c: fma(sum, rescale, p(2c)) + p(2c + 1) + p(2c + 8) + p(2c + 9) + p(2c + 16) + ...",
     .sum = "(lane 0 + lane 2) + (lane 1 + lane 3)",
     .lse = "fma(largest, scale, __logf(sum)); infinity without keys",
     .lse_rounding = "to nearest even, __logf@cuda_13",
     .inverse = "1 / sum; 1 without keys",
     .inverse_rounding = to_nearest},
    {.kernel = AttentionKernel::memory_efficient,
     .exp2 = "exp2f@cuda_13",
     .largest = "the largest scaled score so far",
     .rescale = "exp2f(largest before - largest)",
     .exponents = "score * scale * log2(e) - largest; -inf where masked",
     .sums = "sum * rescale, then for every 32 keys + ((lane 0 + lane 1) + (lane 2 + lane 3))",
     .sum = "",
     .lse = "largest / log2(e) + logf(sum); 0 without keys",
     .lse_rounding = "each operation to nearest even, logf@cuda_13",
     .inverse = "1 / sum; 1 without keys",
     .inverse_rounding = to_nearest},
    {.kernel = AttentionKernel::cudnn,
     .exp2 = "ex2.approx.ftz.f32",
     .largest = "the largest scaled score so far",
     .rescale = "ex2.approx.ftz.f32(largest before - largest)",
     .exponents = "score * scale2 - largest; -inf where masked",
     .sums = "lane c: fma(sum, rescale, p(2c) + p(2c + 1) + p(2c + 8) + p(2c + 9) + p(2c + 16) + ...)",
     .sum = "(lane 0 + lane 1) + (lane 2 + lane 3)",
     .lse = "fma(largest, ln 2, lg2.approx.ftz.f32(sum) * ln 2)",
     .lse_rounding = "each operation to nearest even, lg2.approx.ftz.f32",
     .inverse = "1 / sum",
     .inverse_rounding = "rcp.approx.ftz.f32"},
    {.kernel = AttentionKernel::cudnn_sm80,
     .exp2 = "ex2.approx.ftz.f32",
     .largest = "the largest scaled score so far",
     .rescale = "ex2.approx.ftz.f32(largest before - largest)",
     .exponents = "score * scale * log2(e) - largest; -inf where masked",
     .sums = "lane c: fma(sum, rescale, p(2c) + p(2c + 1) + p(2c + 8) + p(2c + 9) + p(2c + 16) + ...)",
     .sum = "(lane 0 + lane 1) + (lane 2 + lane 3)",
     .lse = "fma(lg2.approx.ftz.f32(sum), ln 2, largest * ln 2)",
     .lse_rounding = "each operation to nearest even, lg2.approx.ftz.f32",
     .inverse = "1 / sum",
     .inverse_rounding = "rcp.approx.ftz.f32"},
});

/// One query in a tile: the largest score, and the sums of the four lanes that hold its row of an accumulator.
struct Row {
  float largest = minus_infinity;
  std::array<float, 4> sums = {};
};

/// The output that is explained, by its row in a tile of queries.
struct Watched {
  operators::Notes& notes;
  int row, col;
  std::string split = {};  // "split 2, "
};

/// What a tile of queries gives: o * (1 / sum) and the logarithm of the sum of each row.
struct TileResult {
  Matrix out;  // f32
  std::vector<float> lse;
};

class Tile {
 public:
  Tile(const AttentionPlan& plan, const AttentionShape& shape, const Matrix& q, const Matrix& k_transposed,
       const Matrix& v, int head, int first_query, const Watched* watched)
      : plan_(plan),
        shape_(shape),
        q_(q),
        kt_(k_transposed),
        v_(v),
        head_(head),
        first_(first_query),
        count_(std::min(plan.tile_queries, shape.queries - first_query)),
        texts_(*std::ranges::find(texts, plan.kernel, &Texts::kernel)),
        model_(*find_accumulator_model(Target::sm_90a, is_wgmma() ? Family::wgmma : Family::mma_sync, q.format(),
                                       q.format(), Format::f32)),
        type_(v.format()),
        rows_(static_cast<size_t>(count_)),
        watched_(watched) {}

  /// Tiles of keys [first, last) of those that the mask leaves.
  TileResult run(int first_tile, int last_tile) {
    const int past = place_of(0);
    if (plan_.window_right >= 0)
      last_tile =
          std::min(last_tile, ceil_div(first_ + plan_.tile_queries + past + plan_.window_right, plan_.tile_keys));
    if (plan_.window_left >= 0)
      first_tile = std::max(first_tile, (first_ + past - plan_.window_left) / plan_.tile_keys);
    for (int i = 0; i < last_tile - first_tile; ++i) take(is_flash() ? last_tile - 1 - i : first_tile + i);
    return finished(last_tile <= first_tile);
  }

 private:
  void take(int tile) {
    const int first_key = tile * plan_.tile_keys, keys = std::min(plan_.tile_keys, shape_.keys - first_key);
    if (watched_) watched_->notes.begin(fmt::format("{}keys {}..{}", watched_->split, first_key, first_key + keys - 1));
    const Matrix scores = added(
        {.a = q_, .b = kt_, .row = head_ * shape_.queries + first_, .rows = count_, .col = first_key, .cols = keys},
        {});
    note("scores", fmt::format("q . k of each key, {}", print_chain(shape_.head_size)), rule(), scores);
    Matrix p(Format::f32, count_, plan_.tile_keys);
    std::vector<float> rescale(static_cast<size_t>(count_), 1);
    for (int i = 0; i < count_; ++i)
      weigh(scores.row(i), p.row(i), i, first_key, keys, rescale[static_cast<size_t>(i)]);
    note_row(p, rescale);
    exp2_all(plan_.kernel, p.words());
    note("weights", "2^exponent", texts_.exp2, p);
    for (int i = 0; i < count_; ++i) add_up(p.row(i), rows_[static_cast<size_t>(i)], rescale[static_cast<size_t>(i)]);
    note_sums();
    Matrix rounded(type_, count_, keys);
    for (int i = 0; i < count_; ++i) narrow(p.row(i).first(static_cast<size_t>(keys)), type_, rounded.row(i));
    note("rounded", fmt::format("the weights of the keys as {}", info(type_).name),
         type_ == Format::f32 ? is_exact : to_nearest, rounded);
    std::optional<Matrix> c;
    if (!is_first_) {
      for (int i = 0; i < count_; ++i) {
        for (uint32_t& one : out_.row(i)) one = word(value(one) * rescale[static_cast<size_t>(i)]);
      }
      note_out("rescaled", "accumulator * rescale", to_nearest);
      c = std::move(out_);
    }
    const Matrix weights = operand_a(rounded), values = operand_b(block_of(v_, first_key, keys, 0, shape_.head_size));
    out_ = added({.a = weights, .b = values, .rows = count_, .cols = shape_.head_size}, std::move(c));
    note_out("accumulator",
             fmt::format("{} + rounded . v, {}", is_first_ ? "0" : "rescaled", print_chain(rounded.cols())), rule());
    is_first_ = false;
  }

  // What is noted of the output that is explained.
  void note(const char* what, const std::string& operation, std::string_view rounding, const Matrix& of_rows) const {
    if (watched_)
      watched_->notes.add(what, operation, rounding, words_of(of_rows.row(watched_->row)), of_rows.format());
  }
  void note(const char* what, const std::string& operation, std::string_view rounding, float one) const {
    if (watched_) watched_->notes.add(what, operation, rounding, words_of(one));
  }
  void note_out(const char* what, const std::string& operation, std::string_view rounding) const {
    if (watched_) note(what, operation, rounding, value(out_(watched_->row, watched_->col)));
  }
  /// The numbers by which a tile's scores become exponents, and those.
  void note_row(const Matrix& exponents, std::span<const float> rescale) const {
    if (!watched_) return;
    const auto i = static_cast<size_t>(watched_->row);
    note("largest", std::string(texts_.largest), is_exact, rows_[i].largest);
    if (!is_first_)
      note("rescale", std::string(texts_.rescale), fmt::format("each operation to nearest even, {}", texts_.exp2),
           rescale[i]);
    note("exponents", std::string(texts_.exponents), each_to_nearest, exponents);
  }
  void note_sums() const {
    if (!watched_) return;
    const std::span<const float> sums = rows_[static_cast<size_t>(watched_->row)].sums;
    watched_->notes.add(has_lanes() ? "sums" : "sum", std::string(texts_.sums), each_to_nearest,
                        words_of(has_lanes() ? sums : sums.first(1)));
  }
  std::string rule() const {
    return print_rule(model_) + (type_ == Format::f32 ? "; sums of accumulators to nearest even" : "");
  }
  /// "chain of 4 mma.sync.m16n8k16".
  std::string print_chain(int k) const {
    const int count = ceil_div(k, step());
    if (is_wgmma()) return fmt::format("a chain of {} wgmma.m64k16", count);
    if (type_ != Format::f32) return fmt::format("a chain of {} mma.sync.m16n8k{}", count, step());
    return fmt::format("{} mma.sync.m16n8k8 of 3xTF32, added up after 8, 40, 72, ... of K", 3 * count);
  }

  /// K of the instructions: 16, and m16n8k8 in the memory-efficient kernel.
  int step() const { return has_lanes() ? 16 : 8; }
  std::vector<ChainUpdate> updates_of(int first, int last) const {
    std::vector<ChainUpdate> updates;
    for (int at = first; at < last; at += step()) updates.push_back({at, std::min(step(), last - at)});
    return updates;
  }

  /// C plus the product of the block. Of f32 operands CUTLASS adds up tiles of 32 of K in an accumulator of their own,
  /// which the next tile's first 8 still go into, and then adds that to C.
  Matrix added(const ChainBlock& block, std::optional<Matrix> c) const {
    const int k = block.a.cols();
    if (type_ != Format::f32) return chain(model_, block, updates_of(0, k), step(), std::move(c));
    Matrix sum = c ? std::move(*c) : Matrix(Format::f32, block.rows, block.cols);
    constexpr int group = 3 * split_k, tile = 4 * group;
    for (int first = 0, last = group; first < k; first = last, last += tile) {
      f32::add(sum, chain(model_, block, updates_of(first, std::min(last, k)), step(), {}));
    }
    return sum;
  }

  bool is_flash() const { return plan_.kernel == AttentionKernel::flash_2; }
  bool is_cudnn() const { return is_of_cudnn(plan_.kernel); }
  bool is_wgmma() const { return plan_.kernel == AttentionKernel::cudnn; }
  /// Four lanes keep their sums of a row to the end.
  bool has_lanes() const { return plan_.kernel != AttentionKernel::memory_efficient; }
  /// The key at the place of a query: causal masks end there.
  int place_of(int query) const { return query + (is_flash() ? shape_.keys - shape_.queries : 0); }

  /// The exponents of a row: scores less the largest so far, in units of ln 2. `rescale` becomes what earlier sums are
  /// multiplied by.
  void weigh(std::span<const uint32_t> scores, std::span<uint32_t> p, int i, int first_key, int keys, float& rescale) {
    Row& row = rows_[static_cast<size_t>(i)];
    const int place = place_of(first_ + i) - first_key;
    const auto begin = static_cast<size_t>(plan_.window_left < 0 ? 0 : std::clamp(place - plan_.window_left, 0, keys));
    const auto end =
        static_cast<size_t>(plan_.window_right < 0 ? keys : std::clamp(place + plan_.window_right + 1, 0, keys));
    if (!is_flash()) {
      for (size_t j = begin; j < end; ++j)
        p[j] = word(is_wgmma() ? value(scores[j]) * scale2() : value(scores[j]) * plan_.scale * log2_e);
      scores = p;
    }
    const float before = row.largest;
    for (size_t j = begin; j < end; ++j) row.largest = std::fmax(row.largest, value(scores[j]));
    const float unit = is_flash() ? scale2() : 1.0F;
    if (!is_first_) {
      const float base = plan_.masks && row.largest == minus_infinity ? 0.0F : row.largest;
      rescale = exp2_of(plan_.kernel, (before - base) * unit);
    }
    // If all scores of a row are masked, nothing is subtracted.
    const float offset = row.largest == minus_infinity ? 0.0F : row.largest * unit;
    for (size_t j = begin; j < end; ++j) p[j] = word(value(scores[j]) * unit - offset);
    const uint32_t masked = word(minus_infinity);
    std::ranges::fill(p.first(begin), masked);
    std::ranges::fill(p.subspan(end), masked);
  }

  /// Lane c has columns 8 j + 2 c and 8 j + 2 c + 1.
  void add_up(std::span<const uint32_t> p, Row& row, float rescale) const {
    if (!has_lanes()) return add_warps(p, row, rescale);
    for (size_t lane = 0; lane < 4; ++lane) {
      if (is_cudnn()) {
        row.sums[lane] = std::fma(row.sums[lane], rescale, lane_sum(p, lane, 0, 0));
        continue;
      }
      const float first = value(p[2 * lane]);
      const float sum = is_first_ ? first : std::fma(row.sums[lane], rescale, first);
      row.sums[lane] = lane_sum(p, lane, sum + value(p[2 * lane + 1]), 1);
    }
  }

  /// The rest of a lane's columns, from its pair `from` on.
  static float lane_sum(std::span<const uint32_t> p, size_t lane, float sum, size_t from) {
    for (size_t j = 8 * from + 2 * lane; j < p.size(); j += 8) {
      sum += value(p[j]);
      sum += value(p[j + 1]);
    }
    return sum;
  }

  /// Each warp adds up its 32 columns, and the row's one sum takes the warps one after the other.
  void add_warps(std::span<const uint32_t> p, Row& row, float rescale) const {
    float& sum = row.sums[0];
    sum *= rescale;
    for (size_t warp = 0; warp < p.size(); warp += 32) {
      const auto columns = p.subspan(warp, 32);
      std::array<float, 4> lanes;
      for (size_t lane = 0; lane < 4; ++lane) lanes[lane] = lane_sum(columns, lane, 0, 0);
      sum += (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
    }
  }

  float sum_of(const std::array<float, 4>& lanes) const {
    if (is_flash()) return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
    return is_cudnn() ? (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]) : lanes[0];
  }

  TileResult finished(bool is_empty) {
    TileResult result{.out = Matrix(Format::f32, count_, shape_.head_size),
                      .lse = std::vector<float>(static_cast<size_t>(count_))};
    for (int i = 0; i < count_; ++i) {
      const Row& row = rows_[static_cast<size_t>(i)];
      const float sum = sum_of(row.sums);
      const bool has_none = is_empty || sum == 0 || (is_flash() && sum != sum);
      result.lse[static_cast<size_t>(i)] = lse_of(row.largest, sum, has_none);
      const float inverse = has_none ? 1.0F : is_cudnn() ? approximate("rcp.approx.ftz.f32", sum) : 1.0F / sum;
      if (!is_empty) {
        for (int j = 0; j < shape_.head_size; ++j) result.out(i, j) = word(value(out_(i, j)) * inverse);
      }
      if (watched_ && watched_->row == i) note_end(sum, inverse, result);
    }
    return result;
  }

  void note_end(float sum, float inverse, const TileResult& result) const {
    watched_->notes.begin(watched_->split + "after the last tile");
    if (has_lanes()) note("sum", std::string(texts_.sum), each_to_nearest, sum);
    note("log-sum-exp", std::string(texts_.lse), texts_.lse_rounding, result.lse[static_cast<size_t>(watched_->row)]);
    note("inverse", std::string(texts_.inverse), texts_.inverse_rounding, inverse);
    note("result", "accumulator * inverse", to_nearest, value(result.out(watched_->row, watched_->col)));
  }

  /// A row without keys has +infinity, in a part of the keys -infinity, and 0 in the memory-efficient kernel.
  float lse_of(float largest, float sum, bool has_none) const {
    if (is_cudnn()) {
      const float logarithm = approximate("lg2.approx.ftz.f32", sum);
      return is_wgmma() ? std::fma(largest, ln_2, logarithm * ln_2) : std::fma(logarithm, ln_2, largest * ln_2);
    }
    if (!is_flash()) return (largest == minus_infinity ? 0.0F : largest) / log2_e + log_of(has_none ? 1.0F : sum);
    if (has_none) return plan_.splits > 1 ? minus_infinity : -minus_infinity;
    return std::fma(largest, plan_.scale, fast_log(sum));
  }

  float scale2() const { return scale2_of(plan_); }

  const AttentionPlan& plan_;
  const AttentionShape& shape_;
  const Matrix &q_, &kt_, &v_;
  int head_, first_, count_;
  const Texts& texts_;
  const AccumulatorModel& model_;
  Format type_;  // of Q, K and V
  std::vector<Row> rows_;
  Matrix out_;
  bool is_first_ = true;
  const Watched* watched_;  // or nullptr
};

/// What flash_fwd_splitkv_combine_kernel makes of the parts of one row: their weights, and the logarithm of the sum.
float weights_of(std::span<const float> lse, int head_size, std::span<float> weights, operators::Notes* notes) {
  const int rows = head_size % 128 == 0 ? 4 : head_size % 64 == 0 ? 8 : 16;
  const auto splits = lse.size();
  const size_t threads = std::min(static_cast<size_t>(128 / rows), std::bit_ceil(splits));
  float largest = minus_infinity;
  for (const float one : lse) largest = std::fmax(largest, one);
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
  const float sum = operators::shuffle_down(std::span<float>(sums), threads, operators::add, notes);
  const bool has_none = sum == 0 || sum != sum;
  const float joined = has_none ? -minus_infinity : log_of(sum) + largest;
  for (size_t i = 0; i < splits; ++i) weights[i] = exp_of(lse[i] - joined);
  if (notes) {
    notes->add("log-sum-exp", "logf(sum of lane 0) + largest", "to nearest even, logf@cuda_13", words_of(joined));
    notes->add("weights", "expf(lse of the split - log-sum-exp)", "to nearest even, expf@cuda_13", words_of(weights));
  }
  return joined;
}

/// One tile of queries of one head: all parts of its keys, joined.
TileResult tile_of(const AttentionPlan& plan, const AttentionShape& shape, const Matrix& q, const Matrix& kt,
                   const Matrix& v, int head, int first_query, const Watched* watched) {
  const int key_tiles = ceil_div(shape.keys, plan.tile_keys);
  if (plan.splits == 1) return Tile(plan, shape, q, kt, v, head, first_query, watched).run(0, key_tiles);
  const int share = ceil_div(key_tiles, plan.splits);
  std::vector<TileResult> parts;
  for (int i = 0; i < plan.splits; ++i) {
    std::optional<Watched> of_split;
    if (watched) of_split.emplace(*watched).split = fmt::format("split {}, ", i);
    parts.push_back(Tile(plan, shape, q, kt, v, head, first_query, of_split ? &*of_split : nullptr)
                        .run(std::min(i * share, key_tiles), std::min((i + 1) * share, key_tiles)));
  }
  TileResult joined = parts.front();
  std::vector<float> lse(parts.size()), weights(parts.size()), sums(parts.size());
  for (int row = 0; row < joined.out.rows(); ++row) {
    operators::Notes* const notes = watched && watched->row == row ? &watched->notes : nullptr;
    for (size_t i = 0; i < parts.size(); ++i) lse[i] = parts[i].lse[static_cast<size_t>(row)];
    joined.lse[static_cast<size_t>(row)] = weights_of(lse, padded_head_size(shape.head_size), weights, notes);
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

BITMMA_IN_ENVIRONMENT void write_tile(const AttentionPlan& plan, const AttentionShape& shape, const Matrix& q,
                                      const Matrix& kt, const Matrix& v, int head, int first_query,
                                      const Watched* watched, Attention& result) {
  const TileResult tile = tile_of(plan, shape, q, kt, v, head, first_query, watched);
  for (int i = 0; i < tile.out.rows(); ++i) {
    const int query = first_query + i, row = head * shape.queries + query;
    result.lse(head, query) = math::canonical(word(tile.lse[static_cast<size_t>(i)]));
    narrow(tile.out.row(i), v.format(), result.out.row(row));
  }
}

/// Did cuDNN take its sm80 kernels of 64 queries for such a single query? With more keys or heads it takes one of 16
/// queries x 128 keys, whose last bits differ from call to call.
bool has_measured_choice(const AttentionShape& shape) {
  const int keys = shape.keys;
  return keys <= 32 || (keys > 40 && keys <= 65) || (keys <= 200 && keys > 65 && shape.heads <= 32);
}

/// Throws Error for what was not compared with a GPU.
AttentionPlan cudnn_plan(const AttentionShape& shape, const AttentionOptions& options, AttentionPlan plan) {
  const auto require = [](bool good, std::string_view field, const std::string& seen, std::string_view expected) {
    if (!good)
      throw Error({.field = std::string(field),
                   .seen = seen,
                   .expected = fmt::format("{}: nothing else of cuDNN is measured", expected)});
  };
  if (options.window_left >= 0 || options.window_right >= 0 || options.splits)
    throw Error({.field = "window or splits", .seen = "given", .expected = "none: cuDNN's kernels have neither"});
  const int size = shape.head_size;
  if (shape.queries > 1 && options.kernel == AttentionKernel::cudnn) {
    require(size <= 144 || std::ranges::count(large_cudnn_head_sizes, size) > 0, "head_size", std::to_string(size),
            "a multiple of 8 up to 144, 160, 192 or 256");
    plan.tile_queries = 64, plan.tile_keys = 128;
    if (options.causal) plan.window_right = 0;
    plan.masks = options.causal;
    return plan;
  }
  require(shape.queries == 1, "queries", std::to_string(shape.queries), "1 for the sm80 kernel");
  require(!options.causal, "causal", "true", "false for a single query");
  require(size == 64 || size == 128, "head_size", std::to_string(size), "64 or 128 for a single query");
  require(
      options.kernel == AttentionKernel::cudnn_sm80 || has_measured_choice(shape), "keys",
      fmt::format("{} of {}", shape.keys, counted(shape.heads, "head")),
      "for a single query up to 32 keys, 41 to 65, or up to 200 of 32 heads; if sdpa_sm80_flash_fprop_wmma_f16_knob_3 "
      "runs, name the kernel cudnn_sm80");
  plan.kernel = AttentionKernel::cudnn_sm80;
  plan.tile_queries = plan.tile_keys = 64;
  return plan;
}

BITMMA_IN_ENVIRONMENT AttentionPlan plan_of(const AttentionShape& shape, const AttentionOptions& options) {
  AttentionPlan plan{.kernel = options.kernel,
                     .scale = options.scale.value_or(static_cast<float>(1.0 / std::sqrt(shape.head_size)))};
  if (options.kernel == AttentionKernel::memory_efficient) {
    if (shape.head_size > 128)
      throw Error(
          {.field = "head_size", .seen = std::to_string(shape.head_size), .expected = "a multiple of 8 up to 128"});
    if (options.window_left >= 0 || options.window_right >= 0 || options.splits)
      throw Error({.field = "window or splits",
                   .seen = "given",
                   .expected = "absent: the memory-efficient kernel has neither"});
    plan.tile_queries = 64, plan.tile_keys = shape.head_size <= 64 ? 64 : 128;
    if (options.causal) plan.window_right = 0;
    plan.masks = options.causal;
    return plan;
  }
  if (is_of_cudnn(options.kernel)) return cudnn_plan(shape, options, plan);
  const TileRow& row = tiles_of(shape.head_size);
  plan.tile_queries = row.queries, plan.tile_keys = row.keys;
  plan.window_left = options.window_left >= shape.keys ? -1 : options.window_left;
  plan.window_right = options.window_right >= shape.keys ? -1 : options.window_right;
  // A single query sees all keys before it: the kernel then runs without the mask.
  if (options.causal && shape.queries > 1) plan.window_right = 0;
  plan.masks = plan.window_left >= 0 || plan.window_right >= 0;
  // The heads that share a key head become the queries of one, where there is a single query and no window.
  const bool joins_heads = shape.queries == 1 && plan.window_left < 0 && plan.window_right < 0;
  const int heads = joins_heads ? shape.kv_heads : shape.heads,
            queries = joins_heads ? shape.heads / shape.kv_heads : shape.queries;
  const int key_tiles = ceil_div(shape.keys, row.split_keys);
  plan.splits =
      options.splits.value_or(splits_for(heads * ceil_div(queries, split_queries), options.multiprocessors, key_tiles));
  if (plan.splits > 1) plan.tile_queries = split_queries, plan.tile_keys = row.split_keys;
  return plan;
}

/// The result, still empty, of arguments that are right.
Attention attention_of(const AttentionPlan& plan, const AttentionShape& shape, const Matrix& q, const Matrix& k,
                       const Matrix& v) {
  require_shape(shape);
  require_plan(plan);
  const bool has_f32 = plan.kernel == AttentionKernel::memory_efficient;
  if (q.format() != Format::f16 && q.format() != Format::bf16 && !(has_f32 && q.format() == Format::f32))
    throw Error({.field = "type of Q",
                 .seen = std::string(info(q.format()).name),
                 .expected = !has_f32 ? "f16 or bf16; the memory-efficient kernel takes f32" : "f16, bf16 or f32"});
  require_matrix("Q", q, q.format(), shape.heads * shape.queries, shape.head_size);
  require_matrix("K", k, q.format(), shape.kv_heads * shape.keys, shape.head_size);
  require_matrix("V", v, q.format(), shape.kv_heads * shape.keys, shape.head_size);
  return {.out = Matrix(q.format(), q.rows(), q.cols()), .lse = Matrix(Format::f32, shape.heads, shape.queries)};
}

/// Of one head, as the instructions of the kernel read them.
struct KeysAndValues {
  Matrix k_transposed, v;
};
KeysAndValues head_of(const AttentionShape& shape, const Matrix& k, const Matrix& v, int kv_head) {
  const int first = kv_head * shape.keys;
  return {.k_transposed = operand_b(transposed(block_of(k, first, shape.keys, 0, shape.head_size))),
          .v = block_of(v, first, shape.keys, 0, shape.head_size)};
}

std::string_view kernel_of(const AttentionPlan& plan) {
  if (plan.kernel == AttentionKernel::memory_efficient) return "memory-efficient: fmha_cutlassF";
  if (plan.kernel == AttentionKernel::cudnn) return "cuDNN: sdpa_sm90_flash_fprop_wgmma_f16_knob_7";
  if (plan.kernel == AttentionKernel::cudnn_sm80) return "cuDNN: sdpa_sm80_flash_fprop_wmma_f16_knob_3";
  return plan.splits > 1 ? "FlashAttention-2: flash_fwd_splitkv_kernel and its combination"
                         : "FlashAttention-2: flash_fwd_kernel";
}

void note_plan(operators::Notes& notes, const AttentionPlan& plan) {
  const bool is_flash = plan.kernel == AttentionKernel::flash_2;
  notes.choose("kernel", std::string(kernel_of(plan)));
  notes.choose("tile", fmt::format("{} queries x {} keys, the {} keys first", plan.tile_queries, plan.tile_keys,
                                   is_flash ? "last" : "first"));
  if (plan.splits > 1) notes.choose("splits", std::to_string(plan.splits));
  if (plan.window_left >= 0) notes.choose("keys before the query's own", std::to_string(plan.window_left));
  if (plan.window_right >= 0) notes.choose("keys after the query's own", std::to_string(plan.window_right));
  notes.choose("scale", print_value(Format::f32, word(plan.scale)));
  if (is_flash || plan.kernel == AttentionKernel::cudnn)
    notes.choose("scale2", fmt::format("{}: scale * log2(e), {}", print_value(Format::f32, word(scale2_of(plan))),
                                       is_flash ? "in f64, rounded to f32" : "to nearest even"));
}

}  // namespace

std::string_view print(AttentionKernel kernel) { return kernel_names[static_cast<size_t>(kernel)]; }

AttentionKernel parse_attention_kernel(std::string_view name) {
  const auto found = std::ranges::find(kernel_names, name);
  if (found == kernel_names.end())
    throw Error({.field = "backend",
                 .seen = shortened(name),
                 .expected = fmt::format("{}: PyTorch's FLASH_ATTENTION, EFFICIENT_ATTENTION and CUDNN_ATTENTION",
                                         fmt::join(kernel_names, ", "))});
  return static_cast<AttentionKernel>(found - kernel_names.begin());
}

AttentionPlan attention_plan(const AttentionShape& shape, const AttentionOptions& options) {
  require_shape(shape);
  if (options.multiprocessors < 1)
    throw Error({.field = "multiprocessors", .seen = std::to_string(options.multiprocessors), .expected = "1 or more"});
  const math::IeeeEnvironment environment;
  AttentionPlan plan = plan_of(shape, options);
  require_plan(plan);
  return plan;
}

std::string print(const AttentionPlan& plan) {
  return fmt::format("{}, {} queries x {} keys, {}, scale {}", kernel_of(plan), plan.tile_queries, plan.tile_keys,
                     counted(plan.splits, "split"), print_value(Format::f32, word(plan.scale)));
}

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
    write_tile(plan, shape, q_operand, kv.k_transposed, kv.v, head, tile * plan.tile_queries, nullptr, result);
  });
  return result;
}

OperatorTrace trace_attention(const AttentionPlan& plan, const AttentionShape& shape, const Matrix& q, const Matrix& k,
                              const Matrix& v, int head, int query, int col) {
  Attention result = attention_of(plan, shape, q, k, v);
  operators::require_place("head", head, shape.heads);
  operators::require_place("query", query, shape.queries);
  OperatorTrace trace =
      operators::trace_of("attention", result.out, head * shape.queries + query, col, [&](operators::Notes& notes) {
        note_plan(notes, plan);
        const KeysAndValues kv = head_of(shape, k, v, head / (shape.heads / shape.kv_heads));
        const int row = query % plan.tile_queries;
        const Watched watched{.notes = notes, .row = row, .col = col};
        write_tile(plan, shape, operand_a(q), kv.k_transposed, kv.v, head, query - row, &watched, result);
      });
  trace.output = {head, query, col};
  return trace;
}

}  // namespace bitmma
