// SPDX-License-Identifier: MIT
// In place of the folder hardware, where component hardware is not built.
#include "bitmma/core/error.hpp"
#include "commands.hpp"

namespace bitmma::cli {

void add_gpu(Command&, Context&) {}
void add_ptx(Command&, Context&) {}

void require_hardware(const std::vector<std::string>& arguments) {
  if (arguments.empty() || (arguments.front() != "gpu" && arguments.front() != "ptx")) return;
  throw Error({.field = "bitmma " + arguments.front(),
               .seen = "not in this program",
               .expected = "a program that runs instructions on a GPU",
               .fix = "build the whole: cmake --preset release && cmake --build --preset release"});
}

}  // namespace bitmma::cli
