#include "bitmma/files/mismatch_map.hpp"

#include <functional>

#include "bitmma/files/compare.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

using Patterns = std::vector<std::string>;

/// Two matrices that differ where `differs` says so.
Comparison compared(const Instruction& instruction, const std::function<bool(int, int)>& differs) {
  const Mma mma = mma_of(instruction);
  const Matrix right(mma.d, mma.m, mma.n);
  Matrix wrong = right;
  for (int row = 0; row < mma.m; ++row) {
    for (int col = 0; col < mma.n; ++col) wrong(row, col) = differs(row, col) ? 1 : 0;
  }
  return compare_case(instruction, 0, right, wrong);
}

}  // namespace

TEST_CASE("where outputs differ is said by rows, columns, warps and registers") {
  const Instruction mma = parse_instruction("wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16");
  struct Row {
    std::function<bool(int, int)> differs;
    Patterns patterns;
  };
  for (const Row& row : std::vector<Row>{
           {[](int, int) { return true; }, {"everywhere"}},
           {[](int r, int) { return r % 16 >= 8; }, {"only rows 8..15 of every 16", "only registers 2..3 of every 4"}},
           {[](int, int c) { return c % 16 >= 8; },
            {"only columns 8..15 of every 16", "only registers 4..7 of every 8"}},
           {[](int r, int) { return r % 8 != 0; }, {"only rows 1..7 of every 8", "only lanes of the warp 4..31"}},
           {[](int r, int) { return r / 16 == 2; }, {"only rows 32..47", "only warp 2"}},
           {[](int r, int c) { return r == 5 && c == 7; },
            {"only row 5", "only column 7", "only warp 0", "only lane of the warp 23", "only register 1"}},
           {[](int, int c) { return c % 2 == 1; }, {"only columns 1 of every 2", "only registers 1 of every 2"}},
           {[](int r, int c) { return r % 8 != 0 || c % 8 != 0; },
            {"all but rows 0 of every 8 in columns 0 of every 8"}},
           {[](int r, int c) { return (r * 7 + c * 13) % 5 == 0; },
            {"scattered: no rows, columns, warps or registers stand out"}},
       }) {
    const Comparison comparison = compared(mma, row.differs);
    CHECK(patterns_of(comparison.map, mma) == row.patterns);
    int64_t all = 0;
    for (const int64_t count : counts_by_row(comparison.map)) all += count;
    for (const int64_t count : counts_by_col(comparison.map)) all -= count;
    CHECK(all == 0);
  }
  CHECK(patterns_of(compared(mma, [](int, int) { return false; }).map, mma).empty());
}

TEST_CASE("the map of mismatches fits a terminal") {
  for (const char* text :
       {"wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16", "wgmma.mma_async.sync.aligned.m64n24k16.f32.f16.f16",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"}) {
    const Instruction mma = parse_instruction(text);
    const DrawnMap drawn = draw(compared(mma, [](int, int c) { return c >= 4; }).map);
    INFO(text);
    CHECK(drawn.lines.size() == 16);
    for (const std::string& line : drawn.lines) {
      CHECK(line.size() <= 64);
      CHECK(line == std::string(static_cast<size_t>(4 / drawn.cols_per_character), '.') +
                        std::string(line.size() - static_cast<size_t>(4 / drawn.cols_per_character), '#'));
    }
  }
  const Instruction mma = parse_instruction("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
  Comparison both = compared(mma, [](int r, int) { return r == 0; });
  both += compared(mma, [](int r, int) { return r < 2; });
  CHECK(both.map.count(0, 0) == 2);
  CHECK(draw(both.map).lines[0] == "########");
  CHECK(draw(both.map).lines[1] == "++++++++");
  // D of several shapes has no common map.
  both += compared(parse_instruction("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32"), [](int, int) { return true; });
  CHECK(both.map.empty());
  CHECK(draw(both.map).lines.empty());
}

TEST_CASE("several matrices are compared with the cases that they are of, and more matrices than cases are refused") {
  const Instruction mma = parse_instruction("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
  const Mma shape = mma_of(mma);
  Case this_case{.instruction = mma, .target = Target::sm_90};
  this_case.logical = {.a = Matrix(shape.a, shape.m, shape.k),
                       .b = Matrix(shape.b, shape.k, shape.n),
                       .c = Matrix(shape.c, shape.m, shape.n)};
  const std::vector<Case> cases{this_case, this_case};
  std::vector<Matrix> actual(2, computed_d(this_case));
  actual[1].set_code(3, 5, 1);
  const Comparison comparison = compare_cases(cases, actual);
  CHECK(comparison.cases == 2);
  REQUIRE(comparison.mismatches == 1);
  CHECK((comparison.first->case_index == 1 && comparison.first->row == 3 && comparison.first->col == 5));
  CHECK(compare_cases(cases, std::span(actual).first(1)).mismatches == 0);
  CHECK_THROWS_AS(compare_cases(std::span(cases).first(1), actual), Error);
}
