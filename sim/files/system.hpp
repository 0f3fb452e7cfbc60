// SPDX-License-Identifier: MIT
// Shared by the code that reads and writes files: names that the system accepts, and errors with its own text.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <utility>

#include "bitmma/core/error.hpp"

namespace bitmma {

[[noreturn]] inline void refuse_file(const std::string& path, const std::string& what, const std::string& expected,
                                     std::string fix = {}) {
  throw Error(
      {.code = ViolationCode::unusable_file, .field = path, .seen = what, .expected = expected, .fix = std::move(fix)});
}

/// Throws Error with the system's text for errno.
[[noreturn]] inline void refuse_by_errno(const std::string& path, std::string fix = {}) {
  if (errno == ENOENT) throw Error({.code = ViolationCode::not_found, .field = "file", .seen = path});
  refuse_file(path, std::strerror(errno), {}, std::move(fix));
}

/// A size as one in memory. Throws std::bad_alloc if addresses are too short for it, as those of 32 bits may be.
inline size_t memory_size(uint64_t size) {
  if (size > std::numeric_limits<size_t>::max()) throw std::bad_alloc();
  return static_cast<size_t>(size);
}

/// The system reads names up to the first zero byte: a name must not contain one.
inline void require_name(const std::string& path) {
  if (path.find('\0') != std::string::npos)
    throw Error({.field = "path", .seen = "a name with a zero byte", .expected = "a name without zero bytes"});
  if (path.empty()) throw Error({.field = "path", .seen = "an empty name", .expected = "the name of a file"});
}

/// A file descriptor that closes with the object, unless it was closed before.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  /// Returns false, with errno, if the written data may be lost.
  bool close() {
    const int number = std::exchange(number_, -1);
    // Linux closes the descriptor even if it reports EINTR.
    return number < 0 || ::close(number) == 0 || errno == EINTR;
  }

 private:
  int number_;
};

}  // namespace bitmma
