// SPDX-License-Identifier: MIT
// The arithmetic of an attention kernel, as steps. A step is a function together with the note that `explain` prints of
// its results: who changes the function reads the note beside it.
//
//   of each tile of keys   scores -> scale -> largest -> exponent -> weights -> sum
//                                                    \-> rescale: the factor of the sums and outputs of earlier tiles
//   after the last tile    sums -> total -> log_sum_exp, inverse
//
// A new kernel is a row of attention_steps.cpp with the functions that no other kernel has, and a plan in
// attention_plan.cpp. The loop over the tiles, the products and the masks are those of all kernels (attention.cpp).
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "bitmma/arithmetic/accumulator_model.hpp"
#include "bitmma/operators/attention.hpp"
#include "notes.hpp"

namespace bitmma::operators {

template <typename Function>
struct AttentionStep {
  Function* compute = nullptr;
  std::string_view operation = {};              // "score * scale2 - largest * scale2"
  std::string_view rounding = each_to_nearest;  // or the function that rounds
};

/// What the steps read of a plan.
struct AttentionConstants {
  float scale, scale2;
  bool is_split;  // the keys are a part of all keys
};

/// The sums of a row's weights, in the four lanes that share it or in the first.
using LaneSums = std::array<float, 4>;

/// The factor of scores in units of ln 2, of kernels that multiply once.
using Scale2Step = AttentionStep<float(float scale)>;
/// `scaled` has the size of `scores`.
using ScaleStep =
    AttentionStep<void(const AttentionConstants&, std::span<const uint32_t> scores, std::span<uint32_t> scaled)>;
/// `before`: the largest score before this tile.
using RescaleStep = AttentionStep<float(const AttentionConstants&, float before, float largest)>;
/// `exponents` has the size of `scores`, and may be the same words.
using ExponentStep = AttentionStep<void(const AttentionConstants&, std::span<const uint32_t> scores, float largest,
                                        std::span<uint32_t> exponents)>;
/// 2^exponent, in its place.
using WeightStep = AttentionStep<void(std::span<uint32_t> exponents)>;
/// Adds a tile's weights. `rescale` is 1 at the first tile.
using SumStep = AttentionStep<void(LaneSums&, std::span<const uint32_t> weights, float rescale)>;
using TotalStep = AttentionStep<float(const LaneSums&)>;
using LogSumExpStep = AttentionStep<float(const AttentionConstants&, float largest, float sum)>;
using InverseStep = AttentionStep<float(float sum)>;

struct AttentionSteps {
  AttentionKernel kernel;
  std::string_view name;                        // of its backend
  std::string_view title, title_of_split = {};  // of the kernel, and with the keys in splits

  // The products: chains of an instruction of K = k.
  Family family;
  std::string_view instruction;
  int k;

  bool takes_last_keys_first = false;
  /// The last query of a causal mask sees the last key; otherwise the first query sees the first key alone.
  bool ends_at_last_key = false;

  Scale2Step scale2 = {};
  ScaleStep scale = {};  // kernels without it scale in `exponent` and `rescale`
  RescaleStep rescale;
  ExponentStep exponent;
  WeightStep weights;
  SumStep sum;
  TotalStep total = {};  // of all lanes; kernels without it keep a single sum
  LogSumExpStep log_sum_exp;
  InverseStep inverse;
};

const AttentionSteps& attention_steps_of(AttentionKernel kernel);
/// nullptr: there is no backend of this name.
const AttentionSteps* find_attention_steps(std::string_view name);
/// The names of all backends, "flash, efficient, ...".
std::string attention_kernel_names();

AttentionConstants constants_of(const AttentionPlan& plan);
/// The kernel that computes the plan.
std::string_view title_of(const AttentionPlan& plan);

/// Throws Error for shapes that no kernel takes.
void require_shape(const AttentionShape& shape);
/// Throws Error for plans that no kernel has.
void require_plan(const AttentionPlan& plan);

}  // namespace bitmma::operators
