// SPDX-License-Identifier: MIT
#include "ptx_tokens.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "../core/ascii.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"

namespace bitmma::kernel {
namespace {

bool starts_name(char c) { return is_letter(c) || c == '_' || c == '$' || c == '%'; }
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

[[noreturn]] void refuse(int line, std::string seen, std::string expected) {
  throw Error({.code = ViolationCode::unusable_file,
               .field = fmt::format("PTX line {}", line),
               .seen = shortened(printable(seen)),
               .expected = std::move(expected)});
}

}  // namespace

std::vector<Token> tokens_of(std::string_view text) {
  std::vector<Token> tokens;
  int line = 1;
  size_t at = 0;
  const auto peek = [&](size_t ahead) { return at + ahead < text.size() ? text[at + ahead] : '\0'; };
  const auto count_lines = [&](size_t end) {
    line += static_cast<int>(std::count(text.begin() + static_cast<std::ptrdiff_t>(at),
                                        text.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    at = end;
  };
  while (at < text.size()) {
    const char c = text[at];
    if (is_space(c)) {
      line += c == '\n';
      ++at;
    } else if (c == '/' && peek(1) == '/') {
      at = std::min(text.find('\n', at), text.size());
    } else if (c == '/' && peek(1) == '*') {
      const size_t end = text.find("*/", at + 2);
      if (end == std::string_view::npos) refuse(line, "/*", "a comment that ends with */");
      count_lines(end + 2);
    } else if (c == '"') {
      size_t end = at + 1;
      while (end < text.size() && text[end] != '"' && text[end] != '\n') end += text[end] == '\\' ? 2 : 1;
      if (end >= text.size() || text[end] != '"') refuse(line, "\"", "a string that ends on its line");
      tokens.push_back({Token::Kind::text, text.substr(at + 1, end - at - 1), line});
      at = end + 1;
    } else if (starts_name(c) || c == '.') {
      // A directive ends at the next dot, so that blanks in ".reg .b32" are optional; an opcode keeps its words
      // together.
      size_t end = at + 1;
      while (end < text.size() && !(c == '.' && text[end] == '.')) {
        if (text[end] == ':' && end + 2 < text.size() && text[end + 1] == ':' && starts_name(text[end + 2])) end += 2;
        else if (text[end] == ':' && end + 2 < text.size() && text[end + 1] == ':' && is_digit(text[end + 2])) end += 2;
        else if (starts_name(text[end]) || is_digit(text[end]) || text[end] == '.') ++end;
        else break;
      }
      tokens.push_back({Token::Kind::word, text.substr(at, end - at), line});
      at = end;
    } else if (is_digit(c)) {
      size_t end = at + 1;
      while (end < text.size() &&
             (starts_name(text[end]) || is_digit(text[end]) || text[end] == '.' ||
              ((text[end] == '-' || text[end] == '+') && (text[end - 1] | 0x20) == 'e' && text.substr(at, 2) != "0x" &&
               text.substr(at, 2) != "0X" && text.substr(at, 2) != "0f" && text.substr(at, 2) != "0d")))
        ++end;
      tokens.push_back({Token::Kind::number, text.substr(at, end - at), line});
      at = end;
    } else if (std::string_view("{}[](),;:+-*=@!|<>~&^").find(c) != std::string_view::npos) {
      tokens.push_back({Token::Kind::mark, text.substr(at, 1), line});
      ++at;
    } else {
      refuse(line, std::string(1, c), "a character that PTX allows");
    }
  }
  tokens.push_back({Token::Kind::end, {}, line});
  return tokens;
}

}  // namespace bitmma::kernel
