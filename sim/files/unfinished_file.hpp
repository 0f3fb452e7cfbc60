// A file that is being written and has no place yet.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "system.hpp"

namespace bitmma {

/// A new, empty file in `folder` that no other process has. It has no name where the file system can do that, and
/// otherwise a random one; it is gone with the object unless it was given a place. Errors name `path`.
class UnfinishedFile {
 public:
  UnfinishedFile(std::filesystem::path folder, std::string path);
  ~UnfinishedFile();
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  int descriptor() const { return file_.number(); }
  /// Throws Error when the disk has no room for so many bytes; keeps the room free for this file where that is
  /// possible.
  void reserve(uint64_t bytes);
  /// Flushes it to the disk, closes it and renames it to `target`, whose permissions and owner it takes when it exists.
  void become(const std::filesystem::path& target);

 private:
  [[noreturn]] void refuse(const std::string& what, std::string fix = {}) const;
  void open_under_a_name();
  /// Afterwards all of it is on the disk.
  void flush_and_close();
  /// Gives a file without a name one, or if that fails copies it into a file with a name.
  void take_name();
  void take_permissions_of(const std::filesystem::path& target);

  std::filesystem::path folder_;
  std::string path_;
  std::string name_;  // empty while it has none
  int slot_ = -1;     // where remove_unfinished_files() finds the name
  Descriptor file_;
};

/// Copies all of one file to where the other one stands. False, with errno, when it does not take it.
bool copy_all(int from, int to);

}  // namespace bitmma
