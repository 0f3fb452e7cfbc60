// SPDX-License-Identifier: MIT
// Cases as text, one line per output, for other test benches and scripts.
//
//   hex    3c00 bc00 ... 3800 4000 ... 3f800000 40000000      A's row, B's column, C, D; // starts a comment: $readmemh
//   csv    case,row,col,a0,...,b0,...,c,d                     codes as 0x...
//   jsonl  {"case":0,"row":0,"col":0,"a":["0x3c00",...],"b":[...],"c":"0x3f800000","d":"0x40000000"}
//
// A C that is not read is x in every digit (hex), empty (csv), or null (jsonl).
#pragma once

#include <array>
#include <ostream>
#include <string_view>

#include "bitmma/files/golden.hpp"

namespace bitmma {

enum class BenchFormat : uint8_t { hex, csv, jsonl };

struct BenchFormatInfo {
  BenchFormat id;
  std::string_view name;
};
inline constexpr std::array<BenchFormatInfo, 3> bench_formats{
    {{BenchFormat::hex, "hex"}, {BenchFormat::csv, "csv"}, {BenchFormat::jsonl, "jsonl"}}};

/// Throws Error for an instruction without outputs or with several products (field instruction), and for cases that
/// several instructions compute (code not_together, field format).
void require_test_bench(const VectorFile& vectors);

/// Writes all cases, with D as recorded or else computed. Throws Error as require_test_bench does.
void write_test_bench(std::ostream& out, BenchFormat format, const VectorFile& vectors);

/// Writes the cases of a request a few at a time.
void write_golden_test_bench(std::ostream& out, BenchFormat format, const GoldenRequest& request, int threads,
                             const Progress& progress = {});

}  // namespace bitmma
