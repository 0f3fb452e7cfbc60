// SPDX-License-Identifier: MIT
#include "bitmma/instruction/form.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "bitmma/instruction/statement.hpp"
#include "family.hpp"
#include "table_sets.hpp"

namespace bitmma {
namespace {

using enum Format;

using table_sets::f8f6f4, table_sets::fp8;
using target_sets::consumer_blackwell, target_sets::hopper, target_sets::rubin;
// Source: ptxas 13.0 and 13.5.
constexpr TargetSet tcgen05_i8{Target::sm_100a, Target::sm_101a, Target::sm_110a},
    k_96{Target::sm_103a, Target::sm_107a};
// For mma.sync every target counts separately: PTX's "sm_80 or higher", or the targets with suffix a or f.
constexpr TargetSet from_70 = TargetSet::from(Target::sm_70), from_75 = TargetSet::from(Target::sm_75),
                    from_80 = TargetSet::from(Target::sm_80), from_89 = TargetSet::from(Target::sm_89),
                    from_90 = TargetSet::from(Target::sm_90),
                    every_blackwell = consumer_blackwell | target_sets::tcgen05;

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
constexpr std::array m16n8{LegalShape{.m = {16}, .n = eight}};
constexpr std::array m8n8{LegalShape{.m = {8}, .n = eight}};
// PTX ISA 9.7.16.2.1, Table 39.
constexpr LegalShape ws_dense_shape{.weight_stationary = true, .sparse = false, .m = {32, 64, 128}, .n = ws_dense};
constexpr LegalShape ws_sparse_shape{.weight_stationary = true, .dense = false, .m = {32, 64, 128}, .n = ws_sparse};
constexpr std::array float_tcgen05{LegalShape{.m = {64, 128}, .n = multiples_of_8},
                                   LegalShape{.cta_group = 2, .m = {128, 256}, .n = multiples_of_16}, ws_dense_shape,
                                   ws_sparse_shape};
constexpr std::array integer_tcgen05{LegalShape{.m = {64, 128}, .n = i8_list},
                                     LegalShape{.cta_group = 2, .m = {128, 256}, .n = multiples_of_32}, ws_dense_shape,
                                     ws_sparse_shape};
// ISA 9.4, Table 48: twice the K. Its fp4 row has only cta_group::2; NVIDIA's compiler emits both.
constexpr std::array long_f8{LegalShape{.m = {128}, .n = multiples_of_8},
                             LegalShape{.cta_group = 2, .m = {256}, .n = multiples_of_16}, ws_dense_shape,
                             ws_sparse_shape};
constexpr std::array long_scaled{LegalShape{.m = {128}, .n = multiples_of_8},
                                 LegalShape{.cta_group = 2, .m = {256}, .n = multiples_of_16}};
constexpr std::array ti16_tcgen05{
    LegalShape{.m = {64}, .n = multiples_of_8}, LegalShape{.m = {128}, .n = multiples_of_16},
    LegalShape{.cta_group = 2, .m = {128, 256}, .n = multiples_of_32}, ws_dense_shape, ws_sparse_shape};
constexpr std::array scaled_tcgen05{LegalShape{.m = {128}, .n = multiples_of_8},
                                    LegalShape{.cta_group = 2, .sparse = false, .m = {128, 256}, .n = multiples_of_16},
                                    LegalShape{.cta_group = 2, .dense = false, .m = {256}, .n = multiples_of_16}};

// For each kind: the scale-vector sizes as written, the types for each size, and where the first scale may
// be.
constexpr FormatSet powers{ue8m0}, fractions{ue4m3}, any_scale{ue8m0, ue4m3, ue5m3};
constexpr std::array mxf8f6f4_scales{LegalScales{ScaleVec::unwritten, powers, 1, 3},
                                     LegalScales{ScaleVec::x1, powers, 1, 3},
                                     LegalScales{ScaleVec::block32, powers, 1, 3}};
constexpr std::array mxf4_scales{LegalScales{ScaleVec::unwritten, powers, 2, 2},
                                 LegalScales{ScaleVec::x2, powers, 2, 2}, LegalScales{ScaleVec::block32, powers, 2, 2}};
// Only sm_107 has ue5m3, and ue4m3 with one scale for every 32: see family::target_rows.
constexpr std::array nvf4_scales{LegalScales{ScaleVec::x2, any_scale, 2, 2}, LegalScales{ScaleVec::x4, any_scale, 4, 0},
                                 LegalScales{ScaleVec::block16, any_scale, 4, 0},
                                 LegalScales{ScaleVec::block32, any_scale, 2, 2}};
constexpr std::array mxf4_k96_scales{LegalScales{ScaleVec::unwritten, powers, 1, 3},
                                     LegalScales{ScaleVec::x2, powers, 1, 3},
                                     LegalScales{ScaleVec::block32, powers, 1, 3}};
constexpr std::array nvf4_k96_scales{
    LegalScales{ScaleVec::x2, any_scale, 1, 3}, LegalScales{ScaleVec::x4, any_scale, 2, 2},
    LegalScales{ScaleVec::block16, any_scale, 2, 2}, LegalScales{ScaleVec::block32, any_scale, 1, 3}};
// Twice the K, on sm_107. The text of ISA 9.4 calls .scale_vec::NX an alias of .blockNN there, but its Table 68 does
// not; NVIDIA's compiler emits only .blockNN.
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
// ISA 9.1 introduced 4X with ue8m0: ptxas 13.0 rejects it, 13.5 accepts it.
constexpr std::array warp_nvf4_scales{LegalScales{ScaleVec::x2, powers, 2, 2},
                                      LegalScales{ScaleVec::x4, fractions, 1, 0},
                                      LegalScales{ScaleVec::x4, powers, 1, 0, {9, 1}}};

constexpr std::string_view wgmma_shapes = "PTX ISA 9.7.15.2", table_39 = "PTX ISA 9.7.16.2.1, Table 39; ptxas 13.0",
                           warp_source = "PTX ISA 9.7.14.3; ptxas 13.0",
                           dense_source = "PTX ISA 9.7.14.5.14; ptxas 13.5",
                           table_48 = "PTX ISA 9.4, 9.7.18.2.1, Table 48; ptxas 13.5",
                           sparse_source = "PTX ISA 9.7.14.6.3; ptxas 13.5",
                           move_source = "PTX ISA 9.7.16.8 and 9.7.16.9; ptxas 13.5";

/// Common to all forms of a family, unless a group overrides it.
constexpr Form wgmma_form(Form form) {
  form.family = Family::wgmma, form.name = "wgmma.mma_async", form.targets = target_sets::hopper;
  form.source = wgmma_shapes, form.instances = family::instances_of_wgmma;
  return form;
}
constexpr Form tcgen05_form(Form form) {
  form.family = Family::tcgen05, form.instances = family::instances_of_tcgen05;
  if (form.targets.empty()) form.targets = target_sets::tcgen05;
  if (form.further.empty()) form.further = "cta_group 1 and 2";
  if (form.source.empty()) form.source = table_39;
  return form;
}
constexpr Form mma_sync_form(Form form) {
  form.family = Family::mma_sync, form.instances = family::instances_of_mma_sync;
  if (form.shapes.empty()) form.shapes = m16n8;
  if (form.source.empty()) form.source = dense_source;
  return form;
}
constexpr Form tmem_move_form(Form form) {
  form.family = Family::tmem_move, form.instances = family::instances_of_tmem_move;
  if (form.targets.empty()) form.targets = target_sets::tcgen05;
  if (form.source.empty()) form.source = move_source;
  return form;
}

/// Expands a group to forms. A row's omitted values come from the group; B's types default to A's, and C's to D's.
template <size_t n>
constexpr std::array<Form, n> group(const Form& base, const Form (&rows)[n]) {
  std::array<Form, n> forms{};
  constexpr Form none{};  // clang++ 16 rejects a temporary here
  for (size_t i = 0; i < n; ++i) {
    Form& form = forms[i] = base;
    const auto take = [&](auto Form::*column) {
      if (!(rows[i].*column == none.*column)) form.*column = rows[i].*column;
    };
    const auto take_list = [&](auto Form::*column) {
      if (!(rows[i].*column).empty()) form.*column = rows[i].*column;
    };
    take(&Form::name), take(&Form::targets), take(&Form::kind), take(&Form::d), take(&Form::a);
    take(&Form::k_dense), take(&Form::k_sparse), take_list(&Form::shapes), take_list(&Form::scales);
    take(&Form::bit_operation), take(&Form::selectors), take(&Form::ptx), take(&Form::source);
    form.b = rows[i].b == FormatSet{} ? form.a : rows[i].b;
    form.c = rows[i].c == rows[i].d ? form.d : rows[i].c;
    if (form.family == Family::mma_sync)
      form.default_target = !form.kind && form.targets.contains(Target::sm_90a) ? Target::sm_90a : Target::sm_120a;
  }
  return forms;
}

template <size_t... n>
constexpr auto joined(const std::array<Form, n>&... groups) {
  std::array<Form, (n + ...)> all{};
  auto next = all.begin();
  ((next = std::ranges::copy(groups, next).out), ...);
  return all;
}

constexpr FormatSet eights{s8, u8}, fours{s4, u4}, below_fp8{e2m3, e3m2, e2m1};
constexpr auto and_popc = BitOperation::and_popc, xor_popc = BitOperation::xor_popc;
constexpr TargetSet reduces = target_sets::tcgen05 & TargetSet::from(Target::sm_101);

// clang-format off: a row a line
constexpr auto form_rows = joined(
    group(
        wgmma_form(
            {.k_dense = 16, .k_sparse = 32, .shapes = float_wgmma, .negate = true, .transpose = true, .selectors = 2}),
        {{.d = f32, .a = {f16}}, {.d = f16, .a = {f16}}, {.d = f32, .a = {bf16}}}),
    group(wgmma_form({.shapes = float_wgmma, .negate = true, .selectors = 2}),
          {{.d = f32, .a = {tf32}, .k_dense = 8, .k_sparse = 16}}),
    group(wgmma_form({.k_dense = 32, .k_sparse = 64, .shapes = float_wgmma, .negate = true}),
          {{.d = f32, .a = {e4m3}, .b = {e4m3}},
           {.d = f32, .a = {e4m3}, .b = {e5m2}},
           {.d = f32, .a = {e5m2}, .b = {e4m3}},
           {.d = f32, .a = {e5m2}, .b = {e5m2}},
           {.d = f16, .a = {e4m3}, .b = {e4m3}},
           {.d = f16, .a = {e4m3}, .b = {e5m2}},
           {.d = f16, .a = {e5m2}, .b = {e4m3}},
           {.d = f16, .a = {e5m2}, .b = {e5m2}}}),
    // 9.7.15.3 requires equal integer types; 9.7.15.5.2 since ISA 8.4 and ptxas 13.0 accept all four mixes.
    group(wgmma_form({.d = s32, .k_dense = 32, .k_sparse = 64, .shapes = integer_wgmma, .saturate = true}),
          {{.a = {s8}, .b = {s8}}, {.a = {s8}, .b = {u8}}, {.a = {u8}, .b = {s8}}, {.a = {u8}, .b = {u8}}}),
    group(wgmma_form({.shapes = integer_wgmma, .bit_operation = and_popc}), {{.d = s32, .a = {b1}, .k_dense = 256}}),
    group(tcgen05_form({.name = "tcgen05.mma kind::tf32",
                        .kind = MmaKind::tf32,
                        .shapes = float_tcgen05,
                        .negate = true,
                        .transpose = true,
                        .selectors = 4}),
          {{.d = f32, .a = {tf32}, .k_dense = 8, .k_sparse = 16}}),
    group(tcgen05_form({.name = "tcgen05.mma kind::f16",
                        .kind = MmaKind::f16,
                        .k_dense = 16,
                        .k_sparse = 32,
                        .shapes = float_tcgen05,
                        .negate = true,
                        .transpose = true,
                        .selectors = 4,
                        .further = "cta_group 1 and 2, A and B of one type"}),
          {{.d = f32, .a = {f16, bf16}}, {.d = f16, .a = {f16}}}),
    group(tcgen05_form({.name = "tcgen05.mma kind::f8f6f4",
                        .kind = MmaKind::f8f6f4,
                        .a = f8f6f4,
                        .k_dense = 32,
                        .k_sparse = 64,
                        .shapes = float_tcgen05,
                        .negate = true,
                        .transpose = true}),
          {{.d = f32}, {.d = f16}}),
    group(tcgen05_form({.name = "tcgen05.mma kind::f8f6f4",
                        .targets = rubin,
                        .kind = MmaKind::f8f6f4,
                        .a = fp8,
                        .k_dense = 64,
                        .k_sparse = 128,
                        .shapes = long_f8,
                        .negate = true,
                        .transpose = true,
                        .ptx = {9, 4},
                        .source = table_48}),
          {{.d = f32}, {.d = f16}}),
    group(tcgen05_form({.name = "tcgen05.mma kind::i8",
                        .targets = tcgen05_i8,
                        .kind = MmaKind::i8,
                        .shapes = integer_tcgen05,
                        .transpose = true,
                        .saturate = true}),
          {{.d = s32, .a = eights, .k_dense = 32, .k_sparse = 64}}),
    group(tcgen05_form({.name = "tcgen05.mma kind::ti16",
                        .targets = rubin,
                        .kind = MmaKind::ti16,
                        .shapes = ti16_tcgen05,
                        .negate = true,
                        .selectors = 4,
                        .ptx = {9, 4},
                        .source = table_48}),
          {{.d = s32, .a = {s1z4m11}, .k_dense = 16, .k_sparse = 32}}),
    group(tcgen05_form({.name = "tcgen05.mma kind::mxf8f6f4",
                        .kind = MmaKind::mxf8f6f4,
                        .a = f8f6f4,
                        .shapes = scaled_tcgen05,
                        .negate = true,
                        .transpose = true}),
          {{.k_dense = 32, .k_sparse = 64, .scales = mxf8f6f4_scales},
           {.targets = rubin,
            .k_dense = 64,
            .k_sparse = 128,
            .shapes = long_scaled,
            .scales = mxf8f6f4_long_scales,
            .ptx = {9, 4},
            .source = table_48}}),
    group(tcgen05_form({.name = "tcgen05.mma kind::mxf4",
                        .kind = MmaKind::mxf4,
                        .a = {e2m1},
                        .shapes = scaled_tcgen05,
                        .negate = true}),
          {{.k_dense = 64, .k_sparse = 128, .scales = mxf4_scales},
           {.targets = k_96, .k_dense = 96, .k_sparse = 192, .scales = mxf4_k96_scales},
           {.targets = rubin,
            .k_dense = 128,
            .shapes = long_scaled,
            .scales = mxf4_long_scales,
            .ptx = {9, 4},
            .source = table_48}}),
    group(tcgen05_form({.name = "tcgen05.mma kind::mxf4nvf4",
                        .kind = MmaKind::mxf4nvf4,
                        .a = {e2m1},
                        .shapes = scaled_tcgen05,
                        .negate = true}),
          {{.k_dense = 64, .k_sparse = 128, .scales = nvf4_scales},
           {.targets = k_96, .k_dense = 96, .k_sparse = 192, .scales = nvf4_k96_scales},
           {.targets = rubin,
            .k_dense = 128,
            .shapes = long_scaled,
            .scales = nvf4_long_scales,
            .ptx = {9, 4},
            .source = table_48}}),
    group(mma_sync_form({.targets = consumer_blackwell,
                         .a = {e2m1},
                         .k_dense = 64,
                         .k_sparse = 128,
                         .ordered_only = true,
                         .ptx = {8, 7},
                         .source = warp_source}),
          {{.name = "mma.sync kind::mxf8f6f4",
            .kind = MmaKind::mxf8f6f4,
            .a = f8f6f4,
            .k_dense = 32,
            .k_sparse = 64,
            .scales = warp_mxf8f6f4_scales},
           {.name = "mma.sync kind::mxf4", .kind = MmaKind::mxf4, .scales = warp_mxf4_scales},
           {.name = "mma.sync kind::mxf4nvf4", .kind = MmaKind::mxf4nvf4, .scales = warp_nvf4_scales}}),
    group(mma_sync_form({.name = "mma.sync m8n8k4",
                         .targets = from_70,
                         .a = {f16},
                         .k_dense = 4,
                         .shapes = m8n8,
                         .any_layout = true,
                         .ptx = {6, 4}}),
          {{.d = f16}, {.d = f32}, {.d = f32, .c = f16}}),
    group(mma_sync_form({.name = "mma.sync m16n8k8", .targets = from_75, .a = {f16}, .k_dense = 8, .ptx = {6, 5}}),
          {{.d = f16}, {.d = f32}}),
    group(mma_sync_form({.targets = from_80, .ptx = {7, 0}}),
          {{.name = "mma.sync m16n8k16", .d = f16, .a = {f16}, .k_dense = 16},
           {.name = "mma.sync m16n8k16", .d = f32, .a = {f16}, .k_dense = 16},
           {.name = "mma.sync m16n8k8", .d = f32, .a = {bf16}, .k_dense = 8},
           {.name = "mma.sync m16n8k16", .d = f32, .a = {bf16}, .k_dense = 16},
           {.name = "mma.sync m16n8k4", .d = f32, .a = {tf32}, .k_dense = 4},
           {.name = "mma.sync m16n8k8", .d = f32, .a = {tf32}, .k_dense = 8}}),
    group(mma_sync_form({.targets = from_89, .a = fp8, .ptx = {8, 7}}),
          {{.name = "mma.sync m16n8k16", .d = f32, .k_dense = 16},
           {.name = "mma.sync m16n8k16", .d = f16, .k_dense = 16},
           {.name = "mma.sync m16n8k32", .d = f32, .k_dense = 32, .ptx = {8, 4}},
           {.name = "mma.sync m16n8k32", .d = f16, .k_dense = 32}}),
    group(mma_sync_form({.targets = from_90, .d = f64, .a = {f64}, .rounds = true, .ptx = {7, 8}}),
          {{.name = "mma.sync m8n8k4", .targets = from_80, .k_dense = 4, .shapes = m8n8, .ptx = {7, 0}},
           {.name = "mma.sync m16n8k4", .k_dense = 4},
           {.name = "mma.sync m16n8k8", .k_dense = 8},
           {.name = "mma.sync m16n8k16", .k_dense = 16}}),
    // 9.7.14.2 requires equal types of 4 bits; the syntax and ptxas accept all four mixes.
    group(mma_sync_form({.targets = from_80, .d = s32, .saturate = true, .ptx = {7, 0}}),
          {{.name = "mma.sync m8n8k16", .targets = from_75, .a = eights, .k_dense = 16, .shapes = m8n8, .ptx = {6, 5}},
           {.name = "mma.sync m16n8k16", .a = eights, .k_dense = 16},
           {.name = "mma.sync m16n8k32", .a = eights, .k_dense = 32},
           {.name = "mma.sync m8n8k32", .targets = from_75, .a = fours, .k_dense = 32, .shapes = m8n8, .ptx = {6, 5}},
           {.name = "mma.sync m16n8k32", .a = fours, .k_dense = 32},
           {.name = "mma.sync m16n8k64", .a = fours, .k_dense = 64}}),
    group(mma_sync_form({.name = "mma.sync m8n8k128", .d = s32, .a = {b1}, .k_dense = 128, .shapes = m8n8}),
          {{.targets = from_75, .bit_operation = xor_popc, .ptx = {7, 0}},
           {.targets = from_80, .bit_operation = and_popc, .ptx = {7, 1}}}),
    group(mma_sync_form({.targets = from_80, .d = s32, .a = {b1}}),
          {{.name = "mma.sync m16n8k128", .k_dense = 128, .bit_operation = xor_popc, .ptx = {7, 0}},
           {.name = "mma.sync m16n8k128", .k_dense = 128, .bit_operation = and_popc, .ptx = {7, 1}},
           {.name = "mma.sync m16n8k256", .k_dense = 256, .bit_operation = xor_popc, .ptx = {7, 0}},
           {.name = "mma.sync m16n8k256", .k_dense = 256, .bit_operation = and_popc, .ptx = {7, 1}}}),
    group(mma_sync_form({.name = "mma.sync kind::f8f6f4",
                         .targets = consumer_blackwell,
                         .kind = MmaKind::f8f6f4,
                         .k_dense = 32,
                         .ptx = {8, 7}}),
          {{.targets = every_blackwell, .d = f32, .a = fp8},
           {.targets = every_blackwell, .d = f16, .a = fp8},
           {.d = f32, .a = below_fp8, .b = f8f6f4},
           {.d = f16, .a = below_fp8, .b = f8f6f4},
           {.d = f32, .a = fp8, .b = below_fp8},
           {.d = f16, .a = fp8, .b = below_fp8}}),
    group(mma_sync_form({.targets = from_80, .ptx = {7, 1}, .source = sparse_source}),
          {{.name = "mma.sp m16n8k16", .d = f16, .a = {f16}, .k_sparse = 16, .selectors = 4},
           {.name = "mma.sp m16n8k16", .d = f32, .a = {f16}, .k_sparse = 16, .selectors = 4},
           {.name = "mma.sp m16n8k32", .d = f16, .a = {f16}, .k_sparse = 32, .selectors = 2},
           {.name = "mma.sp m16n8k32", .d = f32, .a = {f16}, .k_sparse = 32, .selectors = 2},
           {.name = "mma.sp m16n8k16", .d = f32, .a = {bf16}, .k_sparse = 16, .selectors = 4},
           {.name = "mma.sp m16n8k32", .d = f32, .a = {bf16}, .k_sparse = 32, .selectors = 2},
           {.name = "mma.sp m16n8k8", .d = f32, .a = {tf32}, .k_sparse = 8, .selectors = 4},
           {.name = "mma.sp m16n8k16", .d = f32, .a = {tf32}, .k_sparse = 16, .selectors = 2},
           {.name = "mma.sp m16n8k64", .targets = from_89, .d = f32, .a = fp8, .k_sparse = 64, .ptx = {8, 4}}}),
    group(mma_sync_form({.targets = consumer_blackwell, .ordered_only = true, .ptx = {8, 7}, .source = sparse_source}),
          {{.name = "mma.sp m16n8k64", .d = f16, .a = fp8, .k_sparse = 64}}),
    group(mma_sync_form({.targets = from_80, .d = s32, .saturate = true, .ptx = {7, 1}, .source = sparse_source}),
          {{.name = "mma.sp m16n8k32", .a = eights, .k_sparse = 32, .selectors = 2},
           {.name = "mma.sp m16n8k64", .a = eights, .k_sparse = 64},
           {.name = "mma.sp m16n8k64", .a = fours, .k_sparse = 64, .selectors = 2},
           {.name = "mma.sp m16n8k128", .a = fours, .k_sparse = 128}}),
    group(mma_sync_form({.name = "mma.sp kind::f8f6f4",
                         .targets = consumer_blackwell,
                         .kind = MmaKind::f8f6f4,
                         .k_sparse = 64,
                         .ordered_only = true,
                         .ptx = {8, 7},
                         .source = sparse_source}),
          {{.targets = every_blackwell, .d = f32, .a = fp8},
           {.d = f16, .a = fp8},
           {.d = f32, .a = below_fp8, .b = f8f6f4},
           {.d = f16, .a = below_fp8, .b = f8f6f4},
           {.d = f32, .a = fp8, .b = below_fp8},
           {.d = f16, .a = fp8, .b = below_fp8}}),
    std::array{tmem_move_form({.name = "tcgen05.ld", .move = MoveKind::ld, .further = ".pack::16b"}),
               tmem_move_form({.name = "tcgen05.st", .move = MoveKind::st, .further = ".unpack::16b"}),
               tmem_move_form({.name = "tcgen05.cp",
                               .move = MoveKind::cp,
                               .further = "cta_group 1 and 2, .b8x16.b4x16_p64, .b8x16.b6x16_p32"}),
               tmem_move_form({.name = "tcgen05.shift",
                               .targets = architecture_specific(target_sets::tcgen05),
                               .move = MoveKind::shift,
                               .further = "cta_group 1 and 2"}),
               tmem_move_form({.name = "tcgen05.ld.red",
                               .targets = reduces,
                               .move = MoveKind::ld_red,
                               .further = ".min and .max of f32, u32 and s32, .abs, .NaN",
                               .default_target = Target::sm_103a,
                               .ptx = {8, 8},
                               .source = "PTX ISA 9.4, 9.7.18.8.3; ptxas 13.5"})});
// clang-format on

consteval bool no_instruction_fits_two_rows() {
  for (size_t i = 0; i < form_rows.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const Form &x = form_rows[i], &y = form_rows[j];
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

/// " with K = 96", if the form has other targets than the same name with its usual K.
std::string longer_k_of(const Form& form, const Instruction& instruction) {
  const auto usual = std::ranges::find(form_rows, form.name, &Form::name);
  const bool is_usual = usual->k_dense == form.k_dense || usual->targets == form.targets;
  return is_usual ? "" : fmt::format(" with K = {}", mma_of(instruction).k);
}

/// The property of the instruction that the target lacks, if there is one.
std::optional<Violation> target_violation(const Instruction& instruction, const Form& form, Target target) {
  const TargetSet legal = targets_of(instruction);
  if (legal.contains(target)) return std::nullopt;
  std::string what = longer_k_of(form, instruction), source(form.source);
  if (legal.empty()) {
    std::string parts = fmt::format("{}{}: {}", form.name, what, print(form.targets));
    family::dispatch(
        [&](const auto& typed) {
          family::for_each_target_row(
              typed, [&](const auto& row) { parts += fmt::format("; {}: {}", row.what, print(row.targets)); });
        },
        instruction);
    return Violation{.code = ViolationCode::unsupported_target,
                     .field = "target",
                     .seen = std::string(print(target)),
                     .expected = "none: no target supports the instruction",
                     .fix = std::move(parts),
                     .source = std::move(source)};
  }
  if (form.targets.contains(target)) {
    family::dispatch(
        [&](const auto& alternative) {
          family::for_each_target_row(alternative, [&](const auto& row) {
            if (row.targets.contains(target)) return;
            what += fmt::format("{} {}", what.empty() ? " with" : " and", row.what);
            source = row.source;
          });
        },
        instruction);
  }
  return Violation{.code = ViolationCode::unsupported_target,
                   .field = "target",
                   .seen = std::string(print(target)),
                   .expected = print(legal),
                   .fix = fmt::format("{}{} exists only there", form.name, what),
                   .source = std::move(source)};
}

}  // namespace

std::span<const Form> forms() { return form_rows; }

const Form* find_form(const Instruction& instruction) {
  return family::dispatch([](const auto& alternative) { return family::find(alternative); }, instruction);
}

std::vector<Violation> violations_of(const Instruction& instruction, Target target) {
  std::vector<Violation> violations = family::unknown_values(instruction);
  if (static_cast<size_t>(target) >= targets.size()) {
    violations.push_back({.field = "target",
                          .seen = fmt::format("value {} of an enumeration", static_cast<size_t>(target)),
                          .expected = fmt::format("one of its {} values", targets.size())});
  }
  if (!violations.empty()) return violations;
  violations =
      family::dispatch([&](const auto& alternative) { return family::violations(alternative, target); }, instruction);
  const Form* form = find_form(instruction);
  if (form) {
    if (std::optional<Violation> violation = target_violation(instruction, *form, target))
      violations.push_back(std::move(*violation));
  }
  if (!form && violations.empty()) {  // without a row there is no arithmetic either
    violations.push_back(
        {.field = "instruction", .seen = print(instruction), .expected = "types, shape and K of one form"});
  }
  return violations;
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
      [&](const auto& alternative) {
        family::for_each_target_row(alternative, [&](const auto& row) { legal = legal & row.targets; });
      },
      instruction);
  return legal;
}

Target default_target(const Instruction& instruction) {
  const Form* form = find_form(instruction);
  if (!form) {  // it is illegal; its family still has a default target
    const auto row = std::ranges::find(form_rows, family_of(instruction), &Form::family);
    form = row == form_rows.end() ? nullptr : &*row;
  }
  if (!form) return Target::sm_90a;
  const TargetSet legal = targets_of(instruction);
  return form->default_target.value_or(legal.empty() ? form->targets.first() : legal.first());
}

PtxVersion ptx_version_of(const Instruction& instruction, Target target) {
  const Form* form = find_form(instruction);
  PtxVersion version = std::max(info(target).ptx, form ? form->ptx : PtxVersion{});
  family::dispatch(
      [&](const auto& alternative) {
        version = std::max(version, family::ptx_version(alternative, form));
        family::for_each_target_row(alternative, [&](const auto& row) { version = std::max(version, row.ptx); });
      },
      instruction);
  return version;
}

std::vector<Instruction> all_instructions(Family family) {
  std::vector<Instruction> all;
  std::set<std::string> seen;  // tcgen05's forms share mnemonics, which do not contain types and K
  for (const Form& form : form_rows) {
    if (form.family != family) continue;
    for (Instruction& instruction : instructions_of(form)) {
      if (seen.insert(print(instruction)).second) all.push_back(std::move(instruction));
    }
  }
  return all;
}

std::vector<Instruction> all_instructions() {
  std::vector<Instruction> all;
  for (const Family family : {Family::wgmma, Family::tcgen05, Family::mma_sync, Family::tmem_move}) {
    for (Instruction& instruction : all_instructions(family)) all.push_back(std::move(instruction));
  }
  return all;
}

namespace {

/// Calls body with `i` for every scale type of its scale-vector size.
template <typename I, typename Body>
void for_each_scale_type(const Form& form, I i, const Body& body) {
  if (form.scales.empty()) return body(i);
  if constexpr (requires { i.scale_vec; }) {
    for (const LegalScales& row : form.scales) {
      for (const FormatInfo& format : formats) {
        if (row.scale_vec != i.scale_vec || !row.types.contains(format.id)) continue;
        i.scale_type = format.id;
        body(i);
      }
    }
  }
}

/// The same for both versions of sparse metadata, if the form has two.
template <typename I, typename Body>
void for_each_version(const Form& form, I i, const Body& body) {
  body(i);
  if constexpr (requires { i.sparsity_version; }) {
    if (!i.sparse || !info(*form.kind).is_fp4) return;
    i.sparsity_version = 1 - i.sparsity_version;
    body(i);
  }
}

}  // namespace

std::array<FormOn, targets.size()> form_on_targets(const Form& form) {
  std::array<FormOn, targets.size()> all;
  for (FormOn& on : all) {
    on.scales.assign(form.scales.begin(), form.scales.end());
    for (LegalScales& row : on.scales) row.types = {};
  }
  const auto note = [&](const auto& alternative) {
    const TargetSet legal = targets_of(alternative);
    for (size_t i = 0; i < all.size(); ++i) {
      if (!legal.contains(targets[i].id)) continue;
      if constexpr (requires { alternative.sparse; }) (alternative.sparse ? all[i].sparse : all[i].dense) = true;
      if constexpr (requires { alternative.sparsity_version; })
        all[i].sparsity_version |= alternative.sparse && alternative.sparsity_version;
      if constexpr (requires { alternative.scale_vec; }) {
        for (size_t j = 0; j < form.scales.size(); ++j) {
          const LegalScales& row = form.scales[j];
          if (row.scale_vec == alternative.scale_vec && row.types.contains(alternative.scale_type))
            all[i].scales[j].types.add(alternative.scale_type);
        }
      }
    }
  };
  for (const Instruction& instruction : instructions_of(form)) {
    family::dispatch(
        [&](const auto& mnemonic) {
          for_each_version(form, mnemonic, [&](const auto& version) { for_each_scale_type(form, version, note); });
        },
        instruction);
  }
  for (FormOn& on : all) std::erase_if(on.scales, [](const LegalScales& row) { return row.types == FormatSet{}; });
  return all;
}

std::string print_options(const Form& form, const FormOn& on) {
  std::vector<std::string> options;
  if (form.negate) options.emplace_back("negate");
  if (form.transpose) options.emplace_back("transpose");
  if (form.saturate) options.emplace_back("saturate");
  if (form.bit_operation != BitOperation::none) options.emplace_back(print(form.bit_operation));
  if (form.any_layout) options.emplace_back("row and col");
  if (form.c != form.d) options.push_back(fmt::format("C {}", info(form.c).name));
  if (form.rounds) options.emplace_back(".rn .rz .rm .rp");
  if (on.sparsity_version == 1) options.emplace_back("sparsity version 1");
  if (form.k_dense == 0 && form.k_sparse != 0) {
    options.emplace_back(form.ordered_only ? ".sp::ordered_metadata" : ".sp and .sp::ordered_metadata");
    if (form.selectors > 1) options.push_back(fmt::format("selector 0..{}", form.selectors - 1));
  }
  const auto is_counted = [](const LegalScales& scales) {
    return scales.scale_vec == ScaleVec::x1 || scales.scale_vec == ScaleVec::x2 || scales.scale_vec == ScaleVec::x4;
  };
  // .blockNN and an omitted size are other spellings of 1X, 2X and 4X, if the target allows these.
  const bool has_counted = std::ranges::any_of(on.scales, is_counted);
  for (const LegalScales& scales : on.scales) {
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
