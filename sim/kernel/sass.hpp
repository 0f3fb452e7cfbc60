// SPDX-License-Identifier: MIT
// What a kernel's SASS says of its sums: nvdisasm -gp writes over each instruction the line of the PTX that it was
// compiled from.
//
//   //## File ".nv_debug_ptx_txt", line 19
//           /*0060*/                   FFMA R5, R0, R5, R7 ;
#pragma once

#include <map>
#include <set>
#include <string_view>

namespace bitmma::kernel {

/// Floating-point instructions of one line of the PTX.
struct SassLine {
  int sums = 0, products = 0, fmas = 0;
};
using SassLines = std::map<int, SassLine>;

/// The lines of a kernel. Throws Error for text that is not nvdisasm's, that lacks the kernel or the lines of the PTX,
/// and for floating-point instructions of a line that is not in `lines`, those of the entry's instructions.
SassLines sass_lines(std::string_view text, std::string_view entry, const std::set<int>& lines);

}  // namespace bitmma::kernel
