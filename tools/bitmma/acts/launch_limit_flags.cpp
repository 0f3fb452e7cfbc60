// SPDX-License-Identifier: MIT
#include "launch_limit_flags.hpp"

#include "arguments.hpp"

namespace bitmma::cli {

void LaunchLimitFlags::add(Command& command) {
  command
      .add_option("--limit-memory", memory_bytes,
                  "most bytes of memory of a recorded launch, or of zeros: and empty: arguments")
      ->capture_default_str();
  between(command.get_option("--limit-memory"), 1, static_cast<double>(LaunchLimits::most_memory_bytes));
  command
      .add_option(
          "--limit-instructions", instructions,
          "most instructions of a warp, after which a kernel counts as hanging; also most threads of a recorded grid")
      ->capture_default_str();
  between(command.get_option("--limit-instructions"), 1, 0x1p62);
}

}  // namespace bitmma::cli
