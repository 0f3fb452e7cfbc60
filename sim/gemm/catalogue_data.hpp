// SPDX-License-Identifier: MIT
// The contents of data/plans/plans.json, kernels.json and types.json.
#pragma once

namespace bitmma {

extern const char* const plans_json;
extern const char* const kernels_json;
extern const char* const types_json;

}  // namespace bitmma
