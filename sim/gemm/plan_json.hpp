// SPDX-License-Identifier: MIT
// Plans as JSON trees: the functions that the catalogue needs in addition to parse_plan.
#pragma once

#include <string_view>

#include "../core/json.hpp"
#include "bitmma/gemm/plan.hpp"

namespace bitmma {

/// Throws Error for text that is not JSON.
Json parse_plan_json(std::string_view text);
/// Reads a plan from `json`; an absent target, chain or output comes from `base`. Throws Error that names a field. It
/// does not check whether fields fit together: see require_legal.
GemmPlan read_plan(const Json& json, const GemmPlan& base);
/// Throws Error with the result of violations_of.
void require_legal(const GemmPlan& plan);

}  // namespace bitmma
