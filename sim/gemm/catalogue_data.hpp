// SPDX-License-Identifier: MIT
// data/plans/plans.json, kernels.json and types.json, as they stand there.
#pragma once

namespace bitmma {

extern const char* const plans_json;
extern const char* const kernels_json;
extern const char* const types_json;

}  // namespace bitmma
