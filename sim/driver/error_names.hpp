// SPDX-License-Identifier: MIT
// The names of the results of the driver API, and a text for each.
#pragma once

#include "cuda.hpp"

namespace bitmma::driver {

struct ErrorName {
  int result = 0;
  const char* name = nullptr;
  const char* text = nullptr;
};
/// nullptr for a number that is no result of CUDA 13.0.
const ErrorName* error_named(int result);

}  // namespace bitmma::driver
