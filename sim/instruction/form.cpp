#include "bitmma/instruction/form.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "bitmma/instruction/statement.hpp"
#include "family.hpp"

namespace bitmma {
namespace {

using enum Format;

constexpr TargetSet hopper{Target::sm_90a}, blackwell{Target::sm_100a, Target::sm_103a}, b200{Target::sm_100a},
    b300{Target::sm_103a}, consumer_blackwell{Target::sm_120a};

constexpr FormatSet f8f6f4{e4m3, e5m2, e2m3, e3m2, e2m1};

constexpr LegalN multiples_of_8{.first = 8, .last = 256, .step = 8, .text = "8..256 in steps of 8"};
constexpr LegalN multiples_of_16{.first = 16, .last = 256, .step = 16, .text = "16..256 in steps of 16"};
constexpr LegalN multiples_of_32{.first = 32, .last = 256, .step = 32, .text = "32..256 in steps of 32"};
constexpr LegalN i8_list{
    .first = 8, .last = 256, .step = 8, .i8_list = true, .text = "8, 16, 24, 32 and 48..256 in steps of 16"};
constexpr LegalN ws_dense{.first = 64, .last = 256, .step = 64, .powers_of_2 = true, .text = "64, 128 or 256"};
constexpr LegalN ws_sparse{.first = 64, .last = 128, .step = 64, .powers_of_2 = true, .text = "64 or 128"};
constexpr LegalN eight{.first = 8, .last = 8, .step = 8, .text = "8"};

constexpr std::array float_wgmma{LegalShape{.m = {64}, .n = multiples_of_8}};
constexpr std::array integer_wgmma{LegalShape{.m = {64}, .n = i8_list}};
constexpr std::array warp_shape{LegalShape{.m = {16}, .n = eight}};
// PTX ISA 9.7.16.2.1, Table 39.
constexpr LegalShape ws_dense_shape{.weight_stationary = true, .sparse = false, .m = {32, 64, 128}, .n = ws_dense};
constexpr LegalShape ws_sparse_shape{.weight_stationary = true, .dense = false, .m = {32, 64, 128}, .n = ws_sparse};
constexpr std::array float_tcgen05{LegalShape{.m = {64, 128}, .n = multiples_of_8},
                                   LegalShape{.cta_group = 2, .m = {128, 256}, .n = multiples_of_16}, ws_dense_shape,
                                   ws_sparse_shape};
constexpr std::array integer_tcgen05{LegalShape{.m = {64, 128}, .n = i8_list},
                                     LegalShape{.cta_group = 2, .m = {128, 256}, .n = multiples_of_32}, ws_dense_shape,
                                     ws_sparse_shape};
constexpr std::array scaled_tcgen05{LegalShape{.m = {128}, .n = multiples_of_8},
                                    LegalShape{.cta_group = 2, .sparse = false, .m = {128, 256}, .n = multiples_of_16},
                                    LegalShape{.cta_group = 2, .dense = false, .m = {256}, .n = multiples_of_16}};

// Which sizes of scale vectors a kind takes, as they are written, the types that go with each, and where the first
// scale may be.
constexpr FormatSet powers{ue8m0}, both{ue8m0, ue4m3}, fractions{ue4m3};
constexpr std::array mxf8f6f4_scales{LegalScales{ScaleVec::unwritten, powers, 1, 3},
                                     LegalScales{ScaleVec::x1, powers, 1, 3},
                                     LegalScales{ScaleVec::block32, powers, 1, 3}};
constexpr std::array mxf4_scales{LegalScales{ScaleVec::unwritten, powers, 2, 2},
                                 LegalScales{ScaleVec::x2, powers, 2, 2}, LegalScales{ScaleVec::block32, powers, 2, 2}};
constexpr std::array nvf4_scales{LegalScales{ScaleVec::x2, powers, 2, 2}, LegalScales{ScaleVec::x4, both, 4, 0},
                                 LegalScales{ScaleVec::block16, both, 4, 0},
                                 LegalScales{ScaleVec::block32, powers, 2, 2}};
constexpr std::array mxf4_k96_scales{LegalScales{ScaleVec::unwritten, powers, 1, 3},
                                     LegalScales{ScaleVec::x2, powers, 1, 3},
                                     LegalScales{ScaleVec::block32, powers, 1, 3}};
constexpr std::array nvf4_k96_scales{LegalScales{ScaleVec::x2, powers, 1, 3}, LegalScales{ScaleVec::x4, both, 2, 2},
                                     LegalScales{ScaleVec::block16, both, 2, 2},
                                     LegalScales{ScaleVec::block32, powers, 1, 3}};
constexpr std::array warp_mxf8f6f4_scales{LegalScales{ScaleVec::unwritten, powers, 1, 3},
                                          LegalScales{ScaleVec::x1, powers, 1, 3}};
constexpr std::array warp_mxf4_scales{LegalScales{ScaleVec::unwritten, powers, 2, 2},
                                      LegalScales{ScaleVec::x2, powers, 2, 2}};
// PTX's table also has 4X with ue8m0; ptxas 13.0 refuses it on every target, and so does this table.
constexpr std::array warp_nvf4_scales{LegalScales{ScaleVec::x2, powers, 2, 2},
                                      LegalScales{ScaleVec::x4, fractions, 1, 0}};

constexpr std::string_view wgmma_shapes = "PTX ISA 9.7.15.2", table_39 = "PTX ISA 9.7.16.2.1, Table 39; ptxas 13.0",
                           warp_source = "PTX ISA 9.7.14.3; ptxas 13.0",
                           move_source = "PTX ISA 9.7.16.8 and 9.7.16.9; ptxas 13.0";

// What the forms of a group share. A row then adds its types and K.
constexpr Form wgmma_halves{.family = Family::wgmma,
                            .name = "wgmma.mma_async",
                            .targets = hopper,
                            .shapes = float_wgmma,
                            .negate = true,
                            .transpose = true,
                            .selectors = 2,
                            .source = wgmma_shapes,
                            .instances = family::instances_of_wgmma};
constexpr Form wgmma_tf32{.family = Family::wgmma,
                          .name = "wgmma.mma_async",
                          .targets = hopper,
                          .shapes = float_wgmma,
                          .negate = true,
                          .selectors = 2,
                          .source = wgmma_shapes,
                          .instances = family::instances_of_wgmma};
constexpr Form wgmma_fp8{.family = Family::wgmma,
                         .name = "wgmma.mma_async",
                         .targets = hopper,
                         .shapes = float_wgmma,
                         .negate = true,
                         .source = wgmma_shapes,
                         .instances = family::instances_of_wgmma};
constexpr Form wgmma_int8{.family = Family::wgmma,
                          .name = "wgmma.mma_async",
                          .targets = hopper,
                          .shapes = integer_wgmma,
                          .saturate = true,
                          .source = wgmma_shapes,
                          .instances = family::instances_of_wgmma};
constexpr Form wgmma_bits{.family = Family::wgmma,
                          .name = "wgmma.mma_async",
                          .targets = hopper,
                          .shapes = integer_wgmma,
                          .bit_operation = BitOperation::and_popc,
                          .source = wgmma_shapes,
                          .instances = family::instances_of_wgmma};
constexpr Form umma_tf32{.family = Family::tcgen05,
                         .name = "tcgen05.mma kind::tf32",
                         .targets = blackwell,
                         .kind = MmaKind::tf32,
                         .shapes = float_tcgen05,
                         .negate = true,
                         .transpose = true,
                         .selectors = 4,
                         .further = "cta_group 1 and 2",
                         .source = table_39,
                         .instances = family::instances_of_tcgen05};
constexpr Form umma_f16{.family = Family::tcgen05,
                        .name = "tcgen05.mma kind::f16",
                        .targets = blackwell,
                        .kind = MmaKind::f16,
                        .shapes = float_tcgen05,
                        .negate = true,
                        .transpose = true,
                        .selectors = 4,
                        .further = "cta_group 1 and 2",
                        .source = table_39,
                        .instances = family::instances_of_tcgen05};
constexpr Form umma_f8f6f4{.family = Family::tcgen05,
                           .name = "tcgen05.mma kind::f8f6f4",
                           .targets = blackwell,
                           .kind = MmaKind::f8f6f4,
                           .shapes = float_tcgen05,
                           .negate = true,
                           .transpose = true,
                           .further = "cta_group 1 and 2",
                           .source = table_39,
                           .instances = family::instances_of_tcgen05};
constexpr Form umma_i8{.family = Family::tcgen05,
                       .name = "tcgen05.mma kind::i8",
                       .targets = b200,
                       .kind = MmaKind::i8,
                       .shapes = integer_tcgen05,
                       .transpose = true,
                       .saturate = true,
                       .further = "cta_group 1 and 2",
                       .source = table_39,
                       .instances = family::instances_of_tcgen05};
constexpr Form umma_mxf8f6f4{.family = Family::tcgen05,
                             .name = "tcgen05.mma kind::mxf8f6f4",
                             .targets = blackwell,
                             .kind = MmaKind::mxf8f6f4,
                             .shapes = scaled_tcgen05,
                             .scales = mxf8f6f4_scales,
                             .negate = true,
                             .transpose = true,
                             .further = "cta_group 1 and 2",
                             .source = table_39,
                             .instances = family::instances_of_tcgen05};
constexpr Form umma_mxf4{.family = Family::tcgen05,
                         .name = "tcgen05.mma kind::mxf4",
                         .targets = blackwell,
                         .kind = MmaKind::mxf4,
                         .shapes = scaled_tcgen05,
                         .scales = mxf4_scales,
                         .negate = true,
                         .further = "cta_group 1 and 2",
                         .source = table_39,
                         .instances = family::instances_of_tcgen05};
constexpr Form umma_mxf4_k96{.family = Family::tcgen05,
                             .name = "tcgen05.mma kind::mxf4",
                             .targets = b300,
                             .kind = MmaKind::mxf4,
                             .shapes = scaled_tcgen05,
                             .scales = mxf4_k96_scales,
                             .negate = true,
                             .further = "cta_group 1 and 2",
                             .source = table_39,
                             .instances = family::instances_of_tcgen05};
constexpr Form umma_nvf4{.family = Family::tcgen05,
                         .name = "tcgen05.mma kind::mxf4nvf4",
                         .targets = blackwell,
                         .kind = MmaKind::mxf4nvf4,
                         .shapes = scaled_tcgen05,
                         .scales = nvf4_scales,
                         .negate = true,
                         .further = "cta_group 1 and 2",
                         .source = table_39,
                         .instances = family::instances_of_tcgen05};
constexpr Form umma_nvf4_k96{.family = Family::tcgen05,
                             .name = "tcgen05.mma kind::mxf4nvf4",
                             .targets = b300,
                             .kind = MmaKind::mxf4nvf4,
                             .shapes = scaled_tcgen05,
                             .scales = nvf4_k96_scales,
                             .negate = true,
                             .further = "cta_group 1 and 2",
                             .source = table_39,
                             .instances = family::instances_of_tcgen05};
constexpr Form warp_mxf8f6f4{.family = Family::mma_sync,
                             .name = "mma.sync kind::mxf8f6f4",
                             .targets = consumer_blackwell,
                             .kind = MmaKind::mxf8f6f4,
                             .shapes = warp_shape,
                             .scales = warp_mxf8f6f4_scales,
                             .source = warp_source,
                             .instances = family::instances_of_mma_sync};
constexpr Form warp_mxf4{.family = Family::mma_sync,
                         .name = "mma.sync kind::mxf4",
                         .targets = consumer_blackwell,
                         .kind = MmaKind::mxf4,
                         .shapes = warp_shape,
                         .scales = warp_mxf4_scales,
                         .source = warp_source,
                         .instances = family::instances_of_mma_sync};
constexpr Form warp_nvf4{.family = Family::mma_sync,
                         .name = "mma.sync kind::mxf4nvf4",
                         .targets = consumer_blackwell,
                         .kind = MmaKind::mxf4nvf4,
                         .shapes = warp_shape,
                         .scales = warp_nvf4_scales,
                         .source = warp_source,
                         .instances = family::instances_of_mma_sync};

constexpr Form row(Form group, Format d, FormatSet a, FormatSet b, int k_dense, int k_sparse) {
  group.d = d, group.a = a, group.b = b, group.k_dense = k_dense, group.k_sparse = k_sparse;
  return group;
}
constexpr Form move_row(std::string_view name, MoveKind kind, std::string_view further) {
  return {.family = Family::tmem_move,
          .name = name,
          .targets = blackwell,
          .move = kind,
          .further = further,
          .source = move_source,
          .instances = family::instances_of_tmem_move};
}

constexpr std::array rows{
    //  group         D    A               B               K dense, sparse
    row(wgmma_halves, f32, {f16}, {f16}, 16, 32),
    row(wgmma_halves, f16, {f16}, {f16}, 16, 32),
    row(wgmma_halves, f32, {bf16}, {bf16}, 16, 32),
    row(wgmma_tf32, f32, {tf32}, {tf32}, 8, 16),
    row(wgmma_fp8, f32, {e4m3}, {e4m3}, 32, 64),
    row(wgmma_fp8, f32, {e4m3}, {e5m2}, 32, 64),
    row(wgmma_fp8, f32, {e5m2}, {e4m3}, 32, 64),
    row(wgmma_fp8, f32, {e5m2}, {e5m2}, 32, 64),
    row(wgmma_fp8, f16, {e4m3}, {e4m3}, 32, 64),
    row(wgmma_fp8, f16, {e4m3}, {e5m2}, 32, 64),
    row(wgmma_fp8, f16, {e5m2}, {e4m3}, 32, 64),
    row(wgmma_fp8, f16, {e5m2}, {e5m2}, 32, 64),
    // 9.7.15.3 asks for equal integer types; 9.7.15.5.2 since ISA 8.4 and ptxas 13.0 take all four mixes.
    row(wgmma_int8, s32, {s8}, {s8}, 32, 64),
    row(wgmma_int8, s32, {s8}, {u8}, 32, 64),
    row(wgmma_int8, s32, {u8}, {s8}, 32, 64),
    row(wgmma_int8, s32, {u8}, {u8}, 32, 64),
    row(wgmma_bits, s32, {b1}, {b1}, 256, 0),
    row(umma_tf32, f32, {tf32}, {tf32}, 8, 16),
    row(umma_f16, f32, {f16, bf16}, {f16, bf16}, 16, 32),
    row(umma_f16, f16, {f16}, {f16}, 16, 32),
    row(umma_f8f6f4, f32, f8f6f4, f8f6f4, 32, 64),
    row(umma_f8f6f4, f16, f8f6f4, f8f6f4, 32, 64),
    row(umma_i8, s32, {s8, u8}, {s8, u8}, 32, 64),
    row(umma_mxf8f6f4, f32, f8f6f4, f8f6f4, 32, 64),
    row(umma_mxf4, f32, {e2m1}, {e2m1}, 64, 128),
    row(umma_mxf4_k96, f32, {e2m1}, {e2m1}, 96, 0),
    row(umma_nvf4, f32, {e2m1}, {e2m1}, 64, 128),
    row(umma_nvf4_k96, f32, {e2m1}, {e2m1}, 96, 0),
    row(warp_mxf8f6f4, f32, f8f6f4, f8f6f4, 32, 64),
    row(warp_mxf4, f32, {e2m1}, {e2m1}, 64, 128),
    row(warp_nvf4, f32, {e2m1}, {e2m1}, 64, 128),
    move_row("tcgen05.ld", MoveKind::ld, ".pack::16b"),
    move_row("tcgen05.st", MoveKind::st, ".unpack::16b"),
    move_row("tcgen05.cp", MoveKind::cp, "cta_group 1 and 2, .b8x16.b4x16_p64, .b8x16.b6x16_p32"),
    move_row("tcgen05.shift", MoveKind::shift, "cta_group 1 and 2"),
};

consteval bool no_instruction_fits_two_rows() {
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const Form &x = rows[i], &y = rows[j];
      const bool same = x.family == y.family && x.kind == y.kind && x.move == y.move && x.d == y.d &&
                        x.k_dense == y.k_dense && x.a.intersects(y.a) && x.b.intersects(y.b);
      if (same) return false;
    }
  }
  return true;
}
static_assert(no_instruction_fits_two_rows());

}  // namespace

std::span<const Form> forms() { return rows; }

const Form* find_form(const Instruction& instruction) {
  return family::dispatch([](const auto& one) { return family::find(one); }, instruction);
}

std::vector<Violation> violations_of(const Instruction& instruction, Target target) {
  std::vector<Violation> found =
      family::dispatch([&](const auto& one) { return family::violations(one, target); }, instruction);
  const Form* form = find_form(instruction);
  if (form && !form->targets.contains(target)) {
    found.push_back(
        {.field = "target",
         .seen = std::string(print(target)),
         .expected = print(form->targets),
         .fix = fmt::format("{}{} exists there only", form->name, form->k_dense == 96 ? " with K = 96" : ""),
         .source = std::string(form->source)});
  }
  return found;
}

void require_legal(const Instruction& instruction, Target target) {
  std::vector<Violation> violations = violations_of(instruction, target);
  if (!violations.empty()) throw Error(std::move(violations));
}

TargetSet targets_of(const Instruction& instruction) {
  const Form* form = find_form(instruction);
  return form ? form->targets : TargetSet{};
}

Target default_target(const Instruction& instruction) {
  if (const TargetSet set = targets_of(instruction); !set.empty()) return set.first();
  // An instruction without a form is illegal; its family still says where to ask.
  for (const Form& form : rows) {
    if (form.family == family_of(instruction)) return form.targets.first();
  }
  return Target::sm_90a;
}

std::vector<Instruction> all_instructions(Family family) {
  std::vector<Instruction> all;
  std::set<std::string> seen;  // tcgen05's forms share mnemonics: types and K are not in them
  for (const Form& form : rows) {
    if (form.family != family) continue;
    for (Instruction& one : instructions_of(form)) {
      if (seen.insert(print(one)).second) all.push_back(std::move(one));
    }
  }
  return all;
}

std::vector<Instruction> all_instructions() {
  std::vector<Instruction> all;
  for (const Family family : {Family::wgmma, Family::tcgen05, Family::mma_sync, Family::tmem_move}) {
    for (Instruction& one : all_instructions(family)) all.push_back(std::move(one));
  }
  return all;
}

std::string print_options(const Form& form) {
  std::vector<std::string> options;
  if (form.negate) options.emplace_back("negate");
  if (form.transpose) options.emplace_back("transpose");
  if (form.saturate) options.emplace_back("saturate");
  if (form.bit_operation != BitOperation::none) options.emplace_back(print(form.bit_operation));
  for (const LegalScales& scales : form.scales) {
    std::string types;
    for (const FormatInfo& format : formats) {
      if (scales.types.contains(format.id)) types += fmt::format(" {}", format.name);
    }
    const bool is_block = scales.scale_vec == ScaleVec::block16 || scales.scale_vec == ScaleVec::block32;
    // .blockNN and an unwritten size are other spellings of a size that is listed.
    if (scales.scale_vec != ScaleVec::unwritten && !is_block) {
      options.push_back(
          fmt::format("{}{}", print(scales.scale_vec).substr(std::string_view(".scale_vec::").size()), types));
    }
  }
  if (std::ranges::any_of(form.shapes, &LegalShape::weight_stationary)) options.emplace_back(".ws");
  if (!form.further.empty()) options.emplace_back(form.further);
  return fmt::format("{}", fmt::join(options, ", "));
}

std::string print_n(const Form& form) {
  if (form.shapes.empty()) return "-";
  return form.shapes.size() == 1 ? std::string(form.shapes.front().n.text) : "by shape";
}

}  // namespace bitmma
