// SPDX-License-Identifier: MIT
// The result of an analysis: a tree of named values for programs, and lines of text for readers, both made by the
// function that found it. The command line prints the text, or with --json the tree; Python gets the tree as a
// dictionary.
//
//   Report found{{"descriptor", "0x4000004000010000"}, {"fields", {{"start_address", 0}}}};
//   found.add("size", 1024);
//   found.add_text("A shared-memory descriptor.");
//
//   to_json(found)   {"descriptor":"0x4000004000010000","fields":{"start_address":0},"size":1024}
//   print(found)     A shared-memory descriptor.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bitmma/core/error.hpp"

namespace bitmma {

/// The colour of a line of text on a terminal: good is green, warning yellow, bad red.
enum class Tone : uint8_t { plain, good, warning, bad };

struct ReportMember;
struct ReportRow;

/// A null, a boolean, a number, a text, a list, or an object with ordered members; each may have lines of text.
struct [[nodiscard]] Report {
  using List = std::vector<Report>;
  using Members = std::vector<ReportMember>;
  using Value = std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, List, Members>;
  struct Line {
    std::string text;
    Tone tone = Tone::plain;

    bool operator==(const Line&) const = default;
  };

  Value value;
  std::vector<Line> lines = {};

  // Constructors and destructor are defined in report.cpp, where the member types are complete.
  Report();
  Report(const Report& other);
  Report(Report&& other) noexcept;
  Report& operator=(const Report& other);
  Report& operator=(Report&& other) noexcept;
  ~Report();
  Report(std::initializer_list<ReportMember> members);
  Report(bool truth);
  Report(double number);
  Report(std::string text);
  Report(std::string_view text);
  Report(const char* text);
  Report(List list);
  /// A list of {"field", "seen", "legal", "fix", "source", "severity"}.
  Report(const std::vector<Violation>& violations);
  explicit Report(Value value);
  template <std::signed_integral T>
  Report(T number) : Report(Value(int64_t{number})) {}
  template <std::unsigned_integral T>
  Report(T number) : Report(Value(uint64_t{number})) {}
  template <typename T>
  Report(const std::vector<T>& values) : Report(List(values.begin(), values.end())) {}
  /// Null if there is no value.
  template <typename T>
  Report(const std::optional<T>& maybe) : Report(maybe ? Report(*maybe) : Report()) {}
  static Report list();
  static Report object();

  /// A null becomes an object (or a list) when a member (or an element) is added to it.
  Report& add(std::string key, Report member);
  Report& append(Report element);
  /// Adds one or more lines of text. A missing final line feed is added.
  Report& add_text(std::string text, Tone tone = Tone::plain);
  Report& add_text(const std::vector<std::vector<std::string>>& table);
  /// Adds the members of the rows, and a table of their labels and texts.
  Report& add_rows(const std::vector<ReportRow>& rows);
  /// Adds a member "warnings", and a line for each warning.
  Report& add_warnings(const std::vector<Violation>& warnings);
  /// Adds the members and the text of an object; an existing member is replaced in place.
  Report& update(Report other);
  /// The member with this key; a missing one is added as null.
  Report& operator[](std::string_view key);
  Report& operator[](size_t index);
  /// The member with this key, or nullptr.
  const Report* find(std::string_view key) const;

  bool operator==(const Report& other) const;
};

struct ReportMember {
  std::string key = {};
  Report value = {};

  bool operator==(const ReportMember&) const = default;
};

/// A value for the tree and for the text, written once:
///
///   report.add_rows({{"kind", "kind", "f16"}, {"n", "N", 64, "64 columns"}, {"", "legal", "PTX ISA 9.7.15"}});
///
///   {"kind":"f16","n":64}         kind   f16
///                                 N      64 columns
///                                 legal  PTX ISA 9.7.15
struct ReportRow {
  std::string key = {};    // of the tree; empty: only the text has the row
  std::string label = {};  // of the text; empty: only the tree has the row
  Report value = {};
  std::string text = {};  // if the text has more than the value, such as its unit
};

/// Elements of a list, each with its rows: the list of their objects, and a table with a column for each label, at most
/// `max_lines` of them. All elements have the labels of the first.
using ReportRows = std::vector<std::vector<ReportRow>>;
Report objects_of(const ReportRows& elements);
std::vector<std::vector<std::string>> table_of(const ReportRows& elements, size_t max_lines = SIZE_MAX);

/// The lines of a report, and of the elements of a list, as printable() text. `color` marks them with terminal codes.
std::string print(const Report& report, bool color = false);
/// The tree as JSON, in one line or, with `indent` spaces, in several. Bytes that are not UTF-8 become U+FFFD.
std::string to_json(const Report& report, int indent = -1);
/// `text` between terminal codes of the tone's colour.
std::string colored(std::string_view text, Tone tone);
/// Aligns the columns: numbers right, two spaces between columns.
std::string print_table(const std::vector<std::vector<std::string>>& rows);
/// The same as a table of Markdown.
std::string print_markdown(const std::vector<std::vector<std::string>>& rows);
/// `text` in lines of 80 columns: the first has `indent` spaces in front, the others four more.
std::string folded(std::string_view text, size_t indent);
/// `text` in lines of `width` columns; all but the first have `indent` spaces in front. The last has no line feed.
std::string wrapped(std::string_view text, size_t width, size_t indent);
/// `text` with four spaces before every line.
std::string indented(std::string_view text);

}  // namespace bitmma
