# What the sources need of a platform, said at once and in one line instead of by a compiler's hundred.
if(CMAKE_CXX_COMPILER_ID STREQUAL Clang AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 16)
  message(FATAL_ERROR "Clang ${CMAKE_CXX_COMPILER_VERSION} cannot compile C++20's ranges; bitmma needs g++ 12 or clang++ 16, or newer. "
                      "On Debian 12: apt-get install clang-16, then cmake -DCMAKE_CXX_COMPILER=clang++-16 in a new build folder.")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "g++ ${CMAKE_CXX_COMPILER_VERSION} is too old; bitmma needs g++ 12 or clang++ 16, or newer. "
                      "On Ubuntu 22.04: apt-get install g++-12, then cmake -DCMAKE_CXX_COMPILER=g++-12 in a new build folder.")
endif()
include(CheckCXXSymbolExists)
check_cxx_symbol_exists(__SIZEOF_INT128__ cstddef BITMMA_HAS_INT128)
if(NOT BITMMA_HAS_INT128)
  message(FATAL_ERROR "bitmma needs integers of 128 bits for its exact sums, and this compiler has none for this target. Compilers "
                      "have them for 64-bit targets and for WebAssembly: leave out -m32, or take such a toolchain.")
endif()
