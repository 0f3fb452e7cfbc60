#include <set>

#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/instructions.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

TEST_CASE("the moves are every shape, number, packing, group of CTAs and source format that there is, each once") {
  std::set<int> counts[5];
  int of_kind[5] = {};
  for (const Instruction& instruction : all_instructions(Family::tmem_move)) {
    const TmemMove& move = std::get<TmemMove>(instruction);
    ++of_kind[static_cast<int>(move.kind)];
    if (move.has_registers()) counts[static_cast<int>(move.kind)].insert(move.ldst.registers());
  }
  CHECK(of_kind[static_cast<int>(MoveKind::ld)] == 2 * (8 + 8 + 7 + 6 + 8));
  CHECK(of_kind[static_cast<int>(MoveKind::st)] == 2 * (8 + 8 + 7 + 6 + 8));
  CHECK(of_kind[static_cast<int>(MoveKind::cp)] == 2 * 6 * 3);
  CHECK(of_kind[static_cast<int>(MoveKind::shift)] == 2);
  CHECK(of_kind[static_cast<int>(MoveKind::ld_red)] == 2 * 7 * 2 * (4 + 1 + 1));
  CHECK(counts[static_cast<int>(MoveKind::ld_red)] == std::set<int>{2, 4, 8, 16, 32, 64, 128});
  CHECK(counts[0] == std::set<int>{1, 2, 4, 8, 16, 32, 64, 128});
  CHECK(counts[1] == counts[0]);
}

TEST_CASE("a move that PTX does not have is refused by field") {
  const auto fields = [](const TmemMove& move) {
    std::set<std::string> names;
    for (const Violation& violation : violations_of(move, Target::sm_100a)) names.insert(violation.field);
    return names;
  };
  using Fields = std::set<std::string>;
  CHECK(fields({.kind = MoveKind::shift, .cta_group = 3}) == Fields{"cta_group"});
  CHECK(fields({.kind = MoveKind::cp, .cta_group = 0, .cp_shape = -1}) == Fields{"cta_group", "shape of cp"});
  CHECK(fields({.kind = MoveKind::cp, .cp_shape = 6}) == Fields{"shape of cp"});
  for (const int num : {0, 3, 256, -1}) CHECK(fields({.ldst = {.num = num}}) == Fields{".num"});
  CHECK(fields({.ldst = {.shape = LdStShape::s16x256b, .num = 64}}) == Fields{".num"});
  CHECK(fields({.half_split_offset = 1}) == Fields{"half-split offset"});
  CHECK(fields({.ldst = {.shape = LdStShape::s16x32bx2}, .half_split_offset = 7}).empty());
  CHECK(fields({.reduction = {.absolute = true}}) == Fields{"reduction"});
}

TEST_CASE("ld.red is refused by field, and on targets before sm_103a", "[rule:ld-red]") {
  using Fields = std::set<std::string>;
  const auto fields = [](const TmemMove& fields_of_move, Target target = Target::sm_103a) {
    TmemMove move = fields_of_move;
    move.kind = MoveKind::ld_red;
    std::set<std::string> names;
    for (const Violation& violation : violations_of(move, target)) names.insert(violation.field);
    return names;
  };
  constexpr LdSt two{.num = 2};
  CHECK(fields({.ldst = two}).empty());
  CHECK(fields({.ldst = {.num = 1}}) == Fields{".num"});
  CHECK(fields({.ldst = {.shape = LdStShape::s16x64b, .num = 2}}) == Fields{"shape"});
  CHECK(fields({.ldst = {.num = 2, .pack_16b = true}}) == Fields{".pack::16b"});
  CHECK(fields({.ldst = two, .reduction = {.type = Format::f16}}) == Fields{"type"});
  CHECK(fields({.ldst = two, .reduction = {.absolute = true, .propagate_nan = true, .type = Format::s32}}) ==
        Fields{".abs", ".NaN"});
  for (const TargetInfo& target : targets) {
    INFO(target.name);
    const std::string_view name = target.name;
    const bool has_it =
        name.size() == 7 && (name.back() == 'a' || name.back() == 'f') && name >= "sm_101" && name < "sm_120";
    CHECK(fields({.ldst = two}, target.id).empty() == has_it);
  }
  CHECK(default_target(TmemMove{.kind = MoveKind::ld_red}) == Target::sm_103a);
  CHECK(ptx_version_of(TmemMove{.kind = MoveKind::ld_red}, Target::sm_101a) == PtxVersion{8, 8});
  CHECK(ptx_version_of(TmemMove{.kind = MoveKind::ld_red}, Target::sm_107a) == PtxVersion{9, 4});
}

TEST_CASE("ld.red reads its qualifiers in any order and refuses what it does not have", "[rule:ld-red]") {
  const Instruction instruction = TmemMove{
      .kind = MoveKind::ld_red, .ldst = {.num = 8}, .reduction = {.operation = ReduceOperation::max, .absolute = true}};
  CHECK(print(instruction) == "tcgen05.ld.red.sync.aligned.32x32b.x8.max.abs.f32");
  CHECK(parse_instruction("tcgen05.ld.red.sync.aligned.32x32b.x8.f32.max.abs") == instruction);
  CHECK(print(statement_of(TmemMove{.kind = MoveKind::ld_red,
                                    .ldst = {.shape = LdStShape::s16x32bx2, .num = 2},
                                    .reduction = {.type = Format::u32}})) ==
        "tcgen05.ld.red.sync.aligned.16x32bx2.x2.min.u32 {v0, v1}, redval0, [taddr], 2;");
  CHECK(parse_statement("tcgen05.ld.red.sync.aligned.32x32b.x2.min.NaN.f32 {%r1, %r2}, %r3, [%r4];").operands[1].text ==
        "%r3");
  for (const auto& [text, refusal] : std::vector<std::pair<std::string, test::Refusal>>{
           {"tcgen05.ld.red.sync.aligned.32x32b.x2.f32", {malformed, "operation"}},
           {"tcgen05.ld.red.sync.aligned.32x32b.x2.min", {malformed, "type"}},
           {"tcgen05.ld.red.sync.aligned.32x32b.x2.min.b32", {malformed, "type"}},
           {"tcgen05.ld.red.sync.aligned.32x32b.x2.min.f32.pack::16b", {malformed, "qualifier"}},
           {"tcgen05.st.red.sync.aligned.32x32b.x2.min.f32", {malformed, "instruction"}},
       }) {
    INFO(text);
    CHECK_THROWS_MATCHES(parse_instruction(text), Error, refused(refusal));
  }
  CHECK_THAT(
      test::refusal_of([] { parse_statement("tcgen05.ld.red.sync.aligned.32x32b.x2.min.f32 {%r1, %r2}, [%r4];"); }),
      refused(malformed, "redval"));
  CHECK_THAT(test::refusal_of([] { parse_statement("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, %r3, [%r4];"); }),
             refused(malformed, "redval"));
}
