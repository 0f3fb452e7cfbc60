// SPDX-License-Identifier: MIT
// What clang expects of a C++ runtime and wasi-libc lacks.

int __cxa_atexit(void (*function)(void*), void* object, void* library);

// There is one thread: its end is the program's.
int __cxa_thread_atexit(void (*function)(void*), void* object, void* library) {
  return __cxa_atexit(function, object, library);
}

// The tag of all C++ exceptions.
__asm__(
    ".globl __cpp_exception\n"
    ".tagtype __cpp_exception i32\n"
    "__cpp_exception:\n");
