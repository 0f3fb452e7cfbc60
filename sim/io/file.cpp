#include "bitmma/io/file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "bitmma/core/error.hpp"

namespace bitmma {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& what, std::string fix = {}) {
  throw Error(
      {.field = path, .seen = what, .legal = "a regular file that can be read and written", .fix = std::move(fix)});
}

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) refuse(path, std::strerror(errno));
  struct stat status {};
  const bool regular = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  if (!regular) {
    close(file);
    refuse(path, S_ISDIR(status.st_mode) ? "a directory" : "not a regular file");
  }
  size_ = static_cast<size_t>(status.st_size);
  if (size_ > 0) {
    void* const mapped = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    if (mapped == MAP_FAILED) {
      const std::string reason = std::strerror(errno);
      close(file);
      refuse(path, reason);
    }
    data_ = static_cast<const uint8_t*>(mapped);
  }
  close(file);
}

void MappedFile::forget() const {
  if (data_) madvise(const_cast<uint8_t*>(data_), size_, MADV_DONTNEED);  // only advice: failing changes nothing
}

MappedFile::~MappedFile() {
  if (data_) munmap(const_cast<uint8_t*>(data_), size_);
}

void write_whole(const std::string& path, const std::function<void(std::ostream&)>& write) {
  const std::filesystem::path target(path);
  const std::filesystem::path folder = target.has_parent_path() ? target.parent_path() : ".";
  if (!std::filesystem::is_directory(folder)) refuse(path, "its folder does not exist", "make " + folder.string());
  if (std::filesystem::is_directory(target)) refuse(path, "a directory", "name a file");
  const std::string aside = path + ".part" + std::to_string(getpid());
  try {
    std::ofstream stream(aside, std::ios::binary | std::ios::trunc);
    if (!stream) refuse(path, std::strerror(errno));
    write(stream);
    stream.flush();
    if (!stream) refuse(path, "could not be written completely", "is the disk full?");
    stream.close();
    if (std::rename(aside.c_str(), path.c_str()) != 0) refuse(path, std::strerror(errno));
  } catch (...) {
    std::remove(aside.c_str());
    throw;
  }
}

}  // namespace bitmma
