// SPDX-License-Identifier: MIT
// Two arrays of one type and shape, bit for bit, without an instruction.
//
//   const ComparedArrays compared = compare_arrays(read_tensor_file("expected.npy"), read_tensor_file("actual.npy"));
//   print(compared.report);
#pragma once

#include <cstdint>

#include "bitmma/analysis/report.hpp"
#include "bitmma/files/tensor_file.hpp"

namespace bitmma {

struct [[nodiscard]] ComparedArrays {
  int64_t outputs = 0, mismatches = 0;
  /// Of numbers that differ, the largest distance in steps of their type, as bitmma.testing.difference counts them: a
  /// NaN has none, and -0 is 0 ulp from +0.
  uint64_t worst_ulp = 0;
  /// {"outputs", "mismatches", "dtype", "shape", "worst_ulp", "first" and "worst" (places, if there are such)}.
  Report report = {};
};

/// True for two files with one tensor each and without an instruction.
bool are_arrays(const TensorFile& expected, const TensorFile& actual);

/// Throws Error, which names the second file, if dtypes or shapes differ.
ComparedArrays compare_arrays(const TensorFile& expected, const TensorFile& actual);

}  // namespace bitmma
