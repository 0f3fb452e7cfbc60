// SPDX-License-Identifier: MIT
// An operator on operands of files: attention, softmax, norms, reductions and functions of elements, by their names.
//
//   const OperatorRun run = run_operator({.name = "softmax", .files = {"x.npy"}});
//   print(run.report);
//   write_tensor_file("out.safetensors", run.results);
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/acts/operator_file.hpp"
#include "bitmma/analysis/report.hpp"

namespace bitmma {

/// The names and the operands of an operator, and the options of OperatorRequest that it reads.
struct OperatorInfo {
  std::string name = {};
  std::vector<std::string_view> operands = {};
  size_t required = 1;  // the first operands, which have to be there
  std::vector<std::string_view> options = {};
};

/// All operators, in the order of the help.
std::vector<OperatorInfo> operator_infos();

/// What is empty is the library's default. The comments name the operators that read an option.
struct OperatorRequest {
  std::string name = {};
  std::vector<std::string> files = {};      // of the operands, as in read_operands
  std::string tensor = {};                  // another name of the first operand in its file
  std::optional<Format> type = {};          // of tensors of raw codes
  bool causal = false;                      // attention
  std::optional<float> scale = {};          // attention
  std::string window = {};                  // attention: "LEFT,RIGHT"; -1: all keys
  std::optional<int> splits = {};           // attention
  std::string backend = {};                 // attention: a name of AttentionKernel; default: flash
  std::optional<Format> output_type = {};   // softmax, sum, mean
  std::optional<float> eps = {};            // norms
  std::string dim = {};                     // reductions: -1, the default; all; or 0 of a matrix
  std::optional<TensorFile> recorded = {};  // to compare the results with
  std::string explain = {};                 // the place of an output, such as "0,5": its steps
  bool computes = true;                     // false: only explain one output, which does not need the others
  int threads = 1;
};

struct [[nodiscard]] OperatorRun {
  Report report = {};       // as describe() of describe_operator.hpp; "explanation" if results were computed as well
  TensorFile results = {};  // empty unless the request computes
  bool differs = false;     // from what was recorded
};

/// Throws Error for an operator that has no such name, operands that do not fit, options that the operator does not
/// read (fields as above), and a place that the result does not have (field explain).
OperatorRun run_operator(const OperatorRequest& request);

}  // namespace bitmma
