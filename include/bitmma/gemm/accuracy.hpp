// SPDX-License-Identifier: MIT
// The error of a product.
#pragma once

#include <cstdint>

#include "bitmma/gemm/gemm.hpp"

namespace bitmma {

/// Errors in ulps of D's format at the exact value; a subnormal has the ulp of the smallest normal number.
struct [[nodiscard]] Accuracy {
  int64_t outputs = 0;     // number of compared outputs
  int64_t not_finite = 0;  // number of outputs left out: the output or an operand is NaN or infinite
  double max_ulp = 0;
  double mean_ulp = 0;            // of the error's magnitude
  double bias_ulp = 0;            // mean error, positive away from zero: negative if D is too small
  double max_relative_error = 0;  // relative to the exact value; outputs that are exactly zero are left out

  bool operator==(const Accuracy&) const = default;
};

/// Compares D with the exact sum of the exact products of A and B, without epilogue and scales. The sum uses integers,
/// whatever the exponents; only the last step, from the error to a double, rounds. Throws Error if shapes do not agree,
/// or if types are not floating-point. `progress` is called occasionally with the number of finished outputs; an
/// exception from it ends the computation.
Accuracy accuracy_of(const GemmInputs& inputs, const Matrix& d, int threads = 1, const GemmProgress& progress = {});

}  // namespace bitmma
