// SPDX-License-Identifier: MIT
// Reports about an operator's results, and about one of its outputs.
#pragma once

#include <string_view>
#include <vector>

#include "bitmma/acts/operator_file.hpp"
#include "bitmma/analysis/report.hpp"
#include "bitmma/operators/trace.hpp"

namespace bitmma {

/// {"operator", "output" (its place), "type", "word", "value", "evidence", "plan" (an object), "steps"}. A step is
/// {"part", "step", "operation", "rounding", "type", "words", "values"}. The text shows the first and the last of a
/// step's many values, and of more than `most_parts` parts the first and the last.
Report describe(const OperatorTrace& trace, int most_parts = 6);

/// {"operator", "plan" (if there is one), "operands" and "results" (objects of {"type", "shape"}), "evidence", "first"
/// (values of the first rows and columns of the first result)}; of results that were compared also "compared": a list
/// of {"result", "outputs", "differing", and of the first difference "first" (its place), "recorded", "computed"}.
Report describe(std::string_view name, const std::vector<OperatorTensor>& operands,
                const std::vector<OperatorTensor>& results, const std::vector<OperatorComparison>& compared = {},
                std::string_view plan = {});

}  // namespace bitmma
