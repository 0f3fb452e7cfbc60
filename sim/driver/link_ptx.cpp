// SPDX-License-Identifier: MIT
#include "link_ptx.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <set>
#include <string_view>

namespace bitmma::driver {
namespace {

struct Statement {
  std::string_view text;
  std::string_view name;  // of what it declares or defines; empty: a directive
  std::size_t body = 0;   // where the body of a function begins; 0: none

  bool has(std::string_view word) const {
    return text.substr(0, body == 0 ? text.size() : body).find(word) != text.npos;
  }
  bool is_function() const { return body != 0 || has(".func") || has(".entry"); }
  bool is_definition() const { return is_function() ? body != 0 : !has(".extern"); }
};

bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$'; }

/// The end of the comment or string that begins at `at`; `at` if none does.
std::size_t after_opaque(std::string_view ptx, std::size_t at) {
  const auto after = [&](std::string_view end, std::size_t from) {
    const std::size_t found = ptx.find(end, from);
    return found == std::string_view::npos ? ptx.size() : found + end.size();
  };
  if (ptx.substr(at, 2) == "//") return after("\n", at);
  if (ptx.substr(at, 2) == "/*") return after("*/", at + 2);
  if (ptx[at] == '"') return after("\"", at + 1);
  return at;
}

/// The next statement: a directive's line, a declaration up to its semicolon, or a function with its body.
Statement next_statement(std::string_view ptx) {
  constexpr std::string_view lines[] = {".version", ".target", ".address_size", ".file", ".loc"};
  for (const std::string_view directive : lines) {
    if (ptx.starts_with(directive)) return {.text = ptx.substr(0, ptx.find('\n')), .name = {}};
  }
  Statement statement;
  int braces = 0, parentheses = 0;
  bool has_value = false, is_named = false;
  std::size_t at = 0;
  while (at < ptx.size()) {
    if (const std::size_t after = after_opaque(ptx, at); after != at) {
      at = after;
      continue;
    }
    const char c = ptx[at];
    if (c == '.' && parentheses == 0 && braces == 0 && !is_named) {  // .visible, .b8: no names
      for (++at; at < ptx.size() && is_name_character(ptx[at]);) ++at;
      continue;
    }
    if (braces == 0 && parentheses == 0 && !is_named &&
        (std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%')) {
      std::size_t end = at + 1;
      while (end < ptx.size() && is_name_character(ptx[end])) ++end;
      statement.name = ptx.substr(at, end - at);
      is_named = true;
      at = end;
      continue;
    }
    parentheses += (c == '(') - (c == ')');
    has_value = has_value || (c == '=' && braces == 0);
    if (c == '{' && braces == 0 && !has_value) statement.body = at;
    braces += (c == '{') - (c == '}');
    ++at;
    if ((c == '}' && braces == 0 && !has_value) || (c == ';' && braces == 0)) break;
  }
  statement.text = ptx.substr(0, at);
  return statement;
}

std::vector<Statement> statements_of(std::string_view ptx) {
  std::vector<Statement> statements;
  for (std::size_t at = 0; at < ptx.size();) {
    if (std::isspace(static_cast<unsigned char>(ptx[at]))) {
      ++at;
    } else if (const std::size_t after = after_opaque(ptx, at); after != at) {
      at = after;
    } else {
      statements.push_back(next_statement(ptx.substr(at)));
      at += std::max<std::size_t>(statements.back().text.size(), 1);
    }
  }
  return statements;
}

}  // namespace

std::string join_ptx(const std::vector<std::string>& modules) {
  std::vector<Statement> all;
  std::string_view version, target;
  for (const std::string& module : modules) {
    for (const Statement& statement : statements_of(module)) {
      if (statement.text.starts_with(".version")) {
        version = std::max(version, statement.text);
      } else if (statement.text.starts_with(".target")) {
        if (target.empty()) target = statement.text;
      } else if (!statement.name.empty()) {
        all.push_back(statement);
      }
    }
  }
  std::set<std::string_view> defined;
  for (const Statement& statement : all) {
    if (statement.is_definition()) defined.insert(statement.name);
  }
  std::string joined = std::string(version) + "\n" + std::string(target) + "\n.address_size 64\n";
  // What a statement names is declared above it: first all functions, then variables, whose values may be addresses of
  // functions, then bodies.
  std::set<std::string_view> declared, written;
  for (const Statement& statement : all) {
    if (!statement.is_function() || statement.has(".entry") || !declared.insert(statement.name).second) continue;
    std::string declaration(statement.text.substr(0, statement.body == 0 ? statement.text.size() : statement.body));
    if (statement.body != 0) declaration += ";";
    const std::size_t at = declaration.find(".extern");
    if (at != std::string::npos && defined.contains(statement.name)) declaration.erase(at, 7);
    joined += declaration + "\n";
  }
  for (const bool are_functions : {false, true}) {
    for (const Statement& statement : all) {
      if (statement.is_function() != are_functions) continue;
      const bool is_wanted =
          are_functions ? statement.body != 0 : statement.is_definition() || !defined.contains(statement.name);
      if (is_wanted && written.insert(statement.name).second) joined += std::string(statement.text) + "\n";
    }
  }
  return joined;
}

}  // namespace bitmma::driver
