// SPDX-License-Identifier: MIT
// What gemm notes about one output while it computes it (bitmma/gemm/trace.hpp).
#pragma once

#include <optional>
#include <vector>

#include "bitmma/gemm/trace.hpp"
#include "exact_sum.hpp"

namespace bitmma {

class Tracer {
 public:
  /// `inputs` are those of the product as they were given, which live on.
  Tracer(const GemmPlan& plan, const GemmInputs& inputs, int row, int col);

  int slice = 0;  // that is computed

  /// K of [first, last) was added to an accumulator.
  void add_products(TraceKind kind, int64_t first, int64_t last, Format format, uint64_t before, uint64_t after);
  /// An f32 was added to another, times factors of the scales where there are some.
  void add_sum(TraceKind kind, uint32_t before, uint32_t addend, uint32_t after);
  void add_scaled(uint32_t before, uint32_t addend, uint32_t scale_a, uint32_t scale_b, uint32_t after);
  /// A sum was rounded to another type, whose code is `after`.
  void round(uint32_t before, Format to, uint64_t after);
  void epilogue(std::string_view what, uint32_t before, uint32_t after);
  void skip(int64_t first, int64_t last);

  ProductTrace finish(Format format, uint64_t d);

 private:
  /// Adds the exact products of [first, last); false where one is not finite.
  bool add_exact(ExactSum& sum, int64_t first, int64_t last) const;
  void note(TraceStep step, ExactSum exact, bool finite);

  const GemmInputs& inputs_;
  int k_of_scale_ = 0;  // K that shares a block scale; 0: none
  ProductTrace trace_;
};

}  // namespace bitmma
