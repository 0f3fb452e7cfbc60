#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <optional>
#include <streambuf>
#include <vector>

#include "bitmma/files/file.hpp"
#include "unfinished_file.hpp"

namespace bitmma {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& path, const std::string& what, std::string fix = {}) {
  refuse_file(path, what, "a file that can be written", std::move(fix));
}

/// A stream into a file that says at once, and in the system's words, what failed.
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
    if (lseek(file_, static_cast<off_t>(position), SEEK_SET) < 0) refuse(path_, std::strerror(errno));
    return position;
  }

 private:
  void put(const char* text, size_t count) const {
    while (count > 0) {
      const ssize_t done = write(file_, text, count);
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) refuse(path_, std::string("could not be written completely: ") + std::strerror(errno));
      text += done;
      count -= static_cast<size_t>(done);
    }
  }

  int file_;
  std::string path_;
  std::vector<char> buffer_;
};

void fill(UnfinishedFile& file, const std::string& path, const std::function<void(std::ostream&)>& write) {
  DescriptorBuffer buffer(file.descriptor(), path);
  std::ostream stream(&buffer);
  stream.exceptions(std::ios::badbit);  // what the buffer throws goes to the caller
  write(stream);
  stream.flush();
  if (!stream) refuse(path, "could not be written completely");
}

/// True for a file that this process already has as output, under any name: /dev/stdout, or where a shell redirects to.
bool is_own_output(const struct stat& file) {
  const auto is_same = [&](int descriptor) {
    struct stat own {};
    return fstat(descriptor, &own) == 0 && own.st_dev == file.st_dev && own.st_ino == file.st_ino;
  };
  return is_same(STDOUT_FILENO) || is_same(STDERR_FILENO);
}

/// Puts a complete file into one that cannot be replaced by renaming.
void copy_into(const std::string& path, const struct stat& target, const UnfinishedFile& from) {
  const bool own = is_own_output(target), keeps_names = S_ISREG(target.st_mode) && !own;
  if (own) std::cout.flush();  // what was printed before comes before
  Descriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | (own ? O_APPEND : 0)));
  if (!file.is_open()) refuse(path, std::strerror(errno));
  struct stat complete {};
  if (fstat(from.descriptor(), &complete) != 0) refuse(path, std::strerror(errno));
  // Nothing of the old contents goes before there is room for all of the new.
  if (keeps_names && complete.st_size > 0 && fallocate(file.number(), FALLOC_FL_KEEP_SIZE, 0, complete.st_size) != 0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
    refuse(path, std::strerror(errno));
  if (!copy_all(from.descriptor(), file.number())) refuse(path, std::strerror(errno), "it is cut off there");
  if (keeps_names && ftruncate(file.number(), complete.st_size) != 0) refuse(path, std::strerror(errno));
  if (keeps_names && fsync(file.number()) != 0) refuse(path, std::strerror(errno));
  if (!file.close()) refuse(path, std::strerror(errno));
}

/// What `path` names now; nothing when there is no such file.
std::optional<struct stat> status_of(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) return status;
  if (errno != ENOENT) refuse(path, std::strerror(errno));
  return std::nullopt;
}

/// Throws Error for what must not be overwritten.
void require_replaceable(const std::string& path, const struct stat& old) {
  if (S_ISDIR(old.st_mode)) refuse(path, "a directory", "name a file");
  if (S_ISBLK(old.st_mode)) refuse(path, "a block device", "write a file, and copy it there if that is what you want");
  if (S_ISSOCK(old.st_mode)) refuse(path, "a socket", "name a file");
  if (S_ISREG(old.st_mode) && (old.st_mode & 0222) == 0)
    refuse(path, fmt::format("a write-protected file (mode {:04o})", old.st_mode & 07777),
           "chmod u+w, or another name");
  if (access(path.c_str(), W_OK) != 0) refuse(path, std::strerror(errno));
}

/// What a chain of symbolic links names in the end, whether it exists or not.
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
  const std::optional<struct stat> old = status_of(path);
  if (old) require_replaceable(path, *old);
  std::error_code error;
  // A device or pipe has no contents to keep, and a file of several names must stay one file.
  if (old && (!S_ISREG(old->st_mode) || old->st_nlink > 1 || is_own_output(*old))) {
    const fs::path aside = fs::temp_directory_path(error);
    if (error) refuse(path, "no folder for temporary files: " + error.message(), "set TMPDIR");
    UnfinishedFile file(aside, path);
    file.reserve(expected_bytes);
    fill(file, path, write);
    copy_into(path, *old, file);
    return;
  }
  const fs::path target = behind_links(path);  // a link stays a link: what it names is replaced
  const fs::path folder = target.has_parent_path() ? target.parent_path() : ".";
  if (!fs::is_directory(folder, error)) refuse(path, "its folder does not exist", "make " + folder.string());
  if (!target.has_filename()) refuse(path, "no name of a file", "name a file");
  UnfinishedFile file(folder, path);
  file.reserve(expected_bytes);
  fill(file, path, write);
  file.become(target);
}

}  // namespace bitmma
