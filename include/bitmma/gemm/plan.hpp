// SPDX-License-Identifier: MIT
// The order in which a library adds along K: the instruction that it chains for one output, and its f32 operations
// between instructions. A plan is a value; it converts to and from JSON.
//
//   D = output(epilogue(reduction over split-K slices(join over sliced-K warps(promotion over blocks(chain)))))
//
//   {"instruction": "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3", "promotion": {"every": 128},
//    "output": {"type": "bf16"}}
//
// Every level except the chain is f32 on CUDA cores, with each operation rounded once to nearest even. A level with its
// default has no effect. Tiles, clusters and warps matter only if a field names them. Sources: docs/products.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/core/target.hpp"
#include "bitmma/formats/format.hpp"
#include "bitmma/formats/round.hpp"
#include "bitmma/instruction/instruction.hpp"

namespace bitmma {

/// Rounding of f32 inputs before the instruction reads them and drops their low 13 bits.
enum class InputRounding : uint8_t { none, tf32_rne, tf32_rna };

/// Which tile of a slice is short.
enum class Residue : uint8_t { last, first };

/// Scaling of promoted sums: none; run = fma(sa * sb, acc, run); run = fma(acc * sa, sb, run).
enum class PromotionScale : uint8_t { none, fma, mul_fma };

struct Promotion {
  int every = 128;  // promote after this many k, and at the end of a slice
  PromotionScale scale = PromotionScale::none;
  bool restart_at_tile = false;  // restart the count at every main-loop tile
  int columns_of_sb = 0;         // columns that share a scale of B: 1 or 128; 0: follows from its shape

  bool operator==(const Promotion&) const = default;
};

/// The rule that splits K into slices [j c, (j + 1) c) with c = ...
enum class SplitRule : uint8_t {
  ceil,       // ceil(ceil(K / unit) / count) * unit
  nvjet,      // ceil(floor(K / count) / unit) * unit; k from count * c on is never added
  floor,      // floor(floor(K / unit) / count) * unit; the last slice runs to K
  big_first,  // ceil(K / unit) tiles; the first slices have one more
  big_last,   // ceil(K / unit) tiles; the last slices have one more
};

struct SplitK {
  int count = 1;
  int unit = 64;
  SplitRule rule = SplitRule::ceil;
  std::vector<int64_t> cuts = {};  // replaces the rule: 0, ..., the end of the last slice

  bool operator==(const SplitK&) const = default;
};

/// ((p_0 + p_1) + p_2) + ..; neighbours level by level from p_0 on; or from the last one on: p_0 + (p_1 + p_2).
enum class ReductionOrder : uint8_t { ascending, pairs, pairs_from_end };
/// The type of partial or running sums: f32, or D's type.
enum class SumType : uint8_t { f32, out };

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

/// Stream-K: output tiles first..last are split in their own way.
struct Region {
  int64_t first_tile = 0, last_tile = 0;
  SplitK split_k = {};
  Reduction reduction = {};

  bool operator==(const Region&) const = default;
};

/// alpha_beta: fma(alpha, x, beta c), as in most kernels. beta_c: fma(beta, c, x), as splitKreduce does after an
/// alpha_beta without C. round: rounds to D's type and back; before beta_c it describes a kernel that adds its rounded
/// D to C in memory.
enum class EpilogueKind : uint8_t { alpha_beta, scale_ab, row_scale, col_scale, bias, relu, d_scale, round, beta_c };
struct EpilogueOp {
  EpilogueKind kind = EpilogueKind::relu;
  float alpha = 1, beta = 0;  // alpha_beta; beta_c: beta; d_scale: alpha

  bool operator==(const EpilogueOp&) const = default;
};

/// How lane totals are reduced: ((l_0 + l_1) + l_2) + ..; l and l + count / 2 first; neighbours first.
enum class LaneJoin : uint8_t { ascending, butterfly, neighbours };

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

/// K on CUDA cores: f32 words (never rounded to tf32), f16 or bf16, with one chain of fma.rn.f32 per lane. Lane l takes
/// k = (t count + l) vector + v for v below vector, and t = 0, 1, ...
struct CudaCoreChain {
  int count = 1;  // lanes
  int vector = 1;
  int chunk = 0;  // number of t per chain; the totals of chunks are added in order. 0: one chain
  LaneJoin join = LaneJoin::ascending;

  bool operator==(const CudaCoreChain&) const = default;
};

/// The types of D: s32 for integers, f64 for f64, and the others for floats.
inline constexpr FormatSet plan_outputs{Format::f16, Format::bf16, Format::tf32, Format::f32,
                                        Format::f64, Format::e4m3, Format::e5m2, Format::s32};

struct [[nodiscard]] GemmPlan {
  std::string name = {};
  Target target = Target::sm_90a;
  std::variant<TensorCoreChain, CudaCoreChain> chain = TensorCoreChain{};
  std::map<std::string, std::string> evidence = {};  // field -> its evidence
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
