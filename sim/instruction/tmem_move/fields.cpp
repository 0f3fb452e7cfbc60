// SPDX-License-Identifier: MIT
// The named fields of tcgen05.ld, .st, .cp, .shift and .ld.red.
#include <fmt/format.h>

#include "../field.hpp"

namespace bitmma::family {
namespace {

constexpr std::array<std::string_view, 5> moves{"ld", "st", "cp", "shift", "ld.red"};
constexpr std::array<std::string_view, 3> source_formats{"", "b4x16_p64", "b6x16_p32"};
static_assert(static_cast<int>(MoveKind::ld_red) + 1 == moves.size());

/// "32x32b" for ld and st, "64x128b.warpx2::02_13" for cp.
constexpr NamedField<TmemMove> shape{
    .name = "shape",
    .meaning = "ld, ld.red and st: the block that a warp moves; cp: the block that is copied, with .multicast",
    .get = [](const TmemMove& move) -> FieldValue {
      if (move.kind == MoveKind::shift) return std::string();
      if (move.kind != MoveKind::cp) return std::string(ldst_shapes[static_cast<size_t>(move.ldst.shape)].name);
      return fmt::format("{}{}", move.shape().name, move.shape().multicast);
    },
    .set =
        [](TmemMove& move, const FieldValue& value) {
          const auto& text = std::get<std::string>(value);
          const auto of_ldst = std::ranges::find(ldst_shapes, text, &LdStInfo::name);
          const auto of_cp = std::ranges::find(
              cp_shapes, text, [](const CpShape& row) { return fmt::format("{}{}", row.name, row.multicast); });
          if (of_ldst != ldst_shapes.end()) move.ldst.shape = of_ldst->id;
          if (of_cp != cp_shapes.end()) move.cp_shape = static_cast<int>(of_cp - cp_shapes.begin());
        },
    .words =
        [] {
          std::vector<std::string> words{""};
          for (const LdStInfo& row : ldst_shapes) words.emplace_back(row.name);
          for (const CpShape& row : cp_shapes) words.push_back(fmt::format("{}{}", row.name, row.multicast));
          return words;
        }};

bool has_registers(const TmemMove& move) { return move.has_registers(); }
bool is_split(const TmemMove& move) { return move.has_registers() && move.ldst.shape == LdStShape::s16x32bx2; }
bool reduces(const TmemMove& move) { return move.kind == MoveKind::ld_red; }
bool copies(const TmemMove& move) { return move.kind == MoveKind::cp; }

constexpr auto fields_of_tmem_move = std::to_array<NamedField<TmemMove>>({
    word<&TmemMove::kind, moves>("kind", "the instruction: tcgen05.ld, .st, .cp, .shift or .ld.red"),
    number<&TmemMove::cta_group>("cta_group", "cp and shift: CTAs that work together, 1 or 2")
        .where([](const TmemMove& move) { return !move.has_registers(); }),
    shape,
    {.name = "num",
     .meaning = "ld and st: repetitions, .x1 to .x128",
     .get = [](const TmemMove& move) -> FieldValue { return int64_t{move.ldst.num}; },
     .set =
         [](TmemMove& move, const FieldValue& value) {
           move.ldst.num = static_cast<int>(std::clamp<int64_t>(std::get<int64_t>(value), 0, 1 << 20));
         },
     .applies = has_registers},
    {.name = "pack_16b",
     .meaning = "ld .pack::16b, st .unpack::16b: two 16-bit cells in each register",
     .get = [](const TmemMove& move) -> FieldValue { return move.ldst.pack_16b; },
     .set = [](TmemMove& move, const FieldValue& value) { move.ldst.pack_16b = std::get<bool>(value); },
     .applies = has_registers},
    number<&TmemMove::half_split_offset>(
        "half_split_offset",
        "16x32bx2: offset added to the address for threads 16..31; default: directly after the first half")
        .where(is_split)
        .as_immediate({.name = "half_split_offset", .last = 0xFFFFFFFF, .legal = "0..0xffffffff"}, is_split),
    word<&TmemMove::source_format, source_formats>("source_format", "cp: unpacks 4- or 6-bit codes into bytes")
        .where(copies),
    {.name = "reduction",
     .meaning = "ld.red: whether redval is the minimum or maximum of the loaded values",
     .get = [](const TmemMove& move) -> FieldValue {
       return std::string(move.reduction.operation == ReduceOperation::min ? "min" : "max");
     },
     .set =
         [](TmemMove& move, const FieldValue& value) {
           move.reduction.operation =
               std::get<std::string>(value) == "min" ? ReduceOperation::min : ReduceOperation::max;
         },
     .words =
         [] {
           return std::vector<std::string>{"min", "max"};
         },
     .applies = reduces},
    {.name = "absolute",
     .meaning = "ld.red of f32: .abs, compares absolute values",
     .get = [](const TmemMove& move) -> FieldValue { return move.reduction.absolute; },
     .set = [](TmemMove& move, const FieldValue& value) { move.reduction.absolute = std::get<bool>(value); },
     .applies = reduces},
    {.name = "propagate_nan",
     .meaning = "ld.red of f32: .NaN, returns NaN if a value is NaN",
     .get = [](const TmemMove& move) -> FieldValue { return move.reduction.propagate_nan; },
     .set = [](TmemMove& move, const FieldValue& value) { move.reduction.propagate_nan = std::get<bool>(value); },
     .applies = reduces},
    {.name = "type",
     .meaning = "ld.red: type of the values, f32, u32 or s32",
     .get = [](const TmemMove& move) -> FieldValue { return std::string(info(move.reduction.type).name); },
     .set = [](TmemMove& move,
               const FieldValue& value) { move.reduction.type = *format_named(std::get<std::string>(value)); },
     .words = [] { return row_names(formats); },
     .is_format = true,
     .applies = reduces},
});

}  // namespace

std::span<const NamedField<TmemMove>> instruction_fields(const TmemMove&) { return fields_of_tmem_move; }

TmemMove defaults_for(const TmemMove& fields, const IsGiven& is_given) {
  LdSt ldst = TmemMove{.kind = fields.kind}.ldst;
  if (is_given("shape")) ldst.shape = fields.ldst.shape;
  if (is_given("num")) ldst.num = fields.ldst.num;
  if (is_given("pack_16b")) ldst.pack_16b = fields.ldst.pack_16b;
  return {.kind = fields.kind, .ldst = ldst};
}

}  // namespace bitmma::family
