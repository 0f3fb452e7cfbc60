// SPDX-License-Identifier: MIT
// The command line as a function, so that tests call exactly what users run.
//
// Exit codes of all commands: 0 same or done, 1 differs, 2 bad request. Results go to `out`, everything else to `err`.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/error.hpp"

namespace bitmma::cli {

constexpr int exit_same = 0, exit_differs = 1, exit_bad_request = 2;

struct Terminal {
  std::ostream& out;
  std::ostream& err;
  bool color = false;                            // out is a terminal that supports colours
  bool progress = false;                         // err is a terminal
  bool error_color = false;                      // err is a terminal that supports colours
  std::vector<Violation>* violations = nullptr;  // takes those that err shows as errors and warnings
};

/// Whether a stream supports colours and redrawn lines. `term` and `no_color` are the variables TERM and NO_COLOR,
/// empty if they are not set (https://no-color.org).
constexpr bool takes_color(bool is_terminal, std::string_view term, std::string_view no_color) {
  return is_terminal && !term.empty() && term != "dumb" && no_color.empty();
}

/// A flag or argument that names a file.
struct FileFlag {
  std::string command = {};  // "layout smem"
  std::string flag = {};     // "--svg", or the name of an argument
  bool is_output = false;
};
/// Those of all commands.
std::vector<FileFlag> file_flags();

/// Runs one command; `arguments` exclude the program's name.
int run(const std::vector<std::string>& arguments, Terminal terminal);

}  // namespace bitmma::cli
