// SPDX-License-Identifier: MIT
#include "bitmma/files/test_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "bitmma/instruction/statement.hpp"

namespace bitmma {
namespace {

/// A column or list of columns of a line: one operand of an output.
struct Part {
  std::string_view name;
  Format format;
  int count;  // number of codes
};

/// A's row, B's column, their scales if any, C and D.
std::vector<Part> parts_of(const Mma& mma) {
  std::vector<Part> parts{{"a", mma.a, mma.k}, {"b", mma.b, mma.k}};
  if (mma.scale_count > 0) {
    parts.push_back({"sfa", mma.scale_type, mma.scale_count});
    parts.push_back({"sfb", mma.scale_type, mma.scale_count});
  }
  parts.push_back({"c", mma.c, 1});
  parts.push_back({"d", mma.d, 1});
  return parts;
}

/// The codes of output (row, col), part after part; nothing for a C that is not read.
std::vector<std::optional<uint64_t>> codes_of(const Mma& mma, const LogicalMatrices& logical, const Matrix& d, int row,
                                              int col) {
  std::vector<std::optional<uint64_t>> codes;
  for (int k = 0; k < mma.k; ++k) codes.push_back(logical.a->code(row, k));
  for (int k = 0; k < mma.k; ++k) codes.push_back(logical.b->code(k, col));
  if (mma.scale_count > 0) {
    for (int i = 0; i < mma.scale_count; ++i) codes.push_back(logical.scale_a->code(row, i));
    for (int i = 0; i < mma.scale_count; ++i) codes.push_back(logical.scale_b->code(i, col));
  }
  codes.push_back(mma.enable_input_d ? std::optional(logical.c->code(row, col)) : std::nullopt);
  codes.push_back(d.code(row, col));
  return codes;
}

int digits_of(Format format) { return (info(format).bits + 3) / 4; }

void append_line(std::string& text, BenchFormat format, const std::vector<Part>& parts,
                 const std::vector<std::optional<uint64_t>>& codes, int64_t index, int row, int col) {
  size_t at = 0;
  if (format == BenchFormat::csv) text += fmt::format("{},{},{}", index, row, col);
  if (format == BenchFormat::jsonl) text += fmt::format(R"({{"case":{},"row":{},"col":{})", index, row, col);
  for (const Part& part : parts) {
    const bool is_list = part.count > 1 || part.name == "sfa" || part.name == "sfb";
    if (format == BenchFormat::jsonl) text += fmt::format(",\"{}\":{}", part.name, is_list ? "[" : "");
    for (int i = 0; i < part.count; ++i, ++at) {
      const int digits = digits_of(part.format);
      const std::string code = codes[at] ? fmt::format("{:0{}x}", *codes[at], digits) : "";
      switch (format) {
        case BenchFormat::hex:
          text += (at == 0 ? "" : " ") + (code.empty() ? std::string(static_cast<size_t>(digits), 'x') : code);
          break;
        case BenchFormat::csv: text += code.empty() ? "," : ",0x" + code; break;
        case BenchFormat::jsonl: text += (i == 0 ? "" : ",") + (code.empty() ? "null" : "\"0x" + code + "\""); break;
      }
    }
    if (format == BenchFormat::jsonl && is_list) text += ']';
  }
  text += format == BenchFormat::jsonl ? "}\n" : "\n";
}

void require_computes(const Instruction& instruction) {
  if (!is_mma(instruction))
    throw Error({.field = "instruction",
                 .seen = print(instruction),
                 .expected = "a matrix instruction",
                 .fix = "instructions that move data compute no outputs"});
  if (mma_of(instruction).products > 1)
    throw Error({.field = "format", .seen = print(instruction), .expected = "one product per instruction"});
}

/// Writes the text before the first case: names and types, or nothing.
void write_header(std::ostream& out, BenchFormat format, const Instruction& instruction, Target target) {
  if (format == BenchFormat::jsonl) return;
  const std::vector<Part> parts = parts_of(mma_of(instruction));
  std::string text =
      format == BenchFormat::csv ? "case,row,col" : fmt::format("// {}, {}:", print(instruction), print(target));
  for (const Part& part : parts) {
    if (format == BenchFormat::hex) {
      text += fmt::format("{} {} {} of {} bits", part.name == "a" ? "" : ",", part.name,
                          part.count == 1 ? std::string(info(part.format).name)
                                          : fmt::format("{} {}", part.count, info(part.format).name),
                          info(part.format).bits);
    } else {
      const bool is_list = part.count > 1 || part.name == "sfa" || part.name == "sfb";
      for (int i = 0; i < part.count; ++i) text += fmt::format(",{}{}", part.name, is_list ? std::to_string(i) : "");
    }
  }
  out << text << '\n';
}

/// `first_case` is the number of case 0.
void write_cases(std::ostream& out, BenchFormat format, const VectorFile& vectors, int64_t first_case) {
  for (int64_t index = 0; index < vectors.cases; ++index) {
    const Case this_case = case_at(vectors, index);
    const Mma mma = mma_of(this_case.instruction);
    const std::vector<Part> parts = parts_of(mma);
    const LogicalMatrices logical = logical_of(this_case.instruction, operands_of(this_case));
    const Matrix d = this_case.has_recorded_d() ? recorded_d(this_case) : computed_d(this_case);
    std::string text;
    if (format == BenchFormat::hex) text = fmt::format("// case {}\n", first_case + index);
    for (int row = 0; row < mma.m; ++row) {
      for (int col = 0; col < mma.n; ++col)
        append_line(text, format, parts, codes_of(mma, logical, d, row, col), first_case + index, row, col);
      if (text.size() > size_t{1} << 20) {
        out << text;
        text.clear();
      }
    }
    out << text;
  }
}

}  // namespace

void require_test_bench(const VectorFile& vectors) {
  if (!vectors.tiling.is_one_instruction())
    throw Error({.code = ViolationCode::not_together,
                 .field = "format",
                 .seen = "a whole tile of several instructions",
                 .expected = "cases of one instruction",
                 .fix = "save the matrices of each instruction as a case"});
  require_computes(vectors.instruction);
}

void write_test_bench(std::ostream& out, BenchFormat format, const VectorFile& vectors) {
  require_test_bench(vectors);
  write_header(out, format, vectors.instruction, vectors.target);
  write_cases(out, format, vectors, 0);
  vectors.require_unchanged();
}

void write_golden_test_bench(std::ostream& out, BenchFormat format, const GoldenRequest& request, int threads,
                             const Progress& progress) {
  constexpr int64_t at_once = 16;
  require_computes(request.instruction);
  for (int64_t first = 0; first < request.cases; first += at_once) {
    GoldenRequest part = request;
    part.first_case += first;
    part.cases = std::min(at_once, request.cases - first);
    const VectorFile vectors = as_vector_file(make_golden(part, threads));
    if (first == 0) write_header(out, format, vectors.instruction, vectors.target);
    write_cases(out, format, vectors, first);
    if (progress) progress(first + part.cases);
  }
}

}  // namespace bitmma
