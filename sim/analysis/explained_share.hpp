// SPDX-License-Identifier: MIT
// The table of a diagnosis: which share of the wrong outputs each explanation reproduces.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bitmma/analysis/report.hpp"

namespace bitmma {

struct ExplainedShare {
  bool explains_all = false;
  int64_t wrong_explained = 0, right_broken = 0;
  std::vector<std::string> what = {};  // the faults that act together
};

/// "0.02 %" for 1 in 4096: one decimal, or as many as needed so that a non-zero share does not read as 0 and an
/// incomplete one does not read as 100.
std::string print_share(int64_t part, int64_t whole);

/// Adds lines of at most 120 columns, one for each fault. Rows that explain as much as the first share its figures.
void add_explanations(Report& report, const std::vector<ExplainedShare>& rows, int64_t wrong);

}  // namespace bitmma
