/* Loaded before the C library (LD_PRELOAD): makes system calls on files that are being written fail, as a full, broken
 * or remote disk would, and files shrink while they are mapped.
 *
 *   FAIL_CALL=fsync:1:5       the first fsync of a file open for reading and writing fails with error 5
 *   NO_UNNAMED_FILES=1        the file system has no files without a name (O_TMPFILE)
 *   TRUNCATE_MAPPED=65536     a file is cut to so many bytes as soon as it has been mapped
 *   TOUCH_MAPPED=1            its last byte is written again as soon as it has been mapped
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if ((flags & O_TMPFILE) == O_TMPFILE && getenv("NO_UNNAMED_FILES")) {
    errno = EOPNOTSUPP;
    return -1;
  }
  if ((flags & O_TMPFILE) == O_TMPFILE && fails("tmpfile")) return -1;
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

int linkat(int from, const char* old, int to, const char* path, int flags) {
  return fails("linkat") ? -1 : REAL(linkat)(from, old, to, path, flags);
}

int rename(const char* from, const char* to) { return fails("rename") ? -1 : REAL(rename)(from, to); }

int fallocate(int file, int mode, off_t offset, off_t bytes) {
  return fails("fallocate") ? -1 : REAL(fallocate)(file, mode, offset, bytes);
}
int fallocate64(int file, int mode, off64_t offset, off64_t bytes) __attribute__((alias("fallocate")));

/* The mapping has the file open for reading only: it is opened once more by its name in /proc. */
static void change_mapped(int file, off_t bytes) {
  char name[64];
  snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  const int again = REAL(open)(name, O_RDWR | O_CLOEXEC);
  const char* const truncate_to = getenv("TRUNCATE_MAPPED");
  if (truncate_to && ftruncate(again, atoll(truncate_to)) != 0) abort();
  if (getenv("TOUCH_MAPPED")) {
    char last = 0;
    if (pread(again, &last, 1, bytes - 1) != 1 || pwrite(again, &last, 1, bytes - 1) != 1) abort();
  }
  REAL(close)(again);
}

void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) {
  void* const result = REAL(mmap)(address, bytes, protection, flags, file, offset);
  const int of_interest = result != MAP_FAILED && file >= 0 && bytes > (64u << 20);
  if (of_interest && (getenv("TRUNCATE_MAPPED") || getenv("TOUCH_MAPPED"))) change_mapped(file, (off_t)bytes);
  return result;
}
void* mmap64(void* address, size_t bytes, int protection, int flags, int file, off64_t offset)
    __attribute__((alias("mmap")));
