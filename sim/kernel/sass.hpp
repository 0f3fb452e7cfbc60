// SPDX-License-Identifier: MIT
// Reads from a kernel's SASS which sums are fused: nvdisasm -gp prints, above each instruction, the line of the PTX
// from which ptxas compiled it.
//
//   //## File ".nv_debug_ptx_txt", line 19
//           /*0060*/                   FFMA R5, R0, R5, R7 ;
#pragma once

#include <map>
#include <set>
#include <string_view>

namespace bitmma::kernel {

/// Number of floating-point instructions compiled from one PTX line.
struct SassLine {
  int sums = 0, products = 0, fmas = 0;
};
using SassLines = std::map<int, SassLine>;

/// Counts by PTX line for a kernel. Throws Error if the text is not nvdisasm's, lacks the kernel or the PTX lines, or
/// has floating-point instructions for a line that is not in `lines`, the lines of the entry's instructions.
SassLines sass_lines(std::string_view text, std::string_view entry, const std::set<int>& lines);

}  // namespace bitmma::kernel
