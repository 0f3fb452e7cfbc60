// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "bitmma/core/compiler.hpp"

namespace bitmma {

/// "bitmma 0.1.0": the program's name and version, as `source` in the files that it writes.
std::string version();

}  // namespace bitmma
