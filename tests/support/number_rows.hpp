// Texts of numbers in the grammar of bitmma/core/numbers.hpp, and what they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace bitmma::test {

/// A text, and what it is; nothing: refused.
struct NumberRow {
  std::string text;
  std::optional<uint64_t> value;
};
inline const std::vector<NumberRow> number_rows{
    {"0", 0},
    {"7", 7},
    {"+1", 1},
    {"1e3", 1000},
    {"+1e3", 1000},
    {"1.5e3", 1500},
    {"0x10", 16},
    {"12345678", 12345678},  // eight digits are decimal, as any other number of digits
    {"16777216", 16777216},
    {"1234567890123456", 1234567890123456},
    {"9223372036854775808", uint64_t{1} << 63},
    {"18446744073709551615", ~uint64_t{0}},
    {"0x123456789abcdef0", 0x123456789abcdef0},
    {"18446744073709551616", {}},
    {"99999999999999999999999", {}},
    {"", {}},
    {" 1", {}},
    {"1 ", {}},
    {"010", {}},
    {"00", {}},
    {"01e3", {}},
    {"-1", {}},
    {"++1", {}},
    {"+-1", {}},
    {"1.5", {}},
    {"1e-3", {}},
    {"1e99", {}},
    {"0x", {}},
    {"1234abcd", {}},
    {"1u", {}},
    {"1_000", {}},
};

}  // namespace bitmma::test
