// Files: mapped for reading, written whole or not at all.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>

namespace bitmma {

/// A file's bytes, mapped read-only. Throws Error naming the path when it cannot be opened.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const uint8_t> bytes() const { return {data_, size_}; }
  /// Gives the memory of the bytes read so far back; reading them again takes them from the file again. For long files.
  void forget() const;

 private:
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

/// Lets `write` fill a stream and puts the result at `path` by renaming, so that a reader sees the old file or the new
/// one. Throws Error, and leaves nothing behind, when `write` throws or the disk does not take it all.
void write_whole(const std::string& path, const std::function<void(std::ostream&)>& write);

}  // namespace bitmma
