// The published result words of a B200 (data/published/b200_words.txt, of which data/b200 holds the first 58) and of an
// RTX 5090: one output element a line.
#include <map>
#include <sstream>

#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "bitmma/memory/metadata.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/word_lists.hpp"

using namespace bitmma;

namespace {

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

Matrix row_of(Format format, const std::vector<uint32_t>& codes, int shift = 0) {
  Matrix row(format, 1, static_cast<int>(codes.size()));
  for (size_t k = 0; k < codes.size(); ++k) row(0, static_cast<int>(k)) = codes[k] >> shift;
  return row;
}

/// One line of a list: the row of arithmetic, what it adds, and the hardware's word.
struct Word {
  const AccumulatorModel* model = nullptr;
  Operands operands;
  uint32_t d = 0;

  uint32_t computed(const AccumulatorModel& by) const { return multiply_accumulate(by, operands)(0, 0); }
};

/// name | kind | types | modifiers | a | b | c | scale_a | scale_b | d
Word b200_word(const std::vector<std::string>& cells) {
  const std::string& kind = cells.at(1);
  const std::vector<std::string> types = parts_of(cells.at(2), '.');
  std::vector<std::string> modifiers = parts_of(cells.at(3), ' ');
  const Format a = format_named(types.at(0)).value(), b = format_named(types.at(1)).value(),
               d = format_named(types.at(2)).value();
  const bool fp4 = kind == "mxf4" || kind == "mxf4nvf4", scaled = fp4 || kind == "mxf8f6f4";
  const Scaling scaling = fp4 ? Scaling::exact_groups : scaled ? Scaling::whole_k : Scaling::none;
  const int shift = a == Format::bf16 ? 16 : 0;  // the list has the f32 words they are cut from
  Word word{.model = find_accumulator_model(Target::sm_100a, Family::tcgen05, a, b, d, scaling),
            .operands = {.a = row_of(a, test::hex_words(cells.at(4)), shift),
                         .b = transposed(row_of(b, test::hex_words(cells.at(5)), shift)),
                         .saturate = cells.at(3) == "sat"},
            .d = test::hex_words(cells.at(9)).at(0)};
  const bool sparse = cells.at(3).starts_with("sp ");
  if (sparse) {
    // Every nibble of the metadata is 0x4: the first two columns, or the first two pairs, of a chunk.
    modifiers.erase(modifiers.begin());
    word.operands.selected_k =
        select(sparse_pattern(fp4 ? 4 : 8), 1, word.operands.a.cols(), [](int, int) { return 0x4; }).k;
  } else {
    word.operands.c = row_of(d, test::hex_words(cells.at(6)));  // the sparse instructions did not read it
  }
  if (scaled) {
    const auto count = static_cast<size_t>(modifiers.at(0).front() - '0');  // "2X": the first two bytes
    const Format type = format_named(modifiers.at(1)).value();
    std::vector<uint32_t> scale_a = test::hex_words(cells.at(7)), scale_b = test::hex_words(cells.at(8));
    scale_a.resize(count), scale_b.resize(count);
    word.operands.scales = BlockScales{.a = row_of(type, scale_a), .b = transposed(row_of(type, scale_b))};
  }
  return word;
}

std::string b200_path() { return test::source_path("data/published/b200_words.txt"); }

}  // namespace

TEST_CASE("all 77 published words of a B200 are reproduced, dense, sparse and block-scaled",
          "[rule:fused-sum][rule:zero][rule:nan][rule:whole-k-scales][rule:groups-of-16][rule:selection]") {
  std::map<std::string, int> words_of;
  const int lines = test::for_each_list_line(b200_path(), [&](const std::vector<std::string>& cells) {
    REQUIRE(cells.size() == 10);
    INFO(cells[0]);
    const Word word = b200_word(cells);
    REQUIRE(word.model);
    // The two words with D f16 are NaN, which says nothing about how that row adds.
    CHECK((evidence_of(*word.model, Target::sm_100a) == Evidence::published_words) ==
          (word.model->output != Format::f16));
    CHECK(word.computed(*word.model) == word.d);
    ++words_of[(cells[3].starts_with("sp ") ? "sparse " : "") + cells[1]];
  });
  CHECK(lines == 77);
  CHECK(words_of == std::map<std::string, int>{{"tf32", 9},
                                               {"f16", 17},
                                               {"f8f6f4", 20},
                                               {"i8", 8},
                                               {"mxf8f6f4", 7},
                                               {"mxf4", 2},
                                               {"mxf4nvf4", 9},
                                               {"sparse mxf8f6f4", 1},
                                               {"sparse mxf4", 1},
                                               {"sparse mxf4nvf4", 3}});
}

TEST_CASE("published words of tiny products on a B200 refute every other floor from -160 to -100, and none",
          "[rule:floor]") {
  std::vector<int> floors{no_floor};
  for (int floor = -160; floor <= -100; ++floor) floors.push_back(floor);
  for (const int floor : floors) {
    int noticed = 0, words = 0;
    test::for_each_list_line(b200_path(), [&](const std::vector<std::string>& cells) {
      if (!cells.at(0).starts_with("subnormal-window-floor")) return;
      const Word word = b200_word(cells);
      REQUIRE(word.model);
      REQUIRE(word.model->floor_exponent == -133);
      AccumulatorModel changed = *word.model;
      changed.floor_exponent = floor;
      noticed += word.computed(changed) != word.d, ++words;
    });
    INFO("floor " << floor);
    CHECK((noticed > 0) == (floor != -133));
    CHECK(words == 3);
  }
}

TEST_CASE("the published word of an RTX 5090, tf32, is reproduced, and not with a fraction bit less",
          "[rule:fused-sum]") {
  const int lines = test::for_each_list_line(
      test::source_path("data/published/rtx5090_words.txt"), [](const std::vector<std::string>& cells) {
        REQUIRE(cells.size() == 6);  // GPU | instruction | a | b | c | d
        constexpr Format tf32 = Format::tf32, f32 = Format::f32;
        const Word word{.model = find_accumulator_model(Target::sm_120a, Family::mma_sync, tf32, tf32, f32),
                        .operands = {.a = row_of(tf32, test::hex_words(cells[2])),
                                     .b = transposed(row_of(tf32, test::hex_words(cells[3]))),
                                     .c = row_of(f32, test::hex_words(cells[4]))},
                        .d = test::hex_words(cells[5]).at(0)};
        REQUIRE(word.model);
        CHECK(word.operands.a.cols() == 8);
        CHECK(word.computed(*word.model) == word.d);
        AccumulatorModel changed = *word.model;
        --changed.fraction_bits;
        CHECK(word.computed(changed) != word.d);
      });
  CHECK(lines == 1);
}
