// SPDX-License-Identifier: MIT
// Requirements on a program's compiler, so that its types equal the library's: an error here instead of a crash.
//
// A library that was built from source with the same flags has the same types: define BITMMA_SAME_FLAGS for both.
#pragma once

#if !defined(__cplusplus) || (__cplusplus < 202002L && !(defined(_MSVC_LANG) && _MSVC_LANG >= 202002L))
#error "bitmma needs C++20: compile with -std=c++20, or use bitmma.h, which needs only C99 or C++11"
#endif

#if !defined(BITMMA_SAME_FLAGS)
#if defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#error \
    "bitmma was built with _GLIBCXX_USE_CXX11_ABI=1: std::string differs. Build bitmma with your flags and BITMMA_SAME_FLAGS, or use bitmma.h"
#endif
#if defined(_GLIBCXX_DEBUG)
#error \
    "bitmma was built without _GLIBCXX_DEBUG: containers differ. Use _GLIBCXX_ASSERTIONS, or build bitmma with your flags and BITMMA_SAME_FLAGS"
#endif
#endif

namespace bitmma::detail {

struct Padded {
  char byte;
  double number;
};
static_assert(sizeof(void*) < 8 || sizeof(Padded) == 2 * sizeof(double),
              "bitmma was built without -fpack-struct: structures differ");

}  // namespace bitmma::detail
