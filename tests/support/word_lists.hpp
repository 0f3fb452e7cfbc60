// Lists of published result words, data/published/*_words.txt: cells between bars, numbers in hex, "#" before comments.
//
//   tf32-nan | tf32 | tf32.tf32.f32 | | 7fc00000 0 0 0 0 0 0 0 | 3f800000 0 0 0 0 0 0 0 | 00000000 | | | 7fffffff
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bitmma::test {

/// Calls `line` with the cells of every line, without the blanks around them. Returns the number of lines.
int for_each_list_line(const std::string& path, const std::function<void(const std::vector<std::string>&)>& line);

std::vector<uint32_t> hex_words(const std::string& text);

}  // namespace bitmma::test
