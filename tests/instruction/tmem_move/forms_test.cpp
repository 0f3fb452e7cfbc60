#include <set>

#include "bitmma/instruction/form.hpp"
#include "support/catch.hpp"
#include "support/instructions.hpp"

using namespace bitmma;

TEST_CASE("the moves are every shape, number, packing, group of CTAs and source format that there is, each once") {
  std::set<int> counts[4];
  int of_kind[4] = {};
  for (const Instruction& instruction : all_instructions(Family::tmem_move)) {
    const TmemMove& move = std::get<TmemMove>(instruction);
    ++of_kind[static_cast<int>(move.kind)];
    if (move.has_registers()) counts[static_cast<int>(move.kind)].insert(move.ldst.registers());
  }
  CHECK(of_kind[static_cast<int>(MoveKind::ld)] == 2 * (8 + 8 + 7 + 6 + 8));
  CHECK(of_kind[static_cast<int>(MoveKind::st)] == 2 * (8 + 8 + 7 + 6 + 8));
  CHECK(of_kind[static_cast<int>(MoveKind::cp)] == 2 * 6 * 3);
  CHECK(of_kind[static_cast<int>(MoveKind::shift)] == 2);
  CHECK(counts[0] == std::set<int>{1, 2, 4, 8, 16, 32, 64, 128});
  CHECK(counts[1] == counts[0]);
}

TEST_CASE("a move that PTX does not have is refused by field") {
  const auto fields = [](const TmemMove& move) {
    std::set<std::string> found;
    for (const Violation& violation : violations_of(move, Target::sm_100a)) found.insert(violation.field);
    return found;
  };
  using Fields = std::set<std::string>;
  CHECK(fields({.kind = MoveKind::shift, .cta_group = 3}) == Fields{"cta_group"});
  CHECK(fields({.kind = MoveKind::cp, .cta_group = 0, .cp_shape = -1}) == Fields{"cta_group", "shape of cp"});
  CHECK(fields({.kind = MoveKind::cp, .cp_shape = 6}) == Fields{"shape of cp"});
  for (const int num : {0, 3, 256, -1}) CHECK(fields({.ldst = {.num = num}}) == Fields{".num"});
  CHECK(fields({.ldst = {.shape = LdStShape::s16x256b, .num = 64}}) == Fields{".num"});
  CHECK(fields({.half_split_offset = 1}) == Fields{"half-split offset"});
  CHECK(fields({.ldst = {.shape = LdStShape::s16x32bx2}, .half_split_offset = 7}).empty());
}
