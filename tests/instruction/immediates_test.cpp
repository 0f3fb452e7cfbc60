#include "bitmma/instruction/immediates.hpp"

#include <algorithm>
#include <set>

#include "bitmma/instruction/form.hpp"
#include "support/catch.hpp"
#include "support/instructions.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;
using test::refusal_of;

namespace {

std::vector<std::string_view> names_of(const Instruction& instruction) {
  std::vector<std::string_view> names;
  for (const ImmediateInfo& row : immediates_of(instruction)) names.push_back(row.name);
  return names;
}

}  // namespace

TEST_CASE("each family has the immediates that PTX gives it, in the order of files") {
  using Names = std::vector<std::string_view>;
  CHECK(names_of(Wgmma{}) == Names{"imm_scale_a", "imm_scale_b", "imm_trans_a", "imm_trans_b", "scale_d"});
  CHECK(names_of(Wgmma{.sparse = true}).back() == "sparsity_selector");
  CHECK(names_of(MmaSync{.kind = MmaKind::mxf8f6f4}) == Names{"byte_id_a", "thread_id_a", "byte_id_b", "thread_id_b"});
  CHECK(names_of(Tcgen05Mma{}) == Names{"idesc", "enable_input_d", "scale_input_d"});
  CHECK(names_of(TmemMove{}).empty());
  CHECK(names_of(TmemMove{.kind = MoveKind::cp}).empty());
  CHECK(names_of(TmemMove{.ldst = {.shape = LdStShape::s16x32bx2}}) == Names{"half_split_offset"});
}

TEST_CASE("every immediate has one row, and its usual value is in its range") {
  std::set<std::string_view> names;
  for (const ImmediateInfo& row : all_immediates()) {
    INFO(row.name);
    CHECK(names.insert(row.name).second);
    CHECK(row.first <= row.default_value);
    CHECK(row.default_value <= row.last);
    CHECK_FALSE(row.legal.empty());
    CHECK((row.by_case || !row.required));
  }
  for (const Instruction& instruction : test::sample_instructions()) {
    for (const std::string_view name : names_of(instruction)) CHECK(names.contains(name));
  }
}

TEST_CASE("an immediate reads back as it was set, and setting it to what it is changes nothing") {
  for (const Instruction& instruction : test::sample_instructions()) {
    for (const ImmediateInfo& row : immediates_of(instruction)) {
      INFO(row.name);
      const int64_t is = immediate_of(instruction, row.name);
      CHECK(with_immediate(instruction, row.name, is) == instruction);
      if (row.name == "idesc") continue;
      for (int64_t value = row.first; value <= std::min<int64_t>(row.last, 15); ++value) {
        if (row.first == -1 && value == 0) continue;  // a sign
        const Instruction changed = with_immediate(instruction, row.name, value);
        CHECK(immediate_of(changed, row.name) == (row.name == "enable_input_d" ? value != 0 : value));
        CHECK(with_immediate(changed, row.name, is) == instruction);
      }
    }
  }
}

TEST_CASE("an immediate is the field that it names") {
  CHECK(with_immediate(Wgmma{}, "imm_scale_a", -1) == Instruction(Wgmma{.negate_a = true}));
  CHECK(with_immediate(Wgmma{}, "imm_scale_b", -1) == Instruction(Wgmma{.negate_b = true}));
  CHECK(with_immediate(Wgmma{}, "imm_trans_a", 1) == Instruction(Wgmma{.transpose_a = true}));
  CHECK(with_immediate(Wgmma{}, "imm_trans_b", 1) == Instruction(Wgmma{.transpose_b = true}));
  CHECK(with_immediate(Wgmma{}, "scale_d", 0) == Instruction(Wgmma{.enable_input_d = false}));
  CHECK(with_immediate(Wgmma{.sparse = true}, "sparsity_selector", 1) ==
        Instruction(Wgmma{.sparse = true, .sparsity_selector = 1}));
  CHECK(with_immediate(MmaSync{.kind = MmaKind::mxf8f6f4}, "byte_id_a", 3) ==
        Instruction(MmaSync{.kind = MmaKind::mxf8f6f4, .byte_id_a = 3}));
  CHECK(with_immediate(MmaSync{.kind = MmaKind::mxf8f6f4}, "thread_id_a", 1) ==
        Instruction(MmaSync{.kind = MmaKind::mxf8f6f4, .thread_id_a = 1}));
  CHECK(with_immediate(MmaSync{.kind = MmaKind::mxf8f6f4}, "byte_id_b", 2) ==
        Instruction(MmaSync{.kind = MmaKind::mxf8f6f4, .byte_id_b = 2}));
  CHECK(with_immediate(MmaSync{.kind = MmaKind::mxf8f6f4}, "thread_id_b", 3) ==
        Instruction(MmaSync{.kind = MmaKind::mxf8f6f4, .thread_id_b = 3}));
  CHECK(with_immediate(Tcgen05Mma{}, "idesc", idesc_of({.n = 32})) == Instruction(Tcgen05Mma{.n = 32}));
  CHECK(with_immediate(Tcgen05Mma{}, "enable_input_d", 0) == Instruction(Tcgen05Mma{.enable_input_d = false}));
  CHECK(with_immediate(Tcgen05Mma{}, "scale_input_d", 9) == Instruction(Tcgen05Mma{.scale_input_d = 9}));
  const LdSt split{.shape = LdStShape::s16x32bx2};
  CHECK(with_immediate(TmemMove{.ldst = split}, "half_split_offset", 0x100000) ==
        Instruction(TmemMove{.ldst = split, .half_split_offset = 0x100000}));
}

TEST_CASE("values outside an immediate's range are refused by name, value and range") {
  for (const Instruction& instruction : test::sample_instructions()) {
    for (const ImmediateInfo& row : immediates_of(instruction)) {
      for (const int64_t value : {row.first - 1, row.last + 1}) {
        INFO(row.name << " = " << value);
        const std::vector<Violation> refusal = refusal_of([&] { with_immediate(instruction, row.name, value); });
        CHECK_THAT(refusal, refused(illegal_value, std::string(row.name)));
        CHECK(refusal.at(0).expected == row.legal);
      }
      if (row.first == -1) CHECK_THROWS_AS(with_immediate(instruction, row.name, 0), Error);
    }
  }
  CHECK_THROWS_AS(with_immediate(Tcgen05Mma{}, "idesc", idesc_of({.sparse = true})), Error);
}

TEST_CASE("an instruction without an immediate has its usual value and takes no other") {
  for (const Instruction& instruction : test::sample_instructions()) {
    const std::vector<std::string_view> own = names_of(instruction);
    for (const ImmediateInfo& row : all_immediates()) {
      if (std::ranges::find(own, row.name) != own.end()) continue;
      INFO(row.name);
      CHECK(immediate_of(instruction, row.name) == row.default_value);
      CHECK(with_immediate(instruction, row.name, row.default_value) == instruction);
      const int64_t other = row.default_value == row.last ? row.first : row.default_value + 1;
      CHECK_THAT(refusal_of([&] { with_immediate(instruction, row.name, other); }),
                 refused(no_effect, std::string(row.name)));
    }
  }
}

TEST_CASE("a name that is no immediate is refused") {
  CHECK_THAT(refusal_of([] { with_immediate(Wgmma{}, "imm_scale_c", 1); }), refused(unknown_name, "immediate"));
  CHECK_THROWS_AS(with_immediate(Wgmma{}, "", 0), Error);
}
