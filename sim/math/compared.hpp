// SPDX-License-Identifier: MIT
// What the tables of data/math have for a function of words.
#pragma once

#include <string>

#include "bitmma/math/evidence.hpp"

namespace bitmma::math {

/// The tables' evidence for a function if they cover the target's GPU; `otherwise` if they contain none.
EvidenceOfWords compared_or(const std::string& name, int operands, Target target, EvidenceOfWords otherwise);

}  // namespace bitmma::math
