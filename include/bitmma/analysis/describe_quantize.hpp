// SPDX-License-Identifier: MIT
// Recipes of quantisers, and what they made of a matrix, as reports.
#pragma once

#include "bitmma/analysis/report.hpp"
#include "bitmma/operators/quantize.hpp"

namespace bitmma {

/// {"name", "what", "project", "version", "commit", "path", "licence", "evidence", "inputs", "block" (two numbers, 0
/// for all), "element", "scale", "two_levels", "torch", "torch_device" (whether it acts), "steps"}.
Report describe(const QuantizeRecipe& recipe);

/// A line a recipe: its name, element, scale, block, project, version and evidence.
Report describe(const std::vector<QuantizeRecipe>& recipes);

/// {"recipe", "rows", "cols", "input", "element", "scale", "block", "scales" (two extents), "tensor_scale",
/// "warnings"}.
Report describe(const QuantizeRecipe& recipe, const Matrix& x, const Quantized& quantized);

}  // namespace bitmma
