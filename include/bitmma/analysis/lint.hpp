// SPDX-License-Identifier: MIT
// Reports everything about the cases of a file that is legal but suspicious, with the reason and the likely fix.
#pragma once

#include <cstdint>
#include <vector>

#include "bitmma/files/vector_file.hpp"

namespace bitmma {

/// Findings from descriptors, metadata and copies (warnings_of), and from the bytes: rows that share bytes, bytes that
/// both operands read, strides without effect, NaN and infinity among the operands, scales that are NaN or all
/// subnormal. Advice is a warning; anything that prevents the instruction from running, such as a read past the image,
/// is an error. Suspicious inputs are reported, not thrown.
std::vector<Violation> lint(const Case& this_case);

/// A finding of a file, and the number of cases that have it.
struct [[nodiscard]] LintFinding {
  Violation finding = {};
  int64_t cases = 0;
};
/// The findings of all cases, each listed once.
std::vector<LintFinding> lint(const VectorFile& vectors);

}  // namespace bitmma
