// SPDX-License-Identifier: MIT
// Files of cases for verify, compare and diagnose: each case is one instruction, or a whole tile.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bitmma/files/whole_tile.hpp"

namespace bitmma {

/// A vector file or a whole tile, with their common interface.
class RecordedFile {
 public:
  RecordedFile() = default;
  RecordedFile(VectorFile file) : file_(std::move(file)) {}
  RecordedFile(WholeTile file) : file_(std::move(file)) {}
  /// Throws Error as whole_tile and as_vector_file do.
  explicit RecordedFile(TensorFile file, const VectorFileDefaults& defaults = {});

  /// nullptr if the file is of the other kind.
  const VectorFile* vectors() const { return std::get_if<VectorFile>(&file_); }
  const WholeTile* tile() const { return std::get_if<WholeTile>(&file_); }
  const TensorFile& file() const { return tile() ? tile()->file : vectors()->file; }
  const std::string& path() const { return file().path; }
  const Instruction& instruction() const { return tile() ? tile()->instruction : vectors()->instruction; }
  Target target() const { return tile() ? tile()->target : vectors()->target; }
  std::string source() const { return tile() ? tile()->source() : vectors()->source(); }
  int64_t cases() const { return tile() ? static_cast<int64_t>(tile()->cases.size()) : vectors()->cases; }
  bool has_recorded_d() const { return tile() ? tile()->has_recorded_d() : vectors()->has_recorded_d(); }

  /// Throws Error if no D is recorded, or if the file was modified while in use.
  void require_recorded() const;
  void require_unchanged() const;

 private:
  std::variant<VectorFile, WholeTile> file_ = {};
};

RecordedFile read_recorded_file(const std::string& path, const VectorFileDefaults& defaults = {},
                                uint64_t most_in_memory = InputFile::usual_most_in_memory);

/// The tensors of `file` that hold results: d, and the states after the instruction. A name that several fields share
/// is listed once.
std::vector<std::string_view> results_of(const TensorFile& file);
/// `file` without these tensors.
TensorFile without_results(TensorFile file);

/// Like the functions for vector files and whole tiles (vector_file.hpp, whole_tile.hpp, compare.hpp).
Case case_at(const RecordedFile& file, int64_t index);
RecordedFile cases_of(const RecordedFile& file, int64_t first, int64_t count);
Comparison verify(const RecordedFile& file, int threads, const Progress& progress = {});
Matrix computed_d(const RecordedFile& file, int64_t index, int threads = 1);
/// Compares the computed results of the same cases, which are for two targets.
Comparison compare_computed(const RecordedFile& expected, const RecordedFile& actual, int threads = 1);

/// Throws Error if one is a whole tile and the other is not.
void require_same_kind(const RecordedFile& expected, const RecordedFile& actual);
/// These throw Error as above, and as the functions for both kinds do.
Comparison compare(const RecordedFile& expected, const RecordedFile& actual);
std::vector<InputDifference> different_inputs(const RecordedFile& expected, const RecordedFile& actual);

}  // namespace bitmma
