#include <fmt/format.h>

#include <algorithm>

#include "bitmma/hardware/ptx_kernel.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/instructions.hpp"
#include "support/ptxas.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;

namespace {

constexpr Target consumer = Target::sm_120a;

/// Every id and selector that the mnemonic can have, legal on the target or not.
std::vector<Instruction> with_immediates(const MmaSync& plain, Target target, bool legal) {
  std::vector<Instruction> all;
  for (int ids = 0; ids < (plain.has_scales() ? 128 : 1); ++ids) {
    for (int selector = 0; selector < (plain.sparse ? 4 : 1); ++selector) {
      MmaSync instruction = plain;
      instruction.byte_id_a = ids % 4, instruction.byte_id_b = ids / 4 % 4, instruction.thread_id_a = ids / 16 % 2,
      instruction.thread_id_b = ids / 32;
      instruction.sparsity_selector = selector;
      if (violations_of(instruction, target).empty() == legal) all.push_back(instruction);
    }
  }
  return all;
}

/// A kernel with one statement after the other: those of one mnemonic have the same registers.
test::PtxModule module_of(const std::vector<Instruction>& instructions, Target target) {
  std::string statements;
  for (const Instruction& instruction : instructions) statements += print(statement_of(instruction)) + "\n";
  std::string text = ptx_kernel(instructions.front(), {.target = target}).text;
  const std::string first = print(statement_of(instructions.front()));
  return {.text = text.replace(text.find(first), first.size(), statements), .target = target};
}

/// What PTX does not have anywhere, near what it has.
std::vector<MmaSync> near_misses() {
  std::vector<MmaSync> misses;
  using enum Format;
  for (const Format a : {f16, bf16, tf32, f64, e4m3, s8, u4, b1}) {
    for (const Format d : {f16, f32, f64, s32}) {
      for (const int m : {8, 16}) {
        for (const int k : {4, 8, 16, 32, 64, 128, 256}) {
          for (const bool sparse : {false, true}) {
            misses.push_back({.m = m, .d = d, .a = a, .sparse = sparse, .k = k});
          }
        }
      }
    }
  }
  for (const MmaKind kind : {MmaKind::mxf8f6f4, MmaKind::mxf4, MmaKind::mxf4nvf4}) {
    for (const ScaleVec size : {ScaleVec::unwritten, ScaleVec::x1, ScaleVec::x2, ScaleVec::x4}) {
      for (const Format scale : {ue8m0, ue4m3}) {
        for (const Format type : {e2m1, e4m3}) {
          for (const int k : {32, 64, 128}) {
            for (const bool sparse : {false, true})
              misses.push_back(
                  {.kind = kind, .a = type, .sparse = sparse, .k = k, .scale_vec = size, .scale_type = scale});
          }
        }
      }
    }
  }
  misses.push_back({.a_col = true});
  misses.push_back({.b_row = true});
  misses.push_back({.saturate = true});
  misses.push_back({.rounding = Rounding::toward_zero});
  misses.push_back({.n = 16});
  misses.push_back({.d = f16, .c = f32});
  misses.push_back({.c = f16});
  misses.push_back({.m = 8, .d = f16, .c = f32});
  misses.push_back({.b = bf16});
  misses.push_back({.d = s32, .a = s8, .b = s4});
  misses.push_back({.d = s32, .a = b1, .bit_operation = BitOperation::none});
  misses.push_back({.d = s32, .a = s8, .bit_operation = BitOperation::and_popc});
  misses.push_back({.kind = MmaKind::f8f6f4, .sparse = true, .ordered_metadata = false});
  misses.push_back({.kind = MmaKind::mxf8f6f4, .thread_id_a = 2});
  misses.push_back({.kind = MmaKind::mxf8f6f4, .thread_id_b = 4});
  misses.push_back({.kind = MmaKind::mxf8f6f4, .sparse = true, .sparsity_selector = 1});
  return misses;
}

/// Accepted by ptxas, but not in the ISA, and without a result: m8n8k4 of bf16 and tf32 makes no code.
bool is_known_laxity(const MmaSync& instruction) {
  const bool no_code =
      instruction.m == 8 && instruction.k == 4 && (instruction.a == Format::bf16 || instruction.a == Format::tf32);
  // Selectors 2 and 3 of m16n8k32 f16 with D f32: undefined in the ISA.
  const bool selector =
      instruction.sparse && instruction.a == Format::f16 && instruction.k == 32 && instruction.sparsity_selector > 1;
  return no_code || selector;
}

}  // namespace

TEST_CASE("ptxas and the table of mma.sync agree on six targets, both ways", "[rule:forms][daily]") {
  if (!test::require_ptxas("the agreement of mma.sync")) return;
  const PtxVersion known = test::ptxas_isa();
  std::vector<test::PtxModule> legal, illegal;
  std::vector<std::string> illegal_names, skipped;
  for (const Target target : {Target::sm_75, Target::sm_80, Target::sm_89, Target::sm_90, Target::sm_100a, consumer}) {
    const auto add_illegal = [&](const MmaSync& instruction) {
      if (is_known_laxity(instruction) || violations_of(instruction, target).empty()) return;
      illegal.push_back(module_of({instruction}, target));
      illegal_names.push_back(fmt::format("{} on {}", print(statement_of(instruction)), print(target)));
    };
    for (const Instruction& instruction : all_instructions(Family::mma_sync)) {
      const MmaSync& plain = std::get<MmaSync>(instruction);
      if (ptx_version_of(instruction, target) > known) {
        skipped.push_back(print(instruction));
        continue;
      }
      if (!targets_of(instruction).contains(target)) {
        add_illegal(plain);
        continue;
      }
      legal.push_back(module_of(with_immediates(plain, target, true), target));
      // The other selectors, and some of the other ids.
      const std::vector<Instruction> others = with_immediates(plain, target, false);
      for (size_t i = 0; i < others.size(); i += plain.has_scales() ? 97 : 1) add_illegal(std::get<MmaSync>(others[i]));
    }
    if (target == Target::sm_90 || target == consumer) {
      for (const MmaSync& instruction : near_misses()) add_illegal(instruction);
    }
  }
  // What this ptxas is too old for is judged by a newer one: 4X with ue8m0 needs ISA 9.1.
  CHECK(skipped.size() <= (known < PtxVersion{9, 1} ? 12 : 0));
  // Modules of one PTX version assemble together.
  const auto version_of = [](const test::PtxModule& module) {
    return module.text.substr(module.text.find(".version"), 12);
  };
  std::ranges::stable_sort(legal, {}, version_of);
  const std::vector<char> taken = test::ptxas_takes(legal, 24);
  std::string refused;
  for (size_t i = 0; i < legal.size(); ++i) {
    if (!taken[i])
      refused +=
          legal[i].text.substr(0, legal[i].text.find('\n')) + " on " + std::string(print(legal[i].target)) + "\n";
  }
  CHECK(refused == "");
  const std::vector<char> taken_anyway = test::ptxas_takes(illegal, 1);
  std::string accepted;
  for (size_t i = 0; i < illegal.size(); ++i) {
    if (taken_anyway[i]) accepted += illegal_names[i] + "\n";
  }
  CHECK(accepted == "");
  CHECK(legal.size() > 800);
  CHECK(illegal.size() > 1500);
}

TEST_CASE("an illegal mma.sync gets every violation at once") {
  const auto fields = [](const MmaSync& bad, Target target) {
    std::vector<std::string> names;
    for (const Violation& violation : violations_of(bad, target)) names.push_back(violation.field);
    return names;
  };
  using Fields = std::vector<std::string>;
  CHECK(fields({.kind = MmaKind::mxf8f6f4,
                .m = 32,
                .d = Format::f16,
                .a = Format::f16,
                .b = Format::s8,
                .byte_id_a = 4,
                .thread_id_a = 2,
                .byte_id_b = -1,
                .thread_id_b = 4,
                .sparsity_selector = 1},
               consumer) == Fields{"atype", "btype", "dtype", "shape", "ctype", "sparsity_selector", "byte_id_a",
                                   "byte_id_b", "thread_id_a", "thread_id_b"});
  CHECK(fields({.a_col = true, .saturate = true, .rounding = Rounding::toward_zero, .sparsity_selector = 1},
               Target::sm_90a) == Fields{"layout", ".satfinite", "rounding", "sparsity_selector"});
  const auto of_form = [](const MmaSync& bad) { return violations_of(bad, consumer); };
  CHECK_THAT(of_form({.kind = MmaKind::mxf4nvf4, .scale_vec = ScaleVec::unwritten}),
             test::refused(illegal_value, "scale vector and type"));
  CHECK_THAT(of_form({.kind = MmaKind::f16}), test::refused(illegal_value, "kind"));
  CHECK_THAT(of_form({.k = 32}), test::refused(illegal_value, "shape"));
  CHECK_THAT(of_form({.m = 8, .d = Format::f16, .c = Format::f32}), test::refused(illegal_value, "ctype"));
  CHECK_THAT(of_form({.d = Format::s32, .a = Format::b1, .bit_operation = BitOperation::none}),
             test::refused(illegal_value, "operation"));
  CHECK_THAT(of_form({.a = Format::e2m1, .k = 32}), test::refused(illegal_value, "atype"));
}

TEST_CASE("what a target does not have is refused with the targets that have it") {
  const auto refusal = [](const char* mnemonic, Target target) {
    return test::refusal_of([&] { require_legal(parse_instruction(mnemonic), target); });
  };
  CHECK_THAT(refusal("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", Target::sm_75),
             test::refused(unsupported_target, "target"));
  CHECK_THAT(refusal("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", Target::sm_70),
             test::refused(unsupported_target, "target"));
  CHECK_THAT(refusal("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e4m3.f32", Target::sm_100a),
             test::refused(unsupported_target, "target"));
  CHECK(refusal("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32", Target::sm_100a).empty());
}
