#include "support/word_lists.hpp"

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace bitmma::test {

int for_each_list_line(const std::string& path, const std::function<void(const std::vector<std::string>&)>& line) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  int count = 0;
  for (std::string text; std::getline(file, text);) {
    if (text.empty() || text.front() == '#') continue;
    std::vector<std::string> cells;
    std::istringstream stream(text);
    for (std::string cell; std::getline(stream, cell, '|');) {
      const size_t first = cell.find_first_not_of(' ');
      cells.push_back(first == std::string::npos ? "" : cell.substr(first, cell.find_last_not_of(' ') - first + 1));
    }
    line(cells);
    ++count;
  }
  return count;
}

std::vector<uint32_t> hex_words(const std::string& text) {
  std::vector<uint32_t> words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) words.push_back(static_cast<uint32_t>(std::stoul(word, nullptr, 16)));
  return words;
}

}  // namespace bitmma::test
