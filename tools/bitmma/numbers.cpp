// SPDX-License-Identifier: MIT
#include "numbers.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>

#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"

namespace bitmma::cli {
namespace {

/// "1000" for "1e3" and "1500" for "1.5e3": digits, at most one point, and an exponent that gives a whole number. Other
/// texts are unchanged.
std::string without_exponent(const std::string& text) {
  const size_t e = text.find_first_of("eE");
  if (e == std::string::npos || text.find_first_of("xX") != std::string::npos) return text;
  const size_t sign = text.starts_with('+') || text.starts_with('-') ? 1 : 0;
  std::string digits = text.substr(sign, e - sign);
  if (digits.size() > 1 && digits[0] == '0' && digits[1] != '.') return text;
  int exponent = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] =
      std::from_chars(text.data() + e + 1 + (text.substr(e + 1).starts_with('+')), last, exponent);
  if (error != std::errc{} || end != last || exponent < 0 || exponent > 18) return text;
  if (const size_t point = digits.find('.'); point != std::string::npos) {
    exponent -= static_cast<int>(digits.size() - point - 1);
    digits.erase(point, 1);
  }
  if (exponent < 0 || digits.find_first_not_of("0123456789") != std::string::npos || digits.empty()) return text;
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  return text.substr(0, sign) + digits + std::string(digits == "0" ? 0 : static_cast<size_t>(exponent), '0');
}

/// Digits, or hexadecimal ones after 0x.
std::optional<uint64_t> magnitude_of(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) base = 16, text.remove_prefix(2);
  else if (text.size() > 1 && text.starts_with('0')) return std::nullopt;
  uint64_t magnitude = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), magnitude, base);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(magnitude) : std::nullopt;
}

/// True for a finite decimal number.
bool is_decimal_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && std::isfinite(number);
}

bool has_leading_zero(std::string_view text) {
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
}

}  // namespace

std::optional<uint64_t> parse_whole(std::string_view text) {
  const std::string digits = without_exponent(std::string(text));
  return magnitude_of(std::string_view(digits).substr(digits.starts_with('+') ? 1 : 0));
}

std::optional<int64_t> parse_signed(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative && text.substr(1).starts_with('+')) return std::nullopt;
  const std::optional<uint64_t> magnitude = parse_whole(text.substr(is_negative ? 1 : 0));
  constexpr auto most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (!magnitude || *magnitude > most + (is_negative ? 1 : 0)) return std::nullopt;
  return static_cast<int64_t>(is_negative ? ~*magnitude + 1 : *magnitude);
}

std::vector<std::string> split_list(std::string_view text, std::string_view separators) {
  std::vector<std::string> parts;
  for (size_t from = 0; from <= text.size();) {
    const size_t end = std::min(text.find_first_of(separators, from), text.size());
    parts.emplace_back(text.substr(from, end - from));
    from = end + 1;
  }
  return parts;
}

void take_numbers_exactly(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    // CLI11's name of the type, followed by the names of checks.
    const std::string type = option->get_type_name();
    const bool is_signed = type.starts_with("INT"), is_whole = is_signed || type.starts_with("UINT");
    if (!is_whole && !type.starts_with("FLOAT")) continue;
    if (is_whole) option->transform(without_exponent);
    option->check([=](const std::string& text) -> std::string {
      const bool is_right = !is_whole   ? is_decimal_number(text)
                            : is_signed ? parse_signed(text).has_value()
                                        : parse_whole(text).has_value();
      if (is_right) return "";
      throw Error({.field = option->get_name(),
                   .seen = shortened(text),
                   .expected = !is_whole   ? "a number such as 2.5 or 1e9"
                               : is_signed ? "a whole number, -2^63..2^63-1"
                                           : "a whole number, 0..2^64-1",
                   .fix = is_whole && has_leading_zero(text) ? "omit the leading zeros, which C reads as octal" : ""});
    });
  }
  for (CLI::App* below : command.get_subcommands([](CLI::App*) { return true; })) take_numbers_exactly(*below);
}

}  // namespace bitmma::cli
