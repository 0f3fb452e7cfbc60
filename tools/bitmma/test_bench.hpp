// SPDX-License-Identifier: MIT
// Cases as text, one line per output, for other test benches and scripts.
//
//   hex    3c00 bc00 ... 3800 4000 ... 3f800000 40000000      A's row, B's column, C, D; // starts a comment: $readmemh
//   csv    case,row,col,a0,...,b0,...,c,d                     codes as 0x...
//   jsonl  {"case":0,"row":0,"col":0,"a":["0x3c00",...],"b":[...],"c":"0x3f800000","d":"0x40000000"}
//
// A C that is not read is x in every digit (hex), empty (csv), or null (jsonl).
#pragma once

#include <ostream>
#include <string>

#include "bitmma/files/vector_file.hpp"
#include "commands.hpp"

namespace bitmma::cli {

enum class BenchFormat : uint8_t { hex, csv, jsonl };

/// --format.
struct BenchFlag {
  Flag<std::string> name = {};

  void add(Command& command);
  bool is_given() const { return !name.empty(); }
  BenchFormat format() const;
};

/// Writes the text before the first case: names and types, or nothing.
void write_bench_header(std::ostream& out, BenchFormat format, const Instruction& instruction, Target target);
/// Writes the outputs of all cases, with D as recorded or else computed. `first_case` is the number of case 0.
void write_bench(std::ostream& out, BenchFormat format, const VectorFile& vectors, int64_t first_case);

}  // namespace bitmma::cli
