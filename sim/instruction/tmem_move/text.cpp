// SPDX-License-Identifier: MIT
// tcgen05.ld, .ld.red, .st, .cp and .shift as text. Sources: PTX ISA 9.7.16.8 and 9.7.16.9; ptxas 13.0 for the
// mandatory words.
#include <limits>

#include "../text/syntax.hpp"

namespace bitmma::syntax {
namespace {

using enum PartKind;
using enum OperandKind;

constexpr std::array kinds{spelled("ld", MoveKind::ld), spelled("ld.red", MoveKind::ld_red),
                           spelled("st", MoveKind::st), spelled("cp", MoveKind::cp), spelled("shift", MoveKind::shift)};
constexpr auto shapes = spellings_of<ldst_shapes>();

/// The index of the row in cp_shapes.
consteval auto copy_shapes() {
  std::array<Spelling, cp_shapes.size()> all{};
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = {.word = cp_shapes[i].name, .rest = cp_shapes[i].multicast, .value = static_cast<int64_t>(i)};
  return all;
}
constexpr auto cp_shape_spellings = copy_shapes();

constexpr std::array source_formats{spelled("", CpSourceFormat::none),
                                    spelled("b8x16.b4x16_p64", CpSourceFormat::b4x16_p64),
                                    spelled("b8x16.b6x16_p32", CpSourceFormat::b6x16_p32)};

template <MoveKind kind>
bool is(const TmemMove& i) {
  return i.kind == kind;
}
constexpr std::array reduce_operations{spelled("min", ReduceOperation::min), spelled("max", ReduceOperation::max)};
constexpr std::array reduce_types{spelled("f32", Format::f32), spelled("u32", Format::u32),
                                  spelled("s32", Format::s32)};

bool loads(const TmemMove& i) { return i.loads(); }
bool moves_words(const TmemMove& i) { return i.has_registers() && i.kind != MoveKind::ld_red; }
bool has_registers(const TmemMove& i) { return i.has_registers(); }
bool may_have_cta_group(const TmemMove& i) { return !i.has_registers(); }
bool has_cta_group(const TmemMove& i) { return i.cta_group == 1 || i.cta_group == 2; }
bool has_split(const TmemMove& i) { return i.has_registers() && i.ldst.shape == LdStShape::s16x32bx2; }
int64_t count(const TmemMove& i) { return i.ldst.registers(); }

/// The text after .num, and between the CTA group and the end.
std::string end_text(const TmemMove& i) {
  switch (i.kind) {
    case MoveKind::ld: return "{.pack::16b}.b32 at the end";
    case MoveKind::st: return "{.unpack::16b}.b32 at the end";
    case MoveKind::ld_red: return "{.abs}{.NaN}.f32, .u32 or .s32 at the end";
    case MoveKind::cp: return "nothing, .b8x16.b4x16_p64 or .b8x16.b6x16_p32";
    default: return ".cta_group::1.down or .cta_group::2.down";
  }
}
std::string cta_group_text(const TmemMove& i) {
  return i.kind == MoveKind::shift ? end_text(i) : ".cta_group::1 or .cta_group::2 here; it is mandatory";
}
constexpr std::string_view sync_aligned = ".sync.aligned after the name",
                           elsewhere = "there: .ld has the registers before the address, .st after it",
                           num_fix = ".num registers, twice as many for 16x128b and four times for 16x256b";

// One row per part or operand.
// clang-format off
constexpr auto parts = std::to_array<Part>({
    {.kind = choice, .value = member<&TmemMove::kind>, .spellings = kinds, .joins = "red", .in_name = true,
     .field = "instruction", .legal = ".ld, .ld.red, .st, .cp or .shift after tcgen05"},
    {.kind = literal, .word = "sync", .when = on<has_registers>, .miss = Miss::stop, .legal = sync_aligned},
    {.kind = literal, .word = "aligned", .when = on<has_registers>, .miss = Miss::stop, .legal = sync_aligned},
    {.kind = choice, .value = member<&TmemMove::ldst, &LdSt::shape>, .spellings = shapes, .when = on<has_registers>,
     .miss = Miss::skip, .field = "shape", .legal = "32x32b, 16x64b, 16x128b, 16x256b or 16x32bx2"},
    {.kind = number, .word = "x", .value = member<&TmemMove::ldst, &LdSt::num>, .when = on<has_registers>,
     .miss = Miss::stop, .field = ".num", .legal = ".x1 .. .x128"},
    {.kind = flag, .word = "pack::16b", .value = member<&TmemMove::ldst, &LdSt::pack_16b>,
     .when = on<is<MoveKind::ld>>},
    {.kind = flag, .word = "unpack::16b", .value = member<&TmemMove::ldst, &LdSt::pack_16b>,
     .when = on<is<MoveKind::st>>},
    {.kind = choice, .value = member<&TmemMove::reduction, &LoadReduction::operation>, .spellings = reduce_operations,
     .when = on<is<MoveKind::ld_red>>, .miss = Miss::stop, .field = "operation", .legal = ".min or .max after .num"},
    {.kind = flag, .word = "abs", .value = member<&TmemMove::reduction, &LoadReduction::absolute>,
     .when = on<is<MoveKind::ld_red>>},
    {.kind = flag, .word = "NaN", .value = member<&TmemMove::reduction, &LoadReduction::propagate_nan>,
     .when = on<is<MoveKind::ld_red>>},
    {.kind = choice, .value = member<&TmemMove::reduction, &LoadReduction::type>, .spellings = reduce_types,
     .when = on<is<MoveKind::ld_red>>, .miss = Miss::stop, .field = "type", .legal_of = on<end_text>},
    {.kind = literal, .word = "b32", .when = on<moves_words>, .miss = Miss::stop, .legal_of = on<end_text>},
    {.kind = number, .word = "cta_group::", .value = member<&TmemMove::cta_group>, .when = on<may_have_cta_group>,
     .allows = on<has_cta_group>, .miss = Miss::stop,
     .legal_of = on<cta_group_text>},
    {.kind = literal, .word = "down", .when = on<is<MoveKind::shift>>, .miss = Miss::stop, .legal_of = on<end_text>},
    // If a shape has no multicast, none may follow.
    {.kind = choice, .value = member<&TmemMove::cp_shape>, .spellings = cp_shape_spellings, .joins = "warpx",
     .when = on<is<MoveKind::cp>>, .miss = Miss::stop, .field = "shape",
     .legal = "128x256b, 128x128b, 4x256b, 64x128b.warpx2::02_13, 64x128b.warpx2::01_23 or 32x128b.warpx4"},
    {.kind = choice, .value = member<&TmemMove::source_format>, .spellings = source_formats, .joins = "b",
     .when = on<is<MoveKind::cp>>, .legal_of = on<end_text>},
});

constexpr auto operands = std::to_array<OperandRow>({
    {.name = "r", .kind = registers, .as = "v", .when = on<loads>, .count = on<count>, .absent = elsewhere,
     .fix = num_fix},
    {.name = "redval", .kind = registers, .as = "redval", .when = on<is<MoveKind::ld_red>>, .bare = true,
     .absent = "except with .ld.red"},
    {.name = "taddr", .kind = address, .as = "taddr"},
    {.name = "immHalfSplitoff", .kind = immediate,
     .when = on<has_split>,
     .immediates = {{{.value = member<&TmemMove::half_split_offset>, .last = std::numeric_limits<uint32_t>::max()}}},
     .absent = "except with 16x32bx2"},
    {.name = "r", .kind = registers, .as = "v", .when = on<is<MoveKind::st>>, .count = on<count>, .absent = elsewhere,
     .fix = num_fix},
    {.name = "s-desc", .kind = descriptor, .as = "a_desc", .when = on<is<MoveKind::cp>>, .absent = "except with .cp"},
});
// clang-format on

}  // namespace

constinit const Grammar tmem_move_grammar{
    .head = "tcgen05",
    .start = []() -> Instruction { return TmemMove{}; },
    .parts = parts,
    .operands = operands,
    .form = on<[](const TmemMove& i) -> std::string {
      switch (i.kind) {
        case MoveKind::ld: return "tcgen05.ld.sync.aligned.SHAPE.xNUM{.pack::16b}.b32";
        case MoveKind::ld_red: return "tcgen05.ld.red.sync.aligned.SHAPE.xNUM.{min|max}{.abs}{.NaN}.{f32|u32|s32}";
        case MoveKind::st: return "tcgen05.st.sync.aligned.SHAPE.xNUM{.unpack::16b}.b32";
        case MoveKind::cp: return "tcgen05.cp.cta_group::G.SHAPE{.MULTICAST}{.b8x16.b4x16_p64|.b8x16.b6x16_p32}";
        default: return "tcgen05.shift.cta_group::G.down";
      }
    }>,
    .source = on<[](const TmemMove& i) -> std::string {
      return i.kind == MoveKind::cp       ? "PTX ISA 9.7.16.9.1"
             : i.kind == MoveKind::shift  ? "PTX ISA 9.7.16.9.3"
             : i.kind == MoveKind::ld_red ? "PTX ISA 9.4, 9.7.18.8.3"
                                          : "PTX ISA 9.7.16.8";
    }>,
    .end = on<end_text>,
    // Rebuilt, so that the offset follows from the shape if no operand gives it.
    .finish = [](const Instruction& instruction, std::vector<Violation>& violations) -> Instruction {
      const TmemMove& read = std::get<TmemMove>(instruction);
      try {
        require_legal(read.ldst);
      } catch (const Error& error) {
        violations.insert(violations.end(), error.violations().begin(), error.violations().end());
      }
      return TmemMove{.kind = read.kind,
                      .cta_group = read.cta_group,
                      .ldst = read.ldst,
                      .cp_shape = read.cp_shape,
                      .source_format = read.source_format,
                      .reduction = read.reduction};
    },
};

}  // namespace bitmma::syntax
