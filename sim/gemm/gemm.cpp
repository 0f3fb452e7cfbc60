// SPDX-License-Identifier: MIT
// Only this file and cuda_core.cpp add with the host's f32, as libraries do on CUDA cores between instructions. Both
// are compiled without contraction (CMakeLists.txt), and a test compares every operation with the integer arithmetic of
// formats/ieee.
#include "bitmma/gemm/gemm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>

#include "../arithmetic/chain.hpp"
#include "../core/ieee_environment.hpp"
#include "../formats/matrix_inside.hpp"
#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/formats/round.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "cuda_core.hpp"
#include "f32.hpp"
#include "gemm_inside.hpp"
#include "shares.hpp"
#include "tracer.hpp"

namespace bitmma {
namespace {

/// The part of a slice that one main-loop tile covers.
struct TilePart {
  int64_t first = 0, last = 0;
};

std::vector<TilePart> tiles_of(const TensorCoreChain& chain, int64_t first, int64_t last) {
  const int64_t size = chain.k_tile == 0 ? last - first : chain.k_tile;
  std::vector<TilePart> tiles;
  const int64_t rest = (last - first) % size;
  if (chain.residue == Residue::first && rest != 0) {
    tiles.push_back({first, first + rest});
    first += rest;
  }
  for (; first < last; first += size) tiles.push_back({first, std::min(first + size, last)});
  return tiles;
}

void append(std::vector<EqualUpdates>& updates, const EqualUpdates& more) {
  if (more.number == 0) return;
  if (!updates.empty() && updates.back().count == more.count && updates.back().end() == more.first)
    updates.back().number += more.number;
  else updates.push_back(more);
}

std::vector<ChainUpdate> one_by_one(std::span<const EqualUpdates> updates) {
  std::vector<ChainUpdate> all;
  for (const EqualUpdates& equal : updates) {
    for (int64_t i = 0; i < equal.number; ++i)
      all.push_back({equal.first + i * equal.count, static_cast<int>(equal.count)});
  }
  return all;
}

/// Appends one warp's updates in a tile. The last update, if short, is padded with zeros.
void add_updates(std::vector<EqualUpdates>& updates, const TensorCoreChain& chain, int k_step, const TilePart& tile,
                 int warp) {
  int64_t first = tile.first, last = tile.last;
  if (chain.sliced_k > 1) {
    const int64_t share = chain.k_tile / chain.sliced_k;
    first = std::min(tile.first + warp * share, tile.last), last = std::min(first + share, tile.last);
  }
  const int64_t whole = (last - first) / k_step, rest = (last - first) % k_step;
  append(updates, {.first = first, .count = k_step, .number = whole});
  append(updates, {.first = last - rest, .count = rest, .number = rest > 0 ? 1 : 0});
}

/// The f32 value of a code of C, of a bias or of a sum.
uint32_t widened(Format format, uint32_t code) {
  if (format == Format::f32) return code;
  return static_cast<uint32_t>(convert(format, code, Format::f32, Rounding::nearest_even, Overflow::infinity));
}

class Product {
 public:
  /// With a tracer, block() records the operations of one output. With known sums, there must be one block.
  Product(const GemmPlan& plan, const GemmInputs& inputs, ChainBy chain_by, Tracer* tracer = nullptr,
          KnownSums* known = nullptr)
      : plan_(plan),
        inputs_(inputs),
        chain_by_(chain_by),
        tracer_(tracer),
        known_(known),
        tensor_(plan.tensor_cores()),
        mma_(types_of(plan, inputs)),
        model_(tensor_ ? &model_for(tensor_->instruction, plan.target) : nullptr) {
    k_step_ = !tensor_ || tensor_->k_step == 0 ? mma_.k : tensor_->k_step;
    k_ = inputs.a.cols();
  }

  /// Computes rows [row, row + rows) and columns [col, col + cols) of D. All of a product's float operations are here.
  Matrix block(int row, int rows, int col, int cols) const {
    return in_ieee_environment([&] { return block_in_environment(row, rows, col, cols); });
  }

  bool has_regions() const { return !plan_.regions.empty(); }
  /// The stream-K region of an output's tile, or -1.
  int region_of(int row, int col) const {
    const int64_t m = inputs_.rows.empty() ? row : inputs_.rows[static_cast<size_t>(row)],
                  n = inputs_.cols.empty() ? col : inputs_.cols[static_cast<size_t>(col)];
    const int64_t whole_m = std::max<int64_t>(inputs_.whole_m, inputs_.a.rows()),
                  whole_n = std::max<int64_t>(inputs_.whole_n, inputs_.b.cols());
    const int64_t bm = plan_.tile_mn.first, bn = plan_.tile_mn.second;
    const int64_t tiles_m = (whole_m + bm - 1) / bm, tiles_n = (whole_n + bn - 1) / bn;
    const int64_t tile = plan_.raster_n ? m / bm * tiles_n + n / bn : n / bn * tiles_m + m / bm;
    for (size_t i = 0; i < plan_.regions.size(); ++i) {
      if (tile >= plan_.regions[i].first_tile && tile <= plan_.regions[i].last_tile) return static_cast<int>(i);
    }
    return -1;
  }

 private:
  using Block = ChainBlock;

  Matrix block_in_environment(int row, int rows, int col, int cols) const {
    const Block at{.a = inputs_.a, .b = inputs_.b, .row = row, .rows = rows, .col = col, .cols = cols};
    const SplitK* split = &plan_.split_k;
    const Reduction* reduction = &plan_.reduction;
    if (!plan_.regions.empty()) find_region(row, col, split, reduction);
    Matrix sum = reduced(at, *split, *reduction);
    if (plan_.output == sum.format() && plan_.epilogue.empty()) return sum;
    return finished(at, std::move(sum));
  }

  void find_region(int row, int col, const SplitK*& split, const Reduction*& reduction) const {
    const int region = region_of(row, col);
    if (region < 0) return;
    split = &plan_.regions[static_cast<size_t>(region)].split_k;
    reduction = &plan_.regions[static_cast<size_t>(region)].reduction;
  }

  Matrix zeros(const Block& at) const { return {mma_.d, at.rows, at.cols}; }

  /// The accumulator after these updates.
  Matrix sum_of(const Block& at, std::span<const ChainUpdate> updates, std::optional<Matrix> c) const {
    if (tracer_) return traced_chain(at, updates, std::move(c));
    if (mma_.scale_count > 0) return scaled_chain(at, updates, std::move(c));
    DecodedOperands* const decoded = known_ ? &known_->decoded[&inputs_] : nullptr;
    return chain_by_ == ChainBy::loops ? chain(*model_, at, updates, mma_.k, std::move(c), decoded)
                                       : chain_by_updates(*model_, at, updates, mma_.k, std::move(c));
  }

  /// Applies the updates one after another.
  Matrix traced_chain(const Block& at, std::span<const ChainUpdate> updates, std::optional<Matrix> c) const {
    for (const ChainUpdate& update : updates) {
      const uint64_t before = c ? c->code(0, 0) : 0;
      const std::span<const ChainUpdate> single(&update, 1);
      c = mma_.scale_count > 0 ? scaled_chain(at, single, std::move(c))
                               : chain(*model_, at, single, mma_.k, std::move(c));
      tracer_->add_products(TraceKind::instruction, update.first, update.first + update.count, c->format(), before,
                            c->code(0, 0));
    }
    return c ? std::move(*c) : zeros(at);
  }

  /// sum += addend, in f32.
  void add_f32(TraceKind kind, Matrix& sum, const Matrix& addend, bool flush = false) const {
    const uint32_t before = tracer_ ? sum(0, 0) : 0;
    f32::add(sum, addend, flush);
    if (tracer_) tracer_->add_sum(kind, before, addend(0, 0), sum(0, 0));
  }
  /// Rounds to D's type and widens again.
  void round_f32(Matrix& sum) const {
    const uint32_t before = tracer_ ? sum(0, 0) : 0;
    f32::round_to(sum, plan_.output);
    if (tracer_ && plan_.output != Format::f32) tracer_->round(before, Format::f32, sum(0, 0));
  }

  Matrix scaled_chain(const Block& at, std::span<const ChainUpdate> updates, std::optional<Matrix> c) const {
    for (const ChainUpdate& update : updates) {
      const int first = static_cast<int>(update.first);
      c = multiply_accumulate(
          *model_, {.a = filled_up(block_of(inputs_.a, at.row, at.rows, first, update.count), at.rows, mma_.k),
                    .b = filled_up(block_of(inputs_.b, first, update.count, at.col, at.cols), mma_.k, at.cols),
                    .c = std::move(c),
                    .scales = scales_of(at, update)});
    }
    return c ? std::move(*c) : zeros(at);
  }

  BlockScales scales_of(const Block& at, const ChainUpdate& update) const {
    const int chunks = mma_.scale_count, first = static_cast<int>(update.first / (mma_.k / chunks)),
              there = std::min(chunks, inputs_.sfa->cols() - first);
    return {.a = filled_up(block_of(*inputs_.sfa, at.row, at.rows, first, there), at.rows, chunks),
            .b = filled_up(block_of(*inputs_.sfb, first, there, at.col, at.cols), chunks, at.cols)};
  }

  /// The accumulator after these updates: known from an earlier plan, or computed from the longest known beginning.
  Matrix known_sum(const Block& at, const std::vector<EqualUpdates>& updates, std::optional<Matrix> c) const {
    if (!known_ || c || updates.empty()) return sum_of(at, one_by_one(updates), std::move(c));
    size_t done = 0;
    SumsOfUpdates& sums = known_->sums[{&inputs_, model_, mma_.k, updates.front().first}];
    int left = 32;  // a tile's remainder repeats sooner
    for (auto known = sums.upper_bound(updates); known != sums.begin() && left > 0; --left) {
      --known;
      if (known->first == updates) return known->second;
      done = updates_at_beginning(updates, known->first);
      if (done == 0) continue;
      c = known->second;
      break;
    }
    Matrix sum = sum_of(at, std::span<const ChainUpdate>(one_by_one(updates)).subspan(done), std::move(c));
    known_->words += sum.size();
    sums.emplace(updates, sum);
    return sum;
  }

  /// The number of updates of `part`, or 0 if `all` does not begin with them.
  static size_t updates_at_beginning(const std::vector<EqualUpdates>& all, const std::vector<EqualUpdates>& part) {
    if (part.size() > all.size()) return 0;
    int64_t updates = 0;
    for (size_t i = 0; i < part.size(); ++i) {
      EqualUpdates equal = all[i];
      if (i + 1 == part.size()) equal.number = std::min(equal.number, part[i].number);
      if (equal != part[i]) return 0;
      updates += equal.number;
    }
    return static_cast<size_t>(updates);
  }

  std::vector<EqualUpdates> updates_of(int64_t first, int64_t last, int warp) const {
    std::vector<EqualUpdates> updates;
    for (const TilePart& tile : tiles_of(*tensor_, first, last)) add_updates(updates, *tensor_, k_step_, tile, warp);
    return updates;
  }

  /// One slice: promoted, or reduced over the warps that share it.
  Matrix slice(const Block& at, int64_t first, int64_t last, std::optional<Matrix> c) const {
    if (const CudaCoreChain* const lanes = plan_.cuda_cores()) {
      const int k = static_cast<int>(first), count = static_cast<int>(last - first);
      Matrix sums =
          cuda_core_sums(*lanes, block_of(at.a, at.row, at.rows, k, count), block_of(at.b, k, count, at.col, at.cols));
      if (tracer_) trace_lanes(*lanes, at, first, last, sums(0, 0));
      return sums;
    }
    if (tensor_->promotion) return promoted(at, first, tiles_of(*tensor_, first, last));
    std::optional<Matrix> joined;
    for (int warp = 0; warp < tensor_->sliced_k; ++warp) {
      Matrix sum = known_sum(at, updates_of(first, last, warp), warp == 0 ? std::move(c) : std::nullopt);
      if (joined) add_f32(TraceKind::join_warps, *joined, sum);
      else joined = std::move(sum);
    }
    return std::move(*joined);
  }

  Matrix promoted(const Block& at, int64_t slice_first, const std::vector<TilePart>& tiles) const {
    const Promotion& promotion = *tensor_->promotion;
    Matrix run(Format::f32, at.rows, at.cols);
    std::vector<EqualUpdates> open;
    int64_t begin = slice_first;  // of the current block
    const auto close = [&] {
      if (open.empty()) return;
      const Matrix sum = known_sum(at, open, std::nullopt);
      add_promoted(at, open.front().first, sum, run);
      open.clear();
    };
    for (const TilePart& tile : tiles) {
      if (promotion.restart_at_tile) begin = tile.first;
      std::vector<EqualUpdates> updates;
      add_updates(updates, *tensor_, k_step_, tile, 0);
      for (ChainUpdate update : one_by_one(updates)) {
        // A block ends at its last k, even inside an update.
        while (update.count > 0) {
          const int64_t left = begin + promotion.every - update.first;
          const int count = static_cast<int>(std::min<int64_t>(left, update.count));
          append(open, {.first = update.first, .count = count, .number = 1});
          update.first += count, update.count -= count;
          if (update.first == begin + promotion.every) {
            close();
            begin = update.first;
          }
        }
      }
      if (promotion.restart_at_tile) close();
    }
    close();
    return run;
  }

  void add_promoted(const Block& at, int64_t k, const Matrix& sum, Matrix& run) const {
    const Promotion& promotion = *tensor_->promotion;
    if (promotion.scale == PromotionScale::none) return add_f32(TraceKind::promotion, run, sum);
    const Matrix &sa = *inputs_.scale_a, &sb = *inputs_.scale_b;
    const int block = static_cast<int>(k / 128);
    for (int row = 0; row < run.rows(); ++row) {
      const uint32_t a = sa(sa.rows() == 1 ? 0 : at.row + row, sa.cols() == 1 ? 0 : block);
      for (int col = 0; col < run.cols(); ++col) {
        const int n = at.col + col;
        const int64_t whole_n = inputs_.cols.empty() ? n : inputs_.cols[static_cast<size_t>(n)];
        const bool per_column =
            promotion.columns_of_sb == 0 ? sb.cols() == inputs_.b.cols() : promotion.columns_of_sb == 1;
        const int of_b = sb.cols() == 1 ? 0 : per_column ? n : static_cast<int>(whole_n / 128);
        const uint32_t b = sb(sb.rows() == 1 ? 0 : block, of_b);
        const uint32_t before = run(row, col);
        run(row, col) = promotion.scale == PromotionScale::fma
                            ? f32::fma(f32::multiply(a, b), sum(row, col), run(row, col))
                            : f32::fma(f32::multiply(sum(row, col), a), b, run(row, col));
        if (tracer_) tracer_->add_scaled(before, sum(row, col), a, b, run(row, col));
      }
    }
  }

  /// Traces a single fma chain term by term, as prefixes of K, and several lanes as one sum.
  void trace_lanes(const CudaCoreChain& lanes, const Block& at, int64_t first, int64_t last, uint32_t sum) const {
    if (lanes.count > 1 || lanes.chunk > 0)
      return tracer_->add_products(TraceKind::cuda_cores, first, last, Format::f32, 0, sum);
    uint32_t before = 0;
    for (int64_t k = first; k < last; ++k) {
      const uint32_t after = f32::fma(cuda_core_factor(at.a.format(), at.a(at.row, static_cast<int>(k))),
                                      cuda_core_factor(at.b.format(), at.b(static_cast<int>(k), at.col)), before);
      tracer_->add_products(TraceKind::cuda_cores, k, k + 1, Format::f32, before, after);
      before = after;
    }
  }

  /// The initial accumulator of the first slice.
  std::optional<Matrix> start_of(const Block& at) const {
    if (!tensor_ || !tensor_->start_with_c) return std::nullopt;
    return block_of(*inputs_.c, at.row, at.rows, at.col, at.cols);
  }

  /// Slices of K, each with its own accumulator, and their sum.
  Matrix reduced(const Block& at, const SplitK& split, const Reduction& reduction) const {
    const auto slices = slices_of(split, k_);
    if (mma_.d == Format::s32) {  // exact, so all slices share one accumulator
      std::optional<Matrix> sum = start_of(at);
      for (const auto& [first, last] : slices) sum = slice(at, first, last, std::move(sum));
      return sum ? std::move(*sum) : zeros(at);
    }
    if (mma_.d == Format::f64) {
      std::optional<Matrix> sum;
      for (const auto& [first, last] : slices) {
        Matrix partial = slice(at, first, last, sum ? std::nullopt : start_of(at));
        if (sum) add_f64(*sum, partial);
        else sum = std::move(partial);
      }
      if (!sum) sum = start_of(at);
      return sum ? std::move(*sum) : zeros(at);
    }
    std::vector<Matrix> partials;
    for (const auto& [first, last] : slices) {
      if (tracer_) tracer_->slice = static_cast<int>(partials.size());
      partials.push_back(as_f32(slice(at, first, last, partials.empty() ? start_of(at) : std::nullopt)));
      if (reduction.partial == SumType::out) round_f32(partials.back());
    }
    if (tracer_) trace_skipped(slices);
    if (partials.empty()) {  // K is 0
      const std::optional<Matrix> start = start_of(at);
      partials.push_back(start ? as_f32(*start) : Matrix(Format::f32, at.rows, at.cols));
    }
    const bool narrow_running = reduction.running == SumType::out;
    if (reduction.order != ReductionOrder::ascending) {
      while (partials.size() > 1) {
        std::vector<Matrix> joined;
        size_t i = 0;
        if (reduction.order == ReductionOrder::pairs_from_end && partials.size() % 2 == 1)
          joined.push_back(std::move(partials[i++]));
        for (; i < partials.size(); i += 2) {
          joined.push_back(std::move(partials[i]));
          if (i + 1 == partials.size()) continue;
          add_f32(TraceKind::join_slices, joined.back(), partials[i + 1]);
          if (narrow_running) round_f32(joined.back());
        }
        partials = std::move(joined);
      }
      return std::move(partials.front());
    }
    Matrix sum = std::move(partials.front());
    if (reduction.start_at_zero) {
      Matrix zero(Format::f32, sum.rows(), sum.cols());
      f32::add(zero, sum);
      sum = std::move(zero);
    }
    if (reduction.serial) {
      for (const EpilogueOp& op : plan_.epilogue) {
        if (op.kind != EpilogueKind::relu) apply(at, op, sum);
      }
    }
    if (narrow_running && partials.size() > 1) round_f32(sum);
    for (size_t i = 1; i < partials.size(); ++i) {
      const bool in_the_middle = i + 1 < partials.size();
      if (reduction.serial) scale_alone(at, partials[i]);
      add_f32(TraceKind::join_slices, sum, partials[i], reduction.flush && in_the_middle);
      if (narrow_running && in_the_middle) round_f32(sum);
    }
    return sum;
  }

  /// Traces the ranges of K between and after the slices.
  void trace_skipped(const std::vector<std::pair<int64_t, int64_t>>& slices) const {
    int64_t end = 0;
    for (const auto& [first, last] : slices) {
      if (first > end) tracer_->skip(end, first);
      end = last;
    }
    if (end < k_) tracer_->skip(end, k_);
  }

  static void add_f64(Matrix& sum, const Matrix& addend) {
    for (int row = 0; row < sum.rows(); ++row) {
      for (int col = 0; col < sum.cols(); ++col) {
        const double total = std::bit_cast<double>(sum.code(row, col)) + std::bit_cast<double>(addend.code(row, col));
        sum.set_code(row, col, total != total ? 0x7FF8000000000000 : std::bit_cast<uint64_t>(total));
      }
    }
  }

  /// The only part of the epilogue that applies to later slices of a serial reduction: its factors.
  void scale_alone(const Block& at, Matrix& partial) const {
    for (EpilogueOp op : plan_.epilogue) {
      op.beta = 0;
      if (op.kind != EpilogueKind::relu && op.kind != EpilogueKind::bias) apply(at, op, partial);
    }
  }

  static Matrix as_f32(Matrix sum) {
    if (sum.format() == Format::f32) return sum;
    Matrix wide = unfilled_matrix(Format::f32, sum.rows(), sum.cols());
    std::ranges::transform(sum.words(), wide.words().begin(),
                           [&](uint32_t code) { return widened(sum.format(), code); });
    return wide;
  }

  Matrix finished(const Block& at, Matrix sum) const {
    const bool serial = plan_.reduction.serial;
    for (const EpilogueOp& op : plan_.epilogue) {
      if (!serial || op.kind == EpilogueKind::relu) apply(at, op, sum);
    }
    if (plan_.output == Format::f32) return sum;
    const bool saturate = plan_.saturate.value_or(info(plan_.output).bits == 8);
    Matrix d = unfilled_matrix(plan_.output, sum.rows(), sum.cols());
    std::ranges::transform(sum.words(), d.words().begin(), [&](uint32_t code) {
      return static_cast<uint32_t>(
          convert(Format::f32, code, plan_.output, plan_.rounding, saturate ? Overflow::saturate : Overflow::infinity));
    });
    if (tracer_) tracer_->round(sum(0, 0), plan_.output, d.code(0, 0));
    return d;
  }

  uint32_t c_of(int row, int col) const { return widened(inputs_.c->format(), (*inputs_.c)(row, col)); }
  uint32_t scale_of_row(int row) const {
    const Matrix& scale = *inputs_.scale_a;
    return scale(scale.rows() == 1 ? 0 : row, 0);
  }
  uint32_t scale_of_col(int col) const {
    const Matrix& scale = *inputs_.scale_b;
    return scale(0, scale.cols() == 1 ? 0 : col);
  }

  void apply(const Block& at, const EpilogueOp& op, Matrix& sum) const {
    const uint32_t alpha = std::bit_cast<uint32_t>(op.alpha), beta = std::bit_cast<uint32_t>(op.beta);
    if (op.kind == EpilogueKind::round) return round_f32(sum);
    const uint32_t first = sum(0, 0);
    for (int row = 0; row < sum.rows(); ++row) {
      for (int col = 0; col < sum.cols(); ++col) {
        uint32_t& x = sum(row, col);
        switch (op.kind) {
          case EpilogueKind::alpha_beta:
            x = op.beta == 0 ? f32::multiply(alpha, x)
                             : f32::fma(alpha, x, f32::multiply(beta, c_of(at.row + row, at.col + col)));
            break;
          case EpilogueKind::scale_ab:
            x = f32::multiply(x, f32::multiply(scale_of_row(at.row + row), scale_of_col(at.col + col)));
            break;
          case EpilogueKind::row_scale: x = f32::multiply(x, scale_of_row(at.row + row)); break;
          case EpilogueKind::col_scale: x = f32::multiply(x, scale_of_col(at.col + col)); break;
          case EpilogueKind::bias:
            x = f32::add(x, widened(inputs_.bias->format(), (*inputs_.bias)(0, at.col + col)));
            break;
          case EpilogueKind::relu: x = f32::relu(x); break;
          case EpilogueKind::d_scale: x = f32::multiply(x, alpha); break;
          case EpilogueKind::beta_c: x = f32::fma(beta, c_of(at.row + row, at.col + col), x); break;
          case EpilogueKind::round: break;
        }
      }
    }
    if (tracer_) tracer_->epilogue(print(op.kind), first, sum(0, 0));
  }

  const GemmPlan& plan_;
  const GemmInputs& inputs_;
  ChainBy chain_by_;
  Tracer* tracer_;
  KnownSums* known_;
  const TensorCoreChain* tensor_;  // nullptr on CUDA cores
  Mma mma_;
  const AccumulatorModel* model_;  // nullptr on CUDA cores
  int k_step_ = 0;
  int64_t k_ = 0;
};

InputRounding rounding_of(const GemmPlan& plan) {
  return plan.tensor_cores() ? plan.tensor().input_rounding : InputRounding::none;
}

}  // namespace

Matrix gemm(const GemmPlan& plan, const GemmInputs& inputs, int threads, const GemmProgress& progress) {
  return gemm(plan, inputs, ChainBy::loops, threads, progress);
}

ProductTrace trace_product(const GemmPlan& plan, const GemmInputs& inputs, int row, int col) {
  return in_ieee_environment([&]() -> ProductTrace {
    require_fits(plan, inputs);
    Tracer tracer(plan, inputs, row, col);
    const GemmInputs rounded = rounded_inputs(inputs, rounding_of(plan));
    const Matrix d = Product(plan, rounded, ChainBy::loops, &tracer).block(row, 1, col, 1);
    return tracer.finish(d.format(), d.code(0, 0));
  });
}

namespace {

/// D for inputs that fit the plan.
Matrix product_of(const GemmPlan& plan, const GemmInputs& unrounded, ChainBy chain_by, int threads,
                  const GemmProgress& progress) {
  const InputRounding rounding = rounding_of(plan);
  const GemmInputs rounded = rounding == InputRounding::none ? GemmInputs{} : rounded_inputs(unrounded, rounding);
  const GemmInputs& inputs = rounding == InputRounding::none ? unrounded : rounded;
  const Product product(plan, inputs, chain_by);
  const int m = inputs.a.rows(), n = inputs.b.cols();
  // Stream-K computes outputs one by one: their cuts differ.
  const Shares shares =
      product.has_regions() ? Shares::of_single_outputs(m, n) : Shares(m, n, inputs.a.cols(), threads);
  Matrix d = unfilled_matrix(plan.output, m, n);
  std::atomic<int64_t> done{0};
  parallel_for(static_cast<size_t>(shares.count()), threads, [&](size_t index) {
    const Shares::Share share = shares[static_cast<int64_t>(index)];
    if (share.rows <= 0 || share.cols <= 0) return;
    set_block(d, share.row, share.col, product.block(share.row, share.rows, share.col, share.cols));
    const int64_t now = done += int64_t{share.rows} * share.cols;
    if (progress) progress(now);
  });
  return d;
}

}  // namespace

Matrix gemm(const GemmPlan& plan, const GemmInputs& inputs, ChainBy chain_by, int threads,
            const GemmProgress& progress) {
  require_fits(plan, inputs);
  return product_of(plan, inputs, chain_by, threads, progress);
}

void gemm_batch(const GemmPlan& plan, int64_t count, const std::function<GemmInputs(int64_t)>& inputs_of,
                const std::function<void(int64_t, const Matrix&)>& take, int threads, const GemmProgress& progress) {
  if (count <= 0) return;
  const GemmInputs first = inputs_of(0);
  require_fits(plan, first);
  const bool across = count > 1;  // each thread takes a product
  std::atomic<int64_t> done{0};
  parallel_for(static_cast<size_t>(count), across ? threads : 1, [&](size_t index) {
    const auto i = static_cast<int64_t>(index);
    std::optional<GemmInputs> later;
    if (i > 0) require_like_first(later.emplace(inputs_of(i)), first, i);
    const GemmInputs& inputs = later ? *later : first;
    const Matrix d = product_of(plan, inputs, ChainBy::loops, across ? 1 : threads, across ? GemmProgress{} : progress);
    take(i, d);
    if (!across) return;
    const int64_t now = done += static_cast<int64_t>(d.size());
    if (progress) progress(now);
  });
}

Matrix gemm(const GemmPlan& plan, const GemmInputs& inputs, KnownSums& known) {
  const int m = inputs.a.rows(), n = inputs.b.cols();
  const bool is_one_block = plan.regions.empty() && m <= most_block_rows && n <= most_block_cols;
  if (!is_one_block || rounding_of(plan) != InputRounding::none) return gemm(plan, inputs);
  require_fits(plan, inputs);
  return Product(plan, inputs, ChainBy::loops, nullptr, &known).block(0, m, 0, n);
}

}  // namespace bitmma
