// Pictures of layouts as text, for a terminal.
#pragma once

#include <string>

#include "bitmma/memory/fragment.hpp"
#include "bitmma/memory/smem.hpp"

namespace bitmma {

/// Shared memory in lines of 128 bytes, eight 16-byte units each: which row and which k (or the other way round in
/// MN-major) every unit holds. At most `max_lines` lines, with a note when there are more.
std::string draw_smem(const SmemMap& map, int max_lines = 32);

/// The matrix, rows down and columns across: thread and register of every element, neighbours of one register drawn
/// together. The first 16 rows, which the other warps repeat, and at most `max_cols` columns.
std::string draw_fragment(const Fragment& fragment, int max_cols = 16);

}  // namespace bitmma
