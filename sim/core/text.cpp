#include "bitmma/core/text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace bitmma {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD

/// Bytes of the UTF-8 character at the front; 0 where there is none. The Unicode Standard, Table 3-7: no overlong
/// forms, no surrogates, nothing above U+10FFFF.
std::size_t character_bytes(std::string_view text) {
  struct Row {
    uint8_t first, last;             // of the leading byte
    uint8_t second_from, second_to;  // of the byte after it; further ones are 80..BF
    std::size_t bytes;
  };
  static constexpr std::array rows{
      Row{0x00, 0x7F, 0x00, 0x00, 1}, Row{0xC2, 0xDF, 0x80, 0xBF, 2}, Row{0xE0, 0xE0, 0xA0, 0xBF, 3},
      Row{0xE1, 0xEC, 0x80, 0xBF, 3}, Row{0xED, 0xED, 0x80, 0x9F, 3}, Row{0xEE, 0xEF, 0x80, 0xBF, 3},
      Row{0xF0, 0xF0, 0x90, 0xBF, 4}, Row{0xF1, 0xF3, 0x80, 0xBF, 4}, Row{0xF4, 0xF4, 0x80, 0x8F, 4}};
  const auto byte = [&](std::size_t i) { return static_cast<uint8_t>(text[i]); };
  for (const Row& row : rows) {
    if (byte(0) < row.first || byte(0) > row.last) continue;
    if (row.bytes == 1) return 1;
    if (text.size() < row.bytes || byte(1) < row.second_from || byte(1) > row.second_to) return 0;
    for (std::size_t i = 2; i < row.bytes; ++i) {
      if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
    }
    return row.bytes;
  }
  return 0;
}

/// How a character of `bytes` bytes is shown.
std::string shown(std::string_view character) {
  if (character.empty()) return std::string(replacement);
  const auto first = static_cast<uint8_t>(character.front());
  // C1 controls, U+0080..U+009F, are obeyed by some terminals as those below U+0020 are by all.
  const bool is_c1 = character.size() == 2 && first == 0xC2 && static_cast<uint8_t>(character[1]) < 0xA0;
  const bool is_control = (character.size() == 1 && (first < 0x20 || first == 0x7F)) || is_c1;
  if (!is_control || first == '\n' || first == '\t') return std::string(character);
  const auto code = static_cast<uint8_t>(character.back());
  constexpr std::string_view digits = "0123456789abcdef";
  return {'\\', 'x', digits[code / 16], digits[code % 16]};
}

}  // namespace

std::string printable(std::string_view text) { return shortened(text, std::string_view::npos); }

std::string shortened(std::string_view text, std::size_t most) {
  std::string result;
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    const std::string one = shown(text.substr(0, bytes));
    if (one.size() > most - std::min(most, result.size())) return result + "...";
    result += one;
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return result;
}

}  // namespace bitmma
