// SPDX-License-Identifier: MIT
#include "bitmma/core/version.hpp"

namespace bitmma {

std::string version() { return "bitmma " BITMMA_VERSION; }

}  // namespace bitmma
