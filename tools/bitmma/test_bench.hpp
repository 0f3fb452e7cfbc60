// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "bitmma/files/test_bench.hpp"
#include "commands.hpp"

namespace bitmma::cli {

/// --format: cases as text.
struct BenchFlag {
  Flag<std::string> name = {};

  void add(Command& command);
  bool is_given() const { return !name.empty(); }
  BenchFormat format() const;
};

}  // namespace bitmma::cli
