// SPDX-License-Identifier: MIT
#include "bitmma/gemm/find.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <numeric>

#include "../core/ieee_environment.hpp"
#include "../core/seconds.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/gemm/catalogue.hpp"
#include "gemm_inside.hpp"

namespace bitmma {
namespace {

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

/// Evenly spaced numbers of 0..count-1.
std::vector<int> spread(int count, int at_most) {
  std::vector<int> numbers;
  for (int i = 0; i < std::min(count, at_most); ++i)
    numbers.push_back(static_cast<int>(int64_t{i} * count / std::min(count, at_most)));
  return numbers;
}

/// Rows and columns of D.
using Part = std::pair<std::vector<int>, std::vector<int>>;

/// The numbers of 0..count-1 with the largest weights, at most `most`.
template <typename Weight>
std::vector<int> heaviest(int count, int at_most, const Weight& weight) {
  std::vector<std::pair<double, int>> order;
  for (int i = 0; i < count; ++i) order.emplace_back(-weight(i), i);
  std::ranges::sort(order);
  std::vector<int> numbers;
  for (int i = 0; i < std::min(count, at_most); ++i) numbers.push_back(order[static_cast<size_t>(i)].second);
  return numbers;
}

/// Few outputs that separate plans: blocks of 4 and 8 rows and 16 columns, which the loops of chains compute at once.
/// A narrow D hides most differences, except where the f32 sum is close to a rounding boundary.
std::vector<Part> telling_outputs(const GemmPlan& plan, const GemmInputs& inputs, const Matrix& d, int threads) {
  constexpr int most_cols = 16, most_ranked = 4096;
  constexpr std::array most_rows{4, 8};
  if (info(d.format()).bits > 16 || plan.output != d.format())
    return {{spread(d.rows(), most_rows[0]), spread(d.cols(), most_cols)},
            {spread(d.rows(), most_rows[1]), spread(d.cols(), most_cols)}};
  const std::vector<int> rows = spread(d.rows(), 64);
  const std::vector<int> cols = spread(d.cols(), most_ranked / std::min(d.rows(), 64));
  GemmPlan wide = plan;
  wide.output = Format::f32;
  const Matrix sums = gemm(wide, part_of(inputs, rows, cols), threads);
  const int dropped = 23 - info(d.format()).mantissa_bits;
  const uint32_t mask = (1u << dropped) - 1, half = 1u << (dropped - 1);
  std::vector<bool> is_taken(rows.size());
  const auto weight = [&](int row, int col) {
    const uint32_t rest = sums(row, col) & mask;
    return is_taken[static_cast<size_t>(row)] ? 0 : 1 / (64.0 + (rest > half ? rest - half : half - rest));
  };
  std::vector<Part> parts;
  for (const int row_count : most_rows) {
    std::vector<int> best_rows, best_cols(cols.size());
    std::iota(best_cols.begin(), best_cols.end(), 0);
    for (int turn = 0; turn < 3; ++turn) {
      const auto sum_over = [](const std::vector<int>& numbers, const auto& of) {
        return std::accumulate(numbers.begin(), numbers.end(), 0.0, [&](double sum, int i) { return sum + of(i); });
      };
      best_rows = heaviest(sums.rows(), row_count,
                           [&](int row) { return sum_over(best_cols, [&](int col) { return weight(row, col); }); });
      best_cols = heaviest(sums.cols(), most_cols,
                           [&](int col) { return sum_over(best_rows, [&](int row) { return weight(row, col); }); });
    }
    Part& part = parts.emplace_back();
    for (const int row : best_rows) part.first.push_back(rows[static_cast<size_t>(row)]);
    for (const int col : best_cols) part.second.push_back(cols[static_cast<size_t>(col)]);
    for (const int row : best_rows) is_taken[static_cast<size_t>(row)] = true;
  }
  return parts;
}

/// Two plans that share the outputs: `first` computes the tiles below some index, `second` the rest.
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
            const bool by_first = of_first.code(row, col) == d.code(row, col),
                       by_second = of_second.code(row, col) == d.code(row, col);
            covered = by_first || by_second;
            if (by_first && !by_second) last_of_first = std::max(last_of_first, tile);
            if (by_second && !by_first) first_of_second = std::min(first_of_second, tile);
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

/// The outputs that plans must match, few at first: a plan that misses one is not computed further.
struct Sample {
  GemmInputs inputs;
  Matrix d;
  std::map<InputRounding, GemmInputs> rounded = {};  // inputs as plans with this rounding read them

  /// Calls compute(plan, inputs) with rounded inputs, if the plan rounds them.
  template <typename Compute>
  int64_t misses(const GemmPlan& plan, const Compute& compute) const {
    const TensorCoreChain* const tensor = plan.tensor_cores();
    const auto inputs_of_rounding = tensor ? rounded.find(tensor->input_rounding) : rounded.end();
    if (inputs_of_rounding == rounded.end()) return count_differing(compute(plan, inputs), d);
    GemmPlan without = plan;
    without.tensor().input_rounding = InputRounding::none;
    return count_differing(compute(without, inputs_of_rounding->second), d);
  }
};

/// The level of a plan's evidence; that of a plan that no library is known to use is the weakest.
EvidenceLevel level_of(const std::optional<FieldEvidence>& evidence, Target target) {
  return evidence ? std::min(level_on(*evidence, target), EvidenceLevel::model_choice) : EvidenceLevel::model_choice;
}

/// The plan without the parts that vary from call to call: slices, epilogue, name.
GemmPlan family_of(GemmPlan plan) {
  plan.name.clear(), plan.evidence.clear(), plan.epilogue.clear();
  plan.saturate.reset();
  if (plan.split_k.cuts.empty()) plan.split_k.count = std::min(plan.split_k.count, 2);
  if (plan.split_k.count == 1) plan.split_k = {};
  return plan;
}

/// The catalogue's plan families for these inputs, with their evidence.
std::vector<std::pair<GemmPlan, FieldEvidence>> known_families(const GemmInputs& inputs, Format output, Target target) {
  std::vector<std::pair<GemmPlan, FieldEvidence>> families;
  for (const CataloguePlan& row : catalogue()) {
    if (info(row.target).chip != info(target).chip) continue;
    try {
      for (const GemmPlan& plan :
           plans_named(row.name, inputs, output, {.target = target, .split_count = row.open_count ? 2 : 0}))
        families.emplace_back(family_of(plan), plan.evidence.at("plan"));
    } catch (const Error&) {
      continue;  // the types do not fit, or K is too short
    }
  }
  return families;
}

class PlanFinder {
 public:
  PlanFinder(const GemmInputs& inputs, const Matrix& d, const FindOptions& options, const FindProgress& progress)
      : inputs_(inputs), d_(d), options_(options), progress_(progress), began_(Clock::now()) {
    search_.outputs = static_cast<int64_t>(d.size());
    if (d.rows() == inputs.a.rows() && d.cols() == inputs.b.cols()) return;
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = "d",
                 .seen = fmt::format("{} x {}", d.rows(), d.cols()),
                 .expected = fmt::format("{} x {}", inputs.a.rows(), inputs.b.cols())});
  }

  PlanSearch run() {
    for (size_t i = 0; i < search_stages.size(); ++i) {
      const SearchStage stage = search_stages[i];
      const bool matches =
          find_in(candidate_plans(inputs_, d_, options_, stage)) || (stage == SearchStage::usual && find_by_tiles());
      if (ends()) search_.untried_stages.assign(search_stages.begin() + static_cast<int>(i) + 1, search_stages.end());
      if (matches) return ranked();
      if (ends()) break;
    }
    return with_nearest();
  }
  PlanSearch run(std::span<const GemmPlan> plans) {
    if (find_in(plans)) return ranked();
    return with_nearest();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int64_t untried = -1;
  static constexpr size_t most_small = 4096;            // outputs of a sample that one thread computes
  static constexpr size_t most_words_kept = 1u << 20u;  // of known sums, for each thread

  /// Thrown out of a product when the search ends.
  struct Ended {};
  Matrix whole(const GemmPlan& plan, const GemmInputs& inputs) {
    if (ends()) throw Ended{};
    return gemm(plan, inputs, options_.threads, [&](int64_t) {
      if (ends()) throw Ended{};
    });
  }

  /// True once the caller, the time limit or the plan limit ends the search; it stays true.
  bool ends() {
    if (end_ != SearchEnd::complete) return true;
    if (options_.timeout_s > 0 && seconds_since(began_) > options_.timeout_s) return end(SearchEnd::timeout);
    if (!options_.stop) return false;
    const std::lock_guard lock(stop_mutex_);
    return options_.stop() ? end(SearchEnd::stopped) : false;
  }
  bool end(SearchEnd reason) {
    end_ = reason;
    return true;
  }

  /// Tests plans; true if some of them match all bits.
  bool find_in(std::span<const GemmPlan> plans) {
    if (plans.empty()) return false;
    if (samples_.empty()) {
      choose_samples(plans.front());
      round_inputs();
    }
    bool is_last = false;
    if (options_.max_plans > 0 && search_.candidates + std::ssize(plans) > options_.max_plans) {
      search_.untried = search_.candidates + std::ssize(plans) - options_.max_plans;
      plans = plans.first(static_cast<size_t>(options_.max_plans - search_.candidates));
      is_last = true;
    }
    total_ += static_cast<int64_t>(plans.size());
    const std::vector<int64_t> misses = misses_of(plans);
    if (is_last && end_ == SearchEnd::complete) end(SearchEnd::max_plans);
    for (size_t i = 0; i < plans.size(); ++i) {
      if (misses[i] == untried) {
        ++search_.untried;
        continue;
      }
      ++search_.candidates;
      if (misses[i] == 0) search_.all_bits.push_back(plans[i]);
      else nearest_.emplace_back(misses[i], plans[i]);
    }
    std::ranges::stable_sort(nearest_, {}, [](const auto& missed) { return missed.first; });
    constexpr size_t most_kept = 32;
    nearest_.resize(std::min(nearest_.size(), most_kept));
    return !search_.all_bits.empty();
  }

  /// Stream-K: some tiles are one chain, the others are split. True if two such plans together match all outputs.
  bool find_by_tiles() {
    if (scales_in_instruction(inputs_) || d_.size() < 2) return false;
    const std::vector<GemmPlan> wholes = whole_tile_plans(inputs_, d_, options_);
    int64_t left = 0;
    for (const GemmPlan& plan : wholes) left += std::ssize(cut_tile_plans(plan, inputs_, d_));
    try {
      for (const GemmPlan& plan : wholes) {
        const std::vector<GemmPlan> cuts = cut_tile_plans(plan, inputs_, d_);
        const Matrix of_whole = whole(plan, inputs_);
        const int64_t missed = count_differing(of_whole, d_);
        const bool matches_few = 20 * missed > 19 * static_cast<int64_t>(d_.size());
        for (const GemmPlan& cut : cuts) {
          if (missed == 0 || matches_few) break;
          const Matrix of_cut = whole(cut, inputs_);
          ++search_.candidates, --left;
          const auto joined = joined_by_tiles(plan, cut, of_whole, of_cut, d_, inputs_);
          if (!joined || whole(*joined, inputs_) != d_) continue;
          search_.all_bits.push_back(*joined);
          return true;
        }
        if (missed == 0 || matches_few) left -= std::ssize(cuts);
      }
    } catch (const Ended&) {
      search_.untried += left;
    }
    return false;
  }

  /// Plans seen on GPUs first, among equals the simplest first; with their families.
  PlanSearch ranked() {
    struct Ranked {
      GemmPlan plan;
      std::optional<FieldEvidence> evidence = {};
    };
    const Target target = options_.target;
    const auto known = known_families(inputs_, d_.format(), target);
    std::vector<Ranked> rows;
    for (GemmPlan& plan : search_.all_bits) {
      std::optional<FieldEvidence> strongest;
      const GemmPlan family = family_of(plan);
      for (const auto& [known_family, evidence] : known) {
        if (known_family == family && (!strongest || level_of(evidence, target) < level_of(strongest, target)))
          strongest = evidence;
      }
      rows.push_back({.plan = std::move(plan), .evidence = std::move(strongest)});
    }
    std::ranges::stable_sort(rows, {}, [&](const Ranked& row) { return level_of(row.evidence, target); });
    search_.all_bits.clear();
    for (Ranked& row : rows) {
      const std::string name = print_family(row.plan);
      const auto entry = std::ranges::find_if(search_.families, [&](const PlanFamily& family) {
        return family.name == name && level_of(family.evidence, target) == level_of(row.evidence, target);
      });
      if (entry != search_.families.end()) ++entry->plans;
      else
        search_.families.push_back(
            {.name = name, .plans = 1, .first = std::ssize(search_.all_bits), .evidence = std::move(row.evidence)});
      search_.all_bits.push_back(std::move(row.plan));
    }
    search_.end = end_;
    return std::move(search_);
  }

  PlanSearch with_nearest() {
    const auto wanted = static_cast<size_t>(std::max(0, options_.max_nearest));
    if (end_ != SearchEnd::complete) nearest_.resize(std::min(nearest_.size(), wanted));
    // After an early end a whole product would take too long.
    const auto is_small = [](const Sample& sample) { return sample.d.size() <= most_small; };
    const auto small = std::find_if(samples_.rbegin(), samples_.rend(), is_small);
    const bool in_part = end_ != SearchEnd::complete && small != samples_.rend();
    const GemmInputs& inputs = in_part ? small->inputs : inputs_;
    const Matrix& d = in_part ? small->d : d_;
    for (const auto& [misses, plan] : nearest_) {
      const Matrix computed = gemm(plan, inputs, options_.threads);
      const int64_t differing = count_differing(computed, d);
      search_.nearest.push_back({.plan = plan,
                                 .differing = std::max<int64_t>(differing, 1),
                                 .outputs = static_cast<int64_t>(d.size()),
                                 .pattern = differing == 0 ? "outside the sample" : pattern_of(computed, d, inputs)});
    }
    std::ranges::stable_sort(search_.nearest, {}, &NearPlan::differing);
    search_.nearest.resize(std::min(search_.nearest.size(), wanted));
    search_.end = end_;
    return std::move(search_);
  }

  void choose_samples(const GemmPlan& first) {
    const auto add = [&](const Part& part) {
      const auto& [rows, cols] = part;
      if (rows.size() * cols.size() == d_.size()) return;
      samples_.push_back({part_of(inputs_, rows, cols), cols_of(rows_of(d_, rows, "d"), cols, "d")});
    };
    if (!has_two_readings(inputs_)) {  // a sample would force a reading
      for (const Part& part : telling_outputs(first, inputs_, d_, options_.threads)) add(part);
      add({spread(d_.rows(), 64), spread(d_.cols(), 64)});
    }
    samples_.push_back({inputs_, d_});
  }

  /// Rounding the inputs takes longer than most sums, so do it once for all plans.
  void round_inputs() {
    if (inputs_.a.format() != Format::tf32) return;
    for (Sample& sample : samples_) {
      for (const InputRounding rounding : {InputRounding::tf32_rne, InputRounding::tf32_rna})
        sample.rounded.emplace(rounding, rounded_inputs(sample.inputs, rounding));
    }
  }

  /// Misses in the first sample, or 1 or more if only a later sample differs. 0: all bits match.
  std::vector<int64_t> misses_of(std::span<const GemmPlan> plans) {
    std::vector<int64_t> misses(plans.size());
    std::vector<size_t> left(plans.size());
    std::iota(left.begin(), left.end(), size_t{0});
    for (size_t i = 0; i < samples_.size(); ++i) {
      const Sample& sample = samples_[i];
      const auto try_plan = [&](size_t plan, const auto& compute) {
        if (ends()) return static_cast<void>(misses[plan] = untried);
        try {
          misses[plan] = sample.misses(plans[plan], compute);
        } catch (const Ended&) {
          misses[plan] = untried;
        }
        if (i > 0) return;
        const int64_t now = ++done_;
        if (progress_) progress_(now, total_);
      };
      if (sample.d.size() > most_small) {  // a large sample parallelises by itself
        for (const size_t plan : left) {
          try_plan(plan, [&](const GemmPlan& gemm_plan, const GemmInputs& inputs) { return whole(gemm_plan, inputs); });
        }
      } else {
        // Neighbours share sums of slices: a thread tries some of them and keeps its sums for the next ones.
        const size_t run =
            std::clamp<size_t>(left.size() / (8 * static_cast<size_t>(std::max(1, options_.threads))), 1, 128);
        std::vector<KnownSums> unused;
        std::mutex mutex;
        parallel_for((left.size() + run - 1) / run, options_.threads, [&](size_t number) {
          KnownSums known;
          if (const std::lock_guard lock(mutex); !unused.empty()) known = std::move(unused.back()), unused.pop_back();
          for (const size_t plan : std::span(left).subspan(number * run, std::min(run, left.size() - number * run))) {
            if (known.words > most_words_kept) known.forget_sums();
            try_plan(plan, [&](const GemmPlan& gemm_plan, const GemmInputs& inputs) {
              return gemm(gemm_plan, inputs, known);
            });
          }
          const std::lock_guard lock(mutex);
          unused.push_back(std::move(known));
        });
      }
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
  std::vector<std::pair<int64_t, GemmPlan>> nearest_;  // keyed by misses in the first sample
  std::atomic<int64_t> done_{0};
  Clock::time_point began_;
  std::mutex stop_mutex_;
  std::atomic<SearchEnd> end_{SearchEnd::complete};
  int64_t total_ = 0;
};

}  // namespace

PlanSearch find_plans(const GemmInputs& inputs, const Matrix& d, const FindOptions& options,
                      const FindProgress& progress) {
  return in_ieee_environment([&] { return PlanFinder(inputs, d, options, progress).run(); });
}

PlanSearch try_plans(std::span<const GemmPlan> plans, const GemmInputs& inputs, const Matrix& d,
                     const FindOptions& options, const FindProgress& progress) {
  return in_ieee_environment([&] { return PlanFinder(inputs, d, options, progress).run(plans); });
}

}  // namespace bitmma
