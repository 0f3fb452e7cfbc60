// SPDX-License-Identifier: MIT
// Plans as JSON trees: the functions that the catalogue and reports need in addition to parse_plan.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "../core/json.hpp"
#include "bitmma/gemm/plan.hpp"

namespace bitmma {

/// Throws Error for text that is not JSON.
Json parse_plan_json(std::string_view text);
/// Reads a plan from `json`; an absent target, chain or output comes from `base`. Throws Error that names a field. It
/// does not check whether fields fit together: see require_legal.
GemmPlan read_plan(const Json& json, const GemmPlan& base);
/// Reads the evidence of a field: an object, or a text, which is only `stated`. Errors name it `where`.
FieldEvidence read_evidence(const Json& json, const std::string& where);
/// The tree of print_json.
Json plan_json(const GemmPlan& plan);
/// Values outside the ranges and words of their fields.
std::vector<Violation> values_out_of_range(const GemmPlan& plan);
/// Throws Error with the result of violations_of.
void require_legal(const GemmPlan& plan);

}  // namespace bitmma
