// SPDX-License-Identifier: MIT
// The flags of `simulate`, and how it writes what it computed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bitmma/analysis/simulate_file.hpp"
#include "flags.hpp"
#include "test_bench.hpp"
#include "wrong_flags.hpp"

namespace bitmma::cli {

struct SimulateFlags {
  Flag<std::vector<std::string>> files;
  Flag<std::string> out;
  FileFlags file;
  LayoutFlags layouts;
  BenchFlag bench;
  WrongFlags wrong;
  Flag<std::optional<int64_t>> show_case = {};
  Flag<std::string> after;  // the file with the previous state
  Flag<int> rows = 8, cols = 8;
  Flag<bool> hex = false, lint = false, json = false, replace_d = false;
  Flag<int> threads = 1;
};

/// The output of each of `names`; none if D is shown. Throws Error for flags of outputs that contradict each other.
std::vector<std::string> outputs_of(const SimulateFlags& flags, const std::vector<std::string>& names);

/// The exit code of a recorded D that differs.
void set_exit_code(Context& context, const std::optional<Comparison>& recorded);

/// Writes D to `path`, unless a recorded D would be lost, and says on stderr what it did.
void write_d(Context& context, const SimulateFlags& flags, const SimulatedFile& simulated, const std::string& path);
/// Writes the cases as text, to `path` or, if it is empty, to stdout.
void write_bench(Context& context, const SimulateFlags& flags, const SimulatedFile& simulated, const std::string& path);

}  // namespace bitmma::cli
