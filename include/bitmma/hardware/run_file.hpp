// SPDX-License-Identifier: MIT
// Runs a vector file on a GPU and returns it with the GPU's results.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bitmma/analysis/report.hpp"
#include "bitmma/files/compare.hpp"
#include "bitmma/files/vector_file.hpp"
#include "bitmma/hardware/device.hpp"

namespace bitmma {

/// `vectors` with the results of `execute`, which `source` names. Cases of the same instruction and
/// immediates go in one call. A file with only logical matrices gets states in the default layout.
TensorFile run_file(const VectorFile& vectors, const Executor& execute, std::string source);

/// The same on a GPU, whose name and provenance the file keeps.
TensorFile run_file(const VectorFile& vectors, const Gpu& gpu);

/// The GPU's and the model's results for the cases of a file.
struct FileOnGpu {
  std::string path = {};  // of the file that the GPU was given
  Instruction instruction = Wgmma{};
  Comparison comparison = {};                                            // of the cases that the model accepts
  std::vector<std::pair<int64_t, std::vector<Violation>>> refused = {};  // the others: the case, and why
};
FileOnGpu compare_with_model(std::string path, const VectorFile& from_gpu);

/// True if an output of a file differs, or a case is refused by the model. Throws Error if nothing was compared.
bool differ_from_model(const std::vector<FileOnGpu>& files);

/// {"file", "cases", "outputs", "mismatches", "cases_with_mismatches", "refused"}, and the report of a
/// comparison with mismatches; a refused case is {"case", "violations"}. No text where the GPU and the model agree.
Report describe(const FileOnGpu& file);
/// {"gpu", "capability", "driver", "cuda", "files", "cases", "outputs", "mismatches", "refused"}.
Report describe(const std::vector<FileOnGpu>& files, const Gpu& gpu);

}  // namespace bitmma
