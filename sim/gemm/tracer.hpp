// SPDX-License-Identifier: MIT
// Records the operations of one output while gemm computes it (bitmma/gemm/trace.hpp).
#pragma once

#include <optional>
#include <vector>

#include "bitmma/gemm/trace.hpp"
#include "exact_sum.hpp"

namespace bitmma {

class Tracer {
 public:
  /// `inputs`: the product's inputs as given; they must outlive the tracer.
  Tracer(const GemmPlan& plan, const GemmInputs& inputs, int row, int col);

  int slice = 0;  // the current slice

  /// Records that K of [first, last) was added to an accumulator.
  void add_products(TraceKind kind, int64_t first, int64_t last, Format format, uint64_t before, uint64_t after);
  /// Records that an f32 was added to another, times the scale factors if there are any.
  void add_sum(TraceKind kind, uint32_t before, uint32_t addend, uint32_t after);
  void add_scaled(uint32_t before, uint32_t addend, uint32_t scale_a, uint32_t scale_b, uint32_t after);
  /// Records that a sum was rounded to another type; `after` is its code.
  void round(uint32_t before, Format to, uint64_t after);
  void epilogue(std::string_view what, uint32_t before, uint32_t after);
  void skip(int64_t first, int64_t last);

  ProductTrace finish(Format format, uint64_t d);

 private:
  /// Adds the exact products of [first, last); false if one is not finite.
  bool add_exact(ExactSum& sum, int64_t first, int64_t last) const;
  void note(TraceStep step, ExactSum exact, bool finite);

  const GemmInputs& inputs_;
  int k_of_scale_ = 0;  // number of k that share a block scale; 0: no scales
  ProductTrace trace_;
};

}  // namespace bitmma
