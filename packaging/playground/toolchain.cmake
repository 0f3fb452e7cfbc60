# SPDX-License-Identifier: MIT
# bitmma for WebAssembly with WASI: tools/playground sets BITMMA_ZIG, the folder of the wheel ziglang, and BITMMA_PLAYGROUND,
# the folder with the runtime and the headers of other libraries.
set(CMAKE_SYSTEM_NAME WASI)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_CXX_COMPILER ${CMAKE_CURRENT_LIST_DIR}/wasmcxx)
set(CMAKE_AR ${CMAKE_CURRENT_LIST_DIR}/wasmar)
set(CMAKE_RANLIB true)
# Programs need the runtime, whose place only this file knows: CMake's own tests are archives.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_CXX_COMPILER_WORKS ON)
set(CMAKE_CXX_LINK_EXECUTABLE "${CMAKE_CURRENT_LIST_DIR}/wasmld <OBJECTS> <LINK_LIBRARIES> -o <TARGET>")
# Those of wasi-libc, in libc.a.
set(THREADS_PREFER_PTHREAD_FLAG OFF)
set(CMAKE_HAVE_LIBC_PTHREAD ON)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
# The packages of this machine are headers among those of its C library.
set(CMAKE_PREFIX_PATH $ENV{BITMMA_PLAYGROUND}/packages)
