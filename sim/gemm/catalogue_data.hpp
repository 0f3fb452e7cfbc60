// data/plans/plans.json and data/plans/kernels.json, as they stand there.
#pragma once

namespace bitmma {

extern const char* const plans_json;
extern const char* const kernels_json;

}  // namespace bitmma
