#include <malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string_view>

#include "cli.hpp"

int main(int argc, char** argv) {
  // A case's matrices are freed and allocated again for the next one; giving their pages back in between costs more
  // than the arithmetic.
  mallopt(M_MMAP_THRESHOLD, 64 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  const char* const no_color = std::getenv("NO_COLOR");
  const char* const term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  return bitmma::cli::run({argv + 1, argv + argc}, {.out = std::cout,
                                                    .err = std::cerr,
                                                    .color = isatty(STDOUT_FILENO) != 0 && no_color == nullptr && !dumb,
                                                    .progress = isatty(STDERR_FILENO) != 0 && !dumb});
}
