// SPDX-License-Identifier: MIT
// Files: read as a whole or in blocks; written completely or not at all.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/compiler.hpp"

namespace bitmma {

class Descriptor;

/// Bytes that any number of threads can read by offset. Files up to a size, pipes and in-memory data are held in
/// memory; a larger file stays open, and read() reads blocks of it.
class InputFile {
 public:
  static constexpr uint64_t usual_most_in_memory = uint64_t{64} << 20;

  /// Opens a file, or a dataset by its name dataset:NAME. Throws Error naming the path if it cannot be opened, is a
  /// folder or a device, or is a FIFO without a writer.
  explicit InputFile(std::string path, uint64_t most_in_memory = usual_most_in_memory);
  explicit InputFile(std::vector<uint8_t> bytes);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  uint64_t size() const { return size_; }
  bool is_in_memory() const { return file_ == nullptr; }
  /// All bytes of a file that is held in memory; empty for a file that stays open.
  std::span<const uint8_t> memory() const { return memory_; }
  /// Fills `to` with the bytes from `offset` on. Throws Error, which names the path, if the file no longer has them.
  void read(uint64_t offset, std::span<uint8_t> to) const;
  /// Throws Error, which names the path, if an open file was modified since it was opened. Call it before publishing
  /// results computed from it.
  void require_unchanged() const;

 private:
  void hold(std::vector<uint8_t> bytes);

  std::string path_;
  uint64_t size_ = 0;
  std::span<const uint8_t> memory_ = {};
  std::shared_ptr<const void> owner_ = {};  // owns memory_
  std::unique_ptr<const Descriptor> file_;  // null for bytes in memory
  int64_t modified_nanoseconds_ = 0;
};

/// All bytes of a file of any size. Throws Error as InputFile does.
std::string read_whole(const std::string& path);

enum class FileUse : uint8_t { read, write };

/// Sees every file that this thread opens as an InputFile, and every file before write_whole touches it. `observe` may
/// throw to refuse the use. A program that must not replace its own inputs keeps one; an inner observer hides an outer
/// one.
class FileObserver {
 public:
  using Observe = std::function<void(const std::string& path, FileUse use)>;

  explicit FileObserver(Observe observe);
  ~FileObserver();
  FileObserver(const FileObserver&) = delete;
  FileObserver& operator=(const FileObserver&) = delete;

  /// Calls the innermost observer of this thread, if there is one.
  static void report(const std::string& path, FileUse use);

 private:
  Observe observe_;
  FileObserver* outer_;
};

/// Prefix of the names of unfinished files; 16 hexadecimal digits follow.
inline constexpr std::string_view unfinished_prefix = ".bitmma-";

/// Lets `write` fill a stream and puts the result at `path`, completely or not at all: a reader sees the old file or
/// the new one, even after a crash or a power failure. If `expected_bytes` is known, it is compared with the free space
/// before anything is written.
///
/// The file is created in the folder of `path` under a random name that begins with unfinished_prefix; it is flushed to
/// the disk, closed and then renamed. A replaced file keeps its permissions and owner. A symbolic link stays a link:
/// the file to which it points is replaced. Pipes, character devices, this process' own output and files with several
/// names (hard links) are written in place instead, from a complete temporary file. Folders, block devices and files
/// without write permission are refused.
///
/// Throws Error, which names `path`, and removes the unfinished file if `write` throws or the disk is full. A signal
/// that ends the process leaves the unfinished file. The process keeps it open for reading and writing until it is
/// renamed, so that a program's signal handler can find and remove it.
void write_whole(const std::string& path, const std::function<void(std::ostream&)>& write, uint64_t expected_bytes = 0);

}  // namespace bitmma
