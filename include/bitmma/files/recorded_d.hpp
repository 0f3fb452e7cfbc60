// SPDX-License-Identifier: MIT
// Files with a recorded D, as verify, compare and diagnose take them: with their inputs, or a D alone for the inputs of
// another file.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/files/compare.hpp"

namespace bitmma {

/// What an act on files tells while it works. Each may be empty.
struct FileEvents {
  std::function<void(const std::vector<Violation>&)> warn = {};
  Progress progress = {};  // cases done
};

/// The tensor of a file that holds only a D: under any name, or as d with the key instruction; nullptr for other files.
const Tensor* d_alone(const TensorFile& file);
/// Throws Error (code unusable_file) for a file without inputs where they are needed; the command `verb` accepts it as
/// its second file.
void require_inputs(const TensorFile& file, std::string_view verb);
/// `file` with `d` in place of all of its results.
TensorFile with_d(TensorFile file, Tensor d);

/// A file of cases of any tiling. Throws Error as as_tiled_file and require_inputs do. Warns of a d of another type
/// than the instruction's result, which is compared nevertheless: each of its numbers is representable in that type.
VectorFile as_recorded_file(TensorFile file, const VectorFileDefaults& defaults = {}, const FileEvents& events = {});
/// The warning alone.
void warn_of_converted_d(const TensorFile& file, const Instruction& instruction, const FileEvents& events);

/// The inputs of `file` with the D of `of_d`, which has nothing else. Throws Error if both name an instruction, and
/// these differ; what is wrong with the D is reported for its own file.
VectorFile with_d_of(const TensorFile& file, const TensorFile& of_d, const VectorFileDefaults& defaults = {},
                     const FileEvents& events = {});

}  // namespace bitmma
