// SPDX-License-Identifier: MIT
// Handles interrupts of a long command that has to print something before it ends.
//
//   const Interrupts interrupts;
//   while (work is left && !interrupts.received()) do a piece;
//   print what was done
#pragma once

#include <string_view>

namespace bitmma::cli {

/// During its lifetime, the first SIGINT or SIGTERM is only recorded, with a line on stderr; the next one ends the
/// program by the previous action. A signal that was ignored stays ignored. Only one object at a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool received() const { return !name().empty(); }
  /// "SIGINT" or "SIGTERM"; empty before a signal.
  std::string_view name() const;
};

}  // namespace bitmma::cli
