// SPDX-License-Identifier: MIT
// What each attention kernel chooses for a shape: tiles, splits of the keys, and which shapes it takes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "../core/ieee_environment.hpp"
#include "attention_steps.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "row_lanes.hpp"

namespace bitmma {
namespace {

using namespace operators;

constexpr std::string_view source = "flash_fwd_kernel.h of FlashAttention-2";

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

/// The fields of a kernel's plan that all kernels have.
AttentionPlan plan_of_scale(const AttentionShape& shape, const AttentionOptions& options, AttentionKernel kernel) {
  return {.kernel = kernel, .scale = options.scale.value_or(static_cast<float>(1.0 / std::sqrt(shape.head_size)))};
}

void require_whole_keys(const AttentionOptions& options, std::string_view expected) {
  if (options.window_left >= 0 || options.window_right >= 0 || options.splits)
    throw Error({.field = "window or splits", .seen = "given", .expected = std::string(expected)});
}

/// Did cuDNN take its sm80 kernels of 64 queries for such a single query? With more keys or heads it takes one of 16
/// queries x 128 keys, whose last bits differ from call to call.
bool has_measured_choice(const AttentionShape& shape) {
  const int keys = shape.keys;
  return keys <= 32 || (keys > 40 && keys <= 65) || (keys <= 200 && keys > 65 && shape.heads <= 32);
}

/// Throws Error for what was not compared with a GPU.
AttentionPlan cudnn_plan(const AttentionShape& shape, const AttentionOptions& options) {
  const auto require = [](bool good, std::string_view field, const std::string& seen, std::string_view expected) {
    if (!good)
      throw Error({.field = std::string(field),
                   .seen = seen,
                   .expected = fmt::format("{}: nothing else of cuDNN is measured", expected)});
  };
  require_whole_keys(options, "none: cuDNN's kernels have neither");
  AttentionPlan plan = plan_of_scale(shape, options, options.kernel);
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

AttentionPlan memory_efficient_plan(const AttentionShape& shape, const AttentionOptions& options) {
  if (shape.head_size > 128)
    throw Error(
        {.field = "head_size", .seen = std::to_string(shape.head_size), .expected = "a multiple of 8 up to 128"});
  require_whole_keys(options, "absent: the memory-efficient kernel has neither");
  AttentionPlan plan = plan_of_scale(shape, options, AttentionKernel::memory_efficient);
  plan.tile_queries = 64, plan.tile_keys = shape.head_size <= 64 ? 64 : 128;
  if (options.causal) plan.window_right = 0;
  plan.masks = options.causal;
  return plan;
}

AttentionPlan flash_plan(const AttentionShape& shape, const AttentionOptions& options) {
  AttentionPlan plan = plan_of_scale(shape, options, AttentionKernel::flash_2);
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

BITMMA_IN_ENVIRONMENT AttentionPlan plan_of(const AttentionShape& shape, const AttentionOptions& options) {
  switch (options.kernel) {
    case AttentionKernel::flash_2: return flash_plan(shape, options);
    case AttentionKernel::memory_efficient: return memory_efficient_plan(shape, options);
    case AttentionKernel::cudnn:
    case AttentionKernel::cudnn_sm80: return cudnn_plan(shape, options);
  }
  std::abort();
}

}  // namespace

namespace operators {

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

}  // namespace operators

std::string_view print(AttentionKernel kernel) { return attention_steps_of(kernel).name; }

AttentionKernel parse_attention_kernel(std::string_view name) {
  if (const AttentionSteps* const steps = find_attention_steps(name)) return steps->kernel;
  throw Error({.field = "backend",
               .seen = shortened(name),
               .expected = fmt::format("{}: PyTorch's FLASH_ATTENTION, EFFICIENT_ATTENTION and CUDNN_ATTENTION",
                                       attention_kernel_names())});
}

AttentionPlan attention_plan(const AttentionShape& shape, const AttentionOptions& options) {
  require_shape(shape);
  if (options.multiprocessors < 1)
    throw Error({.field = "multiprocessors", .seen = std::to_string(options.multiprocessors), .expected = "1 or more"});
  const IeeeEnvironment environment;
  AttentionPlan plan = plan_of(shape, options);
  require_plan(plan);
  return plan;
}

std::string print(const AttentionPlan& plan) {
  return fmt::format("{}, {} queries x {} keys, {}, scale {}", title_of(plan), plan.tile_queries, plan.tile_keys,
                     counted(plan.splits, "split"), print_value(Format::f32, word(plan.scale)));
}

}  // namespace bitmma
