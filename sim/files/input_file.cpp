// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "bitmma/files/dataset.hpp"
#include "bitmma/files/file.hpp"
#include "system.hpp"

namespace bitmma {
namespace {

constexpr const char* legal = "a regular file or a pipe";

/// Holds up to this many bytes from a pipe in memory.
constexpr uint64_t most_of_a_pipe = uint64_t{4} << 30;
/// Time-out for a FIFO without a writer.
constexpr std::chrono::seconds patience{10};

std::string print_kind(mode_t mode) {
  return S_ISDIR(mode)    ? "a directory"
         : S_ISCHR(mode)  ? "a character device"
         : S_ISBLK(mode)  ? "a block device"
         : S_ISSOCK(mode) ? "a socket"
                          : "not a regular file";
}

int64_t modified_nanoseconds(const struct stat& status) {
#ifdef __APPLE__
  const timespec& time = status.st_mtimespec;
#else
  const timespec& time = status.st_mtim;
#endif
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

[[noreturn]] void refuse_changed(const std::string& path, const char* what) {
  refuse_file(path, what, "a file that does not change", "do not modify the file while it is read");
}

void read_at(int file, const std::string& path, uint64_t offset, std::span<uint8_t> to) {
  while (!to.empty()) {
    const ssize_t got = pread(file, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse_by_errno(path);
    if (got == 0) refuse_changed(path, "it became shorter while it was read");
    to = to.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
}

/// Throws Error if the size or the modification time of the file has changed.
void require_same(int file, const std::string& path, uint64_t size, int64_t modified) {
  struct stat now {};
  if (fstat(file, &now) != 0) refuse_by_errno(path);
  if (static_cast<uint64_t>(now.st_size) < size) refuse_changed(path, "it became shorter while it was read");
  if (static_cast<uint64_t>(now.st_size) != size || modified_nanoseconds(now) != modified)
    refuse_changed(path, "it was changed while it was read");
}

/// Reads a pipe to its end.
std::vector<uint8_t> read_pipe(int file, const std::string& path) {
  const auto last = std::chrono::steady_clock::now() + patience;
  std::vector<uint8_t> bytes(size_t{1} << 20);
  for (size_t size = 0;;) {
    const ssize_t got = read(file, bytes.data() + size, bytes.size() - size);
    if (got > 0) {
      size += static_cast<size_t>(got);
      if (size < bytes.size()) continue;
      if (uint64_t{size} >= most_of_a_pipe)
        refuse_file(path, "a pipe that delivers more than 4 GiB", legal, "write it into a file first");
      bytes.resize(2 * size);
    } else if (got == 0 && size > 0) {
      bytes.resize(size);
      return bytes;
    } else if (got == 0) {
      // The FIFO has no writer, or its writer closed it without writing a byte.
      if (std::chrono::steady_clock::now() > last)
        refuse_file(path, "a pipe that no program writes to", legal, "start the program that writes it");
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } else if (errno == EAGAIN) {
      pollfd wait{.fd = file, .events = POLLIN, .revents = 0};
      poll(&wait, 1, -1);  // the next read reports an error of it
    } else if (errno != EINTR) {
      refuse_by_errno(path);
    }
  }
}

thread_local FileObserver* innermost_observer = nullptr;

}  // namespace

FileObserver::FileObserver(Observe observe)
    : observe_(std::move(observe)), outer_(std::exchange(innermost_observer, this)) {}

FileObserver::~FileObserver() { innermost_observer = outer_; }

void FileObserver::report(const std::string& path, FileUse use) {
  if (innermost_observer) innermost_observer->observe_(path, use);
}

// Later truncation cannot affect a file that is held in memory.
InputFile::InputFile(std::string path, uint64_t most_in_memory) : path_(std::move(path)) {
  require_name(path_);
  FileObserver::report(path_, FileUse::read);
  // Without O_NONBLOCK, opening a FIFO without a writer blocks for ever.
  auto file =
      std::make_unique<const Descriptor>(open(located(path_).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file->is_open()) refuse_by_errno(path_);
  struct stat status {};
  if (fstat(file->number(), &status) != 0) refuse_by_errno(path_);
  if (S_ISFIFO(status.st_mode)) {
    hold(read_pipe(file->number(), path_));
    return;
  }
  if (!S_ISREG(status.st_mode)) refuse_file(path_, print_kind(status.st_mode), legal);
  size_ = static_cast<uint64_t>(status.st_size);
  if (size_ > most_in_memory) {
    modified_nanoseconds_ = modified_nanoseconds(status);
    file_ = std::move(file);
    return;
  }
  const size_t size = memory_size(size_);
  const std::shared_ptr<uint8_t[]> memory(new uint8_t[size]);
  read_at(file->number(), path_, 0, {memory.get(), size});
  require_same(file->number(), path_, size_, modified_nanoseconds(status));
  memory_ = {memory.get(), size};
  owner_ = memory;
}

InputFile::InputFile(std::vector<uint8_t> bytes) : path_("bytes in memory") { hold(std::move(bytes)); }

InputFile::~InputFile() = default;

void InputFile::hold(std::vector<uint8_t> bytes) {
  const auto owned = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  memory_ = *owned;
  size_ = memory_.size();
  owner_ = owned;
}

void InputFile::read(uint64_t offset, std::span<uint8_t> to) const {
  if (offset > size_ || to.size() > size_ - offset)
    refuse_file(path_, std::to_string(to.size()) + " bytes from byte " + std::to_string(offset) + " on",
                "bytes of the " + std::to_string(size_) + " that it has");
  if (file_) read_at(file_->number(), path_, offset, to);
  else std::ranges::copy(memory_.subspan(memory_size(offset), to.size()), to.begin());
}

void InputFile::require_unchanged() const {
  if (file_) require_same(file_->number(), path_, size_, modified_nanoseconds_);
}

std::string read_whole(const std::string& path) {
  const InputFile file(path);
  std::string text(memory_size(file.size()), '\0');
  file.read(0, {reinterpret_cast<uint8_t*>(text.data()), text.size()});
  file.require_unchanged();
  return text;
}

}  // namespace bitmma
