// SPDX-License-Identifier: MIT
// --fault and --set: the mistakes of a wrong program, whose D is written.
#pragma once

#include <string>
#include <vector>

#include "bitmma/analysis/wrong_program.hpp"
#include "flags.hpp"

namespace bitmma::cli {

struct WrongFlags {
  Flag<std::vector<std::string>> faults = {}, changes = {};

  void add(Command& command);
  bool are_given() const { return !faults->empty() || !changes->empty(); }
  /// Writes the file with D of the wrong program, and says on stderr how many outputs are wrong.
  void write(Context& context, const VectorFile& vectors, const std::string& path) const;
};

}  // namespace bitmma::cli
