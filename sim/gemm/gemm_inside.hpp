// SPDX-License-Identifier: MIT
// Shared by gemm, the search and the catalogue, with an option for tests only: they compare the loops of chains with
// one instruction after another.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "../arithmetic/chain.hpp"
#include "bitmma/gemm/find.hpp"
#include "bitmma/gemm/gemm.hpp"

namespace bitmma {

enum class ChainBy : uint8_t { loops, updates };

Matrix gemm(const GemmPlan& plan, const GemmInputs& inputs, ChainBy chain_by, int threads = 1,
            const GemmProgress& progress = {});

/// Updates of `count` terms that follow each other in K.
struct EqualUpdates {
  int64_t first = 0;
  int64_t count = 0, number = 0;

  int64_t end() const { return first + count * number; }
  auto operator<=>(const EqualUpdates&) const = default;
};
/// The sums of chains of updates without C, by their updates.
using SumsOfUpdates = std::map<std::vector<EqualUpdates>, Matrix>;

/// What plans share: sums on the same inputs, which must stay where they are, with the same arithmetic and K of the
/// instruction; and the inputs, decoded.
struct KnownSums {
  std::map<std::tuple<const GemmInputs*, const AccumulatorModel*, int, int64_t>, SumsOfUpdates> sums = {};
  size_t words = 0;
  std::map<const GemmInputs*, DecodedOperands> decoded = {};

  void forget_sums() { sums.clear(), words = 0; }
};

/// D. Takes sums from `known`, and adds those that it computes.
Matrix gemm(const GemmPlan& plan, const GemmInputs& inputs, KnownSums& known);

/// The inputs after this input rounding; a plan on them needs no rounding.
GemmInputs rounded_inputs(const GemmInputs& inputs, InputRounding rounding);

/// The types that the plan multiplies: its instruction's types, or on CUDA cores the inputs' types.
Mma types_of(const GemmPlan& plan, const GemmInputs& inputs);

/// Throws Error with all violations of plan and inputs.
void require_fits(const GemmPlan& plan, const GemmInputs& inputs);
/// Throws Error if an operand of product `index` of a batch has another type or shape than that of product 0.
void require_like_first(const GemmInputs& inputs, const GemmInputs& first, int64_t index);

/// One of the products of an instruction, as a step of a chain: of m8n8k4 of f16 the one of a quad pair, 8 x 8 x 4.
Mma step_of(const Instruction& instruction);

/// The target's largest dense mma.sync without a kind for these types; nothing if it has none. Turing and Volta, and
/// f64 before Hopper, have only parts of the shapes of Ampere.
std::optional<MmaSync> mma_sync_for(Target target, Format d, Format a, Format b);

/// True if one chain of a target instruction can multiply these types and block scales.
bool multiplies(Target target, const GemmInputs& inputs);

/// Throws Error if only one operand has block scales.
void require_both_scales(const GemmInputs& inputs);

/// A sample may have as many columns as the whole product has blocks of 128: then scale_b could belong to either.
bool has_two_readings(const GemmInputs& inputs);

/// Stream-K: plans for tiles that are one chain, and plans for tiles that are split.
std::vector<GemmPlan> whole_tile_plans(const GemmInputs& inputs, const Matrix& d, const FindOptions& options);
std::vector<GemmPlan> cut_tile_plans(const GemmPlan& whole, const GemmInputs& inputs, const Matrix& d);

/// True if the instruction applies block scales, the operands sfa and sfb.
inline bool scales_in_instruction(const GemmInputs& inputs) { return inputs.sfa.has_value(); }

/// True if scales belong to blocks of K, and thus to the promotion.
inline bool has_block_scales(const GemmInputs& inputs) {
  return (inputs.scale_a && inputs.scale_a->cols() > 1) || (inputs.scale_b && inputs.scale_b->rows() > 1);
}

}  // namespace bitmma
