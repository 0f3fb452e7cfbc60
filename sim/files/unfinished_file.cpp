#include "unfinished_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <random>
#include <vector>

#include "bitmma/files/file.hpp"

namespace bitmma {
namespace {

/// Names that a signal handler has to remove. It may use nothing but atomics, memory and system calls.
struct NameSlot {
  enum State : int { free, filling, live, removing };
  std::atomic<int> state{free};
  std::array<char, 4096> name{};
};

std::array<NameSlot, 64> name_slots;

/// The number of a slot with `name`, or -1 when there is none; then a signal leaves the file behind.
int remember(const std::string& name) {
  for (size_t i = 0; i < name_slots.size(); ++i) {
    NameSlot& slot = name_slots[i];
    int expected = NameSlot::free;
    if (name.size() >= slot.name.size() || !slot.state.compare_exchange_strong(expected, NameSlot::filling)) continue;
    name.copy(slot.name.data(), name.size());
    slot.name[name.size()] = '\0';
    slot.state.store(NameSlot::live);
    return static_cast<int>(i);
  }
  return -1;
}

void forget_name(int slot) {
  int expected = NameSlot::live;
  if (slot >= 0) name_slots[static_cast<size_t>(slot)].state.compare_exchange_strong(expected, NameSlot::free);
}

/// A name of 24 characters: any file of any name can have one beside it.
std::string random_name() {
  std::random_device random;
  return fmt::format(".bitmma-{:08x}{:08x}", random(), random());
}

std::string print_bytes(uint64_t bytes) {
  constexpr std::array<const char*, 5> units{"bytes", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < units.size()) value /= 1000, ++unit;
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

/// Errors of fsync and fallocate that only say that this file system has no such thing.
bool means_unsupported(int error) { return error == EOPNOTSUPP || error == ENOSYS || error == EINVAL; }

}  // namespace

void remove_unfinished_files() noexcept {
  for (NameSlot& slot : name_slots) {
    int expected = NameSlot::live;
    if (slot.state.compare_exchange_strong(expected, NameSlot::removing)) unlink(slot.name.data());
  }
}

bool copy_all(int from, int to) {
  std::vector<char> buffer(1 << 20);
  for (off_t at = 0;;) {
    const ssize_t got = pread(from, buffer.data(), buffer.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0;
    for (ssize_t done = 0; done < got;) {
      const ssize_t put = write(to, buffer.data() + done, static_cast<size_t>(got - done));
      if (put >= 0) {
        done += put;
      } else if (errno == EAGAIN) {
        pollfd wait{.fd = to, .events = POLLOUT, .revents = 0};
        poll(&wait, 1, -1);
      } else if (errno != EINTR) {
        return false;
      }
    }
    at += got;
  }
}

UnfinishedFile::UnfinishedFile(std::filesystem::path folder, std::string path)
    : folder_(std::move(folder)),
      path_(std::move(path)),
      file_(open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666)) {
  // A file without a name gets one through /proc.
  if (!file_.is_open() || access("/proc/self/fd", X_OK) != 0) open_under_a_name();
}

UnfinishedFile::~UnfinishedFile() {
  if (!name_.empty()) unlink(name_.c_str());
  forget_name(std::exchange(slot_, -1));
}

void UnfinishedFile::refuse(const std::string& what, std::string fix) const {
  refuse_file(path_, what, "a file that can be written", std::move(fix));
}

void UnfinishedFile::open_under_a_name() {
  file_.close();
  do {
    name_ = (folder_ / random_name()).string();
    slot_ = remember(name_);
    file_ = Descriptor(open(name_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666));
    if (file_.is_open()) return;
    forget_name(std::exchange(slot_, -1));
  } while (errno == EEXIST);
  name_.clear();
  refuse(std::strerror(errno), errno == EACCES || errno == EROFS ? "its folder takes no new files" : "");
}

void UnfinishedFile::reserve(uint64_t bytes) {
  if (bytes == 0) return;
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur)
    refuse(print_bytes(bytes),
           fmt::format("this process may write files of {} (ulimit -f)", print_bytes(limit.rlim_cur)));
  struct statvfs room {};
  if (fstatvfs(descriptor(), &room) == 0 && room.f_blocks > 0) {
    const uint64_t blocks = geteuid() == 0 ? room.f_bfree : room.f_bavail;
    if (bytes / room.f_frsize >= blocks)
      refuse(print_bytes(bytes), fmt::format("the disk has {} left", print_bytes(blocks * room.f_frsize)));
  }
  int result = 0;
  do result = fallocate(descriptor(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes));
  while (result != 0 && errno == EINTR);
  if (result != 0 && !means_unsupported(errno)) refuse(fmt::format("{}: {}", print_bytes(bytes), std::strerror(errno)));
}

void UnfinishedFile::flush_and_close() {
  if (fsync(descriptor()) != 0 && !means_unsupported(errno)) refuse(std::strerror(errno));
  // Only closing tells what some file systems could not keep. A file without a name would be gone then: a second
  // descriptor holds it.
  Descriptor second(name_.empty() ? dup(descriptor()) : -1);
  if (name_.empty() && !second.is_open()) refuse(std::strerror(errno));
  if (!file_.close()) refuse(std::strerror(errno));
  file_ = std::move(second);
}

void UnfinishedFile::take_name() {
  const std::string own = fmt::format("/proc/self/fd/{}", descriptor());
  do {
    name_ = (folder_ / random_name()).string();
    slot_ = remember(name_);
    if (linkat(AT_FDCWD, own.c_str(), AT_FDCWD, name_.c_str(), AT_SYMLINK_FOLLOW) == 0) return;
    forget_name(std::exchange(slot_, -1));
    name_.clear();
  } while (errno == EEXIST);
  const Descriptor unnamed(dup(descriptor()));
  open_under_a_name();
  if (!unnamed.is_open() || !copy_all(unnamed.number(), descriptor())) refuse(std::strerror(errno));
  flush_and_close();
}

void UnfinishedFile::take_permissions_of(const std::filesystem::path& target) {
  struct stat old {};
  if (stat(target.c_str(), &old) != 0) return;
  struct stat own {};
  const bool other_owner = fstat(descriptor(), &own) == 0 && (own.st_uid != old.st_uid || own.st_gid != old.st_gid);
  // Only root may give files away; for others the new file is theirs, as if they had written a new one.
  if (other_owner && fchown(descriptor(), old.st_uid, old.st_gid) != 0) errno = 0;
  if (fchmod(descriptor(), old.st_mode & 07777) != 0) refuse(std::strerror(errno));
}

void UnfinishedFile::become(const std::filesystem::path& target) {
  take_permissions_of(target);
  flush_and_close();
  // From the name to its place nothing else happens: who is killed in between leaves the file under the name.
  if (name_.empty()) take_name();
  if (std::rename(name_.c_str(), target.c_str()) != 0) refuse(std::strerror(errno));
  forget_name(std::exchange(slot_, -1));
  name_.clear();
  // The new name, too, is to survive a power cut. The file is there: failing changes nothing that anybody could mend.
  const Descriptor folder(open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.is_open()) fsync(folder.number());
}

}  // namespace bitmma
