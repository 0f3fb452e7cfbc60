// SPDX-License-Identifier: MIT
#include "bitmma/instruction/ptx_file.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

#include "bitmma/instruction/support_instruction.hpp"
#include "text/words.hpp"

namespace bitmma {
namespace {

/// First words of tensor-core instructions, and of the instructions that move, order and allocate around them.
constexpr auto heads = std::to_array<std::string_view>(
    {"mma", "wgmma", "wmma", "tcgen05", "ldmatrix", "stmatrix", "movmatrix", "mbarrier"});
bool is_ptx_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' || c == '%';
}
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string_view first_word(std::string_view text) { return text.substr(0, text.find(' ')); }

bool is_about_tensor_cores(std::string_view statement) {
  if (statement.starts_with('@')) statement = syntax::trimmed(statement.substr(first_word(statement).size()));
  const std::string_view head = statement.substr(0, statement.find_first_of(". "));
  return std::ranges::find(heads, head) != heads.end() ||
         find_support_instruction(statement.substr(0, statement.find_first_of(" [{"))) != nullptr;
}

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  PtxFile scan() {
    while (at_ < text_.size()) step();
    end();
    for (const auto& [name, value] : written_) {
      if (value) file_.constants.emplace(name, *value);
    }
    return std::move(file_);
  }

 private:
  char peek(size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void step() {
    const char c = text_[at_];
    if (c == '/' && peek(1) == '/') return skip_to("\n");
    if (c == '/' && peek(1) == '*') {
      at_ += 2;
      skip_to("*/");
      at_ = std::min(at_ + 2, text_.size());
      return append(' ');
    }
    if (c == '"') return skip_string();
    ++at_;
    if (c == '\n') {
      // Most directives have no semicolon.
      if (is_directive_) end();
      append(' ');
      ++line_;
    } else if (c == ';') {
      end();
    } else if (c == '{' && (statement_.empty() || is_directive_)) {
      end();  // a scope
    } else if (c == '}' && vectors_ == 0) {
      end();
    } else if (c == ':' && is_label_ && peek(0) != ':') {
      end();
    } else {
      vectors_ += c == '{' ? 1 : c == '}' ? -1 : 0;
      append(c);
    }
  }

  /// To the next `mark`, or the end.
  void skip_to(std::string_view mark) {
    const size_t end = std::min(text_.find(mark, at_), text_.size());
    line_ += static_cast<size_t>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                            text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    at_ = end;
  }

  /// Skips the name of a file or a pragma, which contains no statement. It ends at the end of its line at the latest.
  void skip_string() {
    for (++at_; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
      if (text_[at_] == '\\' && peek(1) != '\n') {
        ++at_;
      } else if (text_[at_] == '"') {
        ++at_;
        break;
      }
    }
    at_ = std::min(at_, text_.size());
    append('"');
  }

  void append(char c) {
    if (is_space(c)) {
      if (!statement_.empty() && statement_.back() != ' ') statement_ += ' ';
      return;
    }
    if (statement_.empty()) {
      first_line_ = line_;
      is_directive_ = c == '.' || c == '(' || c == ')';
      is_label_ = true;
    }
    is_label_ = is_label_ && is_ptx_word(c);
    statement_ += c;
  }

  void end() {
    while (!statement_.empty() && statement_.back() == ' ') statement_.pop_back();
    if (is_directive_) {
      read_directive();
    } else {
      note_written();
    }
    if (!is_directive_ && is_about_tensor_cores(statement_)) {
      file_.statements.push_back({.line = first_line_, .text = std::move(statement_)});
    }
    statement_.clear();
    is_directive_ = is_label_ = false;
    vectors_ = 0;
  }

  /// Records the written registers, which are the first operand, and the number that the statement moves to them.
  void note_written() {
    std::string_view text = statement_;
    const bool has_guard = text.starts_with('@');
    if (has_guard) text = syntax::trimmed(text.substr(first_word(text).size()));
    const std::string_view opcode = first_word(text);
    text = syntax::trimmed(text.substr(opcode.size()));
    if (text.starts_with('[')) return;  // a store: it reads registers
    const bool is_list = text.starts_with('{') || text.starts_with('(');
    const size_t end = std::min(text.find_first_of(is_list ? "})" : ","), text.size());
    std::string_view written = text.substr(0, end);
    const std::string_view rest = syntax::trimmed(text.substr(std::min(end + 1, text.size())));
    const bool is_move = !has_guard && !is_list && opcode.starts_with("mov.") && syntax::is_name(written);
    const std::optional<int64_t> value = is_move ? syntax::integer(rest) : std::nullopt;
    while (!written.empty()) {
      const size_t first = std::min(written.find('%'), written.size());
      written.remove_prefix(first);
      if (written.empty()) break;
      const size_t last = std::min(written.find_first_of(" ,|{}()[]+"), written.size());
      const auto [row, is_new] = written_.emplace(written.substr(0, last), value);
      if (!is_new) row->second.reset();
      written.remove_prefix(last);
    }
  }

  void read_directive() {
    for (const auto& [name, to] : {std::pair(".version", &file_.version), std::pair(".target", &file_.target)}) {
      const std::string_view word = first_word(statement_);
      if (word != name || !to->empty()) continue;
      const std::string_view rest = syntax::trimmed(std::string_view(statement_).substr(word.size()));
      *to = rest.substr(0, rest.find_first_of(", "));
    }
  }

  std::string_view text_;
  size_t at_ = 0, line_ = 1, first_line_ = 1;
  std::string statement_;
  bool is_directive_ = false, is_label_ = false;  // of the current statement
  int64_t vectors_ = 0;                           // open braces of vectors
  PtxFile file_;
  std::unordered_map<std::string, std::optional<int64_t>> written_;  // registers; a number if it is the only one
};

}  // namespace

PtxFile scan_ptx(std::string_view text) { return Scanner(text).scan(); }

}  // namespace bitmma
