/* Loaded before the C library (LD_PRELOAD): makes system calls on files that are being written fail, as a full, broken
 * or remote disk would, and files change while they are read.
 *
 *   FAIL_CALL=fsync:1:5       the first fsync of a file open for reading and writing fails with error 5
 *   TRUNCATE_READ=65536       a file of more than 64 MiB is cut to so many bytes after the first read of it
 *   TOUCH_READ=1              its last byte is written again after the first read of it
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* True when FAIL_CALL means this use of `name`; errno then is what it asks for. */
static int fails(const char* name) {
  static int uses = 0;
  const char* const wanted = getenv("FAIL_CALL");
  const size_t length = strlen(name);
  if (!wanted || strncmp(wanted, name, length) != 0 || wanted[length] != ':') return 0;
  int use = 0, error = 0;
  if (sscanf(wanted + length, ":%d:%d", &use, &error) != 2 || ++uses != use) return 0;
  errno = error;
  return 1;
}

/* What write_whole makes: a regular file, open for reading and writing. */
static int is_unfinished(int file) {
  struct stat status;
  const int flags = fcntl(file, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) == O_RDWR && fstat(file, &status) == 0 && S_ISREG(status.st_mode);
}

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if ((flags & O_CREAT) != 0 && (flags & O_EXCL) != 0 && fails("create")) return -1;
  return REAL(open)(path, flags, mode);
}
int open64(const char* path, int flags, ...) __attribute__((alias("open")));

ssize_t write(int file, const void* bytes, size_t count) {
  if (is_unfinished(file) && fails("write")) return -1;
  return REAL(write)(file, bytes, count);
}

int fsync(int file) { return is_unfinished(file) && fails("fsync") ? -1 : REAL(fsync)(file); }

int close(int file) {
  const int fail = is_unfinished(file) && fails("close");
  const int error = errno;
  const int result = REAL(close)(file);
  if (!fail) return result;
  errno = error;
  return -1;
}

int fchmod(int file, mode_t mode) { return fails("fchmod") ? -1 : REAL(fchmod)(file, mode); }

int rename(const char* from, const char* to) { return fails("rename") ? -1 : REAL(rename)(from, to); }

/* The reader has the file open for reading only: it is opened once more by its name in /proc. */
static void change(int file, off_t bytes) {
  char name[64];
  snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  const int again = REAL(open)(name, O_RDWR | O_CLOEXEC);
  const char* const truncate_to = getenv("TRUNCATE_READ");
  if (truncate_to && ftruncate(again, atoll(truncate_to)) != 0) abort();
  if (getenv("TOUCH_READ") && pwrite(again, "", 1, bytes - 1) != 1) abort();
  REAL(close)(again);
}

ssize_t pread(int file, void* to, size_t count, off_t offset) {
  static int is_changed = 0;
  const ssize_t result = REAL(pread)(file, to, count, offset);
  struct stat status;
  const int is_asked_for = getenv("TRUNCATE_READ") || getenv("TOUCH_READ");
  if (is_asked_for && !is_changed && fstat(file, &status) == 0 && status.st_size > (64 << 20)) {
    is_changed = 1;
    change(file, status.st_size);
  }
  return result;
}
ssize_t pread64(int file, void* to, size_t count, off64_t offset) __attribute__((alias("pread")));
