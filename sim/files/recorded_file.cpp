// SPDX-License-Identifier: MIT
#include "bitmma/files/recorded_file.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bitmma/core/text.hpp"

namespace bitmma {

RecordedFile::RecordedFile(TensorFile file, const VectorFileDefaults& defaults) {
  if (std::optional<WholeTile> tile = whole_tile(file, defaults)) file_ = std::move(*tile);
  else file_ = as_vector_file(std::move(file), defaults);
}

void RecordedFile::require_recorded() const {
  if (vectors()) bitmma::require_recorded(*vectors());
  else bitmma::require_recorded(*tile());
}

void RecordedFile::require_unchanged() const {
  if (vectors()) vectors()->require_unchanged();
}

RecordedFile read_recorded_file(const std::string& path, const VectorFileDefaults& defaults, uint64_t most_in_memory) {
  return RecordedFile(read_tensor_file(path, most_in_memory), defaults);
}

std::vector<std::string_view> results_of(const TensorFile& file) {
  std::vector<std::string_view> names;
  const auto add = [&](std::string_view name) {
    if (!name.empty() && file.find(name) && std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  add("d");
  for (const FieldInfo& field : state_fields) add(field.after);
  return names;
}

TensorFile without_results(TensorFile file) {
  for (const std::string_view name : results_of(file)) file.erase(name);
  return file;
}

Case case_at(const RecordedFile& file, int64_t index) {
  if (file.vectors()) return case_at(*file.vectors(), index);
  return cases_of(*file.tile(), index, 1).cases.front();
}

RecordedFile cases_of(const RecordedFile& file, int64_t first, int64_t count) {
  if (file.vectors()) return cases_of(*file.vectors(), first, count);
  return cases_of(*file.tile(), first, count);
}

Comparison verify(const RecordedFile& file, int threads, const Progress& progress) {
  return file.vectors() ? verify(*file.vectors(), threads, progress) : verify(*file.tile(), threads, progress);
}

Matrix computed_d(const RecordedFile& file, int64_t index, int threads) {
  return file.vectors() ? computed_d(case_at(*file.vectors(), index)) : computed_d(*file.tile(), index, threads);
}

Comparison compare_computed(const RecordedFile& expected, const RecordedFile& actual, int threads) {
  require_same_kind(expected, actual);
  Comparison comparison;
  for (int64_t index = 0; index < expected.cases(); ++index) {
    const Instruction instruction =
        expected.vectors() ? instruction_at(*expected.vectors(), index) : expected.instruction();
    comparison +=
        compare_case(instruction, index, computed_d(expected, index, threads), computed_d(actual, index, threads));
  }
  return comparison;
}

void require_same_kind(const RecordedFile& expected, const RecordedFile& actual) {
  if (!expected.tile() == !actual.tile()) return;
  const auto name = [](const RecordedFile& file) {
    return file.tile() ? fmt::format("a whole tile of {} instructions along K", file.tile()->steps())
                       : std::string("cases of one instruction");
  };
  throw Error({.code = ViolationCode::other_inputs,
               .field = actual.path(),
               .seen = name(actual),
               .expected = fmt::format("{}, as {} has", name(expected), printable(expected.path()))});
}

Comparison compare(const RecordedFile& expected, const RecordedFile& actual) {
  require_same_kind(expected, actual);
  return expected.tile() ? compare(*expected.tile(), *actual.tile()) : compare(*expected.vectors(), *actual.vectors());
}

std::vector<InputDifference> different_inputs(const RecordedFile& expected, const RecordedFile& actual) {
  require_same_kind(expected, actual);
  return expected.tile() ? different_inputs(*expected.tile(), *actual.tile())
                         : different_inputs(*expected.vectors(), *actual.vectors());
}

}  // namespace bitmma
