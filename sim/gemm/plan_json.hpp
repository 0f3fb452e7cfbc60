// SPDX-License-Identifier: MIT
// Plans as JSON trees: the functions that the catalogue needs beside parse_plan.
#pragma once

#include <string_view>

#include "../core/json.hpp"
#include "bitmma/gemm/plan.hpp"

namespace bitmma {

/// Throws Error for text that is not JSON.
Json parse_plan_json(std::string_view text);
/// The fields of `json`; target, chain and output without a field of their own are those of `base`. Throws Error that
/// names a field. Whether fields go together, require_legal checks.
GemmPlan read_plan(const Json& json, const GemmPlan& base);
/// Throws Error with what violations_of finds.
void require_legal(const GemmPlan& plan);

}  // namespace bitmma
