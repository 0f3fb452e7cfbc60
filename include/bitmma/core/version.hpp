// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "bitmma/core/compiler.hpp"

namespace bitmma {

/// "bitmma 0.1.0": the program's name and version, written as `source` into files.
std::string version();

}  // namespace bitmma
