#include "bitmma/gemm/find.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "bitmma/core/error.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "gemm_inside.hpp"

namespace bitmma {
namespace {

/// Plans in the order in which they are tried, none twice: two splits with the same slices are one.
class Candidates {
 public:
  explicit Candidates(int64_t k) : k_(k) {}

  /// What follows differs from all before in what begin() gives: instruction, input rounding, epilogue.
  void begin() { known_.clear(); }

  void add(const GemmPlan& plan) {
    const TensorCoreChain tensor = plan.tensor_cores() ? plan.tensor() : TensorCoreChain{};
    const Promotion promotion = tensor.promotion.value_or(Promotion{.every = 0});
    const CudaCoreChain lanes = plan.cuda_cores() ? *plan.cuda_cores() : CudaCoreChain{.count = 0};
    const Reduction& sums = plan.reduction;
    std::vector<int64_t> key{tensor.k_step,
                             tensor.k_tile,
                             static_cast<int>(tensor.residue),
                             tensor.sliced_k,
                             promotion.every,
                             static_cast<int>(promotion.scale),
                             promotion.columns_of_sb,
                             lanes.count,
                             lanes.vector,
                             lanes.chunk,
                             static_cast<int>(lanes.join),
                             static_cast<int>(sums.order),
                             static_cast<int>(sums.partial),
                             static_cast<int>(sums.running),
                             sums.serial,
                             static_cast<int>(plan.rounding),
                             plan.saturate.value_or(false)};
    for (const auto& [first, last] : slices_of(plan.split_k, k_)) key.push_back(first), key.push_back(last);
    if (known_.insert(std::move(key)).second) plans_.push_back(plan);
  }
  std::vector<GemmPlan> take() { return std::move(plans_); }

 private:
  int64_t k_;
  std::set<std::vector<int64_t>> known_;
  std::vector<GemmPlan> plans_;
};

bool is_shape(const std::optional<Matrix>& matrix, int rows, int cols) {
  return matrix && matrix->rows() == rows && matrix->cols() == cols;
}

/// A sample can have as many columns as the whole product has blocks of 128: scale_b could be of either.
bool has_two_readings(const GemmInputs& inputs) {
  const int64_t n = inputs.b.cols(), whole_n = std::max<int64_t>(inputs.whole_n, n);
  return has_block_scales(inputs) && whole_n > n && n > 1 && (whole_n + 127) / 128 == n;
}

/// The epilogues that the inputs allow, the most usual first. `may_clamp`: no output is negative.
std::vector<std::vector<EpilogueOp>> epilogues_of(const GemmInputs& inputs, const FindOptions& options,
                                                  bool may_clamp) {
  using Ops = std::vector<EpilogueOp>;
  constexpr EpilogueOp row{.kind = EpilogueKind::row_scale}, col{.kind = EpilogueKind::col_scale},
      both{.kind = EpilogueKind::scale_ab};
  std::vector<Ops> found{{}};
  const auto append = [&](std::initializer_list<Ops> variants) {
    std::vector<Ops> longer;
    for (const Ops& before : found) {
      for (const Ops& variant : variants) {
        longer.push_back(before);
        longer.back().insert(longer.back().end(), variant.begin(), variant.end());
      }
    }
    found = std::move(longer);
  };
  if (!has_block_scales(inputs)) {
    const bool a_is_one = is_shape(inputs.scale_a, 1, 1), b_is_one = is_shape(inputs.scale_b, 1, 1);
    if (a_is_one && b_is_one) append({{both}});
    else if (inputs.scale_a && inputs.scale_b) append({{col, row}, {row, col}, {both}});
    else if (inputs.scale_a) append({{row}});
    else if (inputs.scale_b) append({{col}});
  }
  const EpilogueOp alpha{.kind = EpilogueKind::alpha_beta, .alpha = options.alpha, .beta = 0};
  if (inputs.c) {
    const EpilogueOp alpha_beta{.kind = EpilogueKind::alpha_beta, .alpha = options.alpha, .beta = options.beta},
        beta_c{.kind = EpilogueKind::beta_c, .beta = options.beta}, round{.kind = EpilogueKind::round};
    if (options.alpha == 1 && options.beta == 1) append({{alpha_beta}, {round, beta_c}});
    else if (options.beta == 0) append({{alpha_beta}});
    else append({{alpha_beta}, {alpha, beta_c}, {alpha, round, beta_c}});
  } else if (options.alpha != 1) {
    append({{alpha}});
  }
  if (inputs.bias) append({{{.kind = EpilogueKind::bias}}});
  if (may_clamp) append({{}, {{.kind = EpilogueKind::relu}}});
  return found;
}

/// One chain, in all ways of rounding inputs and accumulating: what every plan of the search begins as.
std::vector<GemmPlan> chains(const GemmInputs& inputs, const Matrix& d, Target target) {
  const Format a = inputs.a.format(), b = inputs.b.format();
  GemmPlan flat = flat_plan(target, inputs, d.format());
  flat.name.clear();
  std::vector<GemmPlan> found{flat};
  if (mma_of(flat.tensor().instruction).d != Format::f32 || inputs.sfa) return found;
  if (a == Format::tf32) {
    for (const InputRounding rounding : {InputRounding::tf32_rne, InputRounding::tf32_rna}) {
      found.push_back(flat);
      found.back().tensor().input_rounding = rounding;
    }
  }
  // Of fp8 mma.sync adds otherwise than wgmma; 16-bit accumulators are a choice of the caller.
  const std::array<Instruction, 3> others{MmaSync{.d = Format::f32, .a = a, .b = b},
                                          Wgmma{.n = 256, .d = Format::f16, .a = a, .b = b},
                                          MmaSync{.d = Format::f16, .a = a, .b = b}};
  for (const Instruction& one : others) {
    const bool of_f32 = mma_of(one).d == Format::f32;
    if (of_f32 && info(a).bits != 8) continue;
    if ((!of_f32 && d.format() != Format::f16) || !violations_of(one, target).empty()) continue;
    if (one == flat.tensor().instruction) continue;
    found.push_back(flat);
    found.back().tensor().instruction = one;
    if (!of_f32) break;  // both accumulate alike
  }
  return found;
}

/// Ways of walking through a slice: whole and half instructions, the leftover of tiles first, warps that share tiles.
std::vector<GemmPlan> steppings(const GemmPlan& plain, int64_t k) {
  std::vector<GemmPlan> plans;
  const int k_i = mma_of(plain.tensor().instruction).k;
  for (const int step : {0, k_i / 2}) {
    for (const int64_t tile : {32, 64, 128, 16, 256}) {
      if (tile < k_i || tile >= k) continue;
      plans.push_back(plain);
      plans.back().tensor().k_step = step, plans.back().tensor().k_tile = tile,
      plans.back().tensor().residue = Residue::first;
    }
  }
  plans.push_back(plain);
  plans.back().tensor().k_step = k_i / 2;
  return plans;
}

std::vector<GemmPlan> slicings(const GemmPlan& plain) {
  std::vector<GemmPlan> plans;
  const int k_i = mma_of(plain.tensor().instruction).k;
  for (const int step : {0, k_i / 2}) {
    for (const int warps : {2, 4}) {
      for (const int tile : {32, 64, 128}) {
        for (const Residue residue : {Residue::last, Residue::first}) {
          plans.push_back(plain);
          plans.back().tensor().sliced_k = warps, plans.back().tensor().k_tile = tile,
          plans.back().tensor().residue = residue;
          plans.back().tensor().k_step = step;
        }
      }
    }
  }
  return plans;
}

std::vector<GemmPlan> promotions(const GemmPlan& plain, const GemmInputs& inputs) {
  std::vector<GemmPlan> plans;
  const auto with = [&](Promotion promotion) {
    plans.push_back(plain);
    plans.back().tensor().promotion = promotion;
  };
  if (has_block_scales(inputs)) {
    for (const int columns : has_two_readings(inputs) ? std::vector{128, 1} : std::vector{0}) {
      for (const PromotionScale scale : {PromotionScale::fma, PromotionScale::mul_fma})
        with({.every = 128, .scale = scale, .columns_of_sb = columns});
    }
    return plans;
  }
  for (const int every : {128, 32, 64, 256, 512}) with({.every = every});
  return plans;
}

/// Splits of one kind: the counts 2..most of every unit.
std::vector<SplitK> splits(SplitRule rule, std::initializer_list<int> units, int most, int64_t k) {
  std::vector<SplitK> found;
  std::set<std::vector<std::pair<int64_t, int64_t>>> known;  // many counts cut alike
  for (const int unit : units) {
    for (int count = 2; count <= most; ++count) {
      const SplitK split{.count = count, .unit = unit, .rule = rule};
      if (known.insert(slices_of(split, k)).second) found.push_back(split);
    }
  }
  return found;
}

/// How partial sums may be typed and added; more ways where D is narrow.
std::vector<Reduction> reductions(const GemmPlan& plan, bool narrow) {
  std::vector<Reduction> found{{}};
  if (narrow) {
    found.push_back({.partial = SumType::out});
    found.push_back({.running = SumType::out});
    found.push_back({.partial = SumType::out, .running = SumType::out});
  }
  const bool on_slice_0 = std::ranges::any_of(plan.epilogue, [](const EpilogueOp& op) {
    return op.kind == EpilogueKind::bias || (op.kind == EpilogueKind::alpha_beta && op.beta != 0);
  });
  const bool may_be_serial = on_slice_0 && std::ranges::none_of(plan.epilogue, [](const EpilogueOp& op) {
                               return op.kind == EpilogueKind::round;
                             });
  if (!may_be_serial) return found;
  const size_t count = found.size();
  for (size_t i = 0; i < count; ++i) {
    found.push_back(found[i]);
    found.back().serial = true;
  }
  return found;
}

/// A chain cut by these splits.
void add_splits(Candidates& candidates, const GemmPlan& plan, const std::vector<SplitK>& splits,
                const std::vector<Reduction>& reductions, int64_t k) {
  for (const SplitK& split : splits) {
    const size_t slices = slices_of(split, k).size();
    if (slices < 2) continue;
    for (const Reduction& reduction : reductions) {
      // From either end the pairs of two or four slices are the same.
      if (reduction.order == ReductionOrder::pairs_from_end && std::has_single_bit(slices)) continue;
      GemmPlan one = plan;
      one.split_k = split, one.reduction = reduction;
      candidates.add(one);
    }
  }
}

/// Neighbours joined level by level.
std::vector<Reduction> in_pairs(bool narrow) {
  std::vector<Reduction> found;
  for (const ReductionOrder order : {ReductionOrder::pairs, ReductionOrder::pairs_from_end}) {
    found.push_back({.order = order});
    if (narrow) found.push_back({.order = order, .partial = SumType::out, .running = SumType::out});
  }
  return found;
}

/// fp8 on mma.sync is widened step by step, which takes long, and only Triton does it: one chain, and promoted.
bool is_widened(const GemmPlan& plan) {
  return std::holds_alternative<MmaSync>(plan.tensor().instruction) &&
         info(mma_of(plan.tensor().instruction).a).bits == 8;
}

/// What libraries are known to do with one chain.
void add_usual(Candidates& candidates, const GemmPlan& flat, const GemmInputs& inputs, bool narrow) {
  const int64_t k = inputs.a.cols();
  const bool fp8 = info(inputs.a.format()).bits == 8, scaled = has_block_scales(inputs);
  std::vector<GemmPlan> bodies;
  if (!scaled) bodies.push_back(flat);
  if (fp8 || scaled) {
    for (const GemmPlan& plan : promotions(flat, inputs)) bodies.push_back(plan);
  }
  for (const GemmPlan& plan : bodies) candidates.add(plan);
  if (is_widened(flat)) return;
  const std::vector<Reduction> sums = reductions(flat, narrow), plain{Reduction{}};
  if (inputs.sfa) {  // the instruction scales: nothing steps or promotes
    for (const SplitRule rule : {SplitRule::nvjet, SplitRule::ceil})
      add_splits(candidates, flat, splits(rule, {128, 256, 64}, 64, k), sums, k);
    return;
  }
  const size_t splittable = scaled ? bodies.size() : fp8 ? 2 : 1;
  for (size_t i = 0; i < splittable; ++i) {
    for (const int unit : {fp8 ? 128 : 64})
      add_splits(candidates, bodies[i], splits(SplitRule::nvjet, {unit}, 64, k), plain, k);
  }
  if (scaled) return;
  const std::vector<GemmPlan> stepped = steppings(flat, k);
  for (const GemmPlan& plan : stepped) candidates.add(plan);
  const std::vector<SplitK> ceil = splits(SplitRule::ceil, {64, 8, 32, 4, 128}, 160, k);
  add_splits(candidates, flat, ceil, sums, k);
  for (const GemmPlan& plan : stepped) add_splits(candidates, plan, ceil, sums, k);
  for (const SplitRule rule : {SplitRule::ceil, SplitRule::big_last})
    add_splits(candidates, flat, splits(rule, {32, 64}, 8, k), in_pairs(narrow), k);
  for (const GemmPlan& plan : slicings(flat)) candidates.add(plan);
  for (const SplitRule rule : {SplitRule::floor, SplitRule::big_first, SplitRule::big_last})
    add_splits(candidates, flat, splits(rule, {32, 64, 128}, 16, k), sums, k);
  for (const Rounding rounding : {Rounding::toward_zero, Rounding::nearest_away}) {
    if (!narrow) continue;
    for (GemmPlan plan : bodies) {
      plan.rounding = rounding;
      candidates.add(plan);
    }
  }
  if (narrow) {
    GemmPlan plan = flat;
    plan.saturate = info(plan.output).bits != 8;
    candidates.add(plan);
  }
}

/// Every way of stepping with every split, then K cut in two anywhere, and K that ends early.
void add_combined(Candidates& candidates, const GemmPlan& flat, const GemmInputs& inputs, bool narrow) {
  if (is_widened(flat) || inputs.sfa) return;
  const int64_t k = inputs.a.cols();
  const bool scaled = has_block_scales(inputs);
  std::vector<GemmPlan> bodies;
  if (!scaled) bodies.push_back(flat);
  for (const GemmPlan& plan : promotions(flat, inputs)) bodies.push_back(plan);
  if (!scaled) {
    for (const GemmPlan& plan : steppings(flat, k)) bodies.push_back(plan);
    for (const GemmPlan& plan : slicings(flat)) bodies.push_back(plan);
  }
  for (const GemmPlan& plan : bodies) candidates.add(plan);
  const int step = mma_of(flat.tensor().instruction).k;
  for (GemmPlan plan : bodies) {
    const bool is_simple = plan.tensor().k_step == 0 && plan.tensor().k_tile == 0;
    for (int64_t cut = step; cut < k && k / step <= (is_simple ? 8192 : 512); cut += step) {
      plan.split_k.cuts = {0, cut, k};
      candidates.add(plan);
      plan.split_k.cuts = {0, cut};
      candidates.add(plan);
    }
  }
  std::vector<SplitK> all;
  for (const SplitRule rule :
       {SplitRule::nvjet, SplitRule::ceil, SplitRule::floor, SplitRule::big_first, SplitRule::big_last}) {
    const bool fine = rule == SplitRule::ceil;
    const std::vector<SplitK> some = fine ? splits(rule, {64, 32, 128, 8, 4, 16, 256}, 64, k)
                                          : splits(rule, {64, 128, 32}, rule == SplitRule::nvjet ? 64 : 16, k);
    all.insert(all.end(), some.begin(), some.end());
  }
  const std::vector<Reduction> sums = reductions(flat, narrow), pairs = in_pairs(narrow);
  for (const GemmPlan& plan : bodies) add_splits(candidates, plan, all, sums, k);
  for (const GemmPlan& plan : bodies)
    add_splits(candidates, plan, splits(SplitRule::ceil, {64, 32, 128}, 16, k), pairs, k);
}

void add_cuda_cores(Candidates& candidates, const GemmPlan& flat, const GemmInputs& inputs) {
  const int64_t k = inputs.a.cols();
  GemmPlan plan = flat;
  if (inputs.sfa) return;
  plan.chain = CudaCoreChain{};
  if (!multiplies(plan, inputs.a.format(), inputs.b.format())) return;
  candidates.add(plan);
  add_splits(candidates, plan, splits(SplitRule::ceil, {8, 4, 16, 32, 1}, 64, k), {Reduction{}}, k);
  for (const int count : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512}) {
    for (const int vector : {1, 2, 4, 8, 16}) {
      for (const int chunk : {0, 1, 2, 4, 8, 16, 32}) {
        for (const LaneJoin join : {LaneJoin::ascending, LaneJoin::butterfly, LaneJoin::neighbours}) {
          const bool is_same = (count == 1 && join != LaneJoin::ascending) || int64_t{count} * vector * chunk >= k;
          if (is_same || int64_t{count} * vector >= 2 * k) continue;
          plan.chain = CudaCoreChain{.count = count, .vector = vector, .chunk = chunk, .join = join};
          candidates.add(plan);
        }
      }
    }
  }
}

std::string pattern_of(const Matrix& d, const Matrix& recorded, const GemmInputs& inputs) {
  int first_row = d.rows(), last_row = -1, first_col = d.cols(), last_col = -1;
  for (int row = 0; row < d.rows(); ++row) {
    for (int col = 0; col < d.cols(); ++col) {
      if (d.code(row, col) == recorded.code(row, col)) continue;
      first_row = std::min(first_row, row), last_row = std::max(last_row, row);
      first_col = std::min(first_col, col), last_col = std::max(last_col, col);
    }
  }
  const auto number = [](const std::vector<int64_t>& numbers, int i) {
    return numbers.empty() ? i : numbers[static_cast<size_t>(i)];
  };
  std::string text;
  if (first_row > 0 || last_row + 1 < d.rows())
    text = fmt::format("all in rows {}..{}", number(inputs.rows, first_row), number(inputs.rows, last_row));
  if (first_col > 0 || last_col + 1 < d.cols())
    text += fmt::format("{}all in columns {}..{}", text.empty() ? "" : ", ", number(inputs.cols, first_col),
                        number(inputs.cols, last_col));
  return text.empty() ? "in all rows and columns" : text;
}

/// Numbers spread over 0..count-1.
std::vector<int> spread(int count, int most) {
  std::vector<int> numbers;
  for (int i = 0; i < std::min(count, most); ++i)
    numbers.push_back(static_cast<int>(int64_t{i} * count / std::min(count, most)));
  return numbers;
}

}  // namespace

bool has_no_sign(const Matrix& d) {
  const FormatInfo& output = info(d.format());
  for (int row = 0; row < d.rows(); ++row) {
    for (int col = 0; col < d.cols(); ++col) {
      if ((d.code(row, col) & output.sign_bit()) != 0) return false;
    }
  }
  return true;
}

std::vector<GemmPlan> candidate_plans(const GemmInputs& inputs, const Matrix& d, const FindOptions& options,
                                      SearchStage stage) {
  const std::vector<GemmPlan> plain = chains(inputs, d, options.target);
  const Format accumulator = mma_of(plain.front().tensor().instruction).d;
  if (accumulator != Format::f32) {
    if (stage != SearchStage::usual) return {};
    Candidates few(inputs.a.cols());
    few.add(plain.front());
    if (accumulator == Format::f64) {  // integers are exact in any order
      add_splits(few, plain.front(), splits(SplitRule::ceil, {16, 32, 8, 4, 1}, 160, inputs.a.cols()), {Reduction{}},
                 inputs.a.cols());
    }
    return few.take();
  }
  const bool narrow = d.format() != Format::f32;
  Candidates candidates(inputs.a.cols());
  const auto epilogues = epilogues_of(inputs, options, has_no_sign(d));
  for (const std::vector<EpilogueOp>& epilogue : epilogues) {
    for (GemmPlan plan : plain) {
      plan.epilogue = epilogue;
      candidates.begin();
      switch (stage) {
        case SearchStage::usual: add_usual(candidates, plan, inputs, narrow); break;
        case SearchStage::combined: add_combined(candidates, plan, inputs, narrow); break;
        case SearchStage::cuda_cores:
          if (plan.tensor().input_rounding == InputRounding::none) add_cuda_cores(candidates, plan, inputs);
          break;
      }
    }
  }
  if (stage != SearchStage::usual) return candidates.take();
  for (const Target other :
       {Target::sm_70, Target::sm_75, Target::sm_80, Target::sm_89, Target::sm_90a, Target::sm_100a, Target::sm_120a}) {
    if (other == options.target) continue;
    try {
      for (GemmPlan plan : chains(inputs, d, other)) {
        plan.epilogue = epilogues.front();
        candidates.begin();
        candidates.add(plan);
      }
    } catch (const Error&) {
      continue;  // it has no instruction for these types
    }
  }
  return candidates.take();
}

namespace {

/// One row and some columns of D that tell plans apart best. A narrow D hides most differences but where the f32 sum
/// lies next to a rounding boundary.
std::pair<std::vector<int>, std::vector<int>> telling_outputs(const GemmPlan& plan, const GemmInputs& inputs,
                                                              const Matrix& d, int threads) {
  constexpr int most_cols = 16, most_ranked = 4096;
  if (info(d.format()).bits > 16 || plan.output != d.format()) return {{0}, spread(d.cols(), most_cols)};
  const std::vector<int> rows = spread(d.rows(), 64), cols = spread(d.cols(), most_ranked / std::min(d.rows(), 64));
  GemmPlan wide = plan;
  wide.output = Format::f32;
  const Matrix sums = gemm(wide, part_of(inputs, rows, cols), threads);
  const int dropped = 23 - info(d.format()).mantissa_bits;
  const uint32_t mask = (1u << dropped) - 1, half = 1u << (dropped - 1);
  const auto distance = [&](int row, int col) {
    const uint32_t rest = sums(row, col) & mask;
    return rest > half ? rest - half : half - rest;
  };
  std::vector<int> order(cols.size()), best;
  uint64_t best_sum = std::numeric_limits<uint64_t>::max();
  int best_row = 0;
  for (int row = 0; row < sums.rows(); ++row) {
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](int col) { return distance(row, col); });
    const size_t count = std::min<size_t>(order.size(), most_cols);
    uint64_t sum = 0;
    for (size_t i = 0; i < count; ++i) sum += distance(row, order[i]);
    if (sum >= best_sum) continue;
    best_sum = sum, best_row = row;
    best.assign(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
  }
  for (int& col : best) col = cols[static_cast<size_t>(col)];
  return {{rows[static_cast<size_t>(best_row)]}, best};
}

/// Two plans that share the outputs: tiles up to some number are `first`'s, the others `second`'s.
std::optional<GemmPlan> joined_by_tiles(const GemmPlan& first, const GemmPlan& second, const Matrix& of_first,
                                        const Matrix& of_second, const Matrix& d, const GemmInputs& inputs) {
  const auto number = [](const std::vector<int64_t>& numbers, int i) {
    return numbers.empty() ? i : numbers[static_cast<size_t>(i)];
  };
  const int64_t m = std::max<int64_t>(inputs.whole_m, d.rows()), n = std::max<int64_t>(inputs.whole_n, d.cols());
  for (const int bm : {128, 64, 256}) {
    for (const int bn : {128, 64, 256}) {
      for (const bool raster_n : {false, true}) {
        const int64_t tiles_m = (m + bm - 1) / bm, tiles_n = (n + bn - 1) / bn;
        int64_t last_of_first = -1, first_of_second = tiles_m * tiles_n;
        bool covered = true;
        for (int row = 0; row < d.rows() && covered; ++row) {
          for (int col = 0; col < d.cols() && covered; ++col) {
            const int64_t i = number(inputs.rows, row) / bm, j = number(inputs.cols, col) / bn,
                          tile = raster_n ? i * tiles_n + j : j * tiles_m + i;
            const bool one = of_first.code(row, col) == d.code(row, col),
                       two = of_second.code(row, col) == d.code(row, col);
            covered = one || two;
            if (one && !two) last_of_first = std::max(last_of_first, tile);
            if (two && !one) first_of_second = std::min(first_of_second, tile);
          }
        }
        if (!covered || last_of_first >= first_of_second) continue;
        GemmPlan plan = first;
        plan.tile_mn = {bm, bn}, plan.raster_n = raster_n;
        plan.regions = {{.first_tile = first_of_second,
                         .last_tile = tiles_m * tiles_n - 1,
                         .split_k = second.split_k,
                         .reduction = second.reduction}};
        return plan;
      }
    }
  }
  return std::nullopt;
}

/// The outputs that plans must give, few first: a plan that misses one is not computed further.
struct Sample {
  GemmInputs inputs;
  Matrix d;
  std::map<InputRounding, GemmInputs> rounded = {};  // what plans with it read

  int64_t misses(const GemmPlan& plan, int threads) const {
    const TensorCoreChain* const tensor = plan.tensor_cores();
    const auto found = tensor ? rounded.find(tensor->input_rounding) : rounded.end();
    if (found == rounded.end()) return count_differing(gemm(plan, inputs, threads), d);
    GemmPlan without = plan;
    without.tensor().input_rounding = InputRounding::none;
    return count_differing(gemm(without, found->second, threads), d);
  }
};

class Search {
 public:
  Search(const GemmInputs& inputs, const Matrix& d, const FindOptions& options, const FindProgress& progress)
      : inputs_(inputs), d_(d), options_(options), progress_(progress) {
    search_.outputs = static_cast<int64_t>(d.size());
    if (d.rows() == inputs.a.rows() && d.cols() == inputs.b.cols()) return;
    throw Error({.field = "d",
                 .seen = fmt::format("{} x {}", d.rows(), d.cols()),
                 .expected = fmt::format("{} x {}", inputs.a.rows(), inputs.b.cols())});
  }

  PlanSearch run() {
    for (const SearchStage stage : search_stages) {
      if (find_in(candidate_plans(inputs_, d_, options_, stage))) return std::move(search_);
      if (stage == SearchStage::usual && find_by_tiles()) return std::move(search_);
    }
    return with_nearest();
  }
  PlanSearch run(std::span<const GemmPlan> plans) {
    if (find_in(plans)) return std::move(search_);
    return with_nearest();
  }

 private:
  /// True when some of the plans give all bits.
  bool find_in(std::span<const GemmPlan> plans) {
    if (plans.empty()) return false;
    if (samples_.empty()) {
      choose_samples(plans.front());
      round_inputs();
    }
    total_ += static_cast<int64_t>(plans.size());
    const std::vector<int64_t> misses = misses_of(plans);
    search_.candidates += static_cast<int64_t>(plans.size());
    for (size_t i = 0; i < plans.size(); ++i) {
      if (misses[i] == 0) search_.all_bits.push_back(plans[i]);
      else nearest_.emplace_back(misses[i], plans[i]);
    }
    std::ranges::stable_sort(nearest_, {}, [](const auto& one) { return one.first; });
    constexpr size_t most_kept = 32;
    nearest_.resize(std::min(nearest_.size(), most_kept));
    return !search_.all_bits.empty();
  }

  /// Stream-K: some tiles are one chain, the others are cut. True when two such plans share all outputs.
  bool find_by_tiles() {
    if (inputs_.sfa || d_.size() < 2) return false;
    for (const GemmPlan& chain : chains(inputs_, d_, options_.target)) {
      GemmPlan whole = chain;
      whole.epilogue = epilogues_of(inputs_, options_, false).front();
      if (mma_of(whole.tensor().instruction).d != Format::f32 && d_.format() == Format::f32) continue;
      const Matrix of_whole = gemm(whole, inputs_, options_.threads);
      const int64_t missed = count_differing(of_whole, d_);
      if (missed == 0 || 20 * missed > 19 * static_cast<int64_t>(d_.size())) continue;  // too few outputs are whole
      for (const SplitK& split : splits(SplitRule::big_last, {32, 64}, 8, inputs_.a.cols())) {
        for (const Reduction& reduction : in_pairs(d_.format() != Format::f32)) {
          GemmPlan cut = whole;
          cut.split_k = split, cut.reduction = reduction;
          ++search_.candidates;
          const Matrix of_cut = gemm(cut, inputs_, options_.threads);
          const auto found = joined_by_tiles(whole, cut, of_whole, of_cut, d_, inputs_);
          if (!found || gemm(*found, inputs_, options_.threads) != d_) continue;
          search_.all_bits.push_back(*found);
          return true;
        }
      }
    }
    return false;
  }

  PlanSearch with_nearest() {
    for (const auto& [misses, plan] : nearest_) {
      const Matrix computed = gemm(plan, inputs_, options_.threads);
      search_.nearest.push_back({plan, count_differing(computed, d_), pattern_of(computed, d_, inputs_)});
    }
    std::ranges::stable_sort(search_.nearest, {}, &NearPlan::differing);
    search_.nearest.resize(std::min(search_.nearest.size(), static_cast<size_t>(std::max(0, options_.max_nearest))));
    return std::move(search_);
  }

  void choose_samples(const GemmPlan& first) {
    const auto add = [&](const std::vector<int>& rows, const std::vector<int>& cols) {
      samples_.push_back({part_of(inputs_, rows, cols), cols_of(rows_of(d_, rows, "d"), cols, "d")});
    };
    if (has_two_readings(inputs_)) return samples_.push_back({inputs_, d_});  // a part would settle the reading
    const auto [rows, cols] = telling_outputs(first, inputs_, d_, options_.threads);
    add(rows, cols);
    const std::vector<int> more_rows = spread(d_.rows(), 8), more_cols = spread(d_.cols(), 16);
    if (more_rows.size() * more_cols.size() < d_.size()) add(more_rows, more_cols);
    const std::vector<int> most_rows = spread(d_.rows(), 64), most_cols = spread(d_.cols(), 64);
    if (most_rows.size() * most_cols.size() < d_.size()) add(most_rows, most_cols);
    if (rows.size() * cols.size() < d_.size()) samples_.push_back({inputs_, d_});
  }

  /// Rounding the inputs takes longer than most sums: once for all plans.
  void round_inputs() {
    if (inputs_.a.format() != Format::tf32) return;
    for (Sample& sample : samples_) {
      for (const InputRounding rounding : {InputRounding::tf32_rne, InputRounding::tf32_rna})
        sample.rounded.emplace(rounding, rounded_inputs(sample.inputs, rounding));
    }
  }

  /// Misses in the first sample, or at least one where a later sample differs. 0: all bits.
  std::vector<int64_t> misses_of(std::span<const GemmPlan> plans) {
    std::vector<int64_t> misses(plans.size());
    std::vector<size_t> left(plans.size());
    std::iota(left.begin(), left.end(), size_t{0});
    for (size_t i = 0; i < samples_.size(); ++i) {
      const Sample& sample = samples_[i];
      // Large samples spread over the threads by themselves.
      const bool is_large = sample.d.size() > 4096;
      parallel_for(left.size(), is_large ? 1 : options_.threads, [&](size_t at) {
        const size_t plan = left[at];
        misses[plan] = sample.misses(plans[plan], is_large ? options_.threads : 1);
        if (i > 0) return;
        const int64_t now = ++done_;
        if (progress_) progress_(now, total_);
      });
      std::erase_if(left, [&](size_t plan) { return misses[plan] != 0; });
    }
    return misses;
  }

  const GemmInputs& inputs_;
  const Matrix& d_;
  const FindOptions& options_;
  const FindProgress& progress_;
  std::vector<Sample> samples_;
  PlanSearch search_;
  std::vector<std::pair<int64_t, GemmPlan>> nearest_;  // misses in the first sample
  std::atomic<int64_t> done_{0};
  int64_t total_ = 0;
};

}  // namespace

PlanSearch find_plans(const GemmInputs& inputs, const Matrix& d, const FindOptions& options,
                      const FindProgress& progress) {
  return Search(inputs, d, options, progress).run();
}

PlanSearch try_plans(std::span<const GemmPlan> plans, const GemmInputs& inputs, const Matrix& d,
                     const FindOptions& options, const FindProgress& progress) {
  return Search(inputs, d, options, progress).run(plans);
}

}  // namespace bitmma
