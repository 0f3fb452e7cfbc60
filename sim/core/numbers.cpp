// SPDX-License-Identifier: MIT
#include "bitmma/core/numbers.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "ieee_environment.hpp"

namespace bitmma {
namespace {

/// Digits, or hexadecimal ones after 0x.
std::optional<uint64_t> magnitude_of(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) base = 16, text.remove_prefix(2);
  else if (text.size() > 1 && text.starts_with('0')) return std::nullopt;
  uint64_t magnitude = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), magnitude, base);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(magnitude) : std::nullopt;
}

}  // namespace

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

std::optional<uint64_t> parse_integer(std::string_view text, int bits, bool is_signed) {
  const uint64_t mask = low_mask(bits);
  if (!is_signed) {
    const std::optional<uint64_t> number = parse_whole(text);
    return number && *number <= mask ? number : std::nullopt;
  }
  const auto most = static_cast<int64_t>(mask >> 1);
  const std::optional<int64_t> number = parse_signed(text);
  if (!number || *number > most || *number < -most - 1) return std::nullopt;
  return static_cast<uint64_t>(*number) & mask;
}

std::optional<double> parse_decimal(std::string_view text) {
  if (text.starts_with('+') && !text.substr(1).starts_with('-')) text.remove_prefix(1);
  double number = 0;
  const auto [end, error] =
      in_ieee_environment([&] { return std::from_chars(text.data(), text.data() + text.size(), number); });
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
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

std::optional<std::vector<int64_t>> parse_signed_list(std::string_view text) {
  std::vector<int64_t> numbers;
  for (const std::string& part : split_list(text)) {
    const std::optional<int64_t> number = parse_signed(part);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

std::array<int64_t, 3> parse_extents(std::string_view field, std::string_view text) {
  std::array<int64_t, 3> extents{1, 1, 1};
  const bool may_be_hex =
      text.find(',') != std::string_view::npos || text.starts_with("0x");  // there x is no separator
  const std::vector<std::string> parts = split_list(text, may_be_hex ? "," : ",x");
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto number = parse_whole(parts[i]);
    if (parts.size() > extents.size() || !number || *number < 1 || *number > 0x7FFFFFFF) {
      throw Error({.code = ViolationCode::malformed,
                   .field = std::string(field),
                   .seen = shortened(text),
                   .expected = "one to three extents of 1..2147483647, such as 4,2"});
    }
    extents[i] = static_cast<int64_t>(*number);
  }
  return extents;
}

std::vector<int> parse_indices(std::string_view field, std::string_view text, int count) {
  std::vector<int> numbers;
  for (const std::string& piece : split_list(text)) {
    const size_t dots = piece.find("..");
    const auto first = parse_whole(std::string_view(piece).substr(0, dots));
    const auto last = dots == std::string::npos ? first : parse_whole(std::string_view(piece).substr(dots + 2));
    if (!first || !last || *first > *last || *last >= static_cast<uint64_t>(count)) {
      throw Error({.code = ViolationCode::malformed,
                   .field = std::string(field),
                   .seen = shortened(piece),
                   .expected = "numbers in 0.." + std::to_string(count - 1) + ", and rising ranges such as 0..7",
                   .fix = "for example 0..7,96"});
    }
    for (uint64_t number = *first; number <= *last; ++number) numbers.push_back(static_cast<int>(number));
  }
  return numbers;
}

}  // namespace bitmma
