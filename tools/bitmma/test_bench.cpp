// SPDX-License-Identifier: MIT
#include "test_bench.hpp"

#include <algorithm>

#include "arguments.hpp"
#include "bitmma/core/text.hpp"

namespace bitmma::cli {

void BenchFlag::add(Command& command) {
  command.add_option("--format", name,
                     "write text instead of a vector file, one line per output: hex (row of A, column of B, C, D; for "
                     "$readmemh), csv or jsonl");
  one_of(command.get_option("--format"), row_names(bench_formats));
}

BenchFormat BenchFlag::format() const {
  return std::ranges::find(bench_formats, name.get(), &BenchFormatInfo::name)->id;  // one_of() refuses other names
}

}  // namespace bitmma::cli
