// SPDX-License-Identifier: MIT
// One output of a whole product, operation by operation: the accumulator before and after each, and what rounding or
// truncation loses in it.
//
//   const ProductTrace trace = trace_product(plan, inputs, 3, 5);
//   trace.steps[0]         K 0..15: 0 -> 1.2345, 2^-24 too small
//   trace.error            of D: the sum of what all steps lose
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/table.hpp"
#include "bitmma/gemm/gemm.hpp"

namespace bitmma {

/// What an operation is: an instruction of the chain; the chains of CUDA cores of a slice; a promoted sum that is added
/// in f32; warps of sliced-K and slices of split-K that are joined; an operation of the epilogue; rounding to a
/// narrower type; K that the plan does not add.
enum class TraceKind : uint8_t {
  instruction,
  cuda_cores,
  promotion,
  join_warps,
  join_slices,
  epilogue,
  round,
  not_added
};

struct TraceKindInfo {
  TraceKind id;
  std::string_view name;
};
inline constexpr auto trace_kinds = std::to_array<TraceKindInfo>({
    {TraceKind::instruction, "instruction"},
    {TraceKind::cuda_cores, "CUDA cores"},
    {TraceKind::promotion, "promotion"},
    {TraceKind::join_warps, "join warps"},
    {TraceKind::join_slices, "join slices"},
    {TraceKind::epilogue, "epilogue"},
    {TraceKind::round, "round"},
    {TraceKind::not_added, "not added"},
});
static_assert(are_in_enum_order(trace_kinds));
constexpr std::string_view print(TraceKind kind) { return trace_kinds[static_cast<size_t>(kind)].name; }

struct TraceStep {
  TraceKind kind = TraceKind::instruction;
  std::string what = {};           // of the epilogue: the operation's name
  int slice = 0;                   // of split-K
  int64_t first = 0, last = 0;     // K that it adds, [first, last); empty where it adds sums
  Format format = Format::f32;     // of both codes
  uint64_t before = 0, after = 0;  // of the accumulator or sum that it changes
  /// The value after it less the exact one: the value before it and what is added. Nothing for operations of the
  /// epilogue, which scale or clamp, and where a NaN or an infinity comes in.
  std::optional<double> error = {};
  double error_so_far = 0;  // of all steps up to this one

  bool operator==(const TraceStep&) const = default;
};

struct ProductTrace {
  GemmPlan plan = {};
  int row = 0, col = 0;
  int64_t k = 0;
  std::vector<TraceStep> steps = {};
  Format format = Format::f32;  // of D
  uint64_t d = 0;
  /// The exact sum of the exact products, without epilogue and scales that the plan applies in f32; rounded once to a
  /// double. Nothing where an operand is NaN or infinite.
  std::optional<double> exact = {};
  double error = 0;    // of all steps together
  int64_t worst = -1;  // the step that loses most; -1: no step loses anything

  bool operator==(const ProductTrace&) const = default;
};

/// Throws Error with what gemm refuses, for an output that the product does not have, and for f64 and integers.
ProductTrace trace_product(const GemmPlan& plan, const GemmInputs& inputs, int row, int col);

}  // namespace bitmma
