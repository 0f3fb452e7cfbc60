// SPDX-License-Identifier: MIT
// Reports about quantiser recipes and quantised matrices.
#pragma once

#include "bitmma/analysis/report.hpp"
#include "bitmma/operators/quantize.hpp"

namespace bitmma {

/// {"name", "what", "project", "version", "commit", "path", "licence", "evidence", "inputs", "block" (two numbers, 0
/// for the whole extent), "element", "scale", "two_levels", "torch", "torch_device" (whether it matters), "steps"}.
Report describe(const QuantizeRecipe& recipe);

/// One line per recipe: name, element, scale, block, project, version and evidence.
Report describe(const std::vector<QuantizeRecipe>& recipes);

/// {"recipe", "rows", "cols", "input", "element", "scale", "block", "scales" (two extents), "tensor_scale",
/// "warnings"}.
Report describe(const QuantizeRecipe& recipe, const Matrix& x, const Quantized& quantized);

}  // namespace bitmma
