// SPDX-License-Identifier: MIT
// Many products of one instruction at once, on codes in the caller's memory: what bindings and emulators call.
//
//   multiply_batch(mma, Target::sm_90a, 10'000,
//                  {.a = {{a, 32, 2}, 512}, .b = {{b, 16, 2}, 256}, .c = {{{c, 32, 4}, 512}}}, d);
//                          row, element and product strides in bytes
#pragma once

#include <cstdint>
#include <optional>

#include "bitmma/formats/codes.hpp"
#include "bitmma/instruction/form.hpp"

namespace bitmma {

/// A matrix of every product: product i reads it from codes.data + i * batch_stride. 0: all read the same one.
struct BatchView {
  CodeView codes = {};
  int64_t batch_stride = 0;  // bytes
};

/// The operands of the products, codes of the instruction's formats (formats/codes.hpp says in how many bytes). Shapes
/// are those of mma_of(instruction), the four products of m8n8k4 stacked.
struct BatchOperands {
  BatchView a = {};                       // m x k: of a sparse A at most the allowed codes of a chunk are not zero
  BatchView b = {};                       // k x n
  std::optional<BatchView> c = {};        // m x n of mma.c; nothing: D = A * B
  std::optional<BatchView> scale_a = {};  // m x scale_count, of mma.scale_type; both or none
  std::optional<BatchView> scale_b = {};  // scale_count x n
  /// Sparse A as it is stored: m x chunks bytes, four bits of metadata each (memory/metadata.hpp). Then A is m x k/2,
  /// and bits that PTX leaves undefined do what hardware does with them.
  std::optional<BatchView> metadata = {};
};

/// An instruction on a target, checked once for any number of calls, so that each call only computes.
class PreparedMma {
 public:
  /// has_c: whether the operands have C. Throws Error when the instruction is not legal on the target.
  PreparedMma(const Instruction& instruction, Target target, bool has_c);

  const Mma& mma() const { return mma_; }
  Target target() const { return target_; }
  /// As multiply_batch. Throws Error when C is there and was not announced, or the other way round.
  void multiply_batch(int64_t count, const BatchOperands& operands, void* d, int threads = 1) const;

 private:
  void require_complete(const BatchOperands& operands) const;
  void require_readable(int64_t count, const BatchOperands& operands, const void* d) const;

  Instruction instruction_;
  Target target_;
  bool has_c_;
  Mma mma_;
  const AccumulatorModel* model_;
};

/// D of `count` products, m x n codes each without gaps, one after the other. The same for any number of threads.
/// Throws Error, with `d` as it was, when the instruction is not legal on the target, scales or metadata are missing or
/// too many, a pointer is NULL, 64 bits do not hold a distance in a view, or a sparse A has too many codes that are not
/// zero.
void multiply_batch(const Instruction& instruction, Target target, int64_t count, const BatchOperands& operands,
                    void* d, int threads = 1);

/// Chunks of a row of a sparse A, each with its four bits of metadata; 0 for a dense one.
int metadata_chunks(const Mma& mma);

}  // namespace bitmma
