// SPDX-License-Identifier: MIT
// mma.sync and mma.sp as text. Sources: PTX ISA 9.7.14.3, 9.7.14.5.14 and 9.7.14.6.3; ptxas for the mandatory words.
#include <algorithm>

#include "../text/syntax.hpp"

namespace bitmma::syntax {
namespace {

using enum PartKind;
using enum OperandKind;

constexpr std::string_view types =
    "D, A, B and C: f16, bf16, tf32, f32, f64, e4m3, e5m2, e2m3, e3m2, e2m1, s8, u8, s4, u4, b1, s32";

MmaSync& mutable_of(Instruction& instruction) { return std::get<MmaSync>(instruction); }
const MmaSync& of(const Instruction& instruction) { return std::get<MmaSync>(instruction); }

// Members whose text is not their number: an absent word has a value too.
enum Sparsity : int64_t { dense, any_order, ordered };
constexpr Member sparsity{.get = [](const Instruction& i) -> int64_t {
                            return !of(i).sparse ? dense : of(i).ordered_metadata ? ordered : any_order;
                          },
                          .set =
                              [](Instruction& i, int64_t value) {
                                mutable_of(i).sparse = value != dense,
                                mutable_of(i).ordered_metadata = value == ordered;
                              }};
constexpr std::array sparsities{spelled("sp::ordered_metadata", ordered), spelled("sp", any_order), spelled("", dense)};

constexpr int64_t no_kind = -1;
constexpr Member kind_member{
    .get = [](const Instruction& i) -> int64_t { return of(i).kind ? static_cast<int64_t>(*of(i).kind) : no_kind; },
    .set =
        [](Instruction& i, int64_t value) {
          mutable_of(i).kind = value == no_kind ? std::nullopt : std::optional(static_cast<MmaKind>(value));
        }};
constexpr auto kinds = [] {
  constexpr auto named = spellings_of<mma_kinds>();
  std::array<Spelling, named.size() + 1> all{};
  std::ranges::copy(named, all.begin());
  all.back() = spelled("", no_kind);
  return all;
}();

constexpr int64_t no_rounding = -1;
constexpr Member rounding_member{
    .get = [](const Instruction& i) -> int64_t {
      return of(i).rounding ? static_cast<int64_t>(*of(i).rounding) : no_rounding;
    },
    .set =
        [](Instruction& i, int64_t value) {
          mutable_of(i).rounding = value == no_rounding ? std::nullopt : std::optional(static_cast<Rounding>(value));
        }};
constexpr std::array roundings{spelled("rn", Rounding::nearest_even), spelled("rz", Rounding::toward_zero),
                               spelled("rm", Rounding::toward_negative), spelled("rp", Rounding::toward_positive),
                               spelled("", no_rounding)};

constexpr std::array a_layouts{spelled("row", false), spelled("col", true)};
constexpr std::array b_layouts{spelled("col", false), spelled("row", true)};
constexpr auto bit_operations = spellings_up_to<BitOperation::xor_popc>();
constexpr auto sizes = spellings_up_to<ScaleVec::block32>();

bool has_scales(const MmaSync& i) { return i.has_scales(); }
bool is_warp_kind(const MmaSync& i) { return !i.kind || *i.kind == MmaKind::f8f6f4 || i.has_scales(); }

// One row per part or operand.
// clang-format off
constexpr auto parts = std::to_array<Part>({
    {.kind = choice, .value = sparsity, .spellings = sparsities},
    {.kind = literal, .word = "sync"},
    {.kind = literal, .word = "aligned"},
    {.kind = shape, .shape = {member<&MmaSync::m>, member<&MmaSync::n>, member<&MmaSync::k>}, .miss = Miss::skip,
     .field = "shape", .legal = "m16n8kK or m8n8kK"},
    {.kind = choice, .value = member<&MmaSync::a_col>, .spellings = a_layouts, .field = "alayout",
     .legal = ".row, the layout of A; it is mandatory (.col only for m8n8k4 of f16)"},
    {.kind = choice, .value = member<&MmaSync::b_row>, .spellings = b_layouts, .behind_previous = true,
     .field = "blayout", .legal = ".col, the layout of B; it is mandatory (.row only for m8n8k4 of f16)"},
    {.kind = choice, .word = "kind::", .value = kind_member, .spellings = kinds,
     .allows = on<is_warp_kind>, .miss = Miss::skip, .field = "kind",
     .legal = ".kind::f8f6f4, mxf8f6f4, mxf4, mxf4nvf4 or nothing"},
    {.kind = implied, .word = "block_scale", .when = on<has_scales>, .field = "block_scale",
     .legal = ".block_scale only with kind::mxf8f6f4, mxf4 and mxf4nvf4"},
    {.kind = choice, .value = member<&MmaSync::scale_vec>, .spellings = sizes, .when = on<has_scales>},
    {.kind = flag, .word = "satfinite", .value = member<&MmaSync::saturate>},
    {.kind = format, .value = member<&MmaSync::d>, .miss = Miss::skip, .field = "dtype", .legal = types},
    {.kind = format, .value = member<&MmaSync::a>, .behind_previous = true, .miss = Miss::skip, .field = "atype",
     .legal = types},
    {.kind = format, .value = member<&MmaSync::b>, .behind_previous = true, .miss = Miss::skip, .field = "btype",
     .legal = types},
    {.kind = format, .value = member<&MmaSync::c>, .behind_previous = true, .miss = Miss::skip, .field = "ctype",
     .legal = types},
    {.kind = format, .value = member<&MmaSync::scale_type>, .when = on<has_scales>, .behind_previous = true,
     .miss = Miss::skip, .field = "stype", .legal = "ue8m0 or ue4m3"},
    {.kind = choice, .value = member<&MmaSync::bit_operation>, .spellings = bit_operations, .joins = "popc",
     .field = "operation", .legal = ".and.popc or .xor.popc, for b1 only"},
    {.kind = choice, .value = rounding_member, .spellings = roundings, .field = "rounding",
     .legal = ".rn, .rz, .rm or .rp, for f64 only"},
});

/// The number of registers for `elements` elements in containers of this many bits; 64-bit elements have one each.
int64_t registers_for(int64_t elements, int container_bits) {
  return std::max<int64_t>(1, elements * std::min(container_bits, 32) / 1024);
}
int64_t d_registers(const MmaSync& i) { return registers_for(i.is_quad_pairs() ? 256 : int64_t{i.m} * 8, info(i.d).bits); }
int64_t c_registers(const MmaSync& i) { return registers_for(i.is_quad_pairs() ? 256 : int64_t{i.m} * 8, info(i.c).bits); }
int64_t a_registers(const MmaSync& i) {
  return i.is_quad_pairs() ? 2 : registers_for(int64_t{i.m} * i.k / (i.sparse ? 2 : 1), i.container_bits(i.a));
}
int64_t b_registers(const MmaSync& i) { return i.is_quad_pairs() ? 2 : registers_for(int64_t{8} * i.k, i.container_bits(i.b)); }

constexpr auto operands = std::to_array<OperandRow>({
    {.name = "d", .kind = registers, .as = "d", .count = on<d_registers>},
    {.name = "a", .kind = registers, .as = "a", .count = on<a_registers>},
    {.name = "b", .kind = registers, .as = "b", .count = on<b_registers>},
    {.name = "c", .kind = registers, .as = "c", .count = on<c_registers>},
    {.name = "e", .kind = registers, .as = "metadata", .when = on<&MmaSync::sparse>, .bare = true,
     .absent = "without .sp"},
    {.name = "f", .kind = immediate, .when = on<&MmaSync::sparse>,
     .immediates = {{{.value = member<&MmaSync::sparsity_selector>, .last = 3}}},
     .absent = "without .sp", .fix = "it is the sparsity selector"},
    {.name = "scale-a-data", .kind = registers, .as = "scale_a", .when = on<has_scales>, .bare = true,
     .absent = "without .block_scale"},
    {.name = "{byte-id-a, thread-id-a}", .kind = immediate, .when = on<has_scales>,
     .immediates = {{{.name = "byte-id-a", .value = member<&MmaSync::byte_id_a>, .last = 3},
                     {.name = "thread-id-a", .value = member<&MmaSync::thread_id_a>, .last = 1}}},
     .absent = "without .block_scale"},
    {.name = "scale-b-data", .kind = registers, .as = "scale_b", .when = on<has_scales>, .bare = true,
     .absent = "without .block_scale"},
    {.name = "{byte-id-b, thread-id-b}", .kind = immediate, .when = on<has_scales>,
     .immediates = {{{.name = "byte-id-b", .value = member<&MmaSync::byte_id_b>, .last = 3},
                     {.name = "thread-id-b", .value = member<&MmaSync::thread_id_b>, .last = 3}}},
     .absent = "without .block_scale"},
});
// clang-format on

}  // namespace

constinit const Grammar mma_sync_grammar{
    .head = "mma",
    .start = []() -> Instruction { return MmaSync{}; },
    .parts = parts,
    .operands = operands,
    .form = [](const Instruction& instruction) -> std::string {
      if (!of(instruction).has_scales())
        return "mma{.sp|.sp::ordered_metadata}.sync.aligned.mMn8kK.row.col{.kind::f8f6f4}{.satfinite}.DTYPE.ATYPE."
               "BTYPE.CTYPE{.and.popc|.xor.popc}{.rn|.rz|.rm|.rp}";
      return "mma.sync.aligned.m16n8kK.row.col.kind::KIND.block_scale{.scale_vec::NX}.f32.ATYPE.BTYPE.f32.STYPE, or "
             "mma.sp::ordered_metadata.sync.aligned...";
    },
    .source = [](const Instruction&) -> std::string { return "PTX ISA 9.7.14.5.14"; },
    .end = [](const Instruction&) -> std::string { return "the end of the text"; },
};

}  // namespace bitmma::syntax
