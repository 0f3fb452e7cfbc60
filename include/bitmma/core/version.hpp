// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "bitmma/core/compiler.hpp"

namespace bitmma {

/// "bitmma 0.1.0": what the program calls itself in `source` of the files it writes.
std::string version();

}  // namespace bitmma
