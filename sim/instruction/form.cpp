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

using target_sets::consumer_blackwell, target_sets::hopper, target_sets::rubin;
// ptxas 13.0 and 13.5.
constexpr TargetSet tcgen05_i8{Target::sm_100a, Target::sm_101a, Target::sm_110a},
    k_96{Target::sm_103a, Target::sm_107a};
// For mma.sync every target counts by itself: PTX's "sm_80 or higher", or the ones with an a or an f behind.
constexpr TargetSet from_70 = TargetSet::from(Target::sm_70), from_75 = TargetSet::from(Target::sm_75),
                    from_80 = TargetSet::from(Target::sm_80), from_89 = TargetSet::from(Target::sm_89),
                    from_90 = TargetSet::from(Target::sm_90),
                    every_blackwell = consumer_blackwell | target_sets::tcgen05;

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
constexpr std::array small_warp_shape{LegalShape{.m = {8}, .n = eight}};
// PTX ISA 9.7.16.2.1, Table 39.
constexpr LegalShape ws_dense_shape{.weight_stationary = true, .sparse = false, .m = {32, 64, 128}, .n = ws_dense};
constexpr LegalShape ws_sparse_shape{.weight_stationary = true, .dense = false, .m = {32, 64, 128}, .n = ws_sparse};
constexpr std::array float_tcgen05{LegalShape{.m = {64, 128}, .n = multiples_of_8},
                                   LegalShape{.cta_group = 2, .m = {128, 256}, .n = multiples_of_16}, ws_dense_shape,
                                   ws_sparse_shape};
constexpr std::array integer_tcgen05{LegalShape{.m = {64, 128}, .n = i8_list},
                                     LegalShape{.cta_group = 2, .m = {128, 256}, .n = multiples_of_32}, ws_dense_shape,
                                     ws_sparse_shape};
// ISA 9.4, Table 48: twice the K. Its row of fp4 has cta_group::2 alone; NVIDIA's compiler writes both.
constexpr std::array long_f8f6f4_tcgen05{LegalShape{.m = {128}, .n = multiples_of_8},
                                         LegalShape{.cta_group = 2, .m = {256}, .n = multiples_of_16}, ws_dense_shape,
                                         ws_sparse_shape};
constexpr std::array long_scaled_tcgen05{LegalShape{.m = {128}, .n = multiples_of_8},
                                         LegalShape{.cta_group = 2, .m = {256}, .n = multiples_of_16}};
constexpr std::array ti16_tcgen05{
    LegalShape{.m = {64}, .n = multiples_of_8}, LegalShape{.m = {128}, .n = multiples_of_16},
    LegalShape{.cta_group = 2, .m = {128, 256}, .n = multiples_of_32}, ws_dense_shape, ws_sparse_shape};
constexpr std::array scaled_tcgen05{LegalShape{.m = {128}, .n = multiples_of_8},
                                    LegalShape{.cta_group = 2, .sparse = false, .m = {128, 256}, .n = multiples_of_16},
                                    LegalShape{.cta_group = 2, .dense = false, .m = {256}, .n = multiples_of_16}};

// Which sizes of scale vectors a kind takes, as they are written, the types that go with each, and where the first
// scale may be.
constexpr FormatSet powers{ue8m0}, fractions{ue4m3}, any_scale{ue8m0, ue4m3, ue5m3};
constexpr std::array mxf8f6f4_scales{LegalScales{ScaleVec::unwritten, powers, 1, 3},
                                     LegalScales{ScaleVec::x1, powers, 1, 3},
                                     LegalScales{ScaleVec::block32, powers, 1, 3}};
constexpr std::array mxf4_scales{LegalScales{ScaleVec::unwritten, powers, 2, 2},
                                 LegalScales{ScaleVec::x2, powers, 2, 2}, LegalScales{ScaleVec::block32, powers, 2, 2}};
// ue5m3, and ue4m3 with a scale for every 32, are of sm_107 alone: family::target_rows.
constexpr std::array nvf4_scales{LegalScales{ScaleVec::x2, any_scale, 2, 2}, LegalScales{ScaleVec::x4, any_scale, 4, 0},
                                 LegalScales{ScaleVec::block16, any_scale, 4, 0},
                                 LegalScales{ScaleVec::block32, any_scale, 2, 2}};
constexpr std::array mxf4_k96_scales{LegalScales{ScaleVec::unwritten, powers, 1, 3},
                                     LegalScales{ScaleVec::x2, powers, 1, 3},
                                     LegalScales{ScaleVec::block32, powers, 1, 3}};
constexpr std::array nvf4_k96_scales{
    LegalScales{ScaleVec::x2, any_scale, 1, 3}, LegalScales{ScaleVec::x4, any_scale, 2, 2},
    LegalScales{ScaleVec::block16, any_scale, 2, 2}, LegalScales{ScaleVec::block32, any_scale, 1, 3}};
// Twice the K, on sm_107. The text of ISA 9.4 calls .scale_vec::NX an alias of .blockNN there and its Table 68 does
// not; NVIDIA's compiler writes .blockNN alone.
constexpr std::array mxf8f6f4_long_scales{LegalScales{ScaleVec::unwritten, powers, 2, 2},
                                          LegalScales{ScaleVec::block32, powers, 2, 2}};
constexpr std::array mxf4_long_scales{LegalScales{ScaleVec::unwritten, powers, 4, 0},
                                      LegalScales{ScaleVec::block32, powers, 4, 0}};
constexpr std::array nvf4_long_scales{LegalScales{ScaleVec::block16, any_scale, 4, 0},
                                      LegalScales{ScaleVec::block32, any_scale, 4, 0}};
constexpr std::array warp_mxf8f6f4_scales{LegalScales{ScaleVec::unwritten, powers, 1, 3},
                                          LegalScales{ScaleVec::x1, powers, 1, 3}};
constexpr std::array warp_mxf4_scales{LegalScales{ScaleVec::unwritten, powers, 2, 2},
                                      LegalScales{ScaleVec::x2, powers, 2, 2}};
// 4X with ue8m0 came with ISA 9.1: ptxas 13.0 refuses it, 13.5 takes it.
constexpr std::array warp_nvf4_scales{LegalScales{ScaleVec::x2, powers, 2, 2},
                                      LegalScales{ScaleVec::x4, fractions, 1, 0},
                                      LegalScales{ScaleVec::x4, powers, 1, 0, {9, 1}}};

constexpr std::string_view wgmma_shapes = "PTX ISA 9.7.15.2", table_39 = "PTX ISA 9.7.16.2.1, Table 39; ptxas 13.0",
                           warp_source = "PTX ISA 9.7.14.3; ptxas 13.0",
                           dense_source = "PTX ISA 9.7.14.5.14; ptxas 13.5",
                           table_48 = "PTX ISA 9.4, 9.7.18.2.1, Table 48; ptxas 13.5",
                           sparse_source = "PTX ISA 9.7.14.6.3; ptxas 13.5",
                           move_source = "PTX ISA 9.7.16.8 and 9.7.16.9; ptxas 13.5";

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
                         .targets = target_sets::tcgen05,
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
                        .targets = target_sets::tcgen05,
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
                           .targets = target_sets::tcgen05,
                           .kind = MmaKind::f8f6f4,
                           .shapes = float_tcgen05,
                           .negate = true,
                           .transpose = true,
                           .further = "cta_group 1 and 2",
                           .source = table_39,
                           .instances = family::instances_of_tcgen05};
constexpr Form umma_i8{.family = Family::tcgen05,
                       .name = "tcgen05.mma kind::i8",
                       .targets = tcgen05_i8,
                       .kind = MmaKind::i8,
                       .shapes = integer_tcgen05,
                       .transpose = true,
                       .saturate = true,
                       .further = "cta_group 1 and 2",
                       .source = table_39,
                       .instances = family::instances_of_tcgen05};
constexpr Form umma_ti16{.family = Family::tcgen05,
                         .name = "tcgen05.mma kind::ti16",
                         .targets = rubin,
                         .kind = MmaKind::ti16,
                         .shapes = ti16_tcgen05,
                         .negate = true,
                         .selectors = 4,
                         .further = "cta_group 1 and 2",
                         .ptx = {9, 4},
                         .source = table_48,
                         .instances = family::instances_of_tcgen05};
constexpr Form umma_mxf8f6f4{.family = Family::tcgen05,
                             .name = "tcgen05.mma kind::mxf8f6f4",
                             .targets = target_sets::tcgen05,
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
                         .targets = target_sets::tcgen05,
                         .kind = MmaKind::mxf4,
                         .shapes = scaled_tcgen05,
                         .scales = mxf4_scales,
                         .negate = true,
                         .further = "cta_group 1 and 2",
                         .source = table_39,
                         .instances = family::instances_of_tcgen05};
constexpr Form umma_mxf4_k96{.family = Family::tcgen05,
                             .name = "tcgen05.mma kind::mxf4",
                             .targets = k_96,
                             .kind = MmaKind::mxf4,
                             .shapes = scaled_tcgen05,
                             .scales = mxf4_k96_scales,
                             .negate = true,
                             .further = "cta_group 1 and 2",
                             .source = table_39,
                             .instances = family::instances_of_tcgen05};
constexpr Form umma_nvf4{.family = Family::tcgen05,
                         .name = "tcgen05.mma kind::mxf4nvf4",
                         .targets = target_sets::tcgen05,
                         .kind = MmaKind::mxf4nvf4,
                         .shapes = scaled_tcgen05,
                         .scales = nvf4_scales,
                         .negate = true,
                         .further = "cta_group 1 and 2",
                         .source = table_39,
                         .instances = family::instances_of_tcgen05};
constexpr Form umma_nvf4_k96{.family = Family::tcgen05,
                             .name = "tcgen05.mma kind::mxf4nvf4",
                             .targets = k_96,
                             .kind = MmaKind::mxf4nvf4,
                             .shapes = scaled_tcgen05,
                             .scales = nvf4_k96_scales,
                             .negate = true,
                             .further = "cta_group 1 and 2",
                             .source = table_39,
                             .instances = family::instances_of_tcgen05};
/// A kind with twice its K.
constexpr Form twice_k(Form form, std::span<const LegalShape> shapes, std::span<const LegalScales> scales = {}) {
  form.targets = rubin, form.shapes = shapes, form.scales = scales;
  form.ptx = {9, 4}, form.source = table_48;
  return form;
}
constexpr Form umma_f8_long = twice_k(umma_f8f6f4, long_f8f6f4_tcgen05),
               umma_mxf8f6f4_long = twice_k(umma_mxf8f6f4, long_scaled_tcgen05, mxf8f6f4_long_scales),
               umma_mxf4_long = twice_k(umma_mxf4, long_scaled_tcgen05, mxf4_long_scales),
               umma_nvf4_long = twice_k(umma_nvf4, long_scaled_tcgen05, nvf4_long_scales);
constexpr Form warp_mxf8f6f4{.family = Family::mma_sync,
                             .name = "mma.sync kind::mxf8f6f4",
                             .targets = consumer_blackwell,
                             .kind = MmaKind::mxf8f6f4,
                             .shapes = warp_shape,
                             .scales = warp_mxf8f6f4_scales,
                             .ordered_only = true,
                             .default_target = Target::sm_120a,
                             .ptx = {8, 7},
                             .source = warp_source,
                             .instances = family::instances_of_mma_sync};
constexpr Form warp_mxf4{.family = Family::mma_sync,
                         .name = "mma.sync kind::mxf4",
                         .targets = consumer_blackwell,
                         .kind = MmaKind::mxf4,
                         .shapes = warp_shape,
                         .scales = warp_mxf4_scales,
                         .ordered_only = true,
                         .default_target = Target::sm_120a,
                         .ptx = {8, 7},
                         .source = warp_source,
                         .instances = family::instances_of_mma_sync};
constexpr Form warp_nvf4{.family = Family::mma_sync,
                         .name = "mma.sync kind::mxf4nvf4",
                         .targets = consumer_blackwell,
                         .kind = MmaKind::mxf4nvf4,
                         .shapes = warp_shape,
                         .scales = warp_nvf4_scales,
                         .ordered_only = true,
                         .default_target = Target::sm_120a,
                         .ptx = {8, 7},
                         .source = warp_source,
                         .instances = family::instances_of_mma_sync};

constexpr Form row(Form group, Format d, FormatSet a, FormatSet b, int k_dense, int k_sparse) {
  group.d = group.c = d, group.a = a, group.b = b, group.k_dense = k_dense, group.k_sparse = k_sparse;
  return group;
}
/// mma.sync without scales: D and C alike, A and B of any two types of the sets.
constexpr Form warp(std::string_view name, TargetSet targets, PtxVersion ptx, Format d, FormatSet a, FormatSet b,
                    int k) {
  return {.family = Family::mma_sync,
          .name = name,
          .targets = targets,
          .d = d,
          .a = a,
          .b = b,
          .k_dense = k,
          .shapes = warp_shape,
          .default_target = targets.contains(Target::sm_90a) ? Target::sm_90a : Target::sm_120a,
          .ptx = ptx,
          .source = dense_source,
          .instances = family::instances_of_mma_sync};
}
constexpr Form small(Form form) {
  form.shapes = small_warp_shape;
  return form;
}
constexpr Form with_c(Form form, Format c) {
  form.c = c, form.any_layout = true;
  return small(form);
}
constexpr Form saturating(Form form) {
  form.saturate = true;
  return form;
}
constexpr Form rounding(Form form) {
  form.rounds = true;
  return form;
}
constexpr Form bits(Form form, BitOperation operation) {
  form.bit_operation = operation;
  return form;
}
constexpr Form with_kind(Form form) {
  form.kind = MmaKind::f8f6f4, form.default_target = Target::sm_120a;
  return form;
}
/// mma.sp: `k` is that of the logical A.
constexpr Form sparse(Form form, int selectors) {
  form.k_sparse = form.k_dense, form.k_dense = 0;
  form.selectors = selectors, form.source = sparse_source;
  return form;
}
constexpr Form ordered(Form form) {
  form.ordered_only = true;
  return form;
}
constexpr FormatSet eights{s8, u8}, fours{s4, u4}, fp8{e4m3, e5m2}, below_fp8{e2m3, e3m2, e2m1};
constexpr auto and_popc = BitOperation::and_popc, xor_popc = BitOperation::xor_popc;

constexpr TargetSet reduces{Target::sm_101a, Target::sm_101f, Target::sm_103a, Target::sm_103f,
                            Target::sm_107a, Target::sm_107f, Target::sm_110a, Target::sm_110f};

constexpr Form move_row(std::string_view name, TargetSet targets, MoveKind kind, std::string_view further) {
  return {.family = Family::tmem_move,
          .name = name,
          .targets = targets,
          .move = kind,
          .further = further,
          .source = move_source,
          .instances = family::instances_of_tmem_move};
}

constexpr Form reducing(Form form) {
  form.default_target = Target::sm_103a, form.ptx = {8, 8}, form.source = "PTX ISA 9.4, 9.7.18.8.3; ptxas 13.5";
  return form;
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
    row(umma_f8_long, f32, fp8, fp8, 64, 128),
    row(umma_f8_long, f16, fp8, fp8, 64, 128),
    row(umma_i8, s32, {s8, u8}, {s8, u8}, 32, 64),
    row(umma_ti16, s32, {s1z4m11}, {s1z4m11}, 16, 32),
    row(umma_mxf8f6f4, f32, f8f6f4, f8f6f4, 32, 64),
    row(umma_mxf8f6f4_long, f32, f8f6f4, f8f6f4, 64, 128),
    row(umma_mxf4, f32, {e2m1}, {e2m1}, 64, 128),
    row(umma_mxf4_k96, f32, {e2m1}, {e2m1}, 96, 192),
    row(umma_mxf4_long, f32, {e2m1}, {e2m1}, 128, 0),
    row(umma_nvf4, f32, {e2m1}, {e2m1}, 64, 128),
    row(umma_nvf4_k96, f32, {e2m1}, {e2m1}, 96, 192),
    row(umma_nvf4_long, f32, {e2m1}, {e2m1}, 128, 0),
    row(warp_mxf8f6f4, f32, f8f6f4, f8f6f4, 32, 64),
    row(warp_mxf4, f32, {e2m1}, {e2m1}, 64, 128),
    row(warp_nvf4, f32, {e2m1}, {e2m1}, 64, 128),
    //          name                  targets  PTX     D    A       B       K
    with_c(warp("mma.sync m8n8k4", from_70, {6, 4}, f16, {f16}, {f16}, 4), f16),
    with_c(warp("mma.sync m8n8k4", from_70, {6, 4}, f32, {f16}, {f16}, 4), f32),
    with_c(warp("mma.sync m8n8k4", from_70, {6, 4}, f32, {f16}, {f16}, 4), f16),
    warp("mma.sync m16n8k8", from_75, {6, 5}, f16, {f16}, {f16}, 8),
    warp("mma.sync m16n8k8", from_75, {6, 5}, f32, {f16}, {f16}, 8),
    warp("mma.sync m16n8k16", from_80, {7, 0}, f16, {f16}, {f16}, 16),
    warp("mma.sync m16n8k16", from_80, {7, 0}, f32, {f16}, {f16}, 16),
    warp("mma.sync m16n8k8", from_80, {7, 0}, f32, {bf16}, {bf16}, 8),
    warp("mma.sync m16n8k16", from_80, {7, 0}, f32, {bf16}, {bf16}, 16),
    warp("mma.sync m16n8k4", from_80, {7, 0}, f32, {tf32}, {tf32}, 4),
    warp("mma.sync m16n8k8", from_80, {7, 0}, f32, {tf32}, {tf32}, 8),
    warp("mma.sync m16n8k16", from_89, {8, 7}, f32, fp8, fp8, 16),
    warp("mma.sync m16n8k16", from_89, {8, 7}, f16, fp8, fp8, 16),
    warp("mma.sync m16n8k32", from_89, {8, 4}, f32, fp8, fp8, 32),
    warp("mma.sync m16n8k32", from_89, {8, 7}, f16, fp8, fp8, 32),
    small(rounding(warp("mma.sync m8n8k4", from_80, {7, 0}, f64, {f64}, {f64}, 4))),
    rounding(warp("mma.sync m16n8k4", from_90, {7, 8}, f64, {f64}, {f64}, 4)),
    rounding(warp("mma.sync m16n8k8", from_90, {7, 8}, f64, {f64}, {f64}, 8)),
    rounding(warp("mma.sync m16n8k16", from_90, {7, 8}, f64, {f64}, {f64}, 16)),
    small(saturating(warp("mma.sync m8n8k16", from_75, {6, 5}, s32, eights, eights, 16))),
    saturating(warp("mma.sync m16n8k16", from_80, {7, 0}, s32, eights, eights, 16)),
    saturating(warp("mma.sync m16n8k32", from_80, {7, 0}, s32, eights, eights, 32)),
    // 9.7.14.2 asks for equal types; the syntax and ptxas take all four mixes.
    small(saturating(warp("mma.sync m8n8k32", from_75, {6, 5}, s32, fours, fours, 32))),
    saturating(warp("mma.sync m16n8k32", from_80, {7, 0}, s32, fours, fours, 32)),
    saturating(warp("mma.sync m16n8k64", from_80, {7, 0}, s32, fours, fours, 64)),
    small(bits(warp("mma.sync m8n8k128", from_75, {7, 0}, s32, {b1}, {b1}, 128), xor_popc)),
    small(bits(warp("mma.sync m8n8k128", from_80, {7, 1}, s32, {b1}, {b1}, 128), and_popc)),
    bits(warp("mma.sync m16n8k128", from_80, {7, 0}, s32, {b1}, {b1}, 128), xor_popc),
    bits(warp("mma.sync m16n8k128", from_80, {7, 1}, s32, {b1}, {b1}, 128), and_popc),
    bits(warp("mma.sync m16n8k256", from_80, {7, 0}, s32, {b1}, {b1}, 256), xor_popc),
    bits(warp("mma.sync m16n8k256", from_80, {7, 1}, s32, {b1}, {b1}, 256), and_popc),
    with_kind(warp("mma.sync kind::f8f6f4", every_blackwell, {8, 7}, f32, fp8, fp8, 32)),
    with_kind(warp("mma.sync kind::f8f6f4", every_blackwell, {8, 7}, f16, fp8, fp8, 32)),
    with_kind(warp("mma.sync kind::f8f6f4", consumer_blackwell, {8, 7}, f32, below_fp8, f8f6f4, 32)),
    with_kind(warp("mma.sync kind::f8f6f4", consumer_blackwell, {8, 7}, f16, below_fp8, f8f6f4, 32)),
    with_kind(warp("mma.sync kind::f8f6f4", consumer_blackwell, {8, 7}, f32, fp8, below_fp8, 32)),
    with_kind(warp("mma.sync kind::f8f6f4", consumer_blackwell, {8, 7}, f16, fp8, below_fp8, 32)),
    sparse(warp("mma.sp m16n8k16", from_80, {7, 1}, f16, {f16}, {f16}, 16), 4),
    sparse(warp("mma.sp m16n8k16", from_80, {7, 1}, f32, {f16}, {f16}, 16), 4),
    sparse(warp("mma.sp m16n8k32", from_80, {7, 1}, f16, {f16}, {f16}, 32), 2),
    sparse(warp("mma.sp m16n8k32", from_80, {7, 1}, f32, {f16}, {f16}, 32), 2),
    sparse(warp("mma.sp m16n8k16", from_80, {7, 1}, f32, {bf16}, {bf16}, 16), 4),
    sparse(warp("mma.sp m16n8k32", from_80, {7, 1}, f32, {bf16}, {bf16}, 32), 2),
    sparse(warp("mma.sp m16n8k8", from_80, {7, 1}, f32, {tf32}, {tf32}, 8), 4),
    sparse(warp("mma.sp m16n8k16", from_80, {7, 1}, f32, {tf32}, {tf32}, 16), 2),
    sparse(warp("mma.sp m16n8k64", from_89, {8, 4}, f32, fp8, fp8, 64), 1),
    ordered(sparse(warp("mma.sp m16n8k64", consumer_blackwell, {8, 7}, f16, fp8, fp8, 64), 1)),
    sparse(saturating(warp("mma.sp m16n8k32", from_80, {7, 1}, s32, eights, eights, 32)), 2),
    sparse(saturating(warp("mma.sp m16n8k64", from_80, {7, 1}, s32, eights, eights, 64)), 1),
    sparse(saturating(warp("mma.sp m16n8k64", from_80, {7, 1}, s32, fours, fours, 64)), 2),
    sparse(saturating(warp("mma.sp m16n8k128", from_80, {7, 1}, s32, fours, fours, 128)), 1),
    ordered(sparse(with_kind(warp("mma.sp kind::f8f6f4", every_blackwell, {8, 7}, f32, fp8, fp8, 64)), 1)),
    ordered(sparse(with_kind(warp("mma.sp kind::f8f6f4", consumer_blackwell, {8, 7}, f16, fp8, fp8, 64)), 1)),
    ordered(sparse(with_kind(warp("mma.sp kind::f8f6f4", consumer_blackwell, {8, 7}, f32, below_fp8, f8f6f4, 64)), 1)),
    ordered(sparse(with_kind(warp("mma.sp kind::f8f6f4", consumer_blackwell, {8, 7}, f16, below_fp8, f8f6f4, 64)), 1)),
    ordered(sparse(with_kind(warp("mma.sp kind::f8f6f4", consumer_blackwell, {8, 7}, f32, fp8, below_fp8, 64)), 1)),
    ordered(sparse(with_kind(warp("mma.sp kind::f8f6f4", consumer_blackwell, {8, 7}, f16, fp8, below_fp8, 64)), 1)),
    move_row("tcgen05.ld", target_sets::tcgen05, MoveKind::ld, ".pack::16b"),
    move_row("tcgen05.st", target_sets::tcgen05, MoveKind::st, ".unpack::16b"),
    move_row("tcgen05.cp", target_sets::tcgen05, MoveKind::cp, "cta_group 1 and 2, .b8x16.b4x16_p64, .b8x16.b6x16_p32"),
    move_row("tcgen05.shift", architecture_specific(target_sets::tcgen05), MoveKind::shift, "cta_group 1 and 2"),
    reducing(move_row("tcgen05.ld.red", reduces, MoveKind::ld_red, ".min and .max of f32, u32 and s32, .abs, .NaN")),
};

consteval bool no_instruction_fits_two_rows() {
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const Form &x = rows[i], &y = rows[j];
      const bool same_shape = x.shapes.empty() || y.shapes.empty() || x.shapes.front().m == y.shapes.front().m;
      const bool same = x.family == y.family && x.kind == y.kind && x.move == y.move && x.d == y.d && x.c == y.c &&
                        x.k_dense == y.k_dense && (x.k_dense != 0 || x.k_sparse == y.k_sparse) && same_shape &&
                        x.bit_operation == y.bit_operation && x.a.intersects(y.a) && x.b.intersects(y.b);
      if (same) return false;
    }
  }
  return true;
}
static_assert(no_instruction_fits_two_rows());

/// " with K = 96": where the form has other targets than the same name with its usual K.
std::string longer_k_of(const Form& form, const Instruction& instruction) {
  const auto usual = std::ranges::find(rows, form.name, &Form::name);
  const bool is_usual = usual->k_dense == form.k_dense || usual->targets == form.targets;
  return is_usual ? "" : fmt::format(" with K = {}", mma_of(instruction).k);
}

/// What the target lacks of the instruction, if anything.
std::optional<Violation> target_violation(const Instruction& instruction, const Form& form, Target target) {
  const TargetSet legal = targets_of(instruction);
  if (legal.contains(target)) return std::nullopt;
  std::string what = longer_k_of(form, instruction), source(form.source);
  if (form.targets.contains(target)) {
    family::dispatch(
        [&](const auto& one) {
          family::for_each_target_row(one, [&](const auto& row) {
            if (row.targets.contains(target)) return;
            what += fmt::format("{} {}", what.empty() ? " with" : " and", row.what);
            source = row.source;
          });
        },
        instruction);
  }
  return Violation{.field = "target",
                   .seen = std::string(print(target)),
                   .expected = legal.empty() ? "no target has all of it" : print(legal),
                   .fix = fmt::format("{}{} exists there only", form.name, what),
                   .source = std::move(source)};
}

}  // namespace

std::span<const Form> forms() { return rows; }

const Form* find_form(const Instruction& instruction) {
  return family::dispatch([](const auto& one) { return family::find(one); }, instruction);
}

std::vector<Violation> violations_of(const Instruction& instruction, Target target) {
  std::vector<Violation> found = family::unknown_values(instruction);
  if (static_cast<size_t>(target) >= targets.size()) {
    found.push_back({.field = "target",
                     .seen = fmt::format("value {} of an enumeration", static_cast<size_t>(target)),
                     .expected = fmt::format("one of its {} values", targets.size())});
  }
  if (!found.empty()) return found;
  found = family::dispatch([&](const auto& one) { return family::violations(one, target); }, instruction);
  const Form* form = find_form(instruction);
  if (form) {
    if (std::optional<Violation> violation = target_violation(instruction, *form, target))
      found.push_back(std::move(*violation));
  }
  if (!form && found.empty()) {  // what no row describes has no arithmetic either
    found.push_back({.field = "instruction", .seen = print(instruction), .expected = "types, shape and K of one form"});
  }
  return found;
}

void require_legal(const Instruction& instruction, Target target) {
  std::vector<Violation> violations = violations_of(instruction, target);
  if (!violations.empty()) throw Error(std::move(violations));
}

TargetSet targets_of(const Instruction& instruction) {
  const Form* form = find_form(instruction);
  if (!form) return {};
  TargetSet legal = form->targets;
  family::dispatch(
      [&](const auto& one) { family::for_each_target_row(one, [&](const auto& row) { legal = legal & row.targets; }); },
      instruction);
  return legal;
}

Target default_target(const Instruction& instruction) {
  const Form* form = find_form(instruction);
  if (!form) {  // it is illegal; its family still says where to ask
    const auto row = std::ranges::find(rows, family_of(instruction), &Form::family);
    form = row == rows.end() ? nullptr : &*row;
  }
  if (!form) return Target::sm_90a;
  const TargetSet legal = targets_of(instruction);
  return form->default_target.value_or(legal.empty() ? form->targets.first() : legal.first());
}

PtxVersion ptx_version_of(const Instruction& instruction, Target target) {
  const Form* form = find_form(instruction);
  PtxVersion version = std::max(info(target).ptx, form ? form->ptx : PtxVersion{});
  family::dispatch(
      [&](const auto& one) {
        version = std::max(version, family::ptx_version(one, form));
        family::for_each_target_row(one, [&](const auto& row) { version = std::max(version, row.ptx); });
      },
      instruction);
  return version;
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
  if (form.any_layout) options.emplace_back("row and col");
  if (form.c != form.d) options.push_back(fmt::format("C {}", info(form.c).name));
  if (form.rounds) options.emplace_back(".rn .rz .rm .rp");
  if (form.k_dense == 0 && form.k_sparse != 0) {
    options.emplace_back(form.ordered_only ? ".sp::ordered_metadata" : ".sp and .sp::ordered_metadata");
    if (form.selectors > 1) options.push_back(fmt::format("selector 0..{}", form.selectors - 1));
  }
  const auto is_counted = [](const LegalScales& scales) {
    return scales.scale_vec == ScaleVec::x1 || scales.scale_vec == ScaleVec::x2 || scales.scale_vec == ScaleVec::x4;
  };
  // .blockNN and an unwritten size are other spellings of 1X, 2X and 4X, where those may be written.
  const bool has_counted = std::ranges::any_of(form.scales, is_counted);
  for (const LegalScales& scales : form.scales) {
    if (has_counted ? !is_counted(scales) : scales.scale_vec == ScaleVec::unwritten) continue;
    std::string types;
    for (const FormatInfo& format : formats) {
      if (scales.types.contains(format.id)) types += fmt::format(" {}", format.name);
    }
    const std::string_view size = print(scales.scale_vec);
    options.push_back(
        fmt::format("{}{}", has_counted ? size.substr(std::string_view(".scale_vec::").size()) : size, types));
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
