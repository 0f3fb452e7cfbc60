// SPDX-License-Identifier: MIT
// The order in which a library adds along K: the instruction that it chains for one output, and its f32 operations
// between instructions. A plan is a value; it converts to and from JSON.
//
//   D = output(epilogue(reduction over split-K slices(join over sliced-K warps(promotion over blocks(chain)))))
//
//   {"instruction": "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3", "promotion": {"every": 128},
//    "output": {"type": "bf16"}}
//
// Each struct has the rows of its fields beside it (plan_field.hpp): a new field is a member and its row.
//
// Every level except the chain is f32 on CUDA cores, with each operation rounded once to nearest even. A level with its
// default has no effect. Tiles, clusters and warps matter only if a field names them. Sources: docs/products.md.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/core/target.hpp"
#include "bitmma/formats/format.hpp"
#include "bitmma/formats/round.hpp"
#include "bitmma/gemm/evidence.hpp"
#include "bitmma/gemm/plan_field.hpp"
#include "bitmma/instruction/instruction.hpp"

namespace bitmma {

namespace plan_limits {
inline constexpr int64_t number = 1 << 30, extent = int64_t{1} << 40;
}  // namespace plan_limits

/// Rounding of f32 inputs before the instruction reads them and drops their low 13 bits.
enum class InputRounding : uint8_t { none, tf32_rne, tf32_rna };
constexpr auto plan_words(InputRounding) { return std::to_array<std::string_view>({"none", "tf32_rne", "tf32_rna"}); }

/// Which tile of a slice is short.
enum class Residue : uint8_t { last, first };
constexpr auto plan_words(Residue) { return std::to_array<std::string_view>({"last", "first"}); }

/// Scaling of promoted sums: none; run = fma(sa * sb, acc, run); run = fma(acc * sa, sb, run).
enum class PromotionScale : uint8_t { none, fma, mul_fma };
constexpr auto plan_words(PromotionScale) { return std::to_array<std::string_view>({"none", "fma", "mul_fma"}); }

struct Promotion {
  int every = 128;  // promote after this many k, and at the end of a slice
  PromotionScale scale = PromotionScale::none;
  bool restart_at_tile = false;  // restart the count at every main-loop tile
  int columns_of_sb = 0;         // columns that share a scale of B: 1 or 128; 0: follows from its shape

  bool operator==(const Promotion&) const = default;
};
constexpr auto fields_of(const Promotion*) {
  return std::tuple{
      plan_field(&Promotion::every, {.name = "every",
                                     .min = 1,
                                     .max = plan_limits::number,
                                     .is_always_printed = true,
                                     .meaning = "promote after this many k, and at the end of a slice; 128 with scales",
                                     .evidence = "H100 for 128"}),
      plan_field(&Promotion::scale, {.name = "scale", .meaning = "how scales multiply promoted sums, below"}),
      plan_field(&Promotion::restart_at_tile,
                 {.name = "restart_at_tile", .meaning = "the count restarts at every tile of `k_tile`"}),
      SpecialPlanField<Promotion>{{.name = "sa",
                                   .values = "[1, 128]",
                                   .by_default = "[1, 128]",
                                   .meaning = "rows and k that share a scale of A"}},
      SpecialPlanField<Promotion>{{.name = "sb",
                                   .values = "[1, 128], [128, 128]",
                                   .by_default = "follows from the shape of `scale_b`",
                                   .meaning = "columns and k that share a scale of B"}}};
}

/// The rule that splits K into slices [j c, (j + 1) c) with c = ...
enum class SplitRule : uint8_t {
  ceil,       // ceil(ceil(K / unit) / count) * unit
  nvjet,      // ceil(floor(K / count) / unit) * unit; k from count * c on is never added
  floor,      // floor(floor(K / unit) / count) * unit; the last slice runs to K
  big_first,  // ceil(K / unit) tiles; the first slices have one more
  big_last,   // ceil(K / unit) tiles; the last slices have one more
};
constexpr auto plan_words(SplitRule) {
  return std::to_array<std::string_view>({"ceil", "nvjet", "floor", "big_first", "big_last"});
}

struct SplitK {
  int count = 1;
  int unit = 64;
  SplitRule rule = SplitRule::ceil;
  std::vector<int64_t> cuts = {};  // replaces the rule: 0, ..., the end of the last slice

  bool operator==(const SplitK&) const = default;
};
constexpr auto fields_of(const SplitK*) {
  constexpr auto by_rule = [](const SplitK& split) { return split.cuts.empty(); };
  return std::tuple{
      plan_field(&SplitK::cuts, {.name = "cuts",
                                 .values = "[0, .., the end of the last slice]",
                                 .by_default = "by the rule",
                                 .meaning = "replaces the rule; k after the last number is not added",
                                 .evidence = "published: stream-K"}),
      plan_field(
          &SplitK::count,
          {.name = "count", .min = 1, .max = plan_limits::number, .is_always_printed = true, .meaning = "slices of K"},
          by_rule),
      plan_field(&SplitK::unit,
                 {.name = "unit",
                  .min = 1,
                  .max = plan_limits::number,
                  .is_always_printed = true,
                  .meaning = "slices are multiples of this"},
                 by_rule),
      plan_field(&SplitK::rule, {.name = "rule", .is_always_printed = true, .meaning = "where the slices begin, below"},
                 by_rule)};
}

/// ((p_0 + p_1) + p_2) + ..; neighbours level by level from p_0 on; or from the last one on: p_0 + (p_1 + p_2).
enum class ReductionOrder : uint8_t { ascending, pairs, pairs_from_end };
constexpr auto plan_words(ReductionOrder) {
  return std::to_array<std::string_view>({"ascending", "pairs", "pairs_from_end"});
}
/// The type of partial or running sums: f32, or D's type.
enum class SumType : uint8_t { f32, out };
constexpr auto plan_words(SumType) { return std::to_array<std::string_view>({"f32", "out"}); }

struct Reduction {
  ReductionOrder order = ReductionOrder::ascending;
  SumType partial = SumType::f32;
  SumType running = SumType::f32;
  bool start_at_zero = false;  // start with +0 + p_0
  /// The epilogue except relu acts on slice 0 before the others are added to it; alpha acts on each (GemmSplitKSerial).
  bool serial = false;
  bool flush = false;  // all additions except the first and last flush subnormals: atomics on global memory

  bool operator==(const Reduction&) const = default;
};
constexpr auto fields_of(const Reduction*) {
  return std::tuple{
      plan_field(&Reduction::order,
                 {.name = "order",
                  .phrase = "joined {}",
                  .meaning = "((p_0 + p_1) + p_2) + ...; `pairs`: neighbours level by level, an odd one is carried on; "
                             "`pairs_from_end`: p_0 + (p_1 + p_2)",
                  .evidence = "H100: ascending, and pairs from the end with 2, 3 and 4 slices"}),
      plan_field(&Reduction::partial, {.name = "partial",
                                       .phrase = "partial sums in D's type",
                                       .meaning = "`out`: every p is rounded to D's type first",
                                       .evidence = "H100: bf16"}),
      plan_field(&Reduction::running, {.name = "running",
                                       .phrase = "running sum in D's type",
                                       .meaning = "`out`: the sum is rounded to D's type after every slice",
                                       .evidence = "H100: f16 accumulators; published: GemmSplitKSerial"}),
      plan_field(&Reduction::start_at_zero,
                 {.name = "start",
                  .no = "first",
                  .yes = "zero",
                  .meaning = "`zero`: the sum starts at +0; the difference is visible only if p_0 = -0",
                  .evidence = "published: CUTLASS ReduceSplitK"}),
      plan_field(&Reduction::flush, {.name = "ftz",
                                     .meaning = "additions but the first and last flush subnormals, as atomics on "
                                                "global memory do",
                                     .evidence = "published"}),
      plan_field(
          &Reduction::serial,
          {.name = "serial",
           .phrase = "serial",
           .meaning = "the epilogue without relu acts on slice 0; later slices get only alpha and the scales and "
                      "are added to it",
           .evidence = "H100: bias, f32 D; published: GemmSplitKSerial"})};
}

/// Stream-K: output tiles first..last are split in their own way.
struct Region {
  int64_t first_tile = 0, last_tile = 0;
  SplitK split_k = {};
  Reduction reduction = {};

  bool operator==(const Region&) const = default;
};
constexpr auto fields_of(const Region*) {
  return std::tuple{
      SpecialPlanField<Region>{{.name = "tiles",
                                .values = "[first, last]",
                                .by_default = "required",
                                .meaning = "the output tiles of this region"}},
      plan_field(
          &Region::split_k,
          {.name = "split_k", .is_always_printed = true, .by_default = "one slice", .meaning = "as that of the plan"}),
      plan_field(&Region::reduction,
                 {.name = "reduction", .by_default = "in f32, ascending", .meaning = "as that of the plan"})};
}

/// alpha_beta: fma(alpha, x, beta c), as in most kernels. beta_c: fma(beta, c, x), as splitKreduce does after an
/// alpha_beta without C. round: rounds to D's type and back; before beta_c it describes a kernel that adds its rounded
/// D to C in memory.
enum class EpilogueKind : uint8_t { alpha_beta, scale_ab, row_scale, col_scale, bias, relu, d_scale, round, beta_c };
constexpr auto plan_words(EpilogueKind) {
  return std::to_array<std::string_view>(
      {"alpha_beta", "scale_ab", "row_scale", "col_scale", "bias", "relu", "d_scale", "round", "beta_c"});
}
struct EpilogueOp {
  EpilogueKind kind = EpilogueKind::relu;
  float alpha = 1, beta = 0;  // alpha_beta; beta_c: beta; d_scale: alpha

  bool operator==(const EpilogueOp&) const = default;
};
constexpr auto fields_of(const EpilogueOp*) {
  return std::tuple{
      SpecialPlanField<EpilogueOp>{{.name = "op", .by_default = "required", .meaning = "the operation, below"}},
      plan_field(&EpilogueOp::alpha, {.name = "alpha", .is_always_printed = true, .meaning = "of `alpha_beta`"},
                 [](const EpilogueOp& op) { return op.kind == EpilogueKind::alpha_beta; }),
      plan_field(
          &EpilogueOp::beta,
          {.name = "beta",
           .is_always_printed = true,
           .by_default = "0; of `beta_c` 1",
           .meaning = "of `alpha_beta` and `beta_c`"},
          [](const EpilogueOp& op) { return op.kind == EpilogueKind::alpha_beta || op.kind == EpilogueKind::beta_c; }),
      plan_field(&EpilogueOp::alpha, {.name = "scale", .is_always_printed = true, .meaning = "of `d_scale`"},
                 [](const EpilogueOp& op) { return op.kind == EpilogueKind::d_scale; })};
}

/// How lane totals are reduced: ((l_0 + l_1) + l_2) + ..; l and l + count / 2 first; neighbours first.
enum class LaneJoin : uint8_t { ascending, butterfly, neighbours };
constexpr auto plan_words(LaneJoin) {
  return std::to_array<std::string_view>({"ascending", "butterfly", "neighbours"});
}

/// K on tensor cores: one instruction that updates an accumulator.
struct TensorCoreChain {
  Instruction instruction = Wgmma{.n = 256};
  int k_step = 0;  // k per update; 0: the instruction's K
  InputRounding input_rounding = InputRounding::none;
  int64_t k_tile = 0;  // k per main-loop tile; 0: a whole slice
  Residue residue = Residue::last;
  int sliced_k = 1;  // warps that share a tile, each with a part of its K and its own accumulator
  std::optional<Promotion> promotion = {};
  bool start_with_c = false;  // the first update of slice 0 starts from C

  bool operator==(const TensorCoreChain&) const = default;
};
/// The instruction is the plan's, because it decides which chain this is.
constexpr auto fields_of(const TensorCoreChain*) {
  return std::tuple{
      plan_field(&TensorCoreChain::k_step,
                 {.name = "k_step",
                  .min = 1,
                  .max = plan_limits::number,
                  .phrase = "steps of {}",
                  .by_default = "K of the instruction",
                  .meaning = "K of one update of the accumulator, at most the default; the other terms of the "
                             "instruction are zero. Not with block scales",
                  .evidence = "H100: 8 for s1688"}),
      plan_field(
          &TensorCoreChain::input_rounding,
          {.name = "input_rounding",
           .phrase = "inputs {}",
           .meaning = "f32 inputs are rounded to tf32 first, ties to even (`tf32_rne`) or away (`tf32_rna`). With "
                      "`none` the instruction drops the low 13 bits",
           .evidence = "H100: rne in cuBLAS, none in Triton; rna published. NaN as `cvt.rn.tf32` and "
                       "`cvt.rna.tf32` of an H200"}),
      plan_field(&TensorCoreChain::residue,
                 {.name = "residue",
                  .phrase = "residue {}",
                  .meaning = "which tile is the short one, if the length of a slice is not a multiple of `k_tile`: "
                             "`first` as in CUTLASS 2.x",
                  .evidence = "H100"}),
      plan_field(&TensorCoreChain::k_tile,
                 {.name = "k_tile",
                  .min = 1,
                  .max = plan_limits::extent,
                  .phrase = "tile {}",
                  .is_of_call = true,
                  .by_default = "a whole slice",
                  .meaning = "K of a main-loop tile. Required with `residue` first, `sliced_k` above 1 and "
                             "`restart_at_tile`. No update crosses the end of a tile",
                  .evidence = "H100"}),
      plan_field(
          &TensorCoreChain::sliced_k,
          {.name = "sliced_k",
           .min = 1,
           .max = 1024,
           .phrase = "sliced-K {}",
           .meaning = "W warps share a tile: warp w adds positions [w k_tile / W, (w + 1) k_tile / W) to its own "
                      "accumulator; the accumulators are added as ((x_0 + x_1) + x_2) + ... Must divide `k_tile`; "
                      "not with `promotion`",
           .evidence = "published: CUTLASS"}),
      plan_field(&TensorCoreChain::promotion,
                 {.name = "promotion",
                  .meaning = "the accumulator is added to a sum in f32 again and again, below",
                  .evidence = "H100 without scale"}),
      plan_field(
          &TensorCoreChain::start_with_c,
          {.name = "start",
           .no = "nothing",
           .yes = "c",
           .phrase = "starts from C",
           .meaning = "`c`: C, in the accumulator's type (s32 of integers), is the accumulator of the first update "
                      "of slice 0. Not with promotion",
           .evidence = "hypothesis"})};
}

/// K on CUDA cores: f32 words (never rounded to tf32), f16 or bf16, with one chain of fma.rn.f32 per lane. Lane l takes
/// k = (t count + l) vector + v for v below vector, and t = 0, 1, ...
struct CudaCoreChain {
  int count = 1;  // lanes
  int vector = 1;
  int chunk = 0;  // number of t per chain; the totals of chunks are added in order. 0: one chain
  LaneJoin join = LaneJoin::ascending;

  bool operator==(const CudaCoreChain&) const = default;
};
constexpr auto fields_of(const CudaCoreChain*) {
  return std::tuple{
      plan_field(&CudaCoreChain::count, {.name = "count",
                                         .min = 1,
                                         .max = 1024,
                                         .is_always_printed = true,
                                         .meaning = "lanes. Lane l adds the terms k = (t count + l) vector + v for "
                                                    "t = 0, 1, .. and v below `vector`"}),
      plan_field(
          &CudaCoreChain::vector,
          {.name = "vector", .min = 1, .max = 1024, .phrase = "vectors of {}", .meaning = "neighbouring k of a lane"}),
      plan_field(&CudaCoreChain::chunk, {.name = "chunk",
                                         .min = 0,
                                         .max = plan_limits::number,
                                         .phrase = "chunks of {}",
                                         .by_default = "one chain",
                                         .meaning = "values of t in a chain; the lane adds the totals of its chunks in "
                                                    "order"}),
      plan_field(
          &CudaCoreChain::join,
          {.name = "join", .meaning = "how the totals of lanes are added; `butterfly`: l and l + count / 2 first"})};
}

/// The types of D: s32 for integers, f64 for f64, and the others for floats.
inline constexpr FormatSet plan_outputs{Format::f16, Format::bf16, Format::tf32, Format::f32,
                                        Format::f64, Format::e4m3, Format::e5m2, Format::s32};
/// Roundings to D's type, at the places of Rounding.
constexpr auto plan_words(Rounding) { return std::to_array<std::string_view>({"rz", "rn", "rna"}); }

struct [[nodiscard]] GemmPlan {
  std::string name = {};
  Target target = Target::sm_90a;
  std::variant<TensorCoreChain, CudaCoreChain> chain = TensorCoreChain{};
  std::map<std::string, FieldEvidence> evidence = {};  // of fields
  SplitK split_k = {};
  Reduction reduction = {};
  std::vector<Region> regions = {};
  std::pair<int, int> tile_mn = {128, 128};  // tile extents, for regions
  bool raster_n = false;                     // tiles run along N first
  std::vector<EpilogueOp> epilogue = {};
  Format output = Format::f32;                 // one of plan_outputs
  Rounding rounding = Rounding::nearest_even;  // to output: nearest_even, nearest_away or toward_zero
  std::optional<bool> saturate = {};           // nothing: fp8 saturates, other types do not

  bool operator==(const GemmPlan&) const = default;

  /// nullptr for a plan on CUDA cores.
  const TensorCoreChain* tensor_cores() const { return std::get_if<TensorCoreChain>(&chain); }
  /// nullptr for a plan on tensor cores.
  const CudaCoreChain* cuda_cores() const { return std::get_if<CudaCoreChain>(&chain); }
  /// For plans on tensor cores; throws std::bad_variant_access for others.
  TensorCoreChain& tensor() { return std::get<TensorCoreChain>(chain); }
  const TensorCoreChain& tensor() const { return std::get<TensorCoreChain>(chain); }
};

constexpr auto fields_of(const GemmPlan*) {
  constexpr auto has_regions = [](const GemmPlan& plan) { return !plan.regions.empty(); };
  return std::tuple{
      plan_field(&GemmPlan::name, {.name = "name", .by_default = "none", .meaning = "a string without effect"}),
      plan_field(&GemmPlan::target,
                 {.name = "target",
                  .is_always_printed = true,
                  .values = "a GPU",
                  .meaning = "the GPU whose arithmetic is used; the instruction must be legal on it"}),
      SpecialPlanField<GemmPlan>{
          {.name = "instruction",
           .values = "a PTX mnemonic with all qualifiers",
           .by_default = "required",
           .meaning =
               "`wgmma`, `mma.sync` or `tcgen05.mma`, dense; or `fma.rn.f32` for CUDA cores, which widen f16 and "
               "bf16 and never round f32 to tf32. It gives the types of A and B, the type of the accumulator and "
               "K of a step. Its N has no effect",
           .evidence = "H100"}},
      SpecialPlanField<GemmPlan>{
          {.name = "types",
           .values = R"({"a": "e5m2", "b": "e2m1", "d": "f16", "scale": "ue4m3"})",
           .by_default = "the kind's usual ones",
           .meaning = "for `tcgen05.mma`, whose mnemonic does not contain the types; only the needed keys"}},
      plan_alternative<CudaCoreChain>(&GemmPlan::chain, {.name = "lanes",
                                                         .by_default = "one chain",
                                                         .meaning = "with `fma.rn.f32`: how lanes share K",
                                                         .evidence = "H100: gemv2T, gemmSN, gemvx, sgemm"}),
      plan_alternative<TensorCoreChain>(&GemmPlan::chain),
      plan_field(&GemmPlan::split_k, {.name = "split_k",
                                      .by_default = "one slice",
                                      .meaning = "how K is cut into slices, below",
                                      .evidence = "H100 for ceil, nvjet"}),
      plan_field(&GemmPlan::reduction,
                 {.name = "reduction",
                  .by_default = "in f32, ascending",
                  .meaning = "how slices p_0, p_1, ... are added. Slices of s32 continue in one "
                             "accumulator instead, which is exact; those of f64 are added in f64, "
                             "ascending"}),
      plan_field(
          &GemmPlan::regions,
          {.name = "regions",
           .phrase = "stream-K",
           .by_default = "none",
           .meaning = "stream-K: outputs in these tiles use this split and reduction, all other outputs those of "
                      "the plan",
           .evidence = "H100: 2 calls of segment-K"}),
      plan_field(&GemmPlan::tile_mn,
                 {.name = "tile_mn",
                  .is_always_printed = true,
                  .values = "[rows, columns]",
                  .by_default = "[128, 128]",
                  .meaning = "extents of a tile of `regions`",
                  .evidence = "as `regions`"},
                 has_regions),
      plan_field(&GemmPlan::raster_n,
                 {.name = "raster",
                  .no = "m",
                  .yes = "n",
                  .is_always_printed = true,
                  .meaning = "the numbers of the tiles of `regions` rise along `m` or along `n` first",
                  .evidence = "as `regions`"},
                 has_regions),
      plan_field(&GemmPlan::epilogue,
                 {.name = "epilogue", .by_default = "none", .meaning = "operations on the f32 value, in order, below"}),
      plan_field_group<GemmPlan>(
          {.name = "output", .by_default = "f32", .meaning = "the type of D, and how sums become it"},
          std::tuple{
              plan_field(&GemmPlan::output,
                         {.name = "type",
                          .is_always_printed = true,
                          .values = "f32, f16, bf16, e4m3, e5m2; s32 or f64 with instructions that have it",
                          .meaning = "the type of D",
                          .evidence = "H100: f16, bf16 rounding"}),
              plan_field(&GemmPlan::rounding, {.name = "rounding",
                                               .phrase = "rounded {}",
                                               .meaning = "to nearest even; `rna`: ties away; `rz`: truncated"}),
              plan_field(&GemmPlan::saturate, {.name = "saturate",
                                               .by_default = "true for e4m3 and e5m2, false for others",
                                               .meaning = "without it, what exceeds the type overflows to infinity",
                                               .evidence = "published, of cuBLAS a hypothesis"})}),
      SpecialPlanField<GemmPlan>{
          {.name = "evidence",
           .values = "an object that maps a field to its evidence",
           .by_default = "none",
           .meaning =
               "how a field is known, without effect: a text, or an object with `level` (measured, published, model "
               "choice, stated), `seen_on` (a target), `gpus` and `note`. bitmma prints the level for the plan's "
               "target, if it differs also the level `seen` there, and the sentence as `text`"}}};
}

/// A row of docs/products.md.
struct PlanFieldInfo {
  std::string name = {};  // "split_k.count"
  std::string values = {}, by_default = {}, meaning = {}, evidence = {};

  bool operator==(const PlanFieldInfo&) const = default;
};
/// Every field of a plan in JSON, in the order in which print_json prints them.
std::vector<PlanFieldInfo> plan_fields();

std::string_view print(EpilogueKind kind);

/// True if the plan's promotion multiplies by scales of blocks of K.
bool scales_blocks(const GemmPlan& plan);

/// Reads a plan. Throws Error with the field, the value seen and the legal values.
GemmPlan parse_plan(std::string_view json);
/// The plan as JSON, without fields that have their default.
std::string print_json(const GemmPlan& plan);
/// The plan in short: "split-K 3 (nvjet, unit 64), promotion every 128".
std::string print_plan(const GemmPlan& plan);
/// The same without slices and tiles, which vary from call to call: "split-K nvjet, promotion every 128".
std::string print_family(const GemmPlan& plan);
/// The mnemonic of the chained instruction; "fma.rn.f32" on CUDA cores.
std::string print_instruction(const GemmPlan& plan);

/// True if the plan multiplies this type: the instruction's type, or one that CUDA cores widen to f32.
bool multiplies(const GemmPlan& plan, Format a, Format b);

/// Violations: an illegal instruction on its target, fields that contradict each other.
std::vector<Violation> violations_of(const GemmPlan& plan);

/// [first, last) of every slice that is not empty.
std::vector<std::pair<int64_t, int64_t>> slices_of(const SplitK& split, int64_t k);
/// The number of k that the plan adds: less than k if the split rule loses the tail.
int64_t k_added(const GemmPlan& plan, int64_t k);

}  // namespace bitmma
