// SPDX-License-Identifier: MIT
// One output of an operator, step by step: each value on the way to it, how it is computed and how it is rounded. The
// operator itself notes them down while it computes the output.
//
//   const OperatorTrace trace = trace_softmax(x, {}, 0, 5);      row 0, column 5
//   trace.steps[2]       difference = x - largest, to nearest even: 0xbf800000
//   trace.steps.back()   the output, rounded to its type
//
// A step has several words where several lanes, threads or keys have one each. `describe` in analysis/describe_operator
// makes text and a tree of them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bitmma/operators/attention.hpp"
#include "bitmma/operators/rows.hpp"

namespace bitmma {

struct OperatorStep {
  std::string part = {};       // "keys 128..255": of what it is a step; empty if the operator has a single part
  std::string what = {};       // "difference"
  std::string operation = {};  // "x - largest"
  std::string rounding = {};   // "to nearest even", "exact", a C function, the rule of an instruction
  Format format = Format::f32;
  std::vector<uint32_t> words = {};  // one, or one of each lane, thread or key

  bool operator==(const OperatorStep&) const = default;
};

struct [[nodiscard]] OperatorTrace {
  std::string name = {};         // "softmax"
  std::vector<int> output = {};  // row and column; of attention head, query and column; of a reduction its number
  std::vector<std::pair<std::string, std::string>> plan = {};  // "kernel", "threads": what the library chose
  std::vector<OperatorStep> steps = {};                        // the last one is the output

  bool operator==(const OperatorTrace&) const = default;
};

/// Throw Error as the operators do, and for an output that does not exist.
OperatorTrace trace_attention(const AttentionPlan& plan, const AttentionShape& shape, const Matrix& q, const Matrix& k,
                              const Matrix& v, int head, int query, int col);
OperatorTrace trace_softmax(const Matrix& x, const SoftmaxOptions& options, int row, int col);
OperatorTrace trace_layer_norm(const Matrix& x, const Matrix* weight, const Matrix* bias, float eps, int row, int col);
OperatorTrace trace_rms_norm(const Matrix& x, const Matrix* weight, float eps, int row, int col);
/// `output`: the row of x, or with over_rows its column.
OperatorTrace trace_reduce(const Matrix& x, const ReduceOptions& options, int output);
OperatorTrace trace_elementwise(std::string_view name, const Matrix& x, const Matrix* y, int row, int col);

}  // namespace bitmma
