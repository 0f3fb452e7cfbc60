// SPDX-License-Identifier: MIT
// wgmma.mma_async as text. Sources: PTX ISA 9.7.15.5.2 and 9.7.15.6.3; ptxas 13.0 for mandatory and optional words.
#include <algorithm>

#include "../text/syntax.hpp"

namespace bitmma::syntax {
namespace {

using enum PartKind;
using enum OperandKind;

/// wgmma has no f64. require_legal checks types that are illegal only in their position.
template <auto type>
constexpr auto not_f64 = on<[](const Wgmma& i) { return i.*type != Format::f64; }>;
constexpr std::string_view types = "f16, bf16, tf32, f32, e4m3, e5m2, s8, u8, b1 or s32";
constexpr auto bit_operations = spellings_up_to<BitOperation::xor_popc>();

// One row per part or operand.
// clang-format off
constexpr auto parts = std::to_array<Part>({
    {.kind = literal, .word = "mma_async", .in_name = true, .field = "instruction", .legal = ".mma_async after wgmma"},
    {.kind = flag, .word = "sp", .value = member<&Wgmma::sparse>},
    {.kind = literal, .word = "sync"},
    {.kind = literal, .word = "aligned"},
    {.kind = shape, .shape = {member<&Wgmma::m>, member<&Wgmma::n>, member<&Wgmma::k>}, .miss = Miss::skip,
     .field = "shape", .legal = "mMnNkK, such as m64n128k16"},
    {.kind = format, .value = member<&Wgmma::d>, .allows = not_f64<&Wgmma::d>, .miss = Miss::skip, .field = "dtype",
     .legal = types},
    {.kind = format, .value = member<&Wgmma::a>, .allows = not_f64<&Wgmma::a>, .behind_previous = true,
     .miss = Miss::skip, .field = "atype", .legal = types},
    {.kind = format, .value = member<&Wgmma::b>, .allows = not_f64<&Wgmma::b>, .behind_previous = true,
     .miss = Miss::skip, .field = "btype", .legal = types},
    {.kind = choice, .value = member<&Wgmma::bit_operation>, .spellings = bit_operations, .joins = "popc",
     .field = "operation", .legal = ".and.popc, .xor.popc or nothing"},
    {.kind = flag, .word = "satfinite", .value = member<&Wgmma::saturate>},
});

/// A register of D has two f16 or one f32 or s32; also if n is illegal.
int64_t d_registers(const Wgmma& i) { return std::max(1, i.n / (info(i.d).bits == 16 ? 4 : 2)); }
bool has_a_desc(const Wgmma& i) { return i.a_source != OperandSource::registers; }
bool can_negate(const Wgmma& i) { return info(i.a).kind == NumberKind::floating; }
/// Immediates that the types do not have are printed if they are set, so that ptxas can judge them.
bool can_transpose_b(const Wgmma& i) {
  return (info(i.a).bits == 16 && info(i.b).bits == 16) || i.transpose_a || i.transpose_b;
}
bool can_transpose_a(const Wgmma& i) { return can_transpose_b(i) && has_a_desc(i); }

constexpr auto operands = std::to_array<OperandRow>({
    {.name = "d", .kind = registers, .as = "d", .count = on<d_registers>,
     .fix = "N / 2 registers for f32 and s32, N / 4 for f16"},
    {.name = "a", .kind = registers, .as = "a", .written = member<&Wgmma::a_source>,
     .written_value = static_cast<int64_t>(OperandSource::registers),
     .count = [](const Instruction&) -> int64_t { return 4; }},
    {.name = "a-desc", .kind = descriptor, .as = "a_desc", .when = on<has_a_desc>},
    {.name = "b-desc", .kind = descriptor, .as = "b_desc"},
    {.name = "sp-meta", .kind = registers, .as = "metadata", .when = on<&Wgmma::sparse>, .bare = true,
     .absent = "without .sp"},
    {.name = "sp-sel", .kind = immediate, .when = on<&Wgmma::sparse>,
     .immediates = {{{.value = member<&Wgmma::sparsity_selector>, .last = 3}}},
     .absent = "without .sp"},
    {.name = "scale-d", .kind = predicate, .as = "scale_d",
     .immediates = {{{.value = member<&Wgmma::enable_input_d>}}}},
    {.name = "imm-scale-a", .kind = immediate, .when = on<can_negate>,
     .immediates = {{sign<&Wgmma::negate_a>}}, .absent = "for integers and b1"},
    {.name = "imm-scale-b", .kind = immediate, .when = on<can_negate>,
     .immediates = {{sign<&Wgmma::negate_b>}}, .absent = "for integers and b1"},
    {.name = "imm-trans-a", .kind = immediate, .when = on<can_transpose_a>,
     .immediates = {{{.value = member<&Wgmma::transpose_a>}}},
     .absent = "for all types but f16 and bf16, and when A is in registers"},
    {.name = "imm-trans-b", .kind = immediate, .when = on<can_transpose_b>,
     .immediates = {{{.value = member<&Wgmma::transpose_b>}}}, .absent = "for all types but f16 and bf16"},
});
// clang-format on

}  // namespace

constinit const Grammar wgmma_grammar{
    .head = "wgmma",
    .start = []() -> Instruction { return Wgmma{}; },
    .parts = parts,
    .operands = operands,
    .form = [](const Instruction&) -> std::string {
      return "wgmma.mma_async{.sp}.sync.aligned.m64nNkK{.satfinite}.DTYPE.ATYPE.BTYPE{.and.popc}{.satfinite}";
    },
    .source = [](const Instruction&) -> std::string { return "PTX ISA 9.7.15.5.2"; },
    .end = [](const Instruction&) -> std::string { return "the end of the text"; },
};

}  // namespace bitmma::syntax
