// SPDX-License-Identifier: MIT
// Files with a recorded D, for verify, compare and diagnose.
#pragma once

#include <functional>
#include <string>

#include "bitmma/files/recorded_file.hpp"
#include "flags.hpp"

namespace bitmma::cli {

/// The tensor of a file that holds only a D: under any name, or as d with the key instruction.
const Tensor* d_alone(const TensorFile& file);
/// Throws Error if both files name an instruction, and these differ.
void require_same_instruction(const TensorFile& file, const TensorFile& of_d);
/// Throws Error for a file without inputs where they are needed; `verb` accepts it as its second file.
void require_inputs(const TensorFile& file, std::string_view verb);
/// `file` with `d` in place of all of its results.
TensorFile with_d(TensorFile file, Tensor d);
/// Calls `body`. If it refuses tensor d or the cases of `path`, the message names `path_of_d`, the origin of d.
template <typename Body>
auto naming_file_of_d(const std::string& path, const std::string& path_of_d, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    std::vector<Violation> violations = error.violations();
    for (Violation& violation : violations) {
      for (const std::string_view what : {": tensor d", ": cases"}) {
        if (violation.field.starts_with(path + std::string(what)))
          violation.field = path_of_d + violation.field.substr(path.size());
      }
    }
    throw Error(std::move(violations));
  }
}

/// Warns that the d of a file has another type than the instruction's result, and is compared nevertheless: each of its
/// numbers is representable in that type.
void warn_of_converted_d(const Context& context, const TensorFile& file, const Instruction& instruction);

/// A file of cases or whole tiles. Throws Error if it is neither, or holds only a D. `flags` supply what the file does
/// not name. Warns of a converted d.
RecordedFile read_recorded(const Context& context, TensorFile file, const FileFlags& flags);

}  // namespace bitmma::cli
