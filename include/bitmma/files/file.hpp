// SPDX-License-Identifier: MIT
// Files: read whole or in blocks, written whole or not at all.
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

/// Bytes that are read by offset, from any number of threads. Files up to 64 MiB, pipes and bytes that were made in
/// memory are held in memory; a larger file stays open, and read() takes blocks of it.
class InputFile {
 public:
  /// Throws Error naming the path if it cannot be opened, is a folder or a device, or is a FIFO without a writer.
  explicit InputFile(std::string path);
  explicit InputFile(std::vector<uint8_t> bytes);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  uint64_t size() const { return size_; }
  bool is_in_memory() const { return file_ == nullptr; }
  /// All bytes of a file that is held in memory. Empty for one that stays open.
  std::span<const uint8_t> memory() const { return memory_; }
  /// Fills `to` with the bytes from `offset` on. Throws Error naming the path if the file does not have them any more.
  void read(uint64_t offset, std::span<uint8_t> to) const;
  /// Throws Error naming the path if a file that stays open was changed since it was opened. Call it before publishing
  /// results computed from it.
  void require_unchanged() const;

 private:
  void hold(std::vector<uint8_t> bytes);

  std::string path_;
  uint64_t size_ = 0;
  std::span<const uint8_t> memory_ = {};
  std::shared_ptr<const void> owner_ = {};  // of memory_
  std::unique_ptr<const Descriptor> file_;  // nothing for bytes in memory
  int64_t modified_nanoseconds_ = 0;
};

/// All bytes of a file of any size. Throws Error as InputFile does.
std::string read_whole(const std::string& path);

/// Names of unfinished files begin with it; 16 hexadecimal digits follow.
inline constexpr std::string_view unfinished_prefix = ".bitmma-";

/// Lets `write` fill a stream and puts the result at `path`, whole or not at all: a reader sees the old file or the new
/// one, also after a crash or a power cut. `expected_bytes`, where it is known, is compared with the free space before
/// anything is written.
///
/// The file is made in the folder of `path` under a random name that begins with unfinished_prefix; it is flushed to
/// the disk, closed and then renamed. Permissions and owner of a file that is replaced are kept. A symbolic link stays
/// one: the file that it names is replaced. Pipes, character devices, this process' own output and files with several
/// names (hard links) are written through instead, from a complete file aside. Folders, block devices and files without
/// any write permission are refused.
///
/// Throws Error naming `path`, and removes the unfinished file, if `write` throws or the disk is full. A
/// signal that ends the process leaves the unfinished file. Until it has its place the process has it open for
/// reading and writing, so that a program's handler of signals can find and remove it.
void write_whole(const std::string& path, const std::function<void(std::ostream&)>& write, uint64_t expected_bytes = 0);

}  // namespace bitmma
