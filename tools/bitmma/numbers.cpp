#include "numbers.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <limits>

#include "bitmma/core/text.hpp"

namespace bitmma::cli {
namespace {

/// Why the text is no number of 64 bits; empty when it is one. Decimal, or 0x and hexadecimal digits, or 0 and octal
/// ones, as CLI11 reads it.
std::string wrong_with(std::string_view text, bool is_signed) {
  const std::string expected = is_signed ? "a whole number, -2^63..2^63-1" : "a whole number, 0..2^64-1";
  const std::string seen = fmt::format("\"{}\": legal is {}", shortened(text), expected);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) base = 16, text.remove_prefix(2);
  else if (text.size() > 1 && text.starts_with('0')) base = 8;
  uint64_t magnitude = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), magnitude, base);
  if (error != std::errc{} || end != text.data() + text.size()) return seen;
  if (!is_signed) return negative ? seen : "";
  const auto most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) + (negative ? 1 : 0);
  return magnitude <= most ? "" : seen;
}

}  // namespace

void take_numbers_exactly(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    // CLI11's name of the type, and behind it those of checks.
    const std::string type = option->get_type_name();
    const bool is_signed = type.starts_with("INT");
    if (!is_signed && !type.starts_with("UINT")) continue;
    option->check([is_signed](const std::string& text) { return wrong_with(text, is_signed); });
  }
  for (CLI::App* below : command.get_subcommands([](CLI::App*) { return true; })) take_numbers_exactly(*below);
}

}  // namespace bitmma::cli
