// mma.sync with block scales as text. Sources: PTX ISA 9.7.14.3 and 9.7.14.5.14; ptxas 13.0 for what must be written.
#include "../text/syntax.hpp"

namespace bitmma::syntax {
namespace {

using enum PartKind;
using enum OperandKind;

constexpr std::string_view types = "f32, then two of e4m3, e5m2, e2m3, e3m2, e2m1, then f32, then ue8m0 or ue4m3";
constexpr auto kinds = spellings_of<mma_kinds>();
constexpr auto sizes = spellings_up_to<ScaleVec::block32>();

bool has_scales(const MmaSync& i) { return info(i.kind).has_block_scales(); }
int64_t b_registers(const MmaSync& i) { return i.sparse ? 4 : 2; }

// One row a part or operand.
// clang-format off
constexpr auto parts = std::to_array<Part>({
    {.kind = flag, .word = "sp::ordered_metadata", .value = member<&MmaSync::sparse>},
    {.kind = literal, .word = "sync"},
    {.kind = literal, .word = "aligned"},
    {.kind = shape, .shape = {member<&MmaSync::m>, member<&MmaSync::n>, member<&MmaSync::k>}, .miss = Miss::skip,
     .field = "shape", .legal = "m16n8kK"},
    {.kind = literal, .word = "row", .legal = ".row here: A row-major, B column-major"},
    {.kind = literal, .word = "col", .behind_previous = true, .legal = ".col here: A row-major, B column-major"},
    {.kind = choice, .word = "kind::", .value = member<&MmaSync::kind>, .spellings = kinds,
     .allows = on<has_scales>, .miss = Miss::skip, .field = "kind",
     .legal = ".kind::mxf8f6f4, mxf4 or mxf4nvf4: only the block-scaled mma.sync is simulated"},
    {.kind = literal, .word = "block_scale"},
    {.kind = choice, .value = member<&MmaSync::scale_vec>, .spellings = sizes},
    {.kind = format, .value = member<&MmaSync::d>, .miss = Miss::skip, .field = "dtype", .legal = types},
    {.kind = format, .value = member<&MmaSync::a>, .behind_previous = true, .miss = Miss::skip, .field = "atype",
     .legal = types},
    {.kind = format, .value = member<&MmaSync::b>, .behind_previous = true, .miss = Miss::skip, .field = "btype",
     .legal = types},
    {.kind = format, .value = member<&MmaSync::d>, .behind_previous = true, .repeats = true, .miss = Miss::skip,
     .field = "ctype", .legal = "the type of D"},
    {.kind = format, .value = member<&MmaSync::scale_type>, .behind_previous = true, .miss = Miss::skip,
     .field = "stype", .legal = types},
});

constexpr Count four = [](const Instruction&) -> int64_t { return 4; };

constexpr auto operands = std::to_array<OperandRow>({
    {.name = "d", .kind = registers, .as = "d", .count = four},
    {.name = "a", .kind = registers, .as = "a", .count = four},
    {.name = "b", .kind = registers, .as = "b", .count = on<b_registers>, .fix = "2 registers, 4 with .sp"},
    {.name = "c", .kind = registers, .as = "c", .count = four},
    {.name = "e", .kind = registers, .as = "metadata", .when = on<&MmaSync::sparse>, .bare = true,
     .absent = "without .sp::ordered_metadata"},
    {.name = "f", .kind = immediate, .when = on<&MmaSync::sparse>,
     .immediates = {{{.value = member<&MmaSync::sparsity_selector>, .last = 3}}},
     .absent = "without .sp::ordered_metadata", .fix = "it is the sparsity selector"},
    {.name = "scale-a-data", .kind = registers, .as = "scale_a", .bare = true},
    {.name = "{byte-id-a, thread-id-a}", .kind = immediate,
     .immediates = {{{.name = "byte-id-a", .value = member<&MmaSync::byte_id_a>, .last = 3},
                     {.name = "thread-id-a", .value = member<&MmaSync::thread_id_a>, .last = 1}}}},
    {.name = "scale-b-data", .kind = registers, .as = "scale_b", .bare = true},
    {.name = "{byte-id-b, thread-id-b}", .kind = immediate,
     .immediates = {{{.name = "byte-id-b", .value = member<&MmaSync::byte_id_b>, .last = 3},
                     {.name = "thread-id-b", .value = member<&MmaSync::thread_id_b>, .last = 3}}}},
});
// clang-format on

}  // namespace

constinit const Grammar mma_sync_grammar{
    .head = "mma",
    .start = []() -> Instruction { return MmaSync{}; },
    .parts = parts,
    .operands = operands,
    .form = [](const Instruction&) -> std::string {
      return "mma.sync.aligned.m16n8kK.row.col.kind::KIND.block_scale{.scale_vec::NX}.f32.ATYPE.BTYPE.f32.STYPE, or "
             "mma.sp::ordered_metadata.sync.aligned...";
    },
    .source = [](const Instruction&) -> std::string { return "PTX ISA 9.7.14.5.14"; },
    .end = [](const Instruction&) -> std::string { return "nothing more here"; },
};

}  // namespace bitmma::syntax
