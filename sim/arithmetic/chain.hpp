// SPDX-License-Identifier: MIT
// Chains of multiply_accumulate over K, where D of an update is C of the next: the building blocks of whole products.
//
//   chain(model, {.a = a, .b = b, .row = 64, .rows = 64, .col = 0, .cols = 256}, {{0, 16}, {16, 16}, {32, 4}}, {})
//
// Fused sums have their own loops (kernels/chain.hpp), which decode a block of A and B once and keep the accumulators
// between updates; with AVX-512 and AVX2 they add a term by one fma (kernels/fma_chain.hpp). f64 has loops too
// (fma_loops.hpp). Everything else calls multiply_accumulate for one update after another.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "bitmma/arithmetic/accumulator_model.hpp"
#include "bitmma/arithmetic/operands.hpp"
#include "bitmma/formats/matrix.hpp"

namespace bitmma {

/// The k of one update of the accumulator. The rest of the instruction is zero.
struct ChainUpdate {
  int64_t first = 0;
  int count = 0;
};

/// A part of the outputs of A * B.
struct ChainBlock {
  const Matrix &a, &b;
  int row = 0, rows = 0, col = 0, cols = 0;
};

/// A and B of one block, decoded once for several chains of equal steps. The matrices must stay where they are.
class DecodedOperands {
 public:
  DecodedOperands();
  ~DecodedOperands();
  DecodedOperands(DecodedOperands&&) noexcept;
  DecodedOperands& operator=(DecodedOperands&&) noexcept;

  struct Entries;
  Entries& entries() { return *entries_; }

 private:
  std::unique_ptr<Entries> entries_;
};

/// The accumulators of the block after these updates, each by an instruction of K = `k`. C has the shape of the block
/// and the format of the model's output; without C they start at zero. `decoded` must be of this block, or empty.
Matrix chain(const AccumulatorModel& model, const ChainBlock& block, std::span<const ChainUpdate> updates, int k,
             std::optional<Matrix> c, DecodedOperands* decoded = nullptr);

/// D of a single step by the same loops; nullopt where those of fused.cpp are as fast, or where the loops of chains do
/// not support the operands.
std::optional<Matrix> step_by_chain(const AccumulatorModel& model, const Operands& operands);

/// The same as `chain` by one multiply_accumulate over the whole K per update. Tests compare `chain` with it.
Matrix chain_by_updates(const AccumulatorModel& model, const ChainBlock& block, std::span<const ChainUpdate> updates,
                        int k, std::optional<Matrix> c);

}  // namespace bitmma
