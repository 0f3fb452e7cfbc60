// The published result words of a real B200 (data/b200/tcgen05_words.txt): one output element a line.
#include <fstream>
#include <map>
#include <sstream>

#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, '|');) {
    const size_t first = cell.find_first_not_of(' ');
    cells.push_back(first == std::string::npos ? "" : cell.substr(first, cell.find_last_not_of(' ') - first + 1));
  }
  return cells;
}

std::vector<uint32_t> hex_words(const std::string& text) {
  std::vector<uint32_t> words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) words.push_back(static_cast<uint32_t>(std::stoul(word, nullptr, 16)));
  return words;
}

}  // namespace

TEST_CASE("every published dense word of a B200 is reproduced") {
  std::ifstream file(test::source_path("data/b200/tcgen05_words.txt"));
  int dense = 0, integer = 0, scaled = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    const std::vector<std::string> cells = split(line);
    REQUIRE(cells.size() == 8);
    std::istringstream kind(cells[1]);
    std::string family, type_a, type_b, mode;
    kind >> family >> type_a >> type_b >> mode;
    if (family != "dense" && family != "i8") {
      ++scaled;  // block scales: not in this version
      continue;
    }
    ++(family == "i8" ? integer : dense);
    const Format a = *format_named(type_a), b = family == "i8" ? *format_named(type_b) : a;
    const Format d = family == "i8" ? Format::s32 : *format_named(type_b);
    const AccumulatorModel* model = find_accumulator_model(Family::tcgen05, a, b, d);
    REQUIRE(model);
    CHECK(model->evidence == Evidence::published_words);
    const std::vector<uint32_t> a_words = hex_words(cells[2]), b_words = hex_words(cells[3]);
    const int terms = static_cast<int>(a_words.size());
    const int shift = a == Format::bf16 ? 16 : 0;  // the list writes bf16 operands as the f32 words they were cut from
    Operands operands{.a = BitMatrix(a, 1, terms), .b = BitMatrix(b, terms, 1), .c = BitMatrix(d, 1, 1), .selected_k = {}, .mixed = {}, .saturate = mode == "sat"};
    for (int k = 0; k < terms; ++k) {
      operands.a(0, k) = a_words[static_cast<size_t>(k)] >> shift;
      operands.b(k, 0) = b_words[static_cast<size_t>(k)] >> shift;
    }
    (*operands.c)(0, 0) = hex_words(cells[4]).at(0);
    INFO(line);
    CHECK(multiply_accumulate(*model, operands)(0, 0) == hex_words(cells[7]).at(0));
  }
  CHECK(dense == 41);
  CHECK(integer == 8);
  CHECK(dense + integer + scaled == 58);
}
