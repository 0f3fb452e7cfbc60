// SPDX-License-Identifier: MIT
#include "bitmma/analysis/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "../core/ieee_environment.hpp"
#include "../core/json.hpp"
#include "bitmma/core/text.hpp"

namespace bitmma {
namespace {

/// Writes JSON as Json::dump does, without a second tree in memory: reports of files can be large.
class JsonWriter {
 public:
  JsonWriter(std::string& text, int indent) : text_(text), indent_(indent) {}

  void write(const Report& report) {
    std::visit([this](const auto& value) { write_value(value); }, report.value);
  }

 private:
  void write_value(std::monostate) { text_ += "null"; }
  void write_value(const Report::List& list) {
    open('[');
    for (const Report& element : list) begin_item(), write(element);
    close(']', list.empty());
  }
  void write_value(const Report::Members& members) {
    std::map<std::string_view, const Report*> last;  // of equal keys, at the place of the first
    for (const ReportMember& member : members) last[member.key] = &member.value;
    open('{');
    for (const ReportMember& member : members) {
      const auto node = last.extract(member.key);
      if (node.empty()) continue;
      begin_item();
      write_value(member.key);
      text_ += indent_ < 0 ? ":" : ": ";
      write(*node.mapped());
    }
    close('}', members.empty());
  }
  template <typename Scalar>
  void write_value(const Scalar& scalar) {
    text_ += json_text(Json(scalar));
  }

  void open(char bracket) {
    text_ += bracket;
    ++depth_, is_first_ = true;
  }
  void begin_item() {
    if (!is_first_) text_ += ',';
    is_first_ = false;
    break_line();
  }
  void close(char bracket, bool is_empty) {
    --depth_, is_first_ = false;
    if (!is_empty) break_line();
    text_ += bracket;
  }
  void break_line() {
    if (indent_ >= 0) text_.append(1, '\n').append(static_cast<size_t>(indent_ * depth_), ' ');
  }

  std::string& text_;
  int indent_, depth_ = 0;
  bool is_first_ = true;
};

bool is_number(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// Converts to the alternative T; null becomes its default.
template <typename T>
T& as(Report& report) {
  if (std::holds_alternative<std::monostate>(report.value)) report.value = T{};
  return std::get<T>(report.value);
}

/// The row's text, or its value as the text has it: null as nothing, a text without quotes.
std::string text_of(const ReportRow& row) {
  if (!row.text.empty() || row.value == Report()) return row.text;
  const auto* text = std::get_if<std::string>(&row.value.value);
  return text ? *text : to_json(row.value);
}

}  // namespace

Report::Report(std::initializer_list<ReportMember> members) : value(Members(members)) {}

Report::Report() = default;
Report::Report(const Report& other) = default;
Report::Report(Report&& other) noexcept = default;
Report& Report::operator=(const Report& other) = default;
Report& Report::operator=(Report&& other) noexcept = default;
Report::~Report() = default;
Report::Report(bool truth) : value(truth) {}
Report::Report(double number) : value(number) {}
Report::Report(std::string text) : value(std::move(text)) {}
Report::Report(std::string_view text) : value(std::string(text)) {}
Report::Report(const char* text) : value(std::string(text)) {}
Report::Report(List list) : value(std::move(list)) {}
Report::Report(Value content) : value(std::move(content)) {}
Report::Report(const std::vector<Violation>& violations) : value(List{}) {
  for (const Violation& violation : violations) {
    append({{"field", violation.field},
            {"seen", violation.seen},
            {"legal", expected_of(violation)},
            {"fix", violation.fix},
            {"source", violation.source},
            {"code", print(violation.code)},
            {"severity", violation.severity == Severity::error ? "error" : "warning"}});
  }
}

Report Report::list() { return List{}; }
Report Report::object() { return Report(Value(Members{})); }

Report& Report::add(std::string key, Report member) {
  as<Members>(*this).push_back({.key = std::move(key), .value = std::move(member)});
  return *this;
}

Report& Report::append(Report element) {
  as<List>(*this).push_back(std::move(element));
  return *this;
}

Report& Report::add_text(std::string text, Tone tone) {
  if (!text.empty() && text.back() == '\n') text.pop_back();
  lines.push_back({.text = std::move(text), .tone = tone});
  return *this;
}

Report& Report::add_text(const std::vector<std::vector<std::string>>& table) { return add_text(print_table(table)); }

Report& Report::add_rows(const std::vector<ReportRow>& rows) {
  std::vector<std::vector<std::string>> table;
  for (const ReportRow& row : rows) {
    if (!row.key.empty()) add(row.key, row.value);
    std::string text = row.label.empty() ? "" : text_of(row);
    if (!text.empty()) table.push_back({row.label, std::move(text)});
  }
  return table.empty() ? *this : add_text(table);
}

Report objects_of(const ReportRows& elements) {
  Report list = Report::list();
  for (const std::vector<ReportRow>& rows : elements) {
    Report object = Report::object();
    for (const ReportRow& row : rows) {
      if (!row.key.empty()) object.add(row.key, row.value);
    }
    list.append(std::move(object));
  }
  return list;
}

std::vector<std::vector<std::string>> table_of(const ReportRows& elements, size_t max_lines) {
  std::vector<std::vector<std::string>> table;
  for (size_t i = 0; i < std::min(elements.size(), max_lines); ++i) {
    if (i == 0) table.emplace_back();
    std::vector<std::string>& line = table.emplace_back();
    for (const ReportRow& row : elements[i]) {
      if (row.label.empty()) continue;
      if (i == 0) table.front().push_back(row.label);
      line.push_back(text_of(row));
    }
  }
  return table;
}

Report& Report::add_warnings(const std::vector<Violation>& warnings) {
  for (const Violation& violation : warnings) add_text("warning: " + print(violation), Tone::warning);
  return add("warnings", warnings);
}

Report& Report::update(Report other) {
  Members& mine = as<Members>(*this);
  for (ReportMember& member : as<Members>(other)) {
    const auto same = std::ranges::find(mine, member.key, &ReportMember::key);
    if (same == mine.end()) mine.push_back(std::move(member));
    else *same = std::move(member);
  }
  std::ranges::move(other.lines, std::back_inserter(lines));
  return *this;
}

Report& Report::operator[](std::string_view key) {
  Members& members = as<Members>(*this);
  const auto member = std::ranges::find(members, key, &ReportMember::key);
  if (member != members.end()) return member->value;
  return members.emplace_back(ReportMember{.key = std::string(key)}).value;
}

Report& Report::operator[](size_t index) { return as<List>(*this).at(index); }

const Report* Report::find(std::string_view key) const {
  const auto* members = std::get_if<Members>(&value);
  if (!members) return nullptr;
  const auto member = std::ranges::find(*members, key, &ReportMember::key);
  return member == members->end() ? nullptr : &member->value;
}

bool Report::operator==(const Report& other) const {
  return in_ieee_environment([&] { return value == other.value; }) && lines == other.lines;
}

std::string print(const Report& report, bool color) {
  std::string text;
  // Names in the lines may come from files; only the codes of `color` may reach a terminal.
  for (const Report::Line& line : report.lines) {
    const std::string shown = printable(line.text);
    text += (color ? colored(shown, line.tone) : shown) + '\n';
  }
  if (const auto* list = std::get_if<Report::List>(&report.value)) {
    for (const Report& element : *list) text += print(element, color);
  }
  return text;
}

std::string colored(std::string_view text, Tone tone) {
  if (tone == Tone::plain) return std::string(text);
  const int code = tone == Tone::good ? 32 : tone == Tone::warning ? 33 : 31;
  return fmt::format("\033[{}m{}\033[0m", code, text);
}

std::string to_json(const Report& report, int indent) {
  std::string text;
  JsonWriter(text, indent).write(report);
  return text;
}

std::string indented(std::string_view text) {
  std::string moved;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    moved += fmt::format("    {}\n", text.substr(at, end - at));
    at = end + 1;
  }
  return moved;
}

std::string print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const bool right = rows.size() > 1 && i < rows[1].size() && is_number(rows[1][i]);
      line += i ? "  " : "";
      line += right ? fmt::format("{:>{}}", row[i], widths[i]) : fmt::format("{:<{}}", row[i], widths[i]);
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    text += line + '\n';
  }
  return text;
}

std::string print_markdown(const std::vector<std::vector<std::string>>& rows) {
  std::string text;
  for (const auto& row : rows) {
    text += fmt::format("| {} |\n", fmt::join(row, " | "));
    if (&row != &rows.front()) continue;
    text += "|";
    for (size_t i = 0; i < row.size(); ++i) text += "---|";
    text += '\n';
  }
  return text;
}

std::string folded(std::string_view text, size_t indent) {
  constexpr size_t width = 80, further = 4;
  std::string lines, line(indent, ' ');
  bool is_empty = true;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!is_empty && line.size() + 1 + word.size() > width) {
      lines += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
      line = std::string(indent + further, ' ');
    } else if (!is_empty) {
      line += ' ';
    }
    line += word;
    is_empty = false;
  }
  return lines + line + '\n';
}

std::string wrapped(std::string_view text, size_t width, size_t indent) {
  std::string lines;
  size_t column = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (column > 0 && column + 1 + word.size() > width) {
      lines += '\n' + std::string(indent, ' ');
      column = 0;
    }
    if (column > 0) lines += ' ', ++column;
    lines += word;
    column += word.size();
  }
  return lines;
}

}  // namespace bitmma
