// SPDX-License-Identifier: MIT
// What reading and writing files share: names that the system takes, and errors in its words.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "bitmma/core/error.hpp"

namespace bitmma {

[[noreturn]] inline void refuse_file(const std::string& path, const std::string& what, const std::string& expected,
                                     std::string fix = {}) {
  throw Error(
      {.code = ViolationCode::unusable_file, .field = path, .seen = what, .expected = expected, .fix = std::move(fix)});
}

/// In the words of the system, by errno.
[[noreturn]] inline void refuse_by_errno(const std::string& path, std::string fix = {}) {
  if (errno == ENOENT) throw Error({.code = ViolationCode::not_found, .field = "file", .seen = path});
  refuse_file(path, std::strerror(errno), {}, std::move(fix));
}

/// Names go to the system up to their first 0: there must be none.
inline void require_name(const std::string& path) {
  if (path.find('\0') != std::string::npos)
    throw Error({.field = "path", .seen = "a name with a 0 byte", .expected = "a name without"});
  if (path.empty()) throw Error({.field = "path", .seen = "an empty name", .expected = "the name of a file"});
}

/// A file descriptor that is closed with the object, unless it was closed before.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  /// False, with errno, when what was written may be lost.
  bool close() {
    const int number = std::exchange(number_, -1);
    // After EINTR it is closed all the same.
    return number < 0 || ::close(number) == 0 || errno == EINTR;
  }

 private:
  int number_;
};

}  // namespace bitmma
