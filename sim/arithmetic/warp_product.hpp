// SPDX-License-Identifier: MIT
// The product of one mma.sync, prepared: what depends on types and shape is computed once, and a call decodes, adds and
// rounds codes in plain arrays, without a Matrix and without allocation. The loops are those of multiply_accumulate.
//
//   D^T[n x m] = B^T[n x k] * A^T[k x m] + C^T        m = 16 or 8 numbers fill a vector, n = 8 does not
//
// K is stored step by step (steps.hpp), and each step begins at a multiple of eight:
//
//   tf32, K = 8 in steps of 4      k 0 1 2 3 - - - - 4 5 6 7 - - - -
//   fp8 widened in byte pairs      k 0 1 4 5 8 9 ... 2 3 6 7 ...
//
// Bits, and e2m1 in exact groups, stay packed: a code is then 32 elements of K, or two.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "bitmma/arithmetic/accumulator_model.hpp"
#include "bitmma/arithmetic/operands.hpp"
#include "kernels/kernels.hpp"

namespace bitmma {

/// The types, shape and options of a product.
struct WarpShape {
  Format a = Format::f16, b = Format::f16;
  int m = 16, k = 16;
  bool saturate = false, exclusive_or = false;
  std::optional<Format> scale_type = {};
  int scales = 0;  // of a row of A, and of a column of B

  bool operator==(const WarpShape&) const = default;
};

class WarpProduct {
 public:
  /// D^T has eight rows of sixteen columns, of which m = 8 uses eight.
  static constexpr int rows = kernels::warp_rows, cols = kernels::warp_cols, most_places = kernels::most_warp_places,
                       most_scales = 4;
  /// Codes of A^T, B^T, C^T and D^T: rows of `cols`, but B^T has rows of places().
  using Accumulator = std::array<uint32_t, rows * cols>;
  struct Codes {
    alignas(64) std::array<uint32_t, most_places * cols> a;
    alignas(64) std::array<uint32_t, rows * most_places> b;
    alignas(64) Accumulator c, d;
    std::array<uint8_t, most_scales * cols> scale_a;  // scale j of row m is code j * cols + m
    std::array<uint8_t, most_scales * rows> scale_b;  // scale j of column n is code j * rows + n
  };

  /// nullopt if the model has no loop for these dense operands.
  static std::optional<WarpProduct> of(const AccumulatorModel& model, const WarpShape& shape);

  /// Elements of K in a code.
  int packed() const { return packed_; }
  /// Where a code of number k is stored: a row of A^T, a column of B^T. Places without a k hold zeros.
  int place(int k) const { return places_of_k_[static_cast<size_t>(k)]; }
  int places() const { return places_; }
  bool has_gaps() const { return places_ > static_cast<int>(places_of_k_.size()); }

  /// Computes codes.d from the others. Returns false, and leaves d undefined, if NaN or infinity
  /// occurs in an operand or a scale, or before the last step.
  bool multiply(Codes& codes) const;

  using Slots = kernels::WarpSlots;
  /// What was decoded before of such registers.
  struct Decoded {
    kernels::WarpColumns& a;
    kernels::WarpRows& b;
  };
  /// Whether multiply() takes Slots.
  bool takes_slots() const;
  /// The same from registers to registers. Returns false, and writes no D, in the cases above, and if the processor's
  /// instruction set has no loop for it.
  bool multiply(const Slots& slots, const Decoded& decoded) const;

 private:
  struct Side {
    kernels::DecodeConstants constants;
    int shift = 0;
    bool normal = false;  // subnormal numbers become normal
  };

  WarpProduct(const AccumulatorModel& model, const WarpShape& shape);
  kernels::WarpSum job() const;
  bool sum_floats(Codes& codes) const;
  bool sum_in_steps(Codes& codes) const;
  bool sum_groups(Codes& codes) const;
  void sum_integers(Codes& codes) const;
  void sum_bits(Codes& codes) const;

  AccumulatorModel model_;
  WarpShape shape_;
  Side a_, b_;
  bool may_be_exact_ = false;
  int packed_ = 1, places_ = 0, terms_per_part_ = 0;
  std::vector<int> places_of_k_ = {};
  std::vector<kernels::ChainStep> steps_ = {};
  kernels::OutputConstants output_;
};

/// The product of matrices in the shape of a dense mma.sync; nullopt if it needs another way.
std::optional<Matrix> warp_product(const AccumulatorModel& model, const Operands& operands);

}  // namespace bitmma
