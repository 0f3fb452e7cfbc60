// SPDX-License-Identifier: MIT
// The functions of the driver API by name. names.csv has a row for each symbol; CMake makes of it the array below and,
// for each symbol that no source of this folder defines, a function that refuses.
#pragma once

#include <span>
#include <string_view>

namespace bitmma::driver {

struct ApiSymbol {
  std::string_view name = {};    // as cuGetProcAddress takes it
  std::string_view symbol = {};  // as dlsym takes it
  int since = 0;                 // version of CUDA
  void* address = nullptr;
};
/// In the order of names, then of versions.
std::span<const ApiSymbol> api_symbols();

}  // namespace bitmma::driver

/// Counts a call of a function that bitmma does not have, and returns CUDA_ERROR_NOT_SUPPORTED.
extern "C" int bitmma_refuse_call(const char* symbol);
