// Files: mapped for reading, written whole or not at all.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>

namespace bitmma {

/// A file's bytes, read-only. Files up to 64 MiB and pipes are read at once; larger files are mapped. Throws Error
/// naming the path when it cannot be opened, is a folder or a device, or is a FIFO without a writer.
///
/// Another process may shorten or overwrite a file while it is mapped. Bytes that are gone then read as zeros instead
/// of ending the process (for which this library handles SIGBUS from the first map on, and passes on those of others),
/// and require_unchanged() throws. Call it before publishing results computed from the bytes.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const uint8_t> bytes() const { return {data_, size_}; }
  /// Gives the memory of the bytes read so far back; reading them again takes them from the file again. For long files.
  void forget() const;
  /// Throws Error naming the path when the bytes are no longer those of the file that was opened.
  void require_unchanged() const;

 private:
  struct Identity {
    uint64_t device = 0, inode = 0;
    int64_t size = 0, modified_seconds = 0, modified_nanoseconds = 0;

    bool operator==(const Identity&) const = default;
  };

  void read_pipe(int file);
  void read_file(int file);

  std::string path_;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0, reserved_ = 0;  // bytes of the file, and of the memory that holds them
  int slot_ = -1;                   // where the handler of SIGBUS finds the map; -1 for what was read at once
  Identity opened_ = {};
};

/// Lets `write` fill a stream and puts the result at `path`, whole or not at all: a reader sees the old file or the new
/// one, also after a crash or a power cut. `expected_bytes`, where it is known, is compared with the free space before
/// anything is written, and reserved.
///
/// The file is made without a name, or where the file system has no such files under a random one that no other process
/// uses, in the folder of `path`; it is flushed to the disk, closed and then renamed. Permissions and owner of a file
/// that is replaced are kept. A symbolic link stays one: what it names is replaced. Pipes, character devices, this
/// process' own output and files with several names (hard links) are written through instead, from a complete file
/// aside. Folders, block devices and files without any write permission are refused.
///
/// Throws Error naming `path`, and leaves nothing behind, when `write` throws or the disk does not take it all.
void write_whole(const std::string& path, const std::function<void(std::ostream&)>& write, uint64_t expected_bytes = 0);

/// Removes the files that write_whole has under random names right now; they exist for moments only, or on file systems
/// without unnamed files. May be called from a signal handler that ends the process.
void remove_unfinished_files() noexcept;

}  // namespace bitmma
