// SPDX-License-Identifier: MIT
// Flags that complete a vector file, and names of files on the command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bitmma/files/vector_file.hpp"
#include "target_flag.hpp"

namespace bitmma::cli {

/// --instruction and --target: defaults for a vector file that does not name them. With add_types also --a, --b, --d
/// and --scale-type, for matrices of a tcgen05.mma.
struct FileFlags {
  Flag<std::string> instruction = {};
  TargetFlag target = {};
  Flag<std::string> a = {}, b = {}, d = {}, scale_type = {}, inputs = {};

  void add(Command& command);
  void add_types(Command& command);
  /// Throws Error if the file is malformed, or names another instruction or target than requested.
  VectorFile read(const std::string& path) const;
  /// The same for a file in memory.
  VectorFile read(TensorFile file) const;
  /// The defaults; they refer to these flags.
  VectorFileDefaults defaults() const;
  /// Calls `body`, and converts an error of the library to one about these flags.
  template <typename Body>
  auto naming(const Body& body) const {
    try {
      return body();
    } catch (const Error& error) {
      throw in_flags(error);
    }
  }
  Error in_flags(const Error& error) const;
};

/// True if all of them are NumPy arrays with one matrix each: together they are one file.
bool are_arrays(const std::vector<std::string>& files);
/// Reads arrays a.npy, b.npy, ... as one file. Files of other names have a, b and c in this order. Throws Error if two
/// have the same name.
TensorFile read_arrays(const std::vector<std::string>& paths);

/// Throws Error for the file name of another format, unless its suffix is `suffix`, .txt or empty: the text would be
/// written under a misleading name.
void require_text_file_name(const std::string& path, std::string_view suffix);
/// Throws Error for the file name of another format than safetensors: the data would have a misleading name.
void require_tensor_file_name(const std::string& path);

/// The path of each input's result: `output` itself for one file; a name in that folder for several files, or if it is
/// a folder. Throws Error if several files share an `output` that is not a folder, or share a name.
std::vector<std::string> output_paths(const std::vector<std::string>& inputs, const std::string& output);

/// The named files, and all *.safetensors below the named folders, in order. Throws Error if a folder has none.
std::vector<std::string> vector_files(const std::vector<std::string>& paths);

struct ExistingFiles {
  std::vector<std::string> files = {};
  std::vector<Violation> dangling = {};
};
/// vector_files() that exist, so that nothing is shown before a missing file is reported. Throws Error if a named file,
/// or all of them, do not exist. A dangling link below a folder is only reported.
ExistingFiles existing_files(const std::vector<std::string>& paths);

}  // namespace bitmma::cli
