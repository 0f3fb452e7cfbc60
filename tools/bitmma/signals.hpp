// SPDX-License-Identifier: MIT
// Interrupts of a long command that has something to say before it ends.
//
//   const Interrupts interrupts;
//   while (work is left && !interrupts.asked()) do a piece;
//   print what was done
#pragma once

#include <string_view>

namespace bitmma::cli {

/// While it lives, the first SIGINT or SIGTERM is only noted, with a line on stderr; the next one ends the program, in
/// the way that was set up before. A signal that was ignored stays ignored. One at a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool asked() const { return !name().empty(); }
  /// "SIGINT" or "SIGTERM"; empty as long as there was none.
  std::string_view name() const;
};

}  // namespace bitmma::cli
