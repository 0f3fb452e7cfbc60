// SPDX-License-Identifier: MIT
// The recorded D of many files, computed again and compared.
//
//   FilesToVerify files = read_files_to_verify({"a.safetensors", "b.safetensors"});
//   print(verify_files(files, {.threads = 8}).report);
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bitmma/analysis/report.hpp"
#include "bitmma/files/recorded_d.hpp"

namespace bitmma {

/// Read before anything is computed.
struct [[nodiscard]] FilesToVerify {
  std::vector<VectorFile> files = {};
  std::vector<Violation> unreadable = {};  // of files that could not be read, or record no D

  int64_t cases() const;
};

/// The cases of a file; nothing for a file of another kind, which the function may keep.
using ReadCases = std::function<std::optional<VectorFile>(TensorFile)>;

/// Reads with `read_cases`, by default as_recorded_file. An unreadable file is reported, and the others are read; the
/// same holds for a file that records no D, because there is nothing to verify.
FilesToVerify read_files_to_verify(const std::vector<std::string>& paths, const ReadCases& read_cases = {});

struct VerifyRequest {
  int threads = 1;
  bool lists_files = true;  // as data: "results" of the report
};

struct [[nodiscard]] VerifiedFiles {
  int64_t files = 0;
  Comparison total = {};
  /// {"files", "cases", "outputs", "mismatches", "cpu_target", "results"}; the text has a table by instruction and
  /// target, and the first files that differ.
  Report report = {};
};

/// Computes the cases of all files again. A file that contradicts itself is added to files.unreadable. Each file is
/// freed after use.
VerifiedFiles verify_files(FilesToVerify& files, const VerifyRequest& request = {}, const Progress& progress = {});

}  // namespace bitmma
