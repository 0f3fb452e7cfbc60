// SPDX-License-Identifier: MIT
// Characters, whatever the locale is.
#pragma once

namespace bitmma {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace bitmma
