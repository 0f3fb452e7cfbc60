#include "bitmma/instruction/form.hpp"

#include <algorithm>
#include <set>

#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/instructions.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

namespace {

/// Whether the row is for the instruction's family, kind, types and K, read from its columns alone.
bool fits(const Form& form, const Instruction& instruction) {
  if (form.family != family_of(instruction)) return false;
  if (const auto* move = std::get_if<TmemMove>(&instruction)) return form.move == move->kind;
  if (const auto* mma = std::get_if<Tcgen05Mma>(&instruction); mma && mma->kind != form.kind) return false;
  if (const auto* mma = std::get_if<MmaSync>(&instruction); mma && mma->kind != form.kind) return false;
  if (const auto* mma = std::get_if<MmaSync>(&instruction)) {
    const bool same = mma->m == form.shapes.front().m.front() && mma->c == form.c && mma->d == form.d &&
                      mma->bit_operation == form.bit_operation && form.a.contains(mma->a) && form.b.contains(mma->b);
    return same && mma->k == (mma->sparse ? form.k_sparse : form.k_dense);
  }
  const Mma mma = mma_of(instruction);
  return form.d == mma.d && form.a.contains(mma.a) && form.b.contains(mma.b) &&
         mma.k == (mma.sparse ? form.k_sparse : form.k_dense);
}

/// Instructions with every pair of types of the form, dense and sparse: legal in their types and K.
std::vector<Instruction> with_all_types(const Form& form) {
  std::vector<Instruction> all;
  for (const FormatInfo& a : formats) {
    for (const FormatInfo& b : formats) {
      if (!form.a.contains(a.id) || !form.b.contains(b.id)) continue;
      for (const bool sparse : {false, true}) {
        const int k = sparse ? form.k_sparse : form.k_dense;
        if (k == 0) continue;
        if (form.family == Family::wgmma)
          all.push_back(Wgmma{.d = form.d, .a = a.id, .b = b.id, .sparse = sparse, .k = k});
        if (form.family == Family::mma_sync)
          all.push_back(MmaSync{.kind = form.kind,
                                .m = form.shapes.front().m.front(),
                                .d = form.d,
                                .a = a.id,
                                .b = b.id,
                                .c = form.c,
                                .sparse = sparse,
                                .k = k,
                                .bit_operation = form.bit_operation});
        if (form.family == Family::tcgen05)
          all.push_back(Tcgen05Mma{.kind = *form.kind, .d = form.d, .a = a.id, .b = b.id, .sparse = sparse, .k = k});
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("there are 1074 wgmma, 1842 tcgen05.mma, 412 mma.sync and 354 moves, and all are these") {
  CHECK(all_instructions(Family::wgmma).size() == 1074);
  // 464 of before, 66 of ti16, and 1312 with collector::b.
  CHECK(all_instructions(Family::tcgen05).size() == 464 + 66 + 1312);
  // Block scales 110. Without: m8n8k4 f16 12, f16, bf16 and tf32 8, fp8 16, f64 20, integers 48, b1 6, f8f6f4 50;
  // sparse 16-bit and tf32 16, fp8 12, integers 64, f8f6f4 50.
  CHECK(all_instructions(Family::mma_sync).size() == 110 + 12 + 8 + 16 + 20 + 48 + 6 + 50 + 16 + 12 + 64 + 50);
  CHECK(all_instructions(Family::tmem_move).size() == 186 + 168);
  CHECK(all_instructions().size() == 1074 + 1842 + 412 + 186 + 168);
  std::set<std::string> mnemonics;
  for (const Instruction& instruction : all_instructions()) CHECK(mnemonics.insert(print(instruction)).second);
}

TEST_CASE("no instruction fits two rows, whatever its types") {
  int count = 0;
  for (const Form& form : forms()) {
    std::vector<Instruction> instructions = instructions_of(form);
    for (const Instruction& instruction : with_all_types(form)) instructions.push_back(instruction);
    for (const Instruction& instruction : instructions) {
      INFO(form.name << " " << print(instruction));
      REQUIRE(fits(form, instruction));
      REQUIRE(std::ranges::count_if(forms(), [&](const Form& other) { return fits(other, instruction); }) == 1);
      REQUIRE(find_form(instruction) == &form);
      ++count;
    }
  }
  CHECK(count > 2000);
}

TEST_CASE("every instruction is legal on each of its targets, which are of its row's, and on no other") {
  for (const Form& form : forms()) {
    REQUIRE_FALSE(form.targets.empty());
    REQUIRE_FALSE(instructions_of(form).empty());
    TargetSet of_any;
    for (const Instruction& instruction : instructions_of(form)) {
      INFO(print(instruction));
      const TargetSet legal = targets_of(instruction);
      REQUIRE_FALSE(legal.empty());
      REQUIRE((legal & form.targets) == legal);
      of_any = of_any | legal;
      REQUIRE(legal.contains(default_target(instruction)));
      for (const TargetInfo& target : targets) {
        const std::vector<Violation> violations = violations_of(instruction, target.id);
        if (legal.contains(target.id)) {
          REQUIRE(violations.empty());
          if (is_mma(instruction)) REQUIRE_NOTHROW(model_for(instruction, target.id));
        } else {
          REQUIRE(violations.size() == 1);
          REQUIRE(violations[0].field == "target");
          REQUIRE(violations[0].seen == target.name);
          REQUIRE(violations[0].expected == print(legal));
        }
      }
    }
    REQUIRE(of_any == form.targets);
  }
}

TEST_CASE(
    "where no target is named it is sm_90a for wgmma, sm_100a for tcgen05, sm_103a for K = 96, sm_120a for mma.sync") {
  CHECK(default_target(Wgmma{}) == Target::sm_90a);
  CHECK(default_target(Tcgen05Mma{}) == Target::sm_100a);
  CHECK(default_target(Tcgen05Mma{.kind = MmaKind::i8}) == Target::sm_100a);
  CHECK(default_target(Tcgen05Mma{.kind = MmaKind::mxf4, .k = 96}) == Target::sm_103a);
  CHECK(default_target(MmaSync{.kind = MmaKind::mxf8f6f4}) == Target::sm_120a);
  CHECK(default_target(TmemMove{}) == Target::sm_100a);
  // One that has no row is asked about where its family is.
  CHECK(targets_of(Wgmma{.d = Format::s32}).empty());
  CHECK(default_target(Wgmma{.d = Format::s32}) == Target::sm_90a);
  CHECK(find_form(Wgmma{.d = Format::s32}) == nullptr);
}

TEST_CASE("what has no row is legal nowhere: block scales with any D but f32") {
  for (const FormatInfo& format : formats) {
    INFO(format.name);
    const Instruction scaled = Tcgen05Mma{.kind = MmaKind::mxf8f6f4, .d = format.id};
    CHECK(violations_of(scaled, Target::sm_100a).empty() == (find_form(scaled) != nullptr));
    CHECK((find_form(scaled) != nullptr) == (format.id == Format::f32));
  }
}

TEST_CASE("the targets of tcgen05.mma, by kind, K and parts, are those of ptxas 13.5 and of the ISA's text") {
  using enum Target;
  const TargetSet all{sm_100a, sm_100f, sm_101a, sm_101f, sm_103a, sm_103f, sm_107a, sm_107f, sm_110a, sm_110f},
      specific{sm_100a, sm_101a, sm_103a, sm_107a, sm_110a}, rubin{sm_107a, sm_107f}, rubin_a{sm_107a};
  constexpr auto fp8 = MmaKind::f8f6f4, scaled = MmaKind::mxf8f6f4, mxf4 = MmaKind::mxf4, nvf4 = MmaKind::mxf4nvf4;
  constexpr auto x2 = ScaleVec::x2, x4 = ScaleVec::x4, block16 = ScaleVec::block16, block32 = ScaleVec::block32;
  constexpr auto ue4m3 = Format::ue4m3, ue5m3 = Format::ue5m3;
  struct Row {
    Tcgen05Mma mma;
    TargetSet targets;
  };
  for (const Row& row : {
           Row{{}, all},
           Row{{.kind = MmaKind::tf32, .sparse = true}, all},
           Row{{.kind = fp8, .weight_stationary = true}, all},
           Row{{.kind = MmaKind::i8}, {sm_100a, sm_101a, sm_110a}},
           Row{{.kind = MmaKind::i8, .weight_stationary = true, .sparse = true}, {sm_100a, sm_101a, sm_110a}},
           Row{{.kind = MmaKind::ti16}, rubin},
           Row{{.kind = MmaKind::ti16, .weight_stationary = true, .sparse = true}, rubin},
           Row{{.kind = scaled, .sparse = true}, all},
           Row{{.kind = scaled, .scale_vec = block32}, all},
           Row{{.kind = scaled, .scale_vec = ScaleVec::x1}, specific},
           Row{{.kind = mxf4}, all},
           Row{{.kind = mxf4, .scale_vec = x2}, specific},
           Row{{.kind = mxf4, .sparse = true}, {sm_100a, sm_101a, sm_103a, sm_110a}},
           Row{{.kind = mxf4, .sparse = true, .sparsity_version = 1}, rubin_a},
           Row{{.kind = nvf4, .scale_vec = block16, .scale_type = ue4m3}, all},
           Row{{.kind = nvf4, .scale_vec = x4, .scale_type = ue4m3}, specific},
           Row{{.kind = nvf4, .scale_vec = block32}, all},
           Row{{.kind = nvf4, .scale_vec = block32, .scale_type = ue4m3}, rubin},
           Row{{.kind = nvf4, .scale_vec = x2, .scale_type = ue4m3}, rubin_a},
           Row{{.kind = nvf4, .scale_vec = block16, .scale_type = ue5m3}, rubin},
           Row{{.kind = mxf4, .k = 96}, {sm_103a, sm_107a}},
           Row{{.kind = nvf4, .sparse = true, .k = 192, .scale_vec = block16, .sparsity_version = 1}, rubin_a},
           Row{{.kind = mxf4, .k = 128}, rubin},
           Row{{.kind = nvf4, .k = 128, .scale_vec = block16, .scale_type = ue5m3}, rubin},
           Row{{.kind = fp8, .k = 64}, rubin},
           Row{{.kind = fp8, .sparse = true, .k = 128}, rubin},
           Row{{.kind = scaled, .k = 64}, rubin},
           Row{{.collector_b = CollectorOperation::use}, rubin},
           Row{{.scale_input_d = 3}, {sm_100a, sm_100f, sm_103a, sm_103f, sm_107a, sm_107f}},
       }) {
    INFO(print(row.mma) << " K = " << row.mma.k);
    CHECK(print(targets_of(row.mma)) == print(row.targets));
    for (const TargetInfo& target : targets) {
      CHECK(violations_of(row.mma, target.id).empty() == row.targets.contains(target.id));
    }
  }
  CHECK(default_target(Tcgen05Mma{.kind = MmaKind::ti16}) == sm_107a);
  CHECK(ptx_version_of(Tcgen05Mma{.kind = MmaKind::ti16}, sm_107a) == PtxVersion{9, 4});
  CHECK(ptx_version_of(Tcgen05Mma{}, sm_110a) == PtxVersion{9, 0});
}

TEST_CASE("a target that lacks a part of a tcgen05.mma is refused with that part") {
  const auto refusal = [](const Tcgen05Mma& instruction, Target target) { return violations_of(instruction, target); };
  CHECK_THAT(refusal({.kind = MmaKind::mxf4nvf4, .k = 96}, Target::sm_100a), refused(unsupported_target, "target"));
  CHECK_THAT(refusal({.kind = MmaKind::f8f6f4, .k = 64}, Target::sm_103a), refused(unsupported_target, "target"));
  CHECK_THAT(refusal({.kind = MmaKind::mxf4, .sparse = true, .scale_vec = ScaleVec::x2}, Target::sm_110f),
             refused(unsupported_target, "target"));
  CHECK_THAT(refusal({.kind = MmaKind::mxf4, .sparse = true}, Target::sm_107a), refused(unsupported_target, "target"));
  CHECK_THAT(refusal({.collector_b = CollectorOperation::fill}, Target::sm_100a),
             refused(unsupported_target, "target"));
  CHECK_THAT(refusal({.kind = MmaKind::i8}, Target::sm_103a), refused(unsupported_target, "target"));
}

TEST_CASE("every row says where it is written") {
  for (const Form& form : forms()) {
    CHECK_THAT(std::string(form.source), ContainsSubstring("PTX ISA"));
    CHECK_FALSE(form.name.empty());
    CHECK(form.shapes.empty() == (form.family == Family::tmem_move));
    CHECK(form.scales.empty() == (form.family == Family::wgmma || form.family == Family::tmem_move || !form.kind ||
                                  !info(*form.kind).has_block_scales));
  }
}
