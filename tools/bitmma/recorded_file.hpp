// SPDX-License-Identifier: MIT
// Files with a recorded D, as verify, compare and diagnose take them.
#pragma once

#include <functional>
#include <string>

#include "bitmma/files/recorded_file.hpp"
#include "flags.hpp"

namespace bitmma::cli {

/// A file that holds a D alone: under any name, or as d with the key instruction.
const Tensor* d_alone(const TensorFile& file);
/// Throws Error where both files say their instruction, and not the same.
void require_same_instruction(const TensorFile& file, const TensorFile& of_d);
/// Throws Error for such a file where inputs are needed; `verb` takes it as its second file.
void require_inputs(const TensorFile& file, std::string_view verb);
/// `file` with `d` in place of all that it records.
TensorFile with_d(TensorFile file, Tensor d);
/// Calls `body`. Where it refuses tensor d or the cases of `path`, the message names `path_of_d`, which d is from.
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

/// Says on standard error that the d of a file has another type than the instruction leaves, and is compared all the
/// same: each of its numbers is one of that type.
void warn_of_converted_d(const Context& context, const TensorFile& file, const Instruction& instruction);

/// A file of cases or whole tiles. Throws Error when it is neither, or holds a D alone. `flags` stand in for what the
/// file does not say. Warns of a converted d.
RecordedFile read_recorded(const Context& context, TensorFile file, const FileFlags& flags);

}  // namespace bitmma::cli
