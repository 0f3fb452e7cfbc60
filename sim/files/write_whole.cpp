// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <optional>
#include <random>
#include <streambuf>
#include <thread>
#include <vector>

#include "../core/ieee_environment.hpp"
#include "bitmma/files/file.hpp"
#include "system.hpp"

namespace bitmma {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& path, const std::string& what, std::string fix = {}) {
  refuse_file(path, what, "a file that can be written", std::move(fix));
}

std::string print_bytes(uint64_t bytes) {
  return in_ieee_environment([&]() -> std::string {
    constexpr std::array<const char*, 5> units{"bytes", "kB", "MB", "GB", "TB"};
    auto value = static_cast<double>(bytes);
    size_t unit = 0;
    while (value >= 1000 && unit + 1 < units.size()) value /= 1000, ++unit;
    return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
  });
}

/// Throws Error naming `path` if this process may not write `bytes`, or if the disk of `place` lacks room for them.
void require_room(const std::string& path, const fs::path& place, uint64_t bytes) {
  if (bytes == 0) return;
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur)
    refuse(path, print_bytes(bytes),
           fmt::format("this process may write files of at most {} (ulimit -f)", print_bytes(limit.rlim_cur)));
  std::error_code error;
  const fs::space_info room = fs::space(place, error);
  const uint64_t left = geteuid() == 0 ? room.free : room.available;
  if (!error && room.capacity > 0 && bytes >= left)
    refuse(path, print_bytes(bytes), fmt::format("the disk has {} free", print_bytes(left)));
}

/// A new, empty file in `folder` under a random name that no other process uses. The destructor removes the file unless
/// become() has renamed it. Errors name `path`.
class UnfinishedFile {
 public:
  UnfinishedFile(const fs::path& folder, const std::string& path) : folder_(folder), path_(path) {
    std::random_device random;
    do {
      const std::string name = fmt::format("{}{:08x}{:08x}", unfinished_prefix, random(), random());
      name_ = (folder_ / name).string();
      number_ = open(name_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
    } while (number_ < 0 && errno == EEXIST);
    if (number_ < 0)
      refuse_by_errno(path_, errno == EACCES || errno == EROFS ? "no file can be created in its folder" : "");
  }
  ~UnfinishedFile() {
    remove_name();
    if (number_ >= 0) close(number_);
  }
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  int number() const { return number_; }
  /// From now on the file disappears with the process, however the process ends.
  void remove_name() {
    if (!name_.empty()) unlink(name_.c_str());
    name_.clear();
  }
  /// Flushes the file to the disk, closes it and renames it to `target`, keeping the permissions and owner of `target`.
  void become(const fs::path& target) {
    take_permissions_of(target);
    // Some file systems do not support flushing.
    const bool is_flushed = fsync(number_) == 0 || errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL;
    if (!is_flushed) refuse_by_errno(path_);
    // Only close() reports what some file systems could not store. Another descriptor keeps the file open until it has
    // its place: see write_whole.
    Descriptor first(std::exchange(number_, dup(number_)));
    if (number_ < 0 || !first.close()) refuse_by_errno(path_);
    if (std::rename(name_.c_str(), target.c_str()) != 0) refuse_by_errno(path_);
    name_.clear();
    // This makes the new name survive a power cut. The file already exists, so a failure here is not an error.
    const Descriptor folder(open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.is_open()) fsync(folder.number());
  }

 private:
  void take_permissions_of(const fs::path& target) {
    struct stat old {};
    if (stat(target.c_str(), &old) != 0) return;
    struct stat own {};
    const bool other_owner = fstat(number_, &own) == 0 && (own.st_uid != old.st_uid || own.st_gid != old.st_gid);
    // Only root may give files away; for other users the new file is theirs, as if they had created it.
    if (other_owner && fchown(number_, old.st_uid, old.st_gid) != 0) errno = 0;
    // Setuid and setgid applied only to the old contents; write() clears them too.
    if (fchmod(number_, old.st_mode & 0777) != 0) refuse_by_errno(path_);
  }

  fs::path folder_;
  std::string path_, name_;  // the name is empty once this object no longer owns it
  int number_ = -1;
};

/// Writes all of `text`, even if `file` accepts only a part at a time. Returns false, with errno, on failure.
bool write_all(int file, const char* text, size_t count) {
  while (count > 0) {
    const ssize_t done = write(file, text, count);
    if (done >= 0) {
      text += done;
      count -= static_cast<size_t>(done);
    } else if (errno == EAGAIN) {
      pollfd wait{.fd = file, .events = POLLOUT, .revents = 0};
      poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

/// Copies all of one file into the other. Returns false, with errno, on failure.
bool copy_all(int from, int to) {
  std::vector<char> buffer(1 << 20);
  for (off_t at = 0;;) {
    const ssize_t got = pread(from, buffer.data(), buffer.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0;
    if (!write_all(to, buffer.data(), static_cast<size_t>(got))) return false;
    at += got;
  }
}

/// A stream into a file that reports a failure at once, with the system's text.
class DescriptorBuffer : public std::streambuf {
 public:
  DescriptorBuffer(int file, std::string path) : file_(file), path_(std::move(path)), buffer_(size_t{1} << 18) {
    setp(buffer_.data(), buffer_.data() + buffer_.size());
  }

 protected:
  int sync() override {
    put(pbase(), static_cast<size_t>(pptr() - pbase()));
    setp(buffer_.data(), buffer_.data() + buffer_.size());
    return 0;
  }
  int_type overflow(int_type character) override {
    sync();
    if (!traits_type::eq_int_type(character, traits_type::eof())) sputc(traits_type::to_char_type(character));
    return traits_type::not_eof(character);
  }
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    if (count <= epptr() - pptr()) {
      std::copy_n(text, count, pptr());
      pbump(static_cast<int>(count));
      return count;
    }
    sync();
    put(text, static_cast<size_t>(count));
    return count;
  }
  pos_type seekpos(pos_type position, std::ios_base::openmode) override {
    sync();
    if (lseek(file_, static_cast<off_t>(position), SEEK_SET) < 0) refuse_by_errno(path_);
    return position;
  }

 private:
  void put(const char* text, size_t count) const {
    if (!write_all(file_, text, count))
      refuse(path_, std::string("could not be written completely: ") + std::strerror(errno));
  }

  int file_;
  std::string path_;
  std::vector<char> buffer_;
};

void fill(UnfinishedFile& file, const std::string& path, const std::function<void(std::ostream&)>& write) {
  DescriptorBuffer buffer(file.number(), path);
  std::ostream stream(&buffer);
  stream.exceptions(std::ios::badbit);  // exceptions of the buffer reach the caller
  write(stream);
  stream.flush();
  if (!stream) refuse(path, "could not be written completely");
}

/// True if this process already has the file as its output, under any name: /dev/stdout, or a shell redirection.
bool is_own_output(const struct stat& file) {
  const auto is_same = [&](int descriptor) {
    struct stat own {};
    return fstat(descriptor, &own) == 0 && own.st_dev == file.st_dev && own.st_ino == file.st_ino;
  };
  return is_same(STDOUT_FILENO) || is_same(STDERR_FILENO);
}

/// Opens an existing file for writing. For a FIFO, waits until a program opens it for reading, up to a time-out.
int open_existing(const std::string& path, const struct stat& target) {
  constexpr std::chrono::seconds patience{10};
  const auto last = std::chrono::steady_clock::now() + patience;
  const bool is_fifo = S_ISFIFO(target.st_mode), own = is_own_output(target);
  const int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY | (own ? O_APPEND : 0) | (is_fifo ? O_NONBLOCK : 0);
  for (;;) {
    const int file = open(path.c_str(), flags);
    if (file >= 0) return file;
    if (!is_fifo || errno != ENXIO) refuse_by_errno(path);
    if (std::chrono::steady_clock::now() > last)
      refuse(path, "a pipe that no program reads", "start the program that reads it");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

/// Copies a complete file into one that cannot be replaced by renaming and that `file` has open.
void copy_into(const std::string& path, const struct stat& target, const UnfinishedFile& from, Descriptor& file) {
  const bool own = is_own_output(target), keeps_names = S_ISREG(target.st_mode) && !own;
  if (own) std::cout.flush();  // earlier output must come first
  struct stat complete {};
  if (fstat(from.number(), &complete) != 0) refuse_by_errno(path);
  // Deletes none of the old contents until there is room for all of the new ones.
  if (keeps_names && complete.st_size > target.st_size)
    require_room(path, path, static_cast<uint64_t>(complete.st_size - target.st_size));
  if (!copy_all(from.number(), file.number())) refuse_by_errno(path, "the output ends there");
  if (keeps_names && ftruncate(file.number(), complete.st_size) != 0) refuse_by_errno(path);
  if (keeps_names && fsync(file.number()) != 0) refuse_by_errno(path);
  if (!file.close()) refuse_by_errno(path);
}

/// The status of the file at `path`; nothing if the file does not exist.
std::optional<struct stat> status_of(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) return status;
  if (errno != ENOENT) refuse_by_errno(path);
  return std::nullopt;
}

/// Throws Error for a file that must not be overwritten.
void require_replaceable(const std::string& path, const struct stat& old) {
  if (S_ISDIR(old.st_mode)) refuse(path, "a directory", "name a file");
  if (S_ISBLK(old.st_mode)) refuse(path, "a block device", "write a file, and copy it there if intended");
  if (S_ISSOCK(old.st_mode)) refuse(path, "a socket", "name a file");
  if (S_ISREG(old.st_mode) && (old.st_mode & 0222) == 0)
    refuse(path, fmt::format("a write-protected file (mode {:04o})", old.st_mode & 07777),
           "use chmod u+w, or another name");
  if (access(path.c_str(), W_OK) != 0) refuse_by_errno(path);
}

/// A folder for files that are completed before they are copied: TMPDIR, or else the system's default.
fs::path folder_aside(const std::string& path) {
  std::error_code error;
  const fs::path named = fs::temp_directory_path(error);
  for (const fs::path& folder : {error ? fs::path() : named, fs::path("/tmp"), fs::path("/var/tmp")})
    if (!folder.empty() && access(folder.c_str(), W_OK | X_OK) == 0) return folder;
  refuse(path, "there is no folder for temporary files", "set TMPDIR");
}

/// The target of a chain of symbolic links, whether it exists or not.
fs::path behind_links(const std::string& path) {
  constexpr int most_links = 40;  // as many as Linux follows
  fs::path target(path);
  std::error_code error;
  for (int i = 0; i < most_links; ++i) {
    if (!fs::is_symlink(fs::symlink_status(target, error))) return target;
    const fs::path next = fs::read_symlink(target, error);
    if (error) refuse(path, error.message());
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  refuse(path, std::strerror(ELOOP));
}

}  // namespace

void write_whole(const std::string& path, const std::function<void(std::ostream&)>& write, uint64_t expected_bytes) {
  require_name(path);
  FileObserver::report(path, FileUse::write);
  const std::optional<struct stat> old = status_of(path);
  if (old) require_replaceable(path, *old);
  std::error_code error;
  // A device or pipe has no contents to keep, and a file with several names must stay one file.
  if (old && (!S_ISREG(old->st_mode) || old->st_nlink > 1 || is_own_output(*old))) {
    Descriptor target(open_existing(path, *old));
    const fs::path aside = folder_aside(path);
    require_room(path, aside, expected_bytes);
    UnfinishedFile file(aside, path);
    file.remove_name();
    fill(file, path, write);
    copy_into(path, *old, file, target);
    return;
  }
  const fs::path target = behind_links(path);  // a link stays a link: its target is replaced
  const fs::path folder = target.has_parent_path() ? target.parent_path() : ".";
  if (!fs::is_directory(folder, error)) refuse(path, "its folder does not exist", "make " + folder.string());
  if (!target.has_filename()) refuse(path, "not the name of a file", "name a file");
  require_room(path, folder, expected_bytes);
  UnfinishedFile file(folder, path);
  fill(file, path, write);
  file.become(target);
}

}  // namespace bitmma
