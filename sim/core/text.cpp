// SPDX-License-Identifier: MIT
#include "bitmma/core/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <numeric>
#include <vector>

namespace bitmma {
namespace {

constexpr size_t longest_word = 200;  // longer words get no suggestions

/// The number of letters to insert, delete, change, or exchange with a neighbour; `most` + 1 for more than `most`.
/// Words of at most longest_word letters.
size_t distance(std::string_view x, std::string_view y, size_t most) {
  if (std::max(x.size(), y.size()) - std::min(x.size(), y.size()) > most) return most + 1;
  std::array<std::array<uint8_t, longest_word + 1>, 3> rows{};
  auto *before = &rows[0], *row = &rows[1], *after = &rows[2];
  std::iota(row->begin(), row->end(), uint8_t{0});
  for (size_t i = 1; i <= x.size(); ++i) {
    (*after)[0] = static_cast<uint8_t>(i);
    uint8_t least = (*after)[0];
    for (size_t j = 1; j <= y.size(); ++j) {
      int slips = std::min({(*row)[j] + 1, (*after)[j - 1] + 1, (*row)[j - 1] + (x[i - 1] != y[j - 1])});
      if (i > 1 && j > 1 && x[i - 1] == y[j - 2] && x[i - 2] == y[j - 1]) slips = std::min(slips, (*before)[j - 2] + 1);
      (*after)[j] = static_cast<uint8_t>(slips);
      least = std::min(least, (*after)[j]);
    }
    // No later row is below the least of this row: an exchange, too, costs 1 more than the row before.
    if (least > most) return most + 1;
    std::swap(before, row);
    std::swap(row, after);
  }
  return (*row)[y.size()];
}

std::string lower(std::string_view text) {
  std::string small(text);
  std::ranges::transform(small, small.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return small;
}

constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD

/// The length of the UTF-8 character at the front in bytes; 0 if there is none. The Unicode Standard, Table 3-7: no
/// overlong forms, no surrogates, nothing above U+10FFFF.
std::size_t character_bytes(std::string_view text) {
  struct LeadingByteRow {
    uint8_t first, last;             // of the leading byte
    uint8_t second_from, second_to;  // of the byte after it; further ones are 80..BF
    std::size_t bytes;
  };
  static constexpr std::array rows{LeadingByteRow{0x00, 0x7F, 0x00, 0x00, 1}, LeadingByteRow{0xC2, 0xDF, 0x80, 0xBF, 2},
                                   LeadingByteRow{0xE0, 0xE0, 0xA0, 0xBF, 3}, LeadingByteRow{0xE1, 0xEC, 0x80, 0xBF, 3},
                                   LeadingByteRow{0xED, 0xED, 0x80, 0x9F, 3}, LeadingByteRow{0xEE, 0xEF, 0x80, 0xBF, 3},
                                   LeadingByteRow{0xF0, 0xF0, 0x90, 0xBF, 4}, LeadingByteRow{0xF1, 0xF3, 0x80, 0xBF, 4},
                                   LeadingByteRow{0xF4, 0xF4, 0x80, 0x8F, 4}};
  const auto byte = [&](std::size_t i) { return static_cast<uint8_t>(text[i]); };
  for (const LeadingByteRow& row : rows) {
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

/// How messages show a character of `bytes` bytes.
std::string shown(std::string_view character) {
  if (character.empty()) return std::string(replacement);
  const auto first = static_cast<uint8_t>(character.front());
  // Some terminals obey the C1 controls, U+0080..U+009F; all terminals obey those below U+0020.
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
    const std::string character = shown(text.substr(0, bytes));
    if (character.size() > most - std::min(most, result.size())) return result + "...";
    result += character;
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return result;
}

std::string counted(std::int64_t count, std::string_view noun) {
  return std::to_string(count) + ' ' + std::string(noun) + (count == 1 ? "" : "s");
}

namespace {

std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find_first_of("_-.", begin), name.size());
    parts.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// True for names that differ only in a part of one letter: scale_a is not a misspelt scale_d, and --rows-a is not a
/// misspelt --rows-b. Such letters name operands and extents.
bool names_another(std::span<const std::string_view> x, std::string_view name) {
  const std::vector<std::string_view> y = parts_of(name);
  if (x.size() != y.size()) return false;
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i].size() == 1 && y[i].size() == 1 && x[i] != y[i]) return true;
  return false;
}

/// The most slips that a word of so many letters may have: a word of 3 letters resembles many others.
size_t most_slips(size_t letters) { return letters < 3 ? 0 : letters < 7 ? 1 : letters < 11 ? 2 : 3; }

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  if (word.size() < 2 || word.size() > longest_word) return "";
  const std::string meant = lower(word);
  if (meant.size() == 2 && meant[0] == '-') {  // one letter means the only long flag that begins with it
    const auto begins = [&](const std::string& flag) { return lower(flag).starts_with("--" + meant.substr(1)); };
    const auto only = std::ranges::find_if(candidates, begins);
    return std::ranges::count_if(candidates, begins) == 1 ? *only : "";
  }
  const size_t dashes = std::min(meant.find_first_not_of('-'), meant.size());
  size_t best = most_slips(meant.size() - dashes) + 1;
  const std::vector<std::string_view> parts = parts_of(meant);
  std::string closest;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > longest_word) continue;
    const std::string name = lower(candidate);
    // The beginning of a name, or a longer word, counts as one slip: --dist, --column.
    const bool is_begun = meant.size() >= 3 && parts.back().size() >= 2 && name.starts_with(meant),
               goes_on = name.size() >= 5 && meant.starts_with(name);
    const size_t slips = name == meant ? 0 : is_begun || goes_on ? 1 : distance(meant, name, best - 1);
    if (slips < best && slips < candidate.size() && !names_another(parts, name)) best = slips, closest = candidate;
    if (best == 0) break;
  }
  return closest;
}

}  // namespace bitmma
