// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string_view>

#include "bitmma/files/dataset.hpp"
#include "cli.hpp"
#include "dataset_folder.hpp"
#include "process.hpp"

int main(int argc, char** argv) {
  bitmma::cli::prepare_process();
  bitmma::use_datasets(bitmma::cli::dataset_folder());
  const char* const no_color = std::getenv("NO_COLOR");
  const char* const term = std::getenv("TERM");
  const std::string_view kind = term ? term : "";
  return bitmma::cli::run(
      {argv + (argc > 0), argv + argc},
      {.out = std::cout,
       .err = std::cerr,
       .color = bitmma::cli::takes_color(isatty(STDOUT_FILENO) != 0, kind, no_color ? no_color : ""),
       .progress = bitmma::cli::takes_color(isatty(STDERR_FILENO) != 0, kind, ""),
       .error_color = bitmma::cli::takes_color(isatty(STDERR_FILENO) != 0, kind, no_color ? no_color : "")});
}
