// SPDX-License-Identifier: MIT
// In place of exec.cpp and process.cpp, where the system has no processes: BITMMA_HOSTED=OFF.
#include "bitmma/core/error.hpp"
#include "commands.hpp"
#include "exec.hpp"
#include "process.hpp"

namespace bitmma::cli {

void prepare_process() {}

std::vector<std::string> take_command(std::vector<std::string>&) { return {}; }

void add_exec(Command&, Context&) {}

void require_processes(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front() != "exec") return;
  throw Error({.field = "bitmma exec",
               .seen = "not in this program, whose system has no processes",
               .expected = "the program for Linux",
               .fix = "install bitmma: docs/install.md"});
}

}  // namespace bitmma::cli
