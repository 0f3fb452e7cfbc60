// SPDX-License-Identifier: MIT
// Outputs that are chains of IEEE operations, operation by operation.
//
//   f64:               d = c; d = fma(a_k, b_k, d), k ascending, in the instruction's rounding mode. Measured on an
//                      H100, including the NaN words
//   m8n8k4 f16 -> f32: s = +0; s = fma(a_k, b_k, s), k = 0..3; d = c + s                  FFMA, FADD
//   m8n8k4 f16 -> f16: d = f16((c + fma(a1, b1, a0 * b0)) + fma(a3, b3, a2 * b2))         in f32, then F2F
//
// ptxas emits the last two for m8n8k4 from sm_80 on, because no tensor core has it. Source: SASS of ptxas 12.9, 13.0
// and 13.5.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "bitmma/arithmetic/accumulator_model.hpp"
#include "bitmma/arithmetic/operands.hpp"
#include "chain.hpp"

namespace bitmma {

struct FmaStep {
  enum class Kind : uint8_t { fma, add, convert };
  Kind kind = Kind::fma;
  int term = -1;        // for fma: the stored column of A
  uint64_t first = 0;   // for add: an addend; for convert: the operand
  uint64_t addend = 0;  // for fma and add
  uint64_t result = 0;
};

/// The operations that compute output (row, col); the result of the last one is D.
std::vector<FmaStep> fma_steps(const AccumulatorModel& model, const Operands& operands, int row, int col);

/// chain() for f64, without a product for every update. nullopt for other models, and if the processor lacks the loops.
std::optional<Matrix> chain_of_f64(const AccumulatorModel& model, const ChainBlock& block,
                                   std::span<const ChainUpdate> updates, int k, const std::optional<Matrix>& c);

/// The product with every output by fma_steps. Tests compare the loops with it.
Matrix fma_product_by_steps(const AccumulatorModel& model, const Operands& operands);

}  // namespace bitmma
