// SPDX-License-Identifier: MIT
// Reports everything about a case that is legal but suspicious, with the reason and the likely fix.
#pragma once

#include <vector>

#include "bitmma/instruction/case.hpp"

namespace bitmma {

/// Findings from descriptors, metadata and copies (warnings_of), and from the bytes: rows that share bytes, bytes that
/// both operands read, strides without effect, NaN and infinity among the operands, scales that are NaN or all
/// subnormal. Advice is a warning; anything that prevents the instruction from running, such as a read past the image,
/// is an error. Suspicious inputs are reported, not thrown.
std::vector<Violation> lint(const Case& one);

}  // namespace bitmma
