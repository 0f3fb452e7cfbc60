#include "bitmma/instruction/statement.hpp"

#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/instruction/form.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

namespace {

const std::string wgmma_f16 = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16";
const std::string mx = "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e5m2.f32.ue8m0";

/// What is wrong with a mnemonic or statement, "" when nothing is.
std::vector<Violation> refusal_of(std::string_view text, auto parse) {
  return test::refusal_of([&] { parse(text); });
}
std::vector<Violation> mnemonic_refusal(std::string_view text) { return refusal_of(text, parse_instruction); }
std::vector<Violation> statement_refusal(std::string_view text) {
  return refusal_of(text, [](std::string_view statement) { return parse_statement(statement); });
}

/// The part of an instruction that a statement says: what tcgen05's instruction descriptor says is as parsing leaves
/// it.
Instruction written_part(const Instruction& instruction) {
  const auto* tcgen05 = std::get_if<Tcgen05Mma>(&instruction);
  if (!tcgen05) return instruction;
  Tcgen05Mma part = std::get<Tcgen05Mma>(parse_instruction(print(instruction)));
  part.a_source = tcgen05->a_source;
  part.scale_input_d = tcgen05->scale_input_d;
  return part;
}

/// `instruction` with operands and immediates that `number` picks: numbers in a row meet every value of each.
Instruction variant(const Instruction& instruction, unsigned number) {
  const auto bit = [&](unsigned index) { return (number >> index & 1) != 0; };
  const auto change = [&](auto changed) -> Instruction {
    using T = decltype(changed);
    if constexpr (std::is_same_v<T, Wgmma>) {
      if (bit(0)) changed.a_source = OperandSource::registers;
      if (info(changed.a).kind == NumberKind::floating) changed.negate_a = bit(1), changed.negate_b = bit(2);
      if (info(changed.a).bits == 16) changed.transpose_a = bit(3) && !bit(0), changed.transpose_b = bit(4);
      if (changed.sparse) changed.sparsity_selector = bit(5);
    } else if constexpr (std::is_same_v<T, MmaSync>) {
      if (changed.sparse && !changed.has_scales()) changed.sparsity_selector = static_cast<int>(number % 4);
      if (!changed.has_scales()) return changed;
      changed.byte_id_a = static_cast<int>(number % 4), changed.thread_id_a = bit(2);
      changed.byte_id_b = static_cast<int>(number / 8 % 4), changed.thread_id_b = static_cast<int>(number / 32 % 4);
    } else if constexpr (std::is_same_v<T, Tcgen05Mma>) {
      if (bit(0)) changed.a_source = OperandSource::tmem;
      if ((changed.kind == MmaKind::f16 || changed.kind == MmaKind::tf32) && !changed.weight_stationary)
        changed.scale_input_d = static_cast<int>(number / 2 % 16);
    } else if (changed.has_registers() && changed.ldst.shape == LdStShape::s16x32bx2 && bit(0)) {
      changed.half_split_offset = number << 16 | number;
    }
    return changed;
  };
  return std::visit(change, instruction);
}

}  // namespace

TEST_CASE("every legal mnemonic reads back as the instruction it was printed from", "[rule:ptx-text]") {
  int count = 0;
  for (const Instruction& instruction : all_instructions()) {
    const std::string text = print(instruction);
    INFO(text);
    const Instruction parsed = parse_instruction(text);
    REQUIRE(print(parsed) == text);
    if (const auto* tcgen05 = std::get_if<Tcgen05Mma>(&instruction)) {
      const Tcgen05Mma& read = std::get<Tcgen05Mma>(parsed);
      REQUIRE(std::tuple(read.kind, read.cta_group, read.weight_stationary, read.sparse, read.scale_vec, read.ashift) ==
              std::tuple(tcgen05->kind, tcgen05->cta_group, tcgen05->weight_stationary, tcgen05->sparse,
                         tcgen05->scale_vec, tcgen05->ashift));
      REQUIRE(read.collector == tcgen05->collector);
    } else {
      REQUIRE(parsed == instruction);
    }
    ++count;
  }
  CHECK(count > 1800);
}

TEST_CASE("every statement reads back as itself, with every operand and immediate", "[rule:ptx-text]") {
  unsigned number = 0;
  for (const Instruction& legal : all_instructions()) {
    for (int round = 0; round < 4; ++round, number += 13) {
      const Instruction instruction = variant(legal, number);
      Statement statement = statement_of(instruction);
      const std::string text = print(statement);
      INFO(text);
      const Statement parsed = parse_statement(text);
      statement.instruction = written_part(instruction);
      REQUIRE(parsed == statement);
      REQUIRE(print(parsed) == text);
    }
  }
}

TEST_CASE("what a mnemonic does not say follows from what it says") {
  const auto tcgen05 = [](std::string_view text) { return std::get<Tcgen05Mma>(parse_instruction(text)); };
  CHECK(tcgen05("tcgen05.mma.cta_group::1.kind::f16") == Tcgen05Mma{});
  CHECK(tcgen05("tcgen05.mma.sp.cta_group::2.kind::i8") ==
        Tcgen05Mma{
            .kind = MmaKind::i8, .cta_group = 2, .m = 256, .d = Format::s32, .a = Format::s8, .sparse = true, .k = 64});
  CHECK(tcgen05("tcgen05.mma.cta_group::1.kind::mxf4.block_scale").k == 64);
  CHECK(tcgen05("tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale").scale_vec == ScaleVec::unwritten);
  CHECK(tcgen05("tcgen05.mma.ws.cta_group::1.kind::tf32.collector::b2::lastuse").collector ==
        Collector{.buffer = CollectorBuffer::b2, .operation = CollectorOperation::lastuse});
  CHECK(std::get<TmemMove>(parse_instruction("tcgen05.ld.sync.aligned.16x32bx2.x4.pack::16b.b32")).half_split_offset ==
        8);
  CHECK(std::get<Wgmma>(parse_instruction("wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1")).bit_operation ==
        BitOperation::none);
}

TEST_CASE("numbers that are merely illegal are read and printed as they stand") {
  for (const char* text : {"wgmma.mma_async.sync.aligned.m128n12k8.f32.f16.bf16.xor.popc.satfinite",
                           "wgmma.mma_async.sync.aligned.m0n2147483647k1.f32.e2m1.e2m1",
                           "mma.sync.aligned.m16n16k7.row.col.kind::mxf4.block_scale.block16.f16.e4m3.s8.f16.f32"}) {
    CHECK(print(parse_instruction(text)) == text);
  }
}

TEST_CASE("qualifiers are taken in any order behind the name, as ptxas takes them, and print in one") {
  const std::string saturated = "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8.satfinite";
  for (const auto& [text, canonical] : std::vector<std::pair<std::string, std::string>>{
           {"wgmma.mma_async.sync.aligned.m64n8k32.satfinite.s32.s8.u8", saturated},
           {"wgmma.mma_async.satfinite.s32.m64n8k32.aligned.s8.sync.u8", saturated},
           {"wgmma.mma_async.sync.aligned.and.popc.s32.b1.b1.m64n8k256",
            "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc"},
           {"tcgen05.shift.down.cta_group::2", "tcgen05.shift.cta_group::2.down"},
           {"tcgen05.ld.b32.x2.sync.pack::16b.16x64b.aligned", "tcgen05.ld.sync.aligned.16x64b.x2.pack::16b.b32"},
           {"tcgen05.cp.b8x16.b4x16_p64.64x128b.warpx2::02_13.cta_group::1",
            "tcgen05.cp.cta_group::1.64x128b.warpx2::02_13.b8x16.b4x16_p64"},
           {"tcgen05.mma.ws.collector::b1::use.kind::i8.cta_group::1.sp",
            "tcgen05.mma.ws.sp.cta_group::1.kind::i8.collector::b1::use"},
           {"tcgen05.mma.cta_group::1.scale_vec::2X.block_scale.kind::mxf4",
            "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X"},
           // as CUTLASS writes it
           {"mma.sync.aligned.kind::mxf8f6f4.sp::ordered_metadata.block_scale.scale_vec::1X.m16n8k64.row.col.f32.e4m3."
            "e5m2."
            "f32.ue8m0",
            "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3."
            "e5m2."
            "f32.ue8m0"},
       }) {
    INFO(text);
    CHECK(print(parse_instruction(text)) == canonical);
  }
  // But for the name, types, and layouts.
  for (const char* text :
       {"wgmma.sync.mma_async.aligned.m64n8k16.f32.f16.f16", "tcgen05.mma.cta_group::1.ws.kind::f16"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_instruction(text), Error);
  }
  // Layouts and types keep their order too: another one reads as another instruction, which no target has.
  for (const char* text : {"mma.sync.aligned.m16n8k64.col.row.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0",
                           "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.ue8m0.f32"}) {
    INFO(text);
    CHECK_FALSE(violations_of(parse_instruction(text), Target::sm_120a).empty());
  }
  CHECK_THAT(mnemonic_refusal(saturated + ".satfinite"), refused(malformed, "qualifier"));
  CHECK_THAT(mnemonic_refusal("tcgen05.shift.down.cta_group::2.down"), refused(malformed, "qualifier"));
}

TEST_CASE("a mnemonic that is not one is told by name what is wrong") {
  const std::string w = "wgmma.mma_async.sync.aligned.", t = "tcgen05.mma.cta_group::1.", m = "mma.sync.aligned.";
  for (const auto& [text, refusal] : std::vector<std::pair<std::string, test::Refusal>>{
           {"", {unknown_name, "instruction"}},
           {"dp4a.u32", {unknown_name, "instruction"}},
           {"WGMMA.MMA_ASYNC.SYNC.ALIGNED.M64N8K16.F32.F16.F16", {unknown_name, "instruction"}},
           {"HMMA.16816.F32", {unknown_name, "instruction"}},
           {"wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", {unknown_name, "instruction"}},
           {"wgmma", {malformed, "instruction"}},
           {"wgmma.mma_async.aligned.m64n8k16.f32.f16.f16", {malformed, "qualifier"}},
           {w + "f32.f16.f16", {malformed, "shape"}},
           {w + "m64n8.f32.f16.f16", {malformed, "shape"}},
           {w + "m64n8k16x.f32.f16.f16", {malformed, "shape"}},
           {w + "m64n08k16.f32.f16.f16", {malformed, "shape"}},
           {w + "m64n99999999999k16.f32.f16.f16", {malformed, "shape"}},
           {w + "m64n8k16.f32.f16", {malformed, "btype"}},
           {w + "m64n8k16.f64.f16.f16", {malformed, "dtype"}},
           {w + "m64n8k16.f32.f16.f16.relu", {malformed, "qualifier"}},
           {w + "m64n8k16.f32.f16.f16.", {malformed, "qualifier"}},
           {w + "m64n8k256.s32.b1.b1.and", {malformed, "operation"}},
           {"tcgen05.wait", {malformed, "instruction"}},
           {"tcgen05.mma.kind::f16", {malformed, "qualifier"}},
           {"tcgen05.mma.sp.ws.cta_group::1.kind::f16", {malformed, "qualifier"}},
           {"tcgen05.mma.cta_group::3.kind::f16", {malformed, "qualifier"}},
           {t + "kind::bf16", {malformed, "kind"}},
           {t + "kind::mxf4", {malformed, ".block_scale"}},
           {t + "kind::f16.block_scale", {malformed, ".block_scale"}},
           {t + "kind::mxf4.block_scale.scale_vec::3X", {malformed, "qualifier"}},
           {t + "kind::f16.collector::b0::fill", {malformed, "collector"}},
           {"tcgen05.mma.ws.cta_group::1.kind::f16.collector::a::fill", {malformed, "collector"}},
           {"mma.sync", {malformed, "qualifier"}},
           {m + "m16n8k16.f32.f16.f16.f32", {malformed, "alayout"}},
           {m + "m16n8k16.row.f32.f16.f16.f32", {malformed, "blayout"}},
           {m + "m16n8k16.row.col.kind::f16.f32.f16.f16.f32", {malformed, "kind"}},
           {m + "m16n8k16.row.col.block_scale.f32.f16.f16.f32", {malformed, "block_scale"}},
           {m + "m16n8k128.row.col.s32.b1.b1.s32.and", {malformed, "operation"}},
           {m + "m16n8k16.row.col.f64.f64.f64.f64.rna", {malformed, "qualifier"}},
           {"tcgen05.ld.16x64b.x1.b32", {malformed, "qualifier"}},
           {"tcgen05.ld.sync.aligned.16x32b.x1.b32", {malformed, "shape"}},
           {"tcgen05.ld.sync.aligned.16x64b.b32", {malformed, ".num"}},
           {"tcgen05.ld.sync.aligned.16x64b.x3.b32", {illegal_value, ".num"}},
           {"tcgen05.ld.sync.aligned.16x256b.x64.b32", {illegal_value, ".num"}},
           {"tcgen05.ld.sync.aligned.16x64b.x2147483647.b32", {illegal_value, ".num"}},
           {"tcgen05.st.sync.aligned.16x64b.x1.pack::16b.b32", {malformed, "qualifier"}},
           {"tcgen05.cp.128x128b", {malformed, "qualifier"}},
           {"tcgen05.cp.cta_group::1.32x128b", {malformed, "shape"}},
           {"tcgen05.cp.cta_group::1.128x128b.warpx4", {malformed, "shape"}},
           {"tcgen05.cp.cta_group::1.128x128b.b6x16_p32", {malformed, "qualifier"}},
           {"tcgen05.shift.cta_group::1.up", {malformed, "qualifier"}},
       }) {
    INFO(text);
    CHECK_THAT(mnemonic_refusal(text), refused(refusal));
  }
  // All violations at once.
  CHECK_THAT(mnemonic_refusal(w + "f32.f99.f16.relu"),
             refused(malformed, "shape") && refused(malformed, "dtype") && refused(malformed, "btype"));
}

TEST_CASE("a statement of wgmma has every operand and immediate by name") {
  const Statement statement = parse_statement(
      "@!%p7 wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, p, 1, -1, 0, 1;");
  CHECK(statement.guard == "@!%p7");
  CHECK(statement.instruction == Instruction(Wgmma{.negate_b = true, .transpose_b = true}));
  using enum OperandKind;
  CHECK(statement.operands ==
        std::vector<StatementOperand>{
            {.name = "d", .kind = registers, .text = "{%f1, %f2, %f3, %f4}", .registers = {"%f1", "%f2", "%f3", "%f4"}},
            {.name = "a-desc", .kind = descriptor, .text = "%rd1"},
            {.name = "b-desc", .kind = descriptor, .text = "%rd2"},
            {.name = "scale-d", .kind = predicate, .text = "p"},
            {.name = "imm-scale-a", .kind = immediate, .text = "1", .value = 1},
            {.name = "imm-scale-b", .kind = immediate, .text = "-1", .value = -1},
            {.name = "imm-trans-a", .kind = immediate, .text = "0", .value = 0},
            {.name = "imm-trans-b", .kind = immediate, .text = "1", .value = 1}});
  CHECK(print(statement) ==
        "@!%p7 wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, p, 1, -1, 0, 1;");
}

TEST_CASE("how an operand is written says where it is") {
  const auto wgmma = [](std::string_view rest) {
    return std::get<Wgmma>(parse_statement(wgmma_f16 + std::string(rest)).instruction);
  };
  CHECK(wgmma("{%0,%1,%2,%3},%4,%5,p,1,1,0,0").a_source == OperandSource::smem);
  CHECK(wgmma("{%0,%1,%2,%3},{%4,%5,%6,%7},%8,p,1,1,1") ==
        Wgmma{.a_source = OperandSource::registers, .transpose_b = true});
  CHECK(wgmma(" {a, b, c, d},\n\tx, y, 0, 0x1, 01, 0b1, 1U ; ") ==
        Wgmma{.enable_input_d = false, .transpose_a = true, .transpose_b = true});
  CHECK(wgmma(" {a, b, c, d}, x, y, 1, 1, 1, 0, 0").enable_input_d);
  CHECK(parse_statement(wgmma_f16 + " {a, b, c, d}, x, y, !p, 1, 1, 0, 0").operands[3].text == "!p");
  const auto tcgen05 = [](std::string_view text) { return std::get<Tcgen05Mma>(parse_statement(text).instruction); };
  CHECK(tcgen05("tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;") == Tcgen05Mma{});
  CHECK(tcgen05("tcgen05.mma.cta_group::1.kind::f16 [%0], [%1 + 8], %2, %3, {%5, %6, %7, %8}, 0, 15;") ==
        Tcgen05Mma{.a_source = OperandSource::tmem, .enable_input_d = false, .scale_input_d = 15});
  CHECK(tcgen05("tcgen05.mma.ws.sp.cta_group::1.kind::f16 [%0], %1, %2, [%3], %4, p, 0;").weight_stationary);
  const auto mma_sync = [](std::string_view text) {
    return std::get<MmaSync>(parse_statement(mx + std::string(text)).instruction);
  };
  const MmaSync ids = mma_sync("{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13}, {%14}, {3, 1}, %15, {2, 3};");
  CHECK(std::tuple(ids.byte_id_a, ids.thread_id_a, ids.byte_id_b, ids.thread_id_b) == std::tuple(3, 1, 2, 3));
  CHECK(std::get<TmemMove>(
            parse_statement("tcgen05.st.sync.aligned.16x32bx2.x2.b32 [%1], 0x100002, {%2, %3};").instruction)
            .half_split_offset == 0x100002);
  CHECK(parse_statement("tcgen05.shift.cta_group::1.down [0x40];").operands.front().text == "[0x40]");
}

TEST_CASE("a statement with wrong operands is told by name which") {
  const std::string w = wgmma_f16 + " {a, b, c, d}, x, y, ",
                    e4m3 = "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 ",
                    s8 = "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {a, b, c, d}, x, y, ",
                    sp = "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {a, b, c, d}, x, y, ",
                    t = "tcgen05.mma.cta_group::1.kind::f16 [d], a, b, i, ",
                    two = "tcgen05.mma.cta_group::2.kind::f16 [d], a, b, i, ",
                    f8 = "tcgen05.mma.cta_group::1.kind::f8f6f4 [d], a, b, ",
                    ws = "tcgen05.mma.ws.cta_group::1.kind::f16 [d], a, b, i, ",
                    m = mx + " {a,b,c,d}, {a,b,c,d}, {a,b}, {a,b,c,d}, s, ";
  for (const auto& [text, refusal] : std::vector<std::pair<std::string, test::Refusal>>{
           // registers
           {wgmma_f16 + " {a, b, c}, x, y, p, 1, 1, 0, 0", {malformed, "d"}},
           {wgmma_f16 + " {a}, x, y, p, 1, 1, 0, 0", {malformed, "d"}},
           {wgmma_f16 + " {a, b, c, d}, {a, b}, y, p, 1, 1, 0", {malformed, "a"}},
           {wgmma_f16 + " {a, , c, d}, x, y, p, 1, 1, 0, 0", {malformed, "d"}},
           {wgmma_f16 + " {a, 7, c, d}, x, y, p, 1, 1, 0, 0", {malformed, "d"}},
           {wgmma_f16 + " a, x, y, p, 1, 1, 0, 0", {malformed, "d"}},
           {two + "{a, b, c, d}, p", {malformed, "disable-output-lane"}},
           {mx + " {a,b,c,d}, {a,b,c,d}, {a,b,c,d}, {a,b,c,d}, s, {0, 0}, s, {0, 0}", {malformed, "b"}},
           {"tcgen05.ld.sync.aligned.32x32b.x1.b32 a, [t]", {malformed, "r"}},
           {"tcgen05.ld.sync.aligned.16x128b.x2.b32 {a, b}, [t]", {malformed, "r"}},
           // immediates outside their range
           {w + "p, 2, 1, 0, 0", {malformed, "imm-scale-a"}},
           {w + "p, 1, 0, 0, 0", {malformed, "imm-scale-b"}},
           {w + "p, 1, 1, -1, 0", {malformed, "imm-trans-a"}},
           {w + "p, 1, 1, 0, 99999999999999999999", {malformed, "imm-trans-b"}},
           {w + "p, 1, %r1, 0, 0", {malformed, "imm-scale-b"}},
           {w + "2, 1, 1, 0, 0", {malformed, "scale-d"}},
           {sp + "e, 4, p, 1, 1, 0, 0", {malformed, "sp-sel"}},
           {t + "p, 16", {malformed, "scale-input-d"}},
           {m + "{4, 0}, s, {0, 0}", {malformed, "byte-id-a"}},
           {m + "{0, 2}, s, {0, 0}", {malformed, "thread-id-a"}},
           {m + "{0, 0}, s, {0, 4}", {malformed, "thread-id-b"}},
           {m + "{0, 0}, s, {0}", {malformed, "{byte-id-b, thread-id-b}"}},
           {m + "{%r1, 0}, s, {0, 0}", {malformed, "byte-id-a"}},
           {"tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {a}, [t], -1", {malformed, "immHalfSplitoff"}},
           // immediates and operands that the instruction does not have
           {s8 + "p, 1", {malformed, "imm-scale-a"}},
           {e4m3 + "{a, b, c, d}, x, y, p, 1, 1, 0, 0", {malformed, "imm-trans-a"}},
           {wgmma_f16 + " {a, b, c, d}, {a, b, c, d}, y, p, 1, 1, 0, 0", {malformed, "imm-trans-a"}},
           {w + "e, 0, p, 1, 1, 0, 0", {malformed, "sp-meta"}},
           {w + "p, 1, 1, 0, 0, 5, 6, 7", {malformed, "operand"}},
           {f8 + "[m], i, p", {malformed, "sp-meta-tmem"}},
           {f8 + "i, p, 1", {malformed, "scale-input-d"}},
           {ws + "{a, b, c, d}, p", {malformed, "disable-output-lane"}},
           {ws + "p, mask, 3", {malformed, "scale-input-d"}},
           {t + "[a], [b], p", {malformed, "scale-A-tmem"}},
           {t + "p, mask", {malformed, "zero-column-mask-desc"}},
           {"tcgen05.st.sync.aligned.32x32b.x2.b32 [t], 2, {a, b}", {malformed, "immHalfSplitoff"}},
           // operands that are missing
           {wgmma_f16, {malformed, "d"}},
           {w + "p, 1, 1, 0", {malformed, "imm-trans-b"}},
           {"tcgen05.mma.sp.cta_group::1.kind::f16 [d], a, b, i, p", {malformed, "sp-meta-tmem"}},
           {"tcgen05.mma.cta_group::1.kind::mxf4.block_scale [d], a, b, i, p", {malformed, "scale-B-tmem"}},
           {"tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {a}, [t]", {malformed, "immHalfSplitoff"}},
           {"tcgen05.cp.cta_group::1.4x256b [t]", {malformed, "s-desc"}},
           {"tcgen05.shift.cta_group::1.down", {malformed, "taddr"}},
           // operands of another form
           {wgmma_f16 + " {a, b, c, d}, [x], y, p, 1, 1, 0, 0", {malformed, "a-desc"}},
           {"tcgen05.shift.cta_group::1.down t", {malformed, "taddr"}},
           {"tcgen05.shift.cta_group::1.down [t][u]", {malformed, "taddr"}},
           // and what stands around them
           {wgmma_f16 + " {a, b", {malformed, "operands"}},
           {w + "p, 1, 1, 0, 0; ret;", {malformed, "text after the semicolon"}},
           {"@ " + w + "p, 1, 1, 0, 0;", {malformed, "guard"}},
           {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16 {a, b}, x", {malformed, "btype"}},
       }) {
    INFO(text);
    CHECK_THAT(statement_refusal(text), refused(refusal));
  }
  CHECK(statement_refusal(s8 + "p, 1").size() == 1);
  CHECK_THAT(statement_refusal(w + "p, 2, 0, 2, 2"),
             refused(malformed, "imm-scale-a") && refused(malformed, "imm-scale-b") &&
                 refused(malformed, "imm-trans-a") && refused(malformed, "imm-trans-b"));
}

TEST_CASE("registers of a statement are named after what they hold") {
  const auto text = [](const Instruction& instruction) { return print(statement_of(instruction)); };
  const std::string sparse = "wgmma.mma_async.sp.sync.aligned.m64n8k32.f16.f16.f16";
  Wgmma half{.d = Format::f16, .sparse = true, .negate_b = true, .transpose_b = true, .sparsity_selector = 1};
  CHECK(text(half) == sparse + " {d0, d1}, a_desc, b_desc, metadata0, 1, scale_d, 1, -1, 0, 1;");
  half.a_source = OperandSource::registers;
  CHECK(text(half) == sparse + " {d0, d1}, {a0, a1, a2, a3}, b_desc, metadata0, 1, scale_d, 1, -1, 1;");
  CHECK(text(Wgmma{.d = Format::s32, .a = Format::b1, .b = Format::b1}) ==
        "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc {d0, d1, d2, d3}, a_desc, b_desc, scale_d;");
  CHECK(text(MmaSync{.kind = MmaKind::mxf8f6f4,
                     .a = Format::e4m3,
                     .b = Format::e5m2,
                     .byte_id_a = 3,
                     .thread_id_a = 1,
                     .thread_id_b = 2}) ==
        mx + " {d0, d1, d2, d3}, {a0, a1, a2, a3}, {b0, b1}, {c0, c1, c2, c3}, scale_a0, {3, 1}, scale_b0, {0, 2};");
  CHECK(text(Tcgen05Mma{.scale_input_d = 3}) ==
        "tcgen05.mma.cta_group::1.kind::f16 [d_tmem], a_desc, b_desc, idesc, {mask0, mask1, mask2, mask3}, "
        "enable_input_d, 3;");
  CHECK(text(Tcgen05Mma{
            .kind = MmaKind::i8, .weight_stationary = true, .sparse = true, .a_source = OperandSource::tmem}) ==
        "tcgen05.mma.ws.sp.cta_group::1.kind::i8 [d_tmem], [a_tmem], b_desc, [metadata_tmem], idesc, enable_input_d, "
        "zero_column_mask;");
  CHECK(text(Tcgen05Mma{.kind = MmaKind::mxf4, .cta_group = 2}) ==
        "tcgen05.mma.cta_group::2.kind::mxf4.block_scale [d_tmem], a_desc, b_desc, idesc, [scale_a_tmem], "
        "[scale_b_tmem], "
        "enable_input_d;");
  CHECK(text(TmemMove{.ldst = {.shape = LdStShape::s16x32bx2, .num = 2}}) ==
        "tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {v0, v1}, [taddr], 2;");
  CHECK(text(TmemMove{.kind = MoveKind::st, .ldst = {.pack_16b = true}}) ==
        "tcgen05.st.sync.aligned.32x32b.x1.unpack::16b.b32 [taddr], {v0};");
  CHECK(text(TmemMove{.kind = MoveKind::cp, .cp_shape = 5, .source_format = CpSourceFormat::b6x16_p32}) ==
        "tcgen05.cp.cta_group::1.32x128b.warpx4.b8x16.b6x16_p32 [taddr], a_desc;");
  CHECK(text(TmemMove{.kind = MoveKind::shift, .cta_group = 2}) == "tcgen05.shift.cta_group::2.down [taddr];");
}

TEST_CASE("statements of illegal instructions can be written, for ptxas to judge") {
  const auto text = [](const Instruction& instruction) { return print(statement_of(instruction)); };
  CHECK(text(Wgmma{.n = 4, .a = Format::tf32, .b = Format::tf32, .transpose_b = true}) ==
        "wgmma.mma_async.sync.aligned.m64n4k8.f32.tf32.tf32 {d0, d1}, a_desc, b_desc, scale_d, 1, 1, 0, 1;");
  CHECK(statement_of(Wgmma{.n = 272}).operands.front().registers.size() == 136);
  CHECK(text(Tcgen05Mma{.kind = MmaKind::f8f6f4, .cta_group = 3, .scale_input_d = 16})
            .starts_with("tcgen05.mma.cta_group::3.kind::f8f6f4 [d_tmem], a_desc, b_desc, idesc, {mask0"));
  CHECK(text(Tcgen05Mma{.kind = MmaKind::f8f6f4, .scale_input_d = 16}).ends_with("enable_input_d, 16;"));
  CHECK(print(Tcgen05Mma{.collector = Collector{.buffer = CollectorBuffer::b1}}) ==
        "tcgen05.mma.cta_group::1.kind::f16.collector::b1::fill");
  // As many registers as anybody asks about, not as many as a number can say.
  CHECK(statement_of(Wgmma{.n = 2147483647}).operands.front().registers.size() < 10000);
}

TEST_CASE("hostile text is refused, and what messages show of it is short and printable") {
  const auto repeat = [](std::string_view piece, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += piece;
    return text;
  };
  const std::string h = wgmma_f16 + " ";
  for (const std::string& text :
       {repeat("a", 100000), repeat(".", 100000), "wgmma" + repeat(".", 100000), std::string(1000, '\0'),
        wgmma_f16 + std::string(3, '\0'), h + repeat("{", 100000), h + repeat("}", 100000),
        h + repeat("{", 50000) + repeat("}", 50000), h + "{" + repeat("]", 10), h + repeat("a, ", 100000),
        h + "{" + repeat("a, ", 100000) + "a}, x, y, p, 1, 1, 0, 0",
        h + "{a, b, c, d}, x, y, p, " + repeat("9", 100000) + ", 1, 0, 0", h + "{a, b, c, d}, x, y, p, 0x, 0b, -, +",
        h + "{a, b, c, d}, \x1b[31m, \x7f, \xff, 1, 1, 0, 0", std::string("@"), std::string(";;;"),
        "@" + repeat("!", 1000), h + repeat("[", 1000) + repeat("]", 1000)}) {
    INFO(text.substr(0, 100));
    try {
      parse_statement(text);
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.violations().size() < 20);
      for (const Violation& violation : error.violations()) {
        CHECK(violation.seen.size() < 120);
        CHECK(violation.seen.find_first_of(std::string("\0\x1b\x7f\n", 4)) == std::string::npos);
      }
    }
  }
}
