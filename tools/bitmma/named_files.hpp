// SPDX-License-Identifier: MIT
// No command replaces a file that it reads, nor one output by another. Files are compared by what they are, not by
// their names: x, ./x, a link to x and a hard link of x are one file.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "bitmma/files/file.hpp"
#include "flag.hpp"

namespace bitmma::cli {

/// Throws Error, which names both flags, if an output is also an input or another output. Folders, terminals and
/// devices such as /dev/null may occur more than once.
void require_distinct(const std::vector<NamedFile>& files);

/// While it exists, writing a file that this thread has read throws Error. This covers files that the command line does
/// not name: those of a folder, or those that another file names. A command may look at an old output before it
/// replaces it.
///
/// A file of the command line that no add_input() or add_output() declares is a fault of the verb: std::logic_error.
class ReplacesNoInput {
 public:
  explicit ReplacesNoInput(const Command& command);

 private:
  void observe(const std::string& path, FileUse use);
  /// True for a path that a flag for inputs, or for outputs, names, and for one below a folder that it names.
  bool is_named(const std::string& path, FileUse use) const;
  bool is_on_command_line(const std::string& path) const;

  const Command& command_;
  std::vector<NamedFile> files_;
  std::set<std::string> read_ = {};  // what identifies the files
  FileObserver observer_;
};

}  // namespace bitmma::cli
