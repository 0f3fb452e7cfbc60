// SPDX-License-Identifier: MIT
// Reports about one output of an operator.
#pragma once

#include "bitmma/analysis/report.hpp"
#include "bitmma/operators/trace.hpp"

namespace bitmma {

/// {"operator", "output" (its place), "type", "word", "value", "evidence", "plan" (an object), "steps"}. A step is
/// {"part", "step", "operation", "rounding", "type", "words", "values"}. The text shows the first and the last of a
/// step's many values, and of more than `most_parts` parts the first and the last.
Report describe(const OperatorTrace& trace, int most_parts = 6);

}  // namespace bitmma
