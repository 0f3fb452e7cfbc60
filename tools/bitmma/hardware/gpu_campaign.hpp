// SPDX-License-Identifier: MIT
#pragma once

#include "commands.hpp"

namespace bitmma::cli {

/// `bitmma gpu campaign`.
void add_gpu_campaign(Command& gpu, Context& context);

}  // namespace bitmma::cli
