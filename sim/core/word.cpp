// SPDX-License-Identifier: MIT
#include "bitmma/core/word.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ascii.hpp"

namespace bitmma {
namespace {

bool is_hex_letter(char c) { return c >= 'a' && c <= 'f'; }

/// Lower case, without digit separators and without a C suffix; nothing if a separator is misplaced.
std::optional<std::string> plain_digits(std::string_view text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i], low = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const bool is_separator = c == '_' || c == '\'';
    if (is_separator && (i == 0 || i + 1 == text.size() || text[i - 1] == '_' || text[i - 1] == '\''))
      return std::nullopt;
    if (!is_separator) digits += low;
  }
  for (const std::string_view suffix : {"ull", "llu", "ul", "lu", "ll", "u", "l"}) {
    if (digits.size() > suffix.size() && digits.ends_with(suffix))
      return digits.substr(0, digits.size() - suffix.size());
  }
  return digits;
}

}  // namespace

std::optional<PastedWord> read_word(std::string_view text) {
  PastedWord word{.is_negative = text.starts_with('-')};
  if (word.is_negative) text.remove_prefix(1);
  const auto plain = plain_digits(text.substr(0, 128));
  if (!plain || plain->empty() || text.size() > 128) return std::nullopt;
  std::string_view digits = *plain;
  int base = 10;
  if (digits.starts_with("0x")) {
    base = 16, digits.remove_prefix(2);
  } else if (digits.starts_with("0b") && digits.find_first_not_of("01", 2) == std::string_view::npos) {
    base = 2, digits.remove_prefix(2);
  } else {
    const bool has_letter = std::ranges::any_of(digits, is_hex_letter),
               has_digit = std::ranges::any_of(digits, is_digit);
    const bool is_whole = digits.size() == 8 || digits.size() == 16;
    if ((has_letter && (is_whole || (has_digit && digits.size() >= 4))) ||
        (!has_letter && is_whole && !word.is_negative)) {
      base = 16;
      word.is_guess = !has_letter;
      word.how = has_letter ? "hexadecimal without 0x"
                            : fmt::format("read as hexadecimal without 0x, because it has {} digits", digits.size());
    } else if (digits.size() > 1 && digits.starts_with('0')) {
      base = 8;
    }
  }
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), word.value, base);
  if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  if (!word.is_negative) return word;
  if (word.value > uint64_t{1} << 63) return std::nullopt;
  return PastedWord{.value = ~word.value + 1, .is_negative = true, .how = "a signed number, read as two's complement"};
}

}  // namespace bitmma
