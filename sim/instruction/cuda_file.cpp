// SPDX-License-Identifier: MIT
#include <algorithm>

#include "bitmma/instruction/ptx_file.hpp"

namespace bitmma {
namespace {

bool is_cuda_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// Copies the strings of asm statements, and all line feeds, to keep line numbers.
class Extractor {
 public:
  explicit Extractor(std::string_view text) : text_(text) {}

  CudaAsm extract() {
    while (at_ < text_.size()) {
      if (skip_comment_or_literal()) continue;
      if (!is_cuda_word(text_[at_])) {
        pass();
        continue;
      }
      const std::string_view word = take_word();
      if (word == "asm" || word == "__asm__" || word == "__asm") read_asm();
    }
    return std::move(found_);
  }

 private:
  bool here(std::string_view mark) const { return text_.substr(at_).starts_with(mark); }

  /// Skips a character outside PTX.
  void pass() {
    if (at_ < text_.size() && text_[at_] == '\n') found_.ptx += '\n';
    ++at_;
  }
  void pass_to(size_t end) {
    while (at_ < std::min(end, text_.size())) pass();
  }
  std::string_view take_word() {
    const size_t begin = at_;
    while (at_ < text_.size() && is_cuda_word(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  bool skip_comment() {
    if (here("//")) pass_to(text_.find('\n', at_));
    else if (here("/*")) pass_to(std::min(text_.find("*/", at_ + 2), text_.size() - 2) + 2);
    else return false;
    return true;
  }
  bool skip_comment_or_literal() {
    if (skip_comment()) return true;
    if (here("R\"")) {
      read_raw(false);
    } else if (text_[at_] == '"') {
      read_string(false);
    } else if (text_[at_] == '\'' && (at_ == 0 || !is_cuda_word(text_[at_ - 1]))) {  // 1'000 is a number
      pass();
      while (at_ < text_.size() && text_[at_] != '\'' && text_[at_] != '\n')
        pass_to(at_ + (text_[at_] == '\\' ? 2 : 1));
      pass();
    } else {
      return false;
    }
    return true;
  }

  /// Appends a character of PTX. Comments end with their line, so their line feed is not needed in a statement.
  void add(char c) {
    if (in_comment_) {
      in_comment_ = c != '\n';
      return;
    }
    if (c == '/' && !found_.ptx.empty() && found_.ptx.back() == '/') {
      found_.ptx.pop_back();
      in_comment_ = true;
      return;
    }
    found_.ptx += c == '\n' || c == '\t' ? ' ' : c;
  }

  void read_string(bool keep) {
    for (++at_; at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n'; ++at_) {
      char c = text_[at_];
      if (c == '\\' && at_ + 1 < text_.size()) {
        c = text_[++at_];
        if (c == '\n') {  // the literal continues in the next line
          found_.ptx += '\n';
          continue;
        }
        c = c == 'n' || c == 'r' ? '\n' : c == 't' ? '\t' : c;
      } else if (c == '%' && at_ + 1 < text_.size() && text_[at_ + 1] == '%') {
        ++at_;
      }
      if (keep) add(c);
    }
    if (at_ < text_.size() && text_[at_] == '"') ++at_;
  }
  void read_raw(bool keep) {
    const size_t open = text_.find('(', at_);
    if (open == std::string_view::npos || open > at_ + 18) return pass_to(at_ + 2);
    const std::string end = ")" + std::string(text_.substr(at_ + 2, open - at_ - 2)) + "\"";
    const size_t close = std::min(text_.find(end, open), text_.size());
    for (at_ = open + 1; at_ < close; ++at_) {
      const char c = text_[at_];
      if (c == '%' && at_ + 1 < close && text_[at_ + 1] == '%') continue;
      if (c == '\n') {
        in_comment_ = false;
        found_.ptx += '\n';
      } else if (keep) {
        add(c);
      }
    }
    at_ = std::min(close + end.size(), text_.size());
  }

  /// Reads "volatile", a parenthesis, and strings up to the first colon. Macros between the strings have unknown text,
  /// so their names are kept.
  void read_asm() {
    while (at_ < text_.size() && text_[at_] != '(') {
      if (skip_comment()) continue;
      if (text_[at_] != ' ' && text_[at_] != '\t' && text_[at_] != '\n' && text_[at_] != '\r' &&
          !is_cuda_word(text_[at_]))
        return;
      pass();
    }
    pass();
    ++found_.statements;
    in_comment_ = false;
    int depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (skip_comment()) continue;
      if (here("R\"")) {
        read_raw(true);
      } else if (c == '"') {
        read_string(true);
      } else if ((c == ':' || c == ')') && depth == 0) {
        break;
      } else if (is_cuda_word(c)) {
        for (const char letter : take_word()) add(letter);
      } else {
        depth += c == '(' ? 1 : c == ')' ? -1 : 0;
        pass();
      }
    }
    in_comment_ = false;
    found_.ptx += ';';
    for (depth = 1; at_ < text_.size() && depth > 0;) {
      if (skip_comment_or_literal()) continue;
      depth += text_[at_] == '(' ? 1 : text_[at_] == ')' ? -1 : 0;
      pass();
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  bool in_comment_ = false;
  CudaAsm found_;
};

}  // namespace

CudaAsm asm_of_cuda(std::string_view text) { return Extractor(text).extract(); }

}  // namespace bitmma
