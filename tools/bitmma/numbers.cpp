// SPDX-License-Identifier: MIT
#include "numbers.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "bitmma/core/error.hpp"
#include "bitmma/core/numbers.hpp"
#include "bitmma/core/text.hpp"

namespace bitmma::cli {
namespace {

bool is_finite_number(std::string_view text) {
  const std::optional<double> number = parse_decimal(text);
  return number && std::isfinite(*number);
}

bool has_leading_zero(std::string_view text) {
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
}

}  // namespace

void take_numbers_exactly(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    // CLI11's name of the type, followed by the names of checks.
    const std::string type = option->get_type_name();
    const bool is_signed = type.starts_with("INT"), is_whole = is_signed || type.starts_with("UINT");
    if (!is_whole && !type.starts_with("FLOAT")) continue;
    if (is_whole) option->transform(without_exponent);
    option->check([=](const std::string& text) -> std::string {
      const bool is_right = !is_whole   ? is_finite_number(text)
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
