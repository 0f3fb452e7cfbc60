// SPDX-License-Identifier: MIT
// The grammar of numbers and of lists that people write: on the command line, in launch plans, as arguments of kernels.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bitmma {

/// A whole number: decimal digits, 1e3, or hexadecimal after 0x; a plus sign may precede it. Nothing for other texts,
/// for numbers of more than 64 bits, and for superfluous leading zeros, which C reads as octal.
std::optional<uint64_t> parse_whole(std::string_view text);
/// The same with a minus sign, in -2^63..2^63-1.
std::optional<int64_t> parse_signed(std::string_view text);
/// A whole number as an integer of 1..64 bits, two's complement if it is signed. Nothing for other texts, and for
/// numbers that the integer does not have.
std::optional<uint64_t> parse_integer(std::string_view text, int bits, bool is_signed);
/// The double nearest to a decimal number: 2.5, 1e-9, inf, nan; a sign may precede it. Nothing for other texts, and for
/// finite numbers that no double is near.
std::optional<double> parse_decimal(std::string_view text);
/// "1000" for "1e3" and "1500" for "1.5e3": digits, at most one point, and an exponent that gives a whole number. Other
/// texts are unchanged.
std::string without_exponent(const std::string& text);

/// The parts between the separators, also empty ones: "4,2," has three.
std::vector<std::string> split_list(std::string_view text, std::string_view separators = ",");
/// "3,-1": whole numbers with commas between. Nothing if a part is none.
std::optional<std::vector<int64_t>> parse_signed_list(std::string_view text);
/// "4,2,1" or "4x2x1": one to three extents of at least 1; missing ones are 1. Throws Error, which names the field.
std::array<int64_t, 3> parse_extents(std::string_view field, std::string_view text);
/// "0..7", "3", "0..3,96,100..127": indices below `count`, in this order. Throws Error, which names the field.
std::vector<int> parse_indices(std::string_view field, std::string_view text, int count);

}  // namespace bitmma
