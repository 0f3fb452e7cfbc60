// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <span>

#include "../core/ieee_environment.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/gemm/find.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "gemm_inside.hpp"

namespace bitmma {
namespace {

// The plans that the search tries; print_search lists them.
constexpr std::array promotion_steps{128, 32, 64, 256, 512};
constexpr std::array leftover_tiles{32, 64, 128, 16, 256};
constexpr std::array sliced_warps{2, 4};
constexpr std::array sliced_tiles{32, 64, 128};
constexpr std::array scaled_units{128, 256, 64};
constexpr std::array pair_units{32, 64};
constexpr std::array ceil_units{64, 8, 32, 4, 128};
constexpr std::array uneven_units{32, 64, 128};
constexpr int most_nvjet = 64, most_ceil = 160, most_uneven = 16, most_pairs = 8;
constexpr std::array all_units{64, 128, 32};
constexpr std::array all_ceil_units{64, 32, 128, 8, 4, 16, 256};
constexpr std::array all_pair_units{64, 32, 128};
constexpr int most_all_ceil = 64, most_all_pairs = 16;
constexpr int most_cuts = 8192, most_stepped_cuts = 512;  // positions in K, counted in instructions
constexpr std::array f64_units{16, 32, 8, 4, 1};
constexpr std::array lane_counts{1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
constexpr std::array lane_vectors{1, 2, 4, 8, 16};
constexpr std::array lane_chunks{0, 1, 2, 4, 8, 16, 32};
constexpr std::array lane_units{8, 4, 16, 32, 1};
constexpr int most_lane_slices = 64;
constexpr std::array other_targets{Target::sm_70,  Target::sm_75,   Target::sm_80,  Target::sm_89,
                                   Target::sm_90a, Target::sm_100a, Target::sm_120a};
constexpr std::array uneven_rules{SplitRule::floor, SplitRule::big_first, SplitRule::big_last};

int nvjet_unit(const GemmInputs& inputs) { return info(inputs.a.format()).bits == 8 ? 128 : 64; }

/// Plans in the order of the search, without duplicates: two splits with the same slices are one plan.
class Candidates {
 public:
  explicit Candidates(int64_t k) : k_(k) {}

  /// Call it when instruction, input rounding or epilogue change: later plans then cannot repeat earlier ones.
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

/// The epilogues that the inputs permit, the most common first. `may_clamp`: no output is negative.
std::vector<std::vector<EpilogueOp>> epilogues_of(const GemmInputs& inputs, const FindOptions& options,
                                                  bool may_clamp) {
  using Ops = std::vector<EpilogueOp>;
  constexpr EpilogueOp row{.kind = EpilogueKind::row_scale}, col{.kind = EpilogueKind::col_scale},
      both{.kind = EpilogueKind::scale_ab};
  std::vector<Ops> epilogues{{}};
  const auto append = [&](std::initializer_list<Ops> variants) {
    std::vector<Ops> longer;
    for (const Ops& before : epilogues) {
      for (const Ops& variant : variants) {
        longer.push_back(before);
        longer.back().insert(longer.back().end(), variant.begin(), variant.end());
      }
    }
    epilogues = std::move(longer);
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
  return epilogues;
}

/// Single chains with every input rounding and accumulator: the base of every plan of the search.
std::vector<GemmPlan> chains(const GemmInputs& inputs, const Matrix& d, Target target) {
  const Format a = inputs.a.format(), b = inputs.b.format();
  GemmPlan flat = flat_plan(target, inputs, d.format());
  flat.name.clear();
  std::vector<GemmPlan> plans{flat};
  if (mma_of(flat.tensor().instruction).d != Format::f32 || scales_in_instruction(inputs)) return plans;
  if (a == Format::tf32) {
    for (const InputRounding rounding : {InputRounding::tf32_rne, InputRounding::tf32_rna}) {
      plans.push_back(flat);
      plans.back().tensor().input_rounding = rounding;
    }
  }
  // For fp8, mma.sync and wgmma add differently; 16-bit accumulators are the caller's choice.
  const std::array<Instruction, 3> others{
      MmaSync{.d = Format::f32, .a = a, .b = b}, Wgmma{.n = 256, .d = Format::f16, .a = a, .b = b},
      mma_sync_for(target, Format::f16, a, b).value_or(MmaSync{.d = Format::f16, .a = a, .b = b})};
  for (const Instruction& instruction : others) {
    const bool of_f32 = mma_of(instruction).d == Format::f32;
    if (of_f32 && info(a).bits != 8) continue;
    if ((!of_f32 && d.format() != Format::f16) || !violations_of(instruction, target).empty()) continue;
    if (instruction == flat.tensor().instruction) continue;
    plans.push_back(flat);
    plans.back().tensor().instruction = instruction;
    if (!of_f32) break;  // both accumulate alike
  }
  return plans;
}

/// Ways to step through a slice: whole and half instructions, the tile remainder first, warps that share tiles.
std::vector<GemmPlan> steppings(const GemmPlan& plain, int64_t k) {
  std::vector<GemmPlan> plans;
  const int k_i = step_of(plain.tensor().instruction).k;
  for (const int step : {0, k_i / 2}) {
    for (const int64_t tile : leftover_tiles) {
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
  const int k_i = step_of(plain.tensor().instruction).k;
  for (const int step : {0, k_i / 2}) {
    for (const int warps : sliced_warps) {
      for (const int tile : sliced_tiles) {
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
  for (const int every : promotion_steps) with({.every = every});
  return plans;
}

/// Splits by one rule: 2 to `most` slices for every unit.
std::vector<SplitK> splits(SplitRule rule, std::span<const int> units, int largest_count, int64_t k) {
  std::vector<SplitK> splits;
  std::set<std::vector<std::pair<int64_t, int64_t>>> known;  // many counts give the same slices
  for (const int unit : units) {
    for (int count = 2; count <= largest_count; ++count) {
      const SplitK split{.count = count, .unit = unit, .rule = rule};
      if (known.insert(slices_of(split, k)).second) splits.push_back(split);
    }
  }
  return splits;
}

/// The types and orders in which partial sums may be reduced; more of them if D is narrow.
std::vector<Reduction> reductions(const GemmPlan& plan, bool narrow) {
  std::vector<Reduction> reductions{{}};
  if (narrow) {
    reductions.push_back({.partial = SumType::out});
    reductions.push_back({.running = SumType::out});
    reductions.push_back({.partial = SumType::out, .running = SumType::out});
  }
  const bool on_slice_0 = std::ranges::any_of(plan.epilogue, [](const EpilogueOp& op) {
    return op.kind == EpilogueKind::bias || (op.kind == EpilogueKind::alpha_beta && op.beta != 0);
  });
  const bool may_be_serial = on_slice_0 && std::ranges::none_of(plan.epilogue, [](const EpilogueOp& op) {
                               return op.kind == EpilogueKind::round;
                             });
  if (!may_be_serial) return reductions;
  const size_t count = reductions.size();
  for (size_t i = 0; i < count; ++i) {
    reductions.push_back(reductions[i]);
    reductions.back().serial = true;
  }
  return reductions;
}

/// Adds the chain cut by each of these splits.
void add_splits(Candidates& candidates, const GemmPlan& plan, const std::vector<SplitK>& splits,
                const std::vector<Reduction>& reductions, int64_t k) {
  for (const SplitK& split : splits) {
    const size_t slices = slices_of(split, k).size();
    if (slices < 2) continue;
    for (const Reduction& reduction : reductions) {
      // With two or four slices, pairs from either end are the same.
      if (reduction.order == ReductionOrder::pairs_from_end && std::has_single_bit(slices)) continue;
      GemmPlan gemm_plan = plan;
      gemm_plan.split_k = split, gemm_plan.reduction = reduction;
      candidates.add(gemm_plan);
    }
  }
}

/// Reductions that add neighbours level by level.
std::vector<Reduction> in_pairs(bool narrow) {
  std::vector<Reduction> reductions;
  for (const ReductionOrder order : {ReductionOrder::pairs, ReductionOrder::pairs_from_end}) {
    reductions.push_back({.order = order});
    if (narrow) reductions.push_back({.order = order, .partial = SumType::out, .running = SumType::out});
  }
  return reductions;
}

/// fp8 on mma.sync is widened step by step. This is slow, and only Triton does it: try one chain, and promotion.
bool is_widened(const GemmPlan& plan) {
  return std::holds_alternative<MmaSync>(plan.tensor().instruction) &&
         info(mma_of(plan.tensor().instruction).a).bits == 8;
}

/// Adds the variants of one chain that libraries are known to use.
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
  if (scales_in_instruction(inputs)) {  // the instruction applies the scales, so there is no stepping or promotion
    for (const SplitRule rule : {SplitRule::nvjet, SplitRule::ceil})
      add_splits(candidates, flat, splits(rule, scaled_units, most_nvjet, k), sums, k);
    return;
  }
  const size_t splittable = scaled ? bodies.size() : fp8 ? 2 : 1;
  for (size_t i = 0; i < splittable; ++i) {
    add_splits(candidates, bodies[i], splits(SplitRule::nvjet, std::array{nvjet_unit(inputs)}, most_nvjet, k), plain,
               k);
  }
  if (scaled) return;
  const std::vector<GemmPlan> stepped = steppings(flat, k);
  for (const GemmPlan& plan : stepped) candidates.add(plan);
  const std::vector<SplitK> ceil = splits(SplitRule::ceil, ceil_units, most_ceil, k);
  add_splits(candidates, flat, ceil, sums, k);
  for (const GemmPlan& plan : stepped) add_splits(candidates, plan, ceil, sums, k);
  for (const SplitRule rule : {SplitRule::ceil, SplitRule::big_last})
    add_splits(candidates, flat, splits(rule, pair_units, most_pairs, k), in_pairs(narrow), k);
  for (const GemmPlan& plan : slicings(flat)) candidates.add(plan);
  for (const SplitRule rule : uneven_rules)
    add_splits(candidates, flat, splits(rule, uneven_units, most_uneven, k), sums, k);
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

/// Adds every stepping with every split, then K cut in two at any place, and K that ends early.
void add_combined(Candidates& candidates, const GemmPlan& flat, const GemmInputs& inputs, bool narrow) {
  if (is_widened(flat) || scales_in_instruction(inputs)) return;
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
  const int step = step_of(flat.tensor().instruction).k;
  for (GemmPlan plan : bodies) {
    const bool is_simple = plan.tensor().k_step == 0 && plan.tensor().k_tile == 0;
    for (int64_t cut = step; cut < k && k / step <= (is_simple ? most_cuts : most_stepped_cuts); cut += step) {
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
    const std::vector<SplitK> some =
        fine ? splits(rule, all_ceil_units, most_all_ceil, k)
             : splits(rule, all_units, rule == SplitRule::nvjet ? most_nvjet : most_uneven, k);
    all.insert(all.end(), some.begin(), some.end());
  }
  const std::vector<Reduction> sums = reductions(flat, narrow), pairs = in_pairs(narrow);
  for (const GemmPlan& plan : bodies) add_splits(candidates, plan, all, sums, k);
  for (const GemmPlan& plan : bodies)
    add_splits(candidates, plan, splits(SplitRule::ceil, all_pair_units, most_all_pairs, k), pairs, k);
}

void add_cuda_cores(Candidates& candidates, const GemmPlan& flat, const GemmInputs& inputs) {
  const int64_t k = inputs.a.cols();
  GemmPlan plan = flat;
  if (scales_in_instruction(inputs)) return;
  plan.chain = CudaCoreChain{};
  if (!multiplies(plan, inputs.a.format(), inputs.b.format())) return;
  candidates.add(plan);
  add_splits(candidates, plan, splits(SplitRule::ceil, lane_units, most_lane_slices, k), {Reduction{}}, k);
  for (const int count : lane_counts) {
    for (const int vector : lane_vectors) {
      for (const int chunk : lane_chunks) {
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

}  // namespace

bool has_two_readings(const GemmInputs& inputs) {
  const int64_t n = inputs.b.cols(), whole_n = std::max<int64_t>(inputs.whole_n, n);
  return has_block_scales(inputs) && whole_n > n && n > 1 && (whole_n + 127) / 128 == n;
}

bool has_no_sign(const Matrix& d) {
  const FormatInfo& output = info(d.format());
  for (int row = 0; row < d.rows(); ++row) {
    for (int col = 0; col < d.cols(); ++col) {
      if ((d.code(row, col) & output.sign_bit()) != 0) return false;
    }
  }
  return true;
}

namespace {

std::vector<GemmPlan> candidates_of(const GemmInputs& inputs, const Matrix& d, const FindOptions& options,
                                    SearchStage stage) {
  const std::vector<GemmPlan> plain = chains(inputs, d, options.target);
  const Format accumulator = mma_of(plain.front().tensor().instruction).d;
  if (accumulator != Format::f32) {
    if (stage != SearchStage::usual) return {};
    Candidates few(inputs.a.cols());
    few.add(plain.front());
    if (accumulator == Format::f64) {  // integer sums are exact in any order
      add_splits(few, plain.front(), splits(SplitRule::ceil, f64_units, most_ceil, inputs.a.cols()), {Reduction{}},
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
  for (const Target other : other_targets) {
    if (other == options.target) continue;
    try {
      for (GemmPlan plan : chains(inputs, d, other)) {
        plan.epilogue = epilogues.front();
        candidates.begin();
        candidates.add(plan);
      }
    } catch (const Error&) {
      continue;  // the target has no instruction for these types
    }
  }
  return candidates.take();
}

}  // namespace

std::vector<GemmPlan> candidate_plans(const GemmInputs& inputs, const Matrix& d, const FindOptions& options,
                                      SearchStage stage) {
  return in_ieee_environment([&] { return candidates_of(inputs, d, options, stage); });
}

std::vector<GemmPlan> whole_tile_plans(const GemmInputs& inputs, const Matrix& d, const FindOptions& options) {
  std::vector<GemmPlan> plans;
  for (GemmPlan& chain : chains(inputs, d, options.target)) {
    if (mma_of(chain.tensor().instruction).d != Format::f32 && d.format() == Format::f32) continue;
    chain.epilogue = epilogues_of(inputs, options, false).front();
    plans.push_back(std::move(chain));
  }
  return plans;
}

std::vector<GemmPlan> cut_tile_plans(const GemmPlan& whole, const GemmInputs& inputs, const Matrix& d) {
  std::vector<GemmPlan> plans;
  for (const SplitK& split : splits(SplitRule::big_last, pair_units, most_pairs, inputs.a.cols())) {
    for (const Reduction& reduction : in_pairs(d.format() != Format::f32)) {
      plans.push_back(whole);
      plans.back().split_k = split, plans.back().reduction = reduction;
    }
  }
  return plans;
}

std::string print_search() {
  const auto list = [](auto numbers) {
    std::ranges::sort(numbers);
    return fmt::format("{}", fmt::join(numbers, ", "));
  };
  const auto split = [](std::string_view rule, int largest_count, const std::string& units) {
    return fmt::format("split-K {} into 2..{}, units of {}\n", rule, largest_count, units);
  };
  std::string gpus;
  for (const Target target : other_targets) gpus += fmt::format("{}{}", gpus.empty() ? "" : ", ", print(target));
  const std::string uneven = "floor, big_first or big_last";
  return "1. what libraries are known to do\n   one chain; tf32 inputs unchanged, rounded to nearest even or rounded "
         "half away from zero; f16 accumulators if D is f16\n   promotion every " +
         list(promotion_steps) + " for 8-bit types; every 128 with block scales\n   the remainder of tiles of " +
         list(leftover_tiles) + " first, in whole and half instructions\n   sliced-K " + list(sliced_warps) +
         ", tiles of " + list(sliced_tiles) +
         "\n"
         "   " +
         split("nvjet", most_nvjet, "64, for 8-bit types 128") + "   " + split("ceil", most_ceil, list(ceil_units)) +
         "   " + split(uneven, most_uneven, list(uneven_units)) + "   " +
         split("ceil or big_last, joined in pairs from either end,", most_pairs, list(pair_units)) +
         "   partial and running sums in f32 or D's type; D rounded rn, rz or rna, or saturated; relu\n   bias, C and "
         "scales if present, in the orders that kernels use\n   one chain of " +
         gpus + "\n2. every combination of stepping, slicing, promotion and split\n   " +
         split("nvjet", most_nvjet, list(all_units)) + "   " + split("ceil", most_all_ceil, list(all_ceil_units)) +
         "   " + split(uneven, most_uneven, list(all_units)) + "   " +
         split("ceil, joined in pairs,", most_all_pairs, list(all_pair_units)) +
         "   K cut in two, or ending, at every multiple of the instruction's K\n" +
         fmt::format(
             "3. CUDA cores: fma chains in {}..{} lanes, vectors of {}..{}, chunks up to {}, three joins\n"
             "   {}",
             lane_counts.front(), lane_counts.back(), lane_vectors.front(), lane_vectors.back(), lane_chunks.back(),
             split("ceil", most_lane_slices, list(lane_units)));
}

}  // namespace bitmma
