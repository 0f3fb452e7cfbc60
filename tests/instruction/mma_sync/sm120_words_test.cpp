// The published result words of an RTX 5070 Ti (data/published/sm120_words.txt): registers in, registers out.
//
// Not here: parameters of mxf4 and mxf4nvf4 that others found on an RTX 5090, which come without words, and an fp8 dot
// product of a GPU that its source does not name. data/published/README.md lists them.
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/word_lists.hpp"

using namespace bitmma;

namespace {

constexpr int lanes = 32;

/// source | GPU | runs | instruction | a | b | scale_a | scale_b | c | d
struct Line {
  explicit Line(const std::vector<std::string>& cells)
      : source(cells.at(0)),
        runs(std::stoi(cells.at(2))),
        instruction(parse_instruction(cells.at(3))),
        d(test::hex_words(cells.at(9))) {
    const auto cell_of = [&](Field field) -> const std::string& {
      switch (field) {
        case Field::a_regs: return cells.at(4);
        case Field::b_regs: return cells.at(5);
        case Field::scale_a: return cells.at(6);
        case Field::scale_b: return cells.at(7);
        default: return cells.at(8);
      }
    };
    for (const FieldRule& rule : fields_of(instruction)) {
      const auto registers = static_cast<size_t>(rule.extents[1]);
      std::string text = cell_of(rule.field);
      const bool by_quad = text.starts_with("q:");  // the words of lanes 4 g + 0 ... 4 g + 3, in all their registers
      if (by_quad) text.erase(0, 2);
      const std::vector<uint32_t> given = test::hex_words(text);
      REQUIRE(given.size() == (by_quad ? 4 : registers));
      std::vector<uint32_t> words;
      for (size_t lane = 0; lane < lanes; ++lane) {
        for (size_t reg = 0; reg < registers; ++reg) words.push_back(given[by_quad ? lane % 4 : reg]);
      }
      state.set(rule.field, std::move(words), rule.extents);
    }
  }

  /// The first values of D in lane 0, as many as are published: registers of f32, halves of registers of f16.
  std::vector<uint32_t> computed(State changed) const {
    for (int run = 0; run < runs; ++run) execute(instruction, Target::sm_120a, changed);
    const bool halves = mma_of(instruction).d == Format::f16;
    std::vector<uint32_t> values;
    for (size_t i = 0; i < d.size(); ++i) {
      const uint32_t word = changed.words(Field::accumulator)[halves ? i / 2 : i];
      values.push_back(halves ? word >> 16 * (i % 2) & 0xFFFF : word);
    }
    return values;
  }

  /// The state with the bytes of A and B changed.
  State with_operands(const std::function<uint32_t(uint32_t)>& change) const {
    State changed = state;
    for (const Field field : {Field::a_regs, Field::b_regs}) {
      for (uint32_t& word : changed.writable_words(field)) word = change(word);
    }
    return changed;
  }

  std::string source;
  int runs = 1;
  Instruction instruction;
  State state;
  std::vector<uint32_t> d;
};

std::string path() { return test::source_path("data/published/sm120_words.txt"); }

}  // namespace

// 23j fed the instruction from shared memory, of which two words of a row of B were never written. The list has them
// zero, which its d needs; that line proves less than the others.
TEST_CASE("11 published results of an RTX 5070 Ti are what mma.sync leaves in lane 0", "[rule:fragments]") {
  const int lines = test::for_each_list_line(path(), [](const std::vector<std::string>& cells) {
    REQUIRE(cells.size() == 10);
    const Line line(cells);
    INFO(line.source);
    CHECK(line.computed(line.state) == line.d);
  });
  CHECK(lines == 11);
}

TEST_CASE("published words of an RTX 5070 Ti: of a byte with an e2m1, bits 5:0 count as an e2m3, and bits 7:6 do not",
          "[rule:fragments]") {
  int e2m1_lines = 0;
  test::for_each_list_line(path(), [&](const std::vector<std::string>& cells) {
    const Line line(cells);
    const MmaSync& mma = std::get<MmaSync>(line.instruction);
    if (mma.a != Format::e2m1 || mma.kind != MmaKind::f8f6f4) return;
    INFO(line.source);
    ++e2m1_lines;
    // Were the two bits below the number ignored, these operands would be the same.
    CHECK(line.computed(line.with_operands([](uint32_t word) { return word & 0x3C3C3C3C; })) != line.d);
    CHECK(line.computed(line.with_operands([](uint32_t word) { return word ^ 0xC0C0C0C0; })) == line.d);
  });
  CHECK(e2m1_lines == 3);
}
