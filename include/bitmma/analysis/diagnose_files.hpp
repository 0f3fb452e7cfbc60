// SPDX-License-Identifier: MIT
// The mistake that explains the wrong D of a file, or of a second file with the same inputs.
//
//   const DiagnosedFiles diagnosed = diagnose_files(read_tensor_file("golden.safetensors"), read_tensor_file("d.npy"));
//   print(diagnosed.report);
#pragma once

#include <optional>
#include <vector>

#include "bitmma/analysis/diagnose.hpp"
#include "bitmma/analysis/report.hpp"
#include "bitmma/files/recorded_d.hpp"

namespace bitmma {

struct DiagnoseRequest {
  VectorFileDefaults file = {};
  DiagnoseOptions options = {};
};

struct [[nodiscard]] DiagnosedFiles {
  Comparison comparison = {};  // of the recorded D with the correct one, and of the cells of Tensor Memory outside D
  std::vector<InputDifference> inputs = {};
  Diagnosis diagnosis = {};
  Report report =
      {};  // {"instruction", "target", "different_inputs", "outside_d"} and what describe() has of a diagnosis

  bool are_right() const { return comparison.mismatches == 0 && inputs.empty(); }
};

/// D is recomputed from the inputs of `expected`. The wrong D is that of `actual`, which may hold a D alone; without it
/// that of `expected`. Throws Error if no D is recorded, if the files have different instructions, kinds or numbers of
/// cases, and for instructions that move data.
DiagnosedFiles diagnose_files(const TensorFile& expected, const std::optional<TensorFile>& actual = {},
                              const DiagnoseRequest& request = {}, const FileEvents& events = {});

/// The faults that are possible in the first 64 cases of a file, which needs no D. Throws Error as above.
std::vector<Fault> faults_of_file(const TensorFile& file, const VectorFileDefaults& defaults = {},
                                  const FileEvents& events = {});
/// A list of {"id", "stage", "what", "fix"}. The text has 80 columns, and a hint once for adjacent faults that share
/// it.
Report describe(const std::vector<Fault>& faults);

}  // namespace bitmma
