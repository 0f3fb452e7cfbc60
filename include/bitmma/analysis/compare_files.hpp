// SPDX-License-Identifier: MIT
// Two files of the same cases, bit for bit: which outputs differ and where, and whether their inputs are the same.
//
//   const ComparedFiles compared = compare_files(read_tensor_file("expected.safetensors"), read_tensor_file("d.npy"));
//   print(compared.report);
#pragma once

#include <vector>

#include "bitmma/analysis/report.hpp"
#include "bitmma/files/recorded_d.hpp"

namespace bitmma {

struct [[nodiscard]] ComparedFiles {
  Comparison comparison = {};
  std::vector<InputDifference> inputs = {};
  /// {"different_inputs", "expected", "actual"} with file, target and source, and what describe() has of a comparison.
  Report report = {};

  bool are_same() const { return comparison.mismatches == 0 && inputs.empty(); }
};

/// `actual` may hold a D alone: that of the inputs of `expected`, or of all of K if `expected` has the steps of K
/// loops. Throws Error if the files have different instructions, kinds or numbers of cases, if one records no D, or if
/// `expected` has no inputs.
ComparedFiles compare_files(const TensorFile& expected, const TensorFile& actual, const FileEvents& events = {});

}  // namespace bitmma
