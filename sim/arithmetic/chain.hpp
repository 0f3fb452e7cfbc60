// SPDX-License-Identifier: MIT
// Chains of multiply_accumulate over K, D of an update being C of the next: what whole products are made of.
//
//   chain(model, {.a = a, .b = b, .row = 64, .rows = 64, .col = 0, .cols = 256}, {{0, 16}, {16, 16}, {32, 4}}, {})
//
// Fused sums have loops of their own (kernels/chain.hpp), which decode a block of A and B once and keep the
// accumulators between the updates. Everything else is one call of multiply_accumulate after the other.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "bitmma/arithmetic/accumulator_model.hpp"
#include "bitmma/formats/matrix.hpp"

namespace bitmma {

/// K of one update of the accumulator. The rest of the instruction is zero.
struct ChainUpdate {
  int64_t first = 0;
  int count = 0;
};

/// A part of the outputs of A * B.
struct ChainBlock {
  const Matrix &a, &b;
  int row = 0, rows = 0, col = 0, cols = 0;
};

/// The accumulators of the block after these updates, each by an instruction of K = `k`. C has the shape of the block
/// and the format of the model's output; without C they begin at zero.
Matrix chain(const AccumulatorModel& model, const ChainBlock& block, std::span<const ChainUpdate> updates, int k,
             std::optional<Matrix> c);

/// The same, one multiply_accumulate of the whole K an update. Tests hold `chain` against it.
Matrix chain_by_updates(const AccumulatorModel& model, const ChainBlock& block, std::span<const ChainUpdate> updates,
                        int k, std::optional<Matrix> c);

}  // namespace bitmma
