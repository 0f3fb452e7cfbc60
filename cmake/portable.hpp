// Read before every source of the library when BITMMA_PORTABLE is ON: calls that only Linux has, and calls that change
// the process of a host, are then errors.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

#undef O_TMPFILE
#undef O_PATH
#undef O_DIRECT

// clang-format off
#pragma GCC poison O_TMPFILE O_PATH O_DIRECT MAP_ANONYMOUS fallocate memfd_create mmap mmap64 mremap munmap madvise
#pragma GCC poison prctl renameat2 statx syncfs copy_file_range splice sendfile getrandom pipe2 dup3 accept4
#pragma GCC poison gettid sched_getaffinity sched_setaffinity sigaction signalfd eventfd epoll_create1 inotify_init1
// clang-format on
