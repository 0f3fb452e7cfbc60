// SPDX-License-Identifier: MIT
#include "bitmma/hardware/run_file.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bitmma/core/error.hpp"
#include "bitmma/files/golden.hpp"

namespace bitmma {

TensorFile run_file(const VectorFile& vectors, const Executor& execute, std::string source) {
  const VectorFile file = laid_out(vectors, {});
  std::vector<Case> cases;
  for (int64_t index = 0; index < file.cases; ++index) cases.push_back(case_at(file, index));
  const bool logical_d_too = wants_logical_d(file);
  std::vector<bool> done(cases.size());
  for (size_t first = 0; first < cases.size(); ++first) {
    if (done[first]) continue;
    std::vector<size_t> same;
    std::vector<State> states;
    for (size_t i = first; i < cases.size(); ++i) {
      if (done[i] || cases[i].instruction != cases[first].instruction) continue;
      same.push_back(i);
      states.push_back(cases[i].before);
      done[i] = true;
    }
    std::vector<State> after = execute(cases[first].instruction, file.target, states);
    if (after.size() != states.size()) {
      throw Error({.code = ViolationCode::wrong_shape,
                   .field = "states after the instruction",
                   .seen = std::to_string(after.size()),
                   .expected = fmt::format("{}, the number of states before it", states.size())});
    }
    for (size_t i = 0; i < same.size(); ++i) {
      Case& this_case = cases[same[i]];
      this_case.after = std::move(after[i]);
      if (logical_d_too) this_case.logical.d = recorded_d(this_case);
    }
  }
  return with_results(file, cases, std::move(source));
}

TensorFile run_file(const VectorFile& vectors, const Gpu& gpu) {
  TensorFile result = run_file(vectors, gpu.executor(), gpu.name());
  for (auto& [key, value] : provenance_of(gpu)) result.set_metadata(key, std::move(value));
  return result;
}

FileOnGpu compare_with_model(std::string path, const VectorFile& from_gpu) {
  FileOnGpu file{.path = std::move(path), .instruction = from_gpu.instruction};
  for (int64_t index = 0; index < from_gpu.cases; ++index) {
    const Case this_case = case_at(from_gpu, index);
    try {
      file.comparison += compare_case(this_case.instruction, index, computed_d(this_case), recorded_d(this_case));
    } catch (const Error& error) {
      file.refused.emplace_back(index, error.violations());
    }
  }
  return file;
}

bool differ_from_model(const std::vector<FileOnGpu>& files) {
  int64_t compared = 0, differing = 0;
  for (const FileOnGpu& file : files) {
    compared += file.comparison.outputs + std::ssize(file.refused);
    differing += file.comparison.mismatches + std::ssize(file.refused);
  }
  if (compared == 0)
    throw Error({.field = "outputs", .seen = "0", .expected = "1 or more", .fix = "nothing was compared"});
  return differing > 0;
}

}  // namespace bitmma
