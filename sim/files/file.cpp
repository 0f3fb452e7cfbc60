#include "bitmma/files/file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "bitmma/core/error.hpp"

namespace bitmma {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& what, std::string fix = {}) {
  throw Error(
      {.field = path, .seen = what, .expected = "a regular file that can be read and written", .fix = std::move(fix)});
}

/// Files up to this size are read at once: who shortens them later then takes nothing away. Larger ones are mapped.
constexpr size_t most_read_at_once = size_t{64} << 20;

/// Fills `to` from the file; false when it ends before.
bool read_all(int file, uint8_t* to, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t got = read(file, to + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

/// Names go to the system up to their first 0: there must be none.
void require_name(const std::string& path) {
  if (path.find('\0') != std::string::npos)
    throw Error({.field = "path", .seen = "a name with a 0 byte", .expected = "a name without"});
}

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  require_name(path);
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
    const bool at_once = size_ <= most_read_at_once;
    void* const mapped = at_once ? mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                 : mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    const bool is_there = mapped != MAP_FAILED && (!at_once || read_all(file, static_cast<uint8_t*>(mapped), size_));
    if (!is_there) {
      const std::string reason = mapped == MAP_FAILED || errno ? std::strerror(errno) : "it became shorter";
      if (mapped != MAP_FAILED) munmap(mapped, size_);
      close(file);
      refuse(path, reason);
    }
    data_ = static_cast<const uint8_t*>(mapped);
  }
  close(file);
}

void MappedFile::forget() const {
  if (data_ && size_ > most_read_at_once)
    madvise(const_cast<uint8_t*>(data_), size_, MADV_DONTNEED);  // only advice: failing changes nothing
}

MappedFile::~MappedFile() {
  if (data_) munmap(const_cast<uint8_t*>(data_), size_);
}

namespace {

/// A new file that nobody else has, removed again unless it is kept.
class UnfinishedFile {
 public:
  explicit UnfinishedFile(const std::filesystem::path& beside) {
    std::random_device random;
    do {  // a name that cannot be guessed, and exclusive if it can
      path_ = beside.string() + "." + std::to_string(random());
      descriptor_ = open(path_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
    } while (descriptor_ < 0 && errno == EEXIST);
    if (descriptor_ >= 0) return;
    path_.clear();
    refuse(beside.string(), std::strerror(errno));
  }
  ~UnfinishedFile() {
    close(descriptor_);
    if (!path_.empty()) std::remove(path_.c_str());
  }
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  void keep() { path_.clear(); }

 private:
  std::string path_;
  int descriptor_ = -1;
};

void write_to(const std::string& name, const UnfinishedFile& file, const std::function<void(std::ostream&)>& write) {
  std::ofstream stream(file.path(), std::ios::binary | std::ios::trunc);
  if (!stream) refuse(name, std::strerror(errno));
  write(stream);
  stream.close();
  if (!stream) refuse(name, "could not be written completely", "is the disk full?");
}

/// Devices and pipes cannot be renamed over: what was written aside is copied into them.
void copy_into(const std::string& path, const UnfinishedFile& from) {
  std::ifstream source(from.path(), std::ios::binary);
  std::ofstream target(path, std::ios::binary | std::ios::app);
  if (!target) refuse(path, std::strerror(errno));
  if (source.peek() != std::ifstream::traits_type::eof()) target << source.rdbuf();
  target.close();
  if (!target) refuse(path, "could not be written completely");
}

}  // namespace

void write_whole(const std::string& path, const std::function<void(std::ostream&)>& write) {
  require_name(path);
  const std::filesystem::path asked(path);
  const std::filesystem::path folder = asked.has_parent_path() ? asked.parent_path() : ".";
  if (!std::filesystem::is_directory(folder)) refuse(path, "its folder does not exist", "make " + folder.string());
  if (std::filesystem::is_directory(asked)) refuse(path, "a directory", "name a file");
  std::error_code error;
  if (std::filesystem::exists(asked, error) && !std::filesystem::is_regular_file(asked, error)) {
    const UnfinishedFile aside(std::filesystem::temp_directory_path() / "bitmma");
    write_to(path, aside, write);
    copy_into(path, aside);
    return;
  }
  // A link stays a link: what it names is replaced.
  const std::filesystem::path target =
      std::filesystem::is_symlink(asked) ? std::filesystem::weakly_canonical(asked) : asked;
  UnfinishedFile aside(target);
  write_to(path, aside, write);
  struct stat replaced = {};
  if (stat(target.c_str(), &replaced) == 0) fchmod(aside.descriptor(), replaced.st_mode & 07777);
  if (std::rename(aside.path().c_str(), target.c_str()) != 0) refuse(path, std::strerror(errno));
  aside.keep();
}

}  // namespace bitmma
