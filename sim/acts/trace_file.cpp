// SPDX-License-Identifier: MIT
#include "bitmma/acts/trace_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "bitmma/core/error.hpp"
#include "bitmma/core/numbers.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/file.hpp"

namespace bitmma {
namespace {

constexpr std::string_view header = "step,line,register,bits,statement";

std::string print_bits(const ThreadRegister& reg) {
  if (reg.type == "pred") return reg.bits[0] != 0 ? "true" : "false";
  if (reg.type == "b128") return fmt::format("0x{:016x}{:016x}", reg.bits[1], reg.bits[0]);
  const bool is_wide = reg.type.ends_with("64");
  return is_wide ? fmt::format("0x{:016x}", reg.bits[0]) : fmt::format("0x{:08x}", reg.bits[0]);
}

std::string quoted_cell(std::string_view text) {
  std::string made = "\"";
  for (const char c : text) {
    if (c == '"') made += '"';
    made += c;
  }
  return made + '"';
}

std::string unquoted_cell(std::string_view text) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return std::string(text);
  std::string made;
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    made += text[i];
    if (text[i] == '"') ++i;
  }
  return made;
}

std::string print(const std::optional<TraceRow>& row) {
  if (!row) return "the end";
  return fmt::format("line {}, {}{} = {}", row->line, row->statement.empty() ? "" : row->statement + "  ", row->name,
                     row->bits);
}

}  // namespace

std::vector<TraceRow> trace_rows(int64_t step, const ThreadStep& of) {
  std::vector<TraceRow> rows;
  for (const ThreadRegister& reg : of.written) {
    rows.push_back({.step = step,
                    .line = of.line,
                    .name = std::string(reg.name),
                    .bits = print_bits(reg),
                    .statement = std::string(of.text)});
  }
  return rows;
}

void write_trace_file(const std::string& path, const std::vector<TraceRow>& rows) {
  write_whole(path, [&](std::ostream& out) {
    out << header << '\n';
    for (const TraceRow& row : rows)
      out << fmt::format("{},{},{},{},{}\n", row.step, row.line, row.name, row.bits, quoted_cell(row.statement));
  });
}

std::vector<TraceRow> read_trace_file(const std::string& path) {
  const std::string text = read_whole(path);
  std::vector<TraceRow> rows;
  int64_t number = 0;
  for (size_t from = 0; from < text.size();) {
    const size_t end = std::min(text.find('\n', from), text.size());
    std::string_view line(text.data() + from, end - from);
    if (line.ends_with('\r')) line.remove_suffix(1);
    from = end + 1;
    const auto refuse = [&](std::string expected) {
      throw Error({.code = ViolationCode::unusable_file,
                   .field = fmt::format("{}, row {}", printable(path), number),
                   .seen = shortened(printable(std::string(line))),
                   .expected = std::move(expected)});
    };
    if (number++ == 0) {
      if (line != header) refuse(std::string(header));
      continue;
    }
    std::array<std::string_view, 5> cells;
    for (size_t i = 0; i < cells.size(); ++i) {
      const size_t comma = i + 1 < cells.size() ? line.find(',') : line.size();
      if (comma == std::string_view::npos) refuse("five cells");
      cells[i] = line.substr(0, comma);
      line.remove_prefix(std::min(comma + 1, line.size()));
    }
    TraceRow row{.name = std::string(cells[2]), .bits = std::string(cells[3]), .statement = unquoted_cell(cells[4])};
    const auto step = parse_integer(cells[0], 63, false), line_number = parse_integer(cells[1], 31, false);
    if (!step || !line_number) refuse("a step and a line");
    row.step = static_cast<int64_t>(*step), row.line = static_cast<int>(*line_number);
    rows.push_back(std::move(row));
  }
  if (number == 0)
    throw Error({.code = ViolationCode::unusable_file,
                 .field = printable(path),
                 .seen = "an empty file",
                 .expected = std::string(header)});
  return rows;
}

std::optional<TraceDifference> first_difference(const std::vector<TraceRow>& expected,
                                                const std::vector<TraceRow>& actual) {
  const auto same = [](const TraceRow& a, const TraceRow& b) {
    return a.line == b.line && a.name == b.name && a.bits == b.bits;
  };
  const auto [left, right] = std::ranges::mismatch(expected, actual, same);
  if (left == expected.end() && right == actual.end()) return std::nullopt;
  TraceDifference difference{.rows_before = static_cast<size_t>(left - expected.begin())};
  if (left != expected.end()) difference.expected = *left;
  if (right != actual.end()) difference.actual = *right;
  return difference;
}

std::string print(const TraceDifference& difference) {
  const auto &expected = difference.expected, &actual = difference.actual;
  if (!expected || !actual || expected->line != actual->line || expected->name != actual->name)
    return fmt::format("the runs take different paths: {} expected, {} actual", print(expected), print(actual));
  return fmt::format("{} expected, {} actual", print(expected), actual->bits);
}

}  // namespace bitmma
