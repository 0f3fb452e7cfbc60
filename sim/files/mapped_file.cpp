#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <mutex>
#include <thread>

#include "bitmma/files/file.hpp"
#include "system.hpp"

namespace bitmma {
namespace {

constexpr const char* legal = "a regular file or a pipe that can be read";

/// Files up to this size are read at once: later truncation cannot affect them. Larger ones are mapped.
constexpr size_t most_read_at_once = size_t{64} << 20;
/// What comes through a pipe is held in memory.
constexpr size_t most_of_a_pipe = size_t{4} << 30;
/// Time-out for a FIFO without a writer.
constexpr std::chrono::seconds patience{10};

/// Where mapped files lie, for the handler of SIGBUS: it may use nothing but atomics and system calls.
struct MapSlot {
  std::atomic<uintptr_t> begin{0}, end{0};  // a slot is free while end is 0
  std::atomic<bool> is_short{false};
};

std::array<MapSlot, 4096>& map_slots() {
  static std::array<MapSlot, 4096> slots;
  return slots;
}

// Set before the handler is there, and never again.
uintptr_t page_bytes = 4096;
struct sigaction handler_before = {};

/// Puts zeros where the file has lost its pages, so that the reader goes on, and says so in the slot.
void replace_lost_pages(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (MapSlot& slot : map_slots()) {
    const uintptr_t end = slot.end.load();
    if (end == 0 || address < slot.begin.load() || address >= end) continue;
    const uintptr_t page = address / page_bytes * page_bytes;
    void* const zeros = mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                             MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED) break;
    slot.is_short.store(true);
    errno = saved_errno;
    return;
  }
  errno = saved_errno;
  if ((handler_before.sa_flags & SA_SIGINFO) != 0) {
    handler_before.sa_sigaction(signal, info, context);
  } else if (handler_before.sa_handler != SIG_DFL && handler_before.sa_handler != SIG_IGN) {
    handler_before.sa_handler(signal);
  } else {
    std::signal(signal, SIG_DFL);  // the same access fails again, and ends the process as it would have
  }
}

void handle_lost_pages() {
  static std::once_flag once;
  std::call_once(once, [] {
    page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    map_slots();
    sigaction(SIGBUS, nullptr, &handler_before);
    struct sigaction action = {};
    action.sa_sigaction = replace_lost_pages;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGBUS, &action, nullptr);
  });
}

std::mutex& slot_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// The number of a slot for this map; -1 when there are too many maps.
int take_slot(const void* data, size_t bytes) {
  handle_lost_pages();
  const std::lock_guard lock(slot_mutex());
  auto& slots = map_slots();
  const auto slot = std::find_if(slots.begin(), slots.end(), [](const MapSlot& one) { return one.end.load() == 0; });
  if (slot == slots.end()) return -1;
  slot->is_short.store(false);
  slot->begin.store(reinterpret_cast<uintptr_t>(data));
  slot->end.store(reinterpret_cast<uintptr_t>(data) + (bytes + page_bytes - 1) / page_bytes * page_bytes);
  return static_cast<int>(slot - slots.begin());
}

void give_back_slot(int slot) {
  if (slot >= 0) map_slots()[static_cast<size_t>(slot)].end.store(0);
}

/// Memory of its own for `bytes` bytes, which is given back to the system with munmap; nullptr when there is none.
uint8_t* allocate(size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<uint8_t*>(memory);
}

/// What read() gives, again where a signal came between.
ssize_t read_some(int file, uint8_t* to, size_t most) {
  ssize_t got = 0;
  do got = read(file, to, most);
  while (got < 0 && errno == EINTR);
  return got;
}

std::string print_kind(mode_t mode) {
  return S_ISDIR(mode)    ? "a directory"
         : S_ISCHR(mode)  ? "a character device"
         : S_ISBLK(mode)  ? "a block device"
         : S_ISSOCK(mode) ? "a socket"
                          : "no regular file";
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  require_name(path);
  // Without O_NONBLOCK opening a FIFO without a writer blocks for ever.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open()) refuse_file(path, std::strerror(errno), legal);
  struct stat status {};
  if (fstat(file.number(), &status) != 0) refuse_file(path, std::strerror(errno), legal);
  if (S_ISFIFO(status.st_mode)) {
    read_pipe(file.number());
    return;
  }
  if (!S_ISREG(status.st_mode)) refuse_file(path, print_kind(status.st_mode), legal);
  size_ = static_cast<size_t>(status.st_size);
  opened_ = {.device = status.st_dev,
             .inode = status.st_ino,
             .size = status.st_size,
             .modified_seconds = status.st_mtim.tv_sec,
             .modified_nanoseconds = status.st_mtim.tv_nsec};
  if (size_ > 0) read_file(file.number());
}

void MappedFile::read_file(int file) {
  if (size_ > most_read_at_once) {
    void* const mapped = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    if (mapped == MAP_FAILED) refuse_file(path_, std::strerror(errno), legal);
    slot_ = take_slot(mapped, size_);
    if (slot_ >= 0) {
      data_ = static_cast<const uint8_t*>(mapped);
      reserved_ = size_;
      return;
    }
    munmap(mapped, size_);  // too many maps to watch: this one is read at once
  }
  uint8_t* const memory = allocate(size_);
  if (!memory) refuse_file(path_, "too large for the memory: " + std::to_string(size_) + " bytes", legal);
  for (size_t done = 0; done < size_;) {
    const ssize_t got = read_some(file, memory + done, size_ - done);
    if (got <= 0) {
      const std::string reason = got < 0 ? std::strerror(errno) : "it became shorter while it was read";
      munmap(memory, size_);
      refuse_file(path_, reason, legal, got < 0 ? "" : "do not write the file while it is read");
    }
    done += static_cast<size_t>(got);
  }
  data_ = memory;
  reserved_ = size_;
}

void MappedFile::read_pipe(int file) {
  const auto last = std::chrono::steady_clock::now() + patience;
  size_t reserved = size_t{1} << 20, size = 0;
  uint8_t* memory = allocate(reserved);
  const auto stop = [&](const std::string& what, const std::string& fix) {
    if (memory) munmap(memory, reserved);
    refuse_file(path_, what, legal, fix);
  };
  if (!memory) stop(std::strerror(errno), "");
  for (;;) {
    const ssize_t got = read_some(file, memory + size, reserved - size);
    if (got > 0) {
      size += static_cast<size_t>(got);
      if (size < reserved) continue;
      if (reserved >= most_of_a_pipe) stop("a pipe with more than 4 GiB", "write it into a file first");
      void* const more = mremap(memory, reserved, 2 * reserved, MREMAP_MAYMOVE);
      if (more == MAP_FAILED) stop("a pipe with more bytes than there is memory", "write it into a file first");
      memory = static_cast<uint8_t*>(more);
      reserved *= 2;
    } else if (got == 0) {
      if (size > 0) break;
      // The FIFO has no writer, or its writer closed it without a byte.
      if (std::chrono::steady_clock::now() > last) stop("a pipe without a writer", "start the program that writes it");
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } else if (errno == EAGAIN) {
      pollfd wait{.fd = file, .events = POLLIN, .revents = 0};
      poll(&wait, 1, -1);  // its error shows in the next read
    } else {
      stop(std::strerror(errno), "");
    }
  }
  data_ = memory;
  size_ = size;
  reserved_ = reserved;
}

void MappedFile::forget() const {
  if (slot_ >= 0) madvise(const_cast<uint8_t*>(data_), size_, MADV_DONTNEED);  // only advice: failing changes nothing
}

void MappedFile::require_unchanged() const {
  if (slot_ < 0) return;
  constexpr const char* fix = "do not write the file while it is read";
  if (map_slots()[static_cast<size_t>(slot_)].is_short.load())
    refuse_file(path_, "it became shorter while it was read", "a file that stays as it is", fix);
  struct stat now {};
  if (stat(path_.c_str(), &now) != 0) return;  // removed or renamed: the map is still the old file
  const Identity identity{.device = now.st_dev,
                          .inode = now.st_ino,
                          .size = now.st_size,
                          .modified_seconds = now.st_mtim.tv_sec,
                          .modified_nanoseconds = now.st_mtim.tv_nsec};
  const bool is_another = identity.device != opened_.device || identity.inode != opened_.inode;
  if (!is_another && identity != opened_)
    refuse_file(path_, "it was changed while it was read", "a file that stays as it is", fix);
}

MappedFile::~MappedFile() {
  give_back_slot(slot_);
  if (data_) munmap(const_cast<uint8_t*>(data_), reserved_);
}

}  // namespace bitmma
