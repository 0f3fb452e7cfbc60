// SPDX-License-Identifier: MIT
// What gemm, the search and the catalogue share, and a choice that users do not have: tests hold the loops of chains
// against one instruction after the other.
#pragma once

#include "bitmma/gemm/find.hpp"
#include "bitmma/gemm/gemm.hpp"

namespace bitmma {

enum class ChainBy : uint8_t { loops, updates };

Matrix gemm(const GemmPlan& plan, const GemmInputs& inputs, ChainBy how, int threads = 1,
            const GemmProgress& progress = {});

/// What a plan with this input rounding reads: then it is one without.
GemmInputs rounded_inputs(const GemmInputs& inputs, InputRounding rounding);

/// True where one chain of an instruction of the target multiplies these types and block scales.
bool multiplies(Target target, const GemmInputs& inputs);

/// Throws Error where block scales of one operand are missing.
void require_both_scales(const GemmInputs& inputs);

/// A sample can have as many columns as the whole product has blocks of 128: scale_b could be of either.
bool has_two_readings(const GemmInputs& inputs);

/// Stream-K: the plans of tiles that are one chain, and those of tiles that are cut.
std::vector<GemmPlan> whole_tile_plans(const GemmInputs& inputs, const Matrix& d, const FindOptions& options);
std::vector<GemmPlan> cut_tile_plans(const GemmPlan& whole, const GemmInputs& inputs, const Matrix& d);

/// True where scales go with blocks of K, and so into the promotion.
inline bool has_block_scales(const GemmInputs& inputs) {
  return (inputs.scale_a && inputs.scale_a->cols() > 1) || (inputs.scale_b && inputs.scale_b->rows() > 1);
}

}  // namespace bitmma
