// SPDX-License-Identifier: MIT
// Patterns of kernel names.
#pragma once

#include <regex.h>

#include <memory>
#include <string>
#include <vector>

namespace bitmma {

/// An extended regular expression of POSIX, which is searched for in names. The C library has it: <regex> of C++ costs
/// each file that includes it three seconds of compilation, and recurses over the characters of a name.
class NamePattern {
 public:
  /// Throws Error for text that is no expression.
  explicit NamePattern(const std::string& expression);

  /// The leftmost, longest match and its groups, empty where a group took no part; nothing if there is no match.
  std::vector<std::string> match(const std::string& name) const;
  bool matches(const std::string& name) const { return !match(name).empty(); }

 private:
  struct Free {
    void operator()(regex_t* compiled) const {
      regfree(compiled);
      delete compiled;
    }
  };
  std::unique_ptr<regex_t, Free> compiled_;
};

}  // namespace bitmma
