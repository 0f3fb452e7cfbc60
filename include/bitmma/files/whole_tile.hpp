// A whole tile as a kernel has it: A and B with all of K, M and N of several instructions, and one D at the end.
//
//   a [64, 256]   b [256, 128]   d [64, 128]   instruction wgmma...m64n64k16: two columns of tiles, 16 steps of K
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bitmma/files/vector_file.hpp"

namespace bitmma {

struct WholeTile {
  Instruction instruction = Wgmma{};
  Target target = Target::sm_90a;
  /// Without a state: logical a, b, c and scales of the whole tile, and d where it is recorded.
  std::vector<Case> cases = {};
};

/// The tiles of a file whose plain matrices are those of several instructions, or whose images and descriptors are the
/// steps of a loop over K with one d behind them all. Nothing for other files. Throws Error as as_vector_file does, and
/// where extents are no multiples of the instruction's.
std::optional<WholeTile> whole_tile(const TensorFile& file, const VectorFileDefaults& defaults = {});

}  // namespace bitmma
