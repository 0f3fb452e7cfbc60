// SPDX-License-Identifier: MIT
// A sealed prediction: what a GPU will answer to open questions, and what it would answer if another of the known
// answers were right, written down as hashes before such a GPU was asked.
//
//   SealedFile file = read_sealed(sealed_text(Target::sm_100a));
//   SealedRecord record = ask_sealed_point(file.points[0], file.target, gpu.executor());
//   finding_of(file.points[0], record).found          "F = 25, floor -21, rounded to the nearest even"
//
// A reader compares only hashes: no answer is preferred, and no row of arithmetic of this version is
// used. Inputs are made from names and a seed; a hash of them says when a version makes other ones.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/analysis/report.hpp"
#include "bitmma/hardware/device.hpp"
#include "bitmma/survey/survey.hpp"

namespace bitmma {

/// One case of a point.
struct SealedCase {
  uint64_t number = 0;           // from which it is drawn
  std::vector<uint32_t> d = {};  // of each answer: a hash of the words that the instruction writes

  bool operator==(const SealedCase&) const = default;
};

/// One open point.
struct SealedPoint {
  std::string name = {};                      // "scale-input-d", unique
  std::string instruction = {};               // as text
  uint64_t inputs = 0;                        // a hash of every state before
  std::vector<std::string> answers = {};      // in the order of the alphabet
  std::optional<std::string> predicted = {};  // one of them; nothing if it is withheld
  std::vector<SealedCase> cases = {};

  bool operator==(const SealedPoint&) const = default;
};

struct SealedFile {
  Target target = Target::sm_100a;
  std::vector<SealedPoint> points = {};
  std::string sha256 = {};  // of the text that was read; empty of what was made

  bool operator==(const SealedFile&) const = default;
};

/// Every point of the target with all of its answers, and cases that tell any two of them apart. Where a name contains
/// `withhold` the prediction is left out. Throws Error when the target has no points, two answers cannot be told apart,
/// or no name contains `withhold`.
SealedFile make_sealed(Target target, std::string_view withhold = {}, int threads = 1);
/// The text that make_sealed would write for one point with only these cases.
SealedPoint make_sealed_point(Target target, std::string_view name, std::vector<uint64_t> cases);
/// The names of a target's points.
std::vector<std::string> sealed_point_names(Target target);

/// To JSON and back. Throws Error for malformed JSON.
std::string print(const SealedFile& file);
SealedFile read_sealed(std::string_view text);
/// Throws Error naming the path, and for a file of more than 16 MiB.
SealedFile read_sealed_file(const std::string& path);
/// The text of data/sealed that is built in; empty for a target without one.
std::string_view sealed_text(Target target);
/// The same, read. Throws Error for a target without one.
SealedFile built_in_sealed(Target target);

/// The words that a GPU wrote, case by case.
struct SealedRecord {
  std::string point = {};
  SurveyEnd end = SurveyEnd::answered;
  bool unreadable = false;   // this version makes other cases
  std::string message = {};  // without an answer: what happened
  double seconds = 0;
  std::vector<uint32_t> d = {};
};

/// Runs the cases. Errors of the device are in the record.
SealedRecord ask_sealed_point(const SealedPoint& point, Target target, const Executor& execute);
/// The record of a device that gives this answer of the file.
SealedRecord record_of_answer(const SealedPoint& point, std::string_view answer);

enum class SealedVerdict : uint8_t {
  as_predicted,
  other_answer,  // another known answer than the predicted one
  named,         // a known answer; the file withholds the prediction
  none_known,    // none of the known answers
  unreadable,    // made by another version
  not_answered,
};

/// "as predicted", "another answer", ...
std::string_view print(SealedVerdict verdict);

struct SealedFinding {
  std::string point = {};
  SealedVerdict verdict = SealedVerdict::not_answered;
  std::string found = {};    // the answer that every case has, or what happened
  std::string nearest = {};  // the answer that the most cases have, where none has all
  int64_t cases = 0;         // of the point
  int64_t deciding = 0;      // that refute every other answer together, each at least one; or of the nearest: that fit
};

/// Compares hashes. An answer is found only if it fits all cases and no other answer does.
SealedFinding finding_of(const SealedPoint& point, const SealedRecord& record);

/// A GPU's answers to a whole file.
struct SealedAnswers {
  std::string gpu = {}, driver = {}, cuda = {}, date = {}, version = {};
  Target target = Target::sm_100a;
  std::string sha256 = {};  // of the file that was asked
  double seconds = 0;
  std::vector<SealedRecord> records = {};

  const SealedRecord* find(std::string_view point) const;
};

TensorFile to_file(const SealedAnswers& answers);
SealedAnswers read_sealed_answers(const TensorFile& file);

struct SealedOptions {
  std::string path = {};            // of the prediction; empty: the one that is built in for the GPU
  double seconds = 50;              // begin no point after this time
  double unit_seconds = 10;         // a point that takes longer is stopped
  int jobs = 4;                     // processes at a time
  std::function<bool()> stop = {};  // asked before each point: begin no more?
  /// The program that measures one point, and its first arguments; the point's name, "-o" and a path follow. It
  /// calls run_sealed_point and writes its answers there. Of an empty name it writes who the GPU is.
  std::vector<std::string> command = {};
};

/// The answers of one point, of none where the name is empty: only who the GPU is. `path` is that of the prediction;
/// empty for the one that is built in for the GPU. Throws Error where there is no GPU, no such point or no prediction.
SealedAnswers run_sealed_point(std::string_view point, const std::string& path, const SurveyDevice& device);

/// A prediction, and the GPU's answers.
struct SealedRun {
  SealedFile file = {};
  SealedAnswers answers = {};

  /// One a point. A point that was not begun in time is not answered.
  std::vector<SealedFinding> findings() const;
};

/// Asks the GPU who it is and then all points, each in a process of its own. Points that were not begun in time have no
/// record. Throws Error where there is no GPU, or no prediction of its target.
SealedRun run_sealed(const SealedOptions& options,
                     const std::function<void(int64_t done, int64_t points)>& progress = {});

/// {"target", "points", "cases", "sha256"}: how many.
Report describe(const SealedFile& file);
/// {"gpu", "rehearsal", "target", "driver", "cuda", "date", "sealed_sha256", "seconds", "points"}; a point is {"point",
/// "instruction", "verdict", "found", "predicted", "cases", "deciding"}, and "nearest" where no answer has all cases.
Report describe(const SealedRun& run);

}  // namespace bitmma
