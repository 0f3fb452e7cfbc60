// The published result words of a real B200 (data/b200/tcgen05_words.txt): one output element a line.
#include <fmt/format.h>

#include <map>
#include <sstream>

#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/word_lists.hpp"

using namespace bitmma;
using test::hex_words;

namespace {

/// One line of the list as operands. `family` is the list's first word.
struct Word {
  const AccumulatorModel* model = nullptr;
  Operands operands;
  uint32_t d = 0;
};

Word word_of(const std::vector<std::string>& cells, const std::string& family) {
  std::istringstream kind(cells[1]);
  std::string first, second, third, mode;
  kind >> first >> second >> third >> mode;
  const bool fp4 = family == "mxf4" || family == "mxf4nvf4", scaled = fp4 || family == "mxf8f6f4";
  const Format a = fp4 ? Format::e2m1 : *format_named(second), b = family == "i8" ? *format_named(third) : a;
  const Format d = family == "i8" ? Format::s32 : scaled ? Format::f32 : *format_named(third);
  const Scaling scaling = fp4 ? Scaling::exact_groups : scaled ? Scaling::whole_k : Scaling::none;
  const std::vector<uint32_t> a_words = hex_words(cells[2]), b_words = hex_words(cells[3]);
  const int terms = static_cast<int>(a_words.size());
  const int shift = a == Format::bf16 ? 16 : 0;  // the list writes bf16 operands as the f32 words they were cut from
  Word word{
      .model = find_accumulator_model(Target::sm_100a, Family::tcgen05, a, b, d, scaling),
      .operands = {.a = Matrix(a, 1, terms), .b = Matrix(b, terms, 1), .c = Matrix(d, 1, 1), .saturate = mode == "sat"},
      .d = hex_words(cells[7]).at(0)};
  for (int k = 0; k < terms; ++k) {
    word.operands.a(0, k) = a_words[static_cast<size_t>(k)] >> shift;
    word.operands.b(k, 0) = b_words[static_cast<size_t>(k)] >> shift;
  }
  (*word.operands.c)(0, 0) = hex_words(cells[4]).at(0);
  if (scaled) {
    const Format type = *format_named(fp4 ? second : third);
    const std::vector<uint32_t> scale_a = hex_words(cells[5]), scale_b = hex_words(cells[6]);
    const int chunks = static_cast<int>(scale_a.size());
    word.operands.scales = BlockScales{.a = Matrix(type, 1, chunks), .b = Matrix(type, chunks, 1)};
    for (int j = 0; j < chunks; ++j) {
      word.operands.scales->a(0, j) = scale_a[static_cast<size_t>(j)];
      word.operands.scales->b(j, 0) = scale_b[static_cast<size_t>(j)];
    }
  }
  return word;
}

}  // namespace

TEST_CASE("every published word of a B200 is reproduced",
          "[rule:fused-sum][rule:whole-k-scales][rule:groups-of-16][rule:tensor-memory]") {
  std::map<std::string, int> words_of;
  test::for_each_list_line(test::source_path("data/b200/tcgen05_words.txt"),
                           [&](const std::vector<std::string>& cells) {
                             REQUIRE(cells.size() == 8);  // columns of the list
                             const std::string family = cells[1].substr(0, cells[1].find(' '));
                             const Word word = word_of(cells, family);
                             INFO(fmt::format("{}", fmt::join(cells, " | ")));
                             REQUIRE(word.model);
                             CHECK(evidence_of(*word.model, Target::sm_100a) == Evidence::published_words);
                             CHECK(multiply_accumulate(*word.model, word.operands)(0, 0) == word.d);
                             ++words_of[family];
                           });
  CHECK(words_of ==
        std::map<std::string, int>{{"dense", 41}, {"i8", 8}, {"mxf8f6f4", 2}, {"mxf4", 1}, {"mxf4nvf4", 6}});
}
