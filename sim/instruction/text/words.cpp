// SPDX-License-Identifier: MIT
#include "words.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include "../../core/ascii.hpp"
#include "bitmma/core/text.hpp"

namespace bitmma::syntax {
namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool starts_name(char c) { return is_letter(c) || c == '_' || c == '$'; }

}  // namespace

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string shown(std::string_view text) {
  if (text.empty()) return "(nothing)";
  std::string shown(text.substr(0, 100));  // more than the final limit
  std::ranges::replace_if(shown, is_space, ' ');
  return shortened(shown);
}

bool is_name(std::string_view text) {
  const bool placeholder = text.starts_with('%');  // also "%0" of inline assembly
  if (placeholder) text.remove_prefix(1);
  if (text.empty() || !(starts_name(text.front()) || (placeholder && is_digit(text.front())))) return false;
  return std::ranges::all_of(text, [](char c) { return starts_name(c) || is_digit(c) || c == '.'; });
}

std::optional<int64_t> integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.ends_with('U')) text.remove_suffix(1);
  int base = 10;
  for (const auto& [prefix, of] : {std::pair("0x", 16), std::pair("0X", 16), std::pair("0b", 2), std::pair("0B", 2)}) {
    if (base == 10 && text.starts_with(prefix)) base = of, text.remove_prefix(2);
  }
  if (base == 10 && text.size() > 1 && text.front() == '0') base = 8;
  uint64_t magnitude = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), magnitude, base);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (magnitude > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return negative ? -static_cast<int64_t>(magnitude) : static_cast<int64_t>(magnitude);
}

std::optional<std::vector<std::string_view>> split_list(std::string_view text) {
  std::vector<std::string_view> pieces;
  if (trimmed(text).empty()) return pieces;
  std::string open;
  size_t first = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '{' || c == '[') open += c;
    if (c == '}' || c == ']') {
      if (open.empty() || open.back() != (c == '}' ? '{' : '[')) return std::nullopt;
      open.pop_back();
    }
    if (c == ',' && open.empty()) {
      pieces.push_back(trimmed(text.substr(first, i - first)));
      first = i + 1;
    }
  }
  if (!open.empty()) return std::nullopt;
  pieces.push_back(trimmed(text.substr(first)));
  return pieces;
}

}  // namespace bitmma::syntax
