// SPDX-License-Identifier: MIT
// Sets of formats and targets that several tables of instructions name.
#pragma once

#include "bitmma/core/target.hpp"
#include "bitmma/formats/format.hpp"

namespace bitmma::table_sets {

inline constexpr FormatSet fp8{Format::e4m3, Format::e5m2},
    f8f6f4{Format::e4m3, Format::e5m2, Format::e2m3, Format::e3m2, Format::e2m1};
inline constexpr TargetSet from_turing = TargetSet::from(Target::sm_75), from_ampere = TargetSet::from(Target::sm_80),
                           from_hopper = TargetSet::from(Target::sm_90);

}  // namespace bitmma::table_sets
