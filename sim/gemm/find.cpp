#include "bitmma/gemm/find.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>

#include "bitmma/core/error.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/instruction/instruction.hpp"

namespace bitmma {
namespace {

/// Plans in the order in which they are tried, none twice: two splits with the same slices are one.
class Candidates {
 public:
  Candidates(int64_t k, bool narrow) : k_(k), narrow_(narrow) {}

  void add(const GemmPlan& plan) {
    GemmPlan key = plan;
    key.split_k = {};
    key.name.clear();
    std::string text = print_json(key);
    for (const auto& [first, last] : slices_of(plan.split_k, k_)) text += fmt::format(" {}-{}", first, last);
    if (known_.insert(text).second) plans_.push_back(plan);
  }
  /// The slices of a rule. Sums of another type show only where D is narrow.
  void add_split(GemmPlan plan, SplitRule rule, int count, int unit) {
    plan.split_k = {.count = count, .unit = unit, .rule = rule};
    if (slices_of(plan.split_k, k_).size() < 2) return;
    add(plan);
    if (!narrow_ || rule == SplitRule::nvjet) return;
    plan.reduction.partial = SumType::out;
    add(plan);
    plan.reduction.partial = SumType::f32, plan.reduction.running = SumType::out;
    add(plan);
  }
  std::vector<GemmPlan> take() { return std::move(plans_); }

 private:
  int64_t k_;
  bool narrow_;
  std::set<std::string> known_;
  std::vector<GemmPlan> plans_;
};

/// What the inputs say of the epilogue.
std::vector<EpilogueOp> epilogue_of(const GemmInputs& inputs) {
  std::vector<EpilogueOp> ops;
  const auto is = [](const std::optional<Matrix>& matrix, int rows, int cols) {
    return matrix && matrix->rows() == rows && matrix->cols() == cols;
  };
  if (is(inputs.scale_a, 1, 1) && is(inputs.scale_b, 1, 1)) {
    ops.push_back({.kind = EpilogueKind::scale_ab});
  } else {
    if (is(inputs.scale_a, inputs.a.rows(), 1)) ops.push_back({.kind = EpilogueKind::row_scale});
    if (is(inputs.scale_b, 1, inputs.b.cols())) ops.push_back({.kind = EpilogueKind::col_scale});
  }
  if (inputs.c) ops.push_back({.kind = EpilogueKind::alpha_beta, .alpha = 1, .beta = 1});
  if (inputs.bias) ops.push_back({.kind = EpilogueKind::bias});
  return ops;
}

/// Steps and tiles: all at once, then the leftover of a tile first, with whole and half instructions.
std::vector<GemmPlan> with_steps(const GemmPlan& plain, int64_t k) {
  std::vector<GemmPlan> plans{plain};
  const int k_i = mma_of(plain.instruction).k;
  for (const int step : {0, k_i / 2}) {
    for (const int64_t tile : {32, 64, 128, 16, 256}) {
      if (tile < k_i || tile >= k) continue;
      GemmPlan one = plain;
      one.k_step = step, one.k_tile = tile, one.residue = Residue::first;
      plans.push_back(one);
    }
  }
  GemmPlan halves = plain;
  halves.k_step = k_i / 2;
  plans.push_back(halves);
  return plans;
}

void add_of_sum(Candidates& candidates, const GemmPlan& flat, int64_t k) {
  const Format type = mma_of(flat.instruction).a;
  const bool fp8 = info(type).bits == 8;
  candidates.add(flat);
  if (fp8) {
    for (const int every : {128, 32, 64, 256, 512}) {
      GemmPlan plan = flat;
      plan.promotion = Promotion{.every = every};
      candidates.add(plan);
    }
  }
  const std::vector<GemmPlan> stepped = with_steps(flat, k);
  for (const GemmPlan& plan : stepped) candidates.add(plan);
  GemmPlan promoted = flat;
  promoted.promotion = Promotion{};
  for (int count = 2; count <= 64; ++count) {
    candidates.add_split(flat, SplitRule::nvjet, count, fp8 ? 128 : 64);
    if (fp8) candidates.add_split(promoted, SplitRule::nvjet, count, 128);
  }
  for (const int unit : {64, 8, 32, 4, 128}) {
    for (int count = 2; count <= 32; ++count) {
      for (const GemmPlan& plan : stepped) candidates.add_split(plan, SplitRule::ceil, count, unit);
    }
  }
  for (const int unit : {32, 64}) {
    for (const int count : {2, 4, 8}) {
      GemmPlan plan = flat;
      plan.split_k = {.count = count, .unit = unit};
      plan.reduction.order = ReductionOrder::pairs;
      candidates.add(plan);
    }
  }
  for (const int warps : {2, 4}) {
    for (const int tile : {32, 64, 128}) {
      for (const Residue residue : {Residue::last, Residue::first}) {
        GemmPlan plan = flat;
        plan.sliced_k = warps, plan.k_tile = tile, plan.residue = residue;
        if (tile % warps == 0) candidates.add(plan);
      }
    }
  }
  for (const SplitRule rule : {SplitRule::floor, SplitRule::big_first}) {
    for (const int unit : {32, 64, 128}) {
      for (int count = 2; count <= 16; ++count) candidates.add_split(flat, rule, count, unit);
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

std::vector<GemmPlan> candidate_plans(const GemmInputs& inputs, const Matrix& d, Target target) {
  const int64_t k = inputs.a.cols();
  GemmPlan flat = flat_plan(target, inputs.a.format(), inputs.b.format(), d.format());
  if (mma_of(flat.instruction).d != Format::f32) return {flat};  // exact, or one order of f64
  flat.name.clear();
  flat.epilogue = epilogue_of(inputs);
  Candidates candidates(k, d.format() != Format::f32);
  const bool tf32 = inputs.a.format() == Format::tf32;
  std::vector<GemmPlan> starts;
  for (const InputRounding rounding : {InputRounding::none, InputRounding::tf32_rne, InputRounding::tf32_rna}) {
    if (rounding != InputRounding::none && !tf32) continue;
    starts.push_back(flat);
    starts.back().input_rounding = rounding;
  }
  const FormatInfo& output = info(d.format());
  bool any_negative = false;
  for (int row = 0; row < d.rows(); ++row) {
    for (int col = 0; col < d.cols(); ++col) any_negative |= (d.code(row, col) & output.sign_bit()) != 0;
  }
  if (!any_negative) {
    const size_t count = starts.size();
    for (size_t i = 0; i < count; ++i) {
      starts.push_back(starts[i]);
      starts.back().epilogue.push_back({.kind = EpilogueKind::relu});
    }
  }
  for (const GemmPlan& start : starts) add_of_sum(candidates, start, k);
  for (const Target other : {Target::sm_80, Target::sm_89, Target::sm_90a, Target::sm_100a, Target::sm_120a}) {
    if (other == target) continue;
    try {
      GemmPlan plan = flat_plan(other, inputs.a.format(), inputs.b.format(), d.format());
      plan.name.clear();
      plan.epilogue = flat.epilogue;
      candidates.add(plan);
    } catch (const Error&) {
      continue;  // it has no instruction for these types
    }
  }
  return candidates.take();
}

PlanSearch find_plans(const GemmInputs& inputs, const Matrix& d, const FindOptions& options,
                      const GemmProgress& progress) {
  if (d.rows() != inputs.a.rows() || d.cols() != inputs.b.cols()) {
    throw Error({.field = "d",
                 .seen = fmt::format("{} x {}", d.rows(), d.cols()),
                 .expected = fmt::format("{} x {}", inputs.a.rows(), inputs.b.cols())});
  }
  const std::vector<GemmPlan> candidates = candidate_plans(inputs, d, options.target);
  // A sample first: most plans miss some of a few outputs. What gives all of them is computed whole.
  const std::vector<int> rows = spread(d.rows(), 8), cols = spread(d.cols(), 16);
  const GemmInputs sample = part_of(inputs, rows, cols);
  const Matrix d_of_sample = cols_of(rows_of(d, rows, "d"), cols, "d");
  std::vector<int64_t> misses(candidates.size());
  std::atomic<int64_t> done{0};
  parallel_for(candidates.size(), options.threads, [&](size_t i) {
    misses[i] = count_differing(gemm(candidates[i], sample), d_of_sample);
    const int64_t now = ++done;
    if (progress) progress(now);
  });
  PlanSearch search{.candidates = static_cast<int64_t>(candidates.size()), .outputs = static_cast<int64_t>(d.size())};
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return misses[i]; });
  const bool is_whole = d_of_sample.size() == d.size();
  for (const size_t i : order) {
    const bool wants_near =
        search.all_bits.empty() && search.nearest.size() < static_cast<size_t>(std::max(0, options.max_nearest));
    if (misses[i] > 0 && !wants_near) break;
    if (is_whole && misses[i] == 0) {
      search.all_bits.push_back(candidates[i]);
      continue;
    }
    const Matrix computed = gemm(candidates[i], inputs, options.threads);
    const int64_t count = count_differing(computed, d);
    if (count == 0) search.all_bits.push_back(candidates[i]);
    else if (wants_near) search.nearest.push_back({candidates[i], count, pattern_of(computed, d, inputs)});
  }
  if (!search.all_bits.empty()) search.nearest.clear();
  std::ranges::stable_sort(search.nearest, {}, &NearPlan::differing);
  return search;
}

}  // namespace bitmma
