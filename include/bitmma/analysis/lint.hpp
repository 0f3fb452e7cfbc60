// SPDX-License-Identifier: MIT
// Everything about a case that is legal but suspicious, with the reason and the likely fix.
#pragma once

#include <vector>

#include "bitmma/instruction/case.hpp"

namespace bitmma {

/// What descriptors, metadata and copies say (warnings_of), and what the bytes show: rows that share bytes, bytes that
/// both operands read, strides that change nothing, NaN and infinity among the operands, scales that are NaN or all
/// subnormal. Advice is a warning; what keeps the instruction from running, such as a read past the image, is an error.
/// Suspicious inputs are reported, not thrown.
std::vector<Violation> lint(const Case& one);

}  // namespace bitmma
