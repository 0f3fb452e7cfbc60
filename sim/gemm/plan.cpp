// SPDX-License-Identifier: MIT
#include "bitmma/gemm/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "gemm_inside.hpp"
#include "plan_json.hpp"

namespace bitmma {
namespace {

/// What fields of a plan demand of each other. Each value by itself is already in its range.
class PlanChecks {
 public:
  explicit PlanChecks(const GemmPlan& plan) : plan_(plan) {}

  std::vector<Violation> violations() {
    violations_ = values_out_of_range(plan_);
    if (!violations_.empty()) return std::move(violations_);
    if (const CudaCoreChain* const lanes = plan_.cuda_cores()) check(*lanes);
    else if (!check(plan_.tensor())) return std::move(violations_);
    check_slices();
    return std::move(violations_);
  }

 private:
  void require(bool holds, std::string_view field, std::string seen, std::string expected) {
    if (holds) return;
    violations_.push_back(
        {.field = fmt::format("plan: {}", field), .seen = std::move(seen), .expected = std::move(expected)});
  }

  void check(const CudaCoreChain& lanes) {
    require(lanes.join == LaneJoin::ascending || std::has_single_bit(static_cast<unsigned>(lanes.count)), "lanes.count",
            std::to_string(lanes.count), "a power of two with joins that halve");
    require_float_output();
  }

  /// False if the instruction is illegal, so that nothing else can be checked.
  bool check(const TensorCoreChain& chain) {
    if (!is_mma(chain.instruction)) {
      require(false, "instruction", print(chain.instruction), "a matrix instruction");
      return false;
    }
    violations_ = violations_of(chain.instruction, plan_.target);
    if (!violations_.empty()) return false;
    const Mma mma = step_of(chain.instruction);
    require(!mma.sparse, "instruction", print(chain.instruction), "dense");
    require(chain.k_step <= mma.k, "k_step", std::to_string(chain.k_step),
            fmt::format("at most K of the instruction, {}", mma.k));
    require(mma.scaling == Scaling::none || chain.k_step == 0, "k_step", std::to_string(chain.k_step),
            "absent with block scales");
    require(chain.input_rounding == InputRounding::none || mma.a == Format::tf32, "input_rounding",
            std::string(plan_words(InputRounding{})[static_cast<size_t>(chain.input_rounding)]),
            "absent except for tf32");
    const bool needs_tile =
        chain.residue == Residue::first || chain.sliced_k > 1 || (chain.promotion && chain.promotion->restart_at_tile);
    require(!needs_tile || chain.k_tile > 0, "k_tile", "(missing)",
            "given if residue is first, or with sliced_k or restart_at_tile");
    require(chain.sliced_k == 1 || chain.k_tile % chain.sliced_k == 0, "k_tile", std::to_string(chain.k_tile),
            fmt::format("a multiple of sliced_k, {}", chain.sliced_k));
    require(chain.sliced_k == 1 || !chain.promotion, "promotion", "given",
            "absent: it cannot be combined with sliced_k");
    require(!chain.start_with_c || !chain.promotion, "start", "c",
            "absent with promotion, whose accumulators begin from zero");
    const bool is_integer = mma.d == Format::s32;
    const std::string output(info(plan_.output).name);
    require(!is_integer || (plan_.output == Format::s32 && plan_.epilogue.empty() && !chain.promotion), "output",
            output, "s32 without epilogue or promotion: integers are exact");
    require(mma.d != Format::f64 || (plan_.epilogue.empty() && !chain.promotion && chain.sliced_k == 1 &&
                                     plan_.reduction == Reduction{} && plan_.regions.empty()),
            "output", "f64 with an epilogue, promotion, sliced_k, regions or another reduction",
            "f64 in one chain or in slices that are added in f64, ascending");
    if (!is_integer) require_float_output();
    require((mma.d == Format::f64) == (plan_.output == Format::f64), "output", output,
            "f64 only with f64 instructions");
    return true;
  }

  void require_float_output() {
    const FormatInfo& row = info(plan_.output);
    if (plan_outputs.contains(row.id) && row.kind == NumberKind::floating) return;
    std::vector<FormatInfo> legal = rows_of(plan_outputs);
    std::erase_if(legal, [](const FormatInfo& format) { return format.kind != NumberKind::floating; });
    violations_.push_back({.field = "plan: output", .seen = std::string(row.name), .legal = row_names(legal)});
  }

  void require_cuts(const SplitK& split, std::string_view field) {
    const std::vector<int64_t>& cuts = split.cuts;
    require(cuts.empty() || (cuts.size() >= 2 && cuts.front() == 0 && std::ranges::is_sorted(cuts)), field,
            fmt::format("{} numbers", cuts.size()), "0, then ascending numbers");
  }

  void check_slices() {
    require_cuts(plan_.split_k, "split_k.cuts");
    for (const Region& region : plan_.regions) {
      require(region.first_tile >= 0 && region.first_tile <= region.last_tile, "regions.tiles",
              fmt::format("[{}, {}]", region.first_tile, region.last_tile), "0 <= first <= last");
      require_cuts(region.split_k, "regions.split_k.cuts");
    }
    require(plan_.tile_mn.first > 0 && plan_.tile_mn.second > 0, "tile_mn",
            fmt::format("[{}, {}]", plan_.tile_mn.first, plan_.tile_mn.second), "positive extents");
    const bool no_relu_inside = std::ranges::none_of(plan_.epilogue, [](const EpilogueOp& op) {
      return op.kind == EpilogueKind::round || op.kind == EpilogueKind::beta_c;
    });
    require(!plan_.reduction.serial || (no_relu_inside && plan_.reduction.order == ReductionOrder::ascending),
            "reduction.serial", "true", "false with round, beta_c or pairs");
  }

  const GemmPlan& plan_;
  std::vector<Violation> violations_ = {};
};

[[noreturn]] void refuse(std::string field, std::string seen, std::string expected) {
  throw Error({.field = "plan: " + std::move(field), .seen = std::move(seen), .expected = std::move(expected)});
}

}  // namespace

Json parse_plan_json(std::string_view text) {
  std::string repeated;
  Json json = parse_json(text, 64, &repeated);
  if (!repeated.empty()) refuse(shortened(printable(repeated)), "given twice", "unique keys");
  if (json.is_discarded()) {
    std::string expected = "one JSON object, nested less than 64 deep";
    try {
      static_cast<void>(Json::parse(text));
    } catch (const Json::parse_error& error) {
      expected += fmt::format("; the text is no JSON at character {}", error.byte);
    }
    refuse("JSON", shortened(printable(text)), std::move(expected));
  }
  return json;
}

GemmPlan parse_plan(std::string_view text) {
  const Json json = parse_plan_json(text);
  if (json.is_object() && !json.contains("instruction"))
    refuse("instruction", "(missing)", "a PTX mnemonic with all qualifiers");
  GemmPlan plan = read_plan(json, {});
  require_legal(plan);
  return plan;
}

void require_legal(const GemmPlan& plan) {
  std::vector<Violation> violations = violations_of(plan);
  if (!violations.empty()) throw Error(std::move(violations));
}

std::vector<Violation> violations_of(const GemmPlan& plan) { return PlanChecks(plan).violations(); }

bool scales_blocks(const GemmPlan& plan) {
  const TensorCoreChain* const chain = plan.tensor_cores();
  return chain && chain->promotion && chain->promotion->scale != PromotionScale::none;
}

Mma step_of(const Instruction& instruction) {
  Mma mma = mma_of(instruction);
  mma.m /= mma.products, mma.k /= mma.products, mma.products = 1;
  return mma;
}

bool multiplies(const GemmPlan& plan, Format a, Format b) {
  if (const TensorCoreChain* const chain = plan.tensor_cores()) {
    const Mma mma = mma_of(chain->instruction);
    return a == mma.a && b == mma.b;
  }
  const auto widens = [](Format format) {
    return format == Format::tf32 || format == Format::f32 || format == Format::f16 || format == Format::bf16;
  };
  return widens(a) && widens(b);
}

std::vector<std::pair<int64_t, int64_t>> slices_of(const SplitK& split, int64_t k) {
  // K of a product is an int, so sums and products of split rules fit in 64 bits.
  constexpr int64_t longest = std::numeric_limits<int>::max();
  if (k < 0 || k > longest)
    throw Error({.field = "K", .seen = std::to_string(k), .expected = fmt::format("0..{}", longest)});
  if (split.cuts.empty() && (split.count < 1 || split.unit < 1)) {
    throw Error({.field = "split_k",
                 .seen = fmt::format("count {}, unit {}", split.count, split.unit),
                 .expected = "both 1 or more"});
  }
  std::vector<std::pair<int64_t, int64_t>> slices;
  const auto add = [&](int64_t first, int64_t last) {
    first = std::clamp<int64_t>(first, 0, k), last = std::clamp<int64_t>(last, 0, k);
    if (first < last) slices.emplace_back(first, last);
  };
  if (!split.cuts.empty()) {
    for (size_t i = 0; i + 1 < split.cuts.size(); ++i) add(split.cuts[i], split.cuts[i + 1]);
    return slices;
  }
  const int64_t s = split.count, g = split.unit, tiles = (k + g - 1) / g;
  switch (split.rule) {
    case SplitRule::ceil:
    case SplitRule::nvjet: {
      const int64_t c = split.rule == SplitRule::ceil ? ceil_div(tiles, s) * g : ceil_div(k / s, g) * g;
      for (int64_t j = 0; j < s && c > 0 && j * c < k; ++j) add(j * c, (j + 1) * c);
      break;
    }
    case SplitRule::floor: {
      const int64_t c = k / g / s * g;
      if (c == 0) add(0, k);  // the last slice takes all of it
      for (int64_t j = 0; j < s && c > 0; ++j) add(j * c, j == s - 1 ? k : (j + 1) * c);
      break;
    }
    case SplitRule::big_first:
    case SplitRule::big_last: {
      int64_t first = 0;
      // If there are fewer tiles than slices, the first slices of big_last are empty.
      const int64_t empty = split.rule == SplitRule::big_last ? std::max<int64_t>(0, s - tiles) : 0;
      for (int64_t j = empty; j < s && first < k; ++j) {
        const bool is_big = split.rule == SplitRule::big_first ? j < tiles % s : j >= s - tiles % s;
        const int64_t last = first + (tiles / s + (is_big ? 1 : 0)) * g;
        add(first, last);
        first = last;
      }
      break;
    }
  }
  return slices;
}

int64_t k_added(const GemmPlan& plan, int64_t k) {
  int64_t added = 0;
  for (const auto& [first, last] : slices_of(plan.split_k, k)) added += last - first;
  return added;
}

}  // namespace bitmma
