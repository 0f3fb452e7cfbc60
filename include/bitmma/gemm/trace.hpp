// SPDX-License-Identifier: MIT
// One output of a whole product, operation by operation: the accumulator before and after each operation, and the error
// of its rounding or truncation.
//
//   const ProductTrace trace = trace_product(plan, inputs, 3, 5);
//   trace.steps[0]         K 0..15: 0 -> 1.2345, 2^-24 too small
//   trace.error            of D: the sum of the errors of all steps
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/table.hpp"
#include "bitmma/gemm/gemm.hpp"

namespace bitmma {

/// Kinds of operations: an instruction of the chain; the CUDA-core chains of a slice; an f32 addition of a promoted
/// sum; the reduction of sliced-K warps or split-K slices; an operation of the epilogue; rounding to a narrower type; a
/// range of K that the plan does not add.
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
  std::string what = {};           // for the epilogue: the operation's name
  int slice = 0;                   // for split-K
  int64_t first = 0, last = 0;     // the range of K that it adds; empty if it adds sums
  Format format = Format::f32;     // of both codes
  uint64_t before = 0, after = 0;  // of the accumulator or sum
  /// Value after the step minus the exact result of the step. Nothing for epilogue operations, which scale or clamp,
  /// and if a NaN or an infinity is involved.
  std::optional<double> error = {};
  double error_so_far = 0;  // of all steps up to this one

  bool operator==(const TraceStep&) const = default;
};

struct [[nodiscard]] ProductTrace {
  GemmPlan plan = {};
  int row = 0, col = 0;
  int64_t k = 0;
  std::vector<TraceStep> steps = {};
  Format format = Format::f32;  // of D
  uint64_t d = 0;
  /// The exact sum of the exact products, without the epilogue and the scales that the plan applies in f32; rounded
  /// once to a double. Nothing if an operand is NaN or infinite.
  std::optional<double> exact = {};
  double error = 0;    // of all steps together
  int64_t worst = -1;  // the step with the largest error; -1: no step has one

  bool operator==(const ProductTrace&) const = default;
};

/// Throws Error as gemm does, for an output that does not exist, and for f64 and integers.
ProductTrace trace_product(const GemmPlan& plan, const GemmInputs& inputs, int row, int col);

}  // namespace bitmma
