// The published result words of an RTX 5070 Ti (data/published/sm120_words.txt): registers in, registers out.
//
// Not here: parameters of mxf4 and mxf4nvf4 that others found on an RTX 5090, which come without words, and an fp8 dot
// product of a GPU that its source does not name. data/published/README.md lists them.
#include "support/catch.hpp"
#include "support/published.hpp"

using namespace bitmma;
using test::Sm120Line;

// 23j fed the instruction from shared memory, of which two words of a row of B were never written. The list has them
// zero, which its d needs; that line proves less than the others.
TEST_CASE("11 published results of an RTX 5070 Ti are what mma.sync leaves in lane 0", "[rule:fragments]") {
  const std::vector<Sm120Line> lines = test::sm120_lines();
  for (const Sm120Line& line : lines) {
    INFO(line.source);
    CHECK(line.computed(line.state) == line.d);
  }
  CHECK(lines.size() == 11);
}

TEST_CASE("published words of an RTX 5070 Ti: of a byte with an e2m1, bits 5:0 count as an e2m3, and bits 7:6 do not",
          "[rule:fragments]") {
  int e2m1_lines = 0;
  for (const Sm120Line& line : test::sm120_lines()) {
    const MmaSync& mma = std::get<MmaSync>(line.instruction);
    if (mma.a != Format::e2m1 || mma.kind != MmaKind::f8f6f4) continue;
    INFO(line.source);
    ++e2m1_lines;
    // Were the two bits below the number ignored, these operands would be the same.
    CHECK(line.computed(line.with_operands([](uint32_t word) { return word & 0x3C3C3C3C; })) != line.d);
    CHECK(line.computed(line.with_operands([](uint32_t word) { return word ^ 0xC0C0C0C0; })) == line.d);
  }
  CHECK(e2m1_lines == 3);
}
