// SPDX-License-Identifier: MIT
// Many products of one instruction at once, on codes in the caller's memory, for bindings and emulators.
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

/// A matrix of every product: product i reads from codes.data + i * batch_stride. Stride 0: all products share it.
struct BatchView {
  CodeView codes = {};
  int64_t batch_stride = 0;  // bytes
};

/// The operands of the products, as codes of the instruction's formats (see formats/codes.hpp for bytes per code).
/// Shapes are those of mma_of(instruction), with the four products of m8n8k4 stacked.
struct BatchOperands {
  BatchView a = {};                       // m x k; a chunk of a sparse A has at most the allowed non-zero codes
  BatchView b = {};                       // k x n
  std::optional<BatchView> c = {};        // m x n of mma.c; nothing: D = A * B
  std::optional<BatchView> scale_a = {};  // m x scale_count, of mma.scale_type; give both scales or none
  std::optional<BatchView> scale_b = {};  // scale_count x n
  /// Sparse A in stored form: m x chunks bytes, four bits of metadata each (memory/metadata.hpp). Then A is m x k/2,
  /// and metadata that PTX leaves undefined acts as on hardware.
  std::optional<BatchView> metadata = {};
};

/// An instruction on a target, checked once, so that each of any number of calls only computes.
class PreparedMma {
 public:
  /// has_c: whether the operands include C. Throws Error if the instruction is illegal on the target.
  PreparedMma(const Instruction& instruction, Target target, bool has_c);

  const Mma& mma() const { return mma_; }
  Target target() const { return target_; }
  /// Like multiply_batch. Throws Error if the presence of C differs from has_c.
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

/// D of `count` products, m x n codes each, stored one after another without gaps; equal for any number of threads.
/// Throws Error and leaves `d` unchanged if the instruction is illegal on the target, scales or metadata are missing
/// or superfluous, a pointer is NULL, a distance in a view exceeds 64 bits, or a sparse A has too many non-zero
/// codes.
void multiply_batch(const Instruction& instruction, Target target, int64_t count, const BatchOperands& operands,
                    void* d, int threads = 1);

/// Chunks per row of a sparse A, each with four bits of metadata; 0 for a dense A.
int metadata_chunks(const Mma& mma);

}  // namespace bitmma
