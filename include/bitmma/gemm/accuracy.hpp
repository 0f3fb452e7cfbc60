// SPDX-License-Identifier: MIT
// How far a product is from the exact one.
#pragma once

#include <cstdint>

#include "bitmma/gemm/gemm.hpp"

namespace bitmma {

/// Errors in units in the last place of D's format at the exact value; a subnormal has the unit of the smallest normal.
struct Accuracy {
  int64_t outputs = 0;     // that were compared
  int64_t not_finite = 0;  // outputs or operands are NaN or infinity: left out
  double max_ulp = 0;
  double mean_ulp = 0;            // of the magnitudes
  double bias_ulp = 0;            // mean, counted away from zero: negative where D is too small
  double max_relative_error = 0;  // of the magnitude of the exact value; outputs that are exactly zero are left out

  bool operator==(const Accuracy&) const = default;
};

/// D against the exact sum of the exact products of A and B: no epilogue, no scales. The sum is kept in integers,
/// whatever its exponents are; only the last step, from the error to a double, rounds. Throws Error when shapes do not
/// agree, or types are not floating-point. `progress` is called now and then, with the outputs that are done; what it
/// throws ends the sum.
Accuracy accuracy_of(const GemmInputs& inputs, const Matrix& d, int threads = 1, const GemmProgress& progress = {});

}  // namespace bitmma
