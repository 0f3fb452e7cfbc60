// SPDX-License-Identifier: MIT
// A sealed prediction: a GPU's predicted answers to open questions, and the answers that it would give if another known
// alternative were right, recorded as hashes before such a GPU was measured.
//
//   SealedFile file = read_sealed(sealed_text(Target::sm_100a));
//   SealedRecord record = ask_sealed_point(file.points[0], file.target, gpu.executor());
//   finding_of(file.points[0], record).found          "F = 25, floor -21, rounded to the nearest even"
//
// A reader only compares hashes: it prefers no answer, and does not use this version's rows of arithmetic. Inputs are
// generated from names and a seed; their hash detects a version that generates other inputs.
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
  uint64_t number = 0;           // the seed of its draw
  std::vector<uint32_t> d = {};  // for each answer: a hash of the words that the instruction writes

  bool operator==(const SealedCase&) const = default;
};

/// One open point.
struct SealedPoint {
  std::string name = {};                      // "scale-input-d", unique
  std::string instruction = {};               // as text
  uint64_t inputs = 0;                        // a hash of every initial state
  std::vector<std::string> answers = {};      // in alphabetical order
  std::optional<std::string> predicted = {};  // one of `answers`; nothing if the prediction is withheld
  std::vector<SealedCase> cases = {};

  bool operator==(const SealedPoint&) const = default;
};

struct SealedFile {
  Target target = Target::sm_100a;
  std::vector<SealedPoint> points = {};
  std::string sha256 = {};  // of the text that was read; empty for a generated prediction

  bool operator==(const SealedFile&) const = default;
};

/// Every point of the target with all of its answers, and with cases that separate any two of them. Names that contain
/// `withhold` get no prediction. Throws Error if the target has no points, if two answers cannot be separated, or if no
/// name contains `withhold`.
SealedFile make_sealed(Target target, std::string_view withhold = {}, int threads = 1);
/// The text that make_sealed would write for one point with only these cases.
SealedPoint make_sealed_point(Target target, std::string_view name, std::vector<uint64_t> cases);
/// The names of a target's points.
std::vector<std::string> sealed_point_names(Target target);

/// To JSON and back. Throws Error for malformed JSON.
std::string print(const SealedFile& file);
SealedFile read_sealed(std::string_view text);
/// Throws Error, which names the path; also for a file of more than 16 MiB.
SealedFile read_sealed_file(const std::string& path);
/// The compiled-in text of data/sealed; empty for a target without a prediction.
std::string_view sealed_text(Target target);
/// The same, parsed. Throws Error for a target without a prediction.
SealedFile built_in_sealed(Target target);

/// The words that a GPU wrote, case by case.
struct SealedRecord {
  std::string point = {};
  SurveyEnd end = SurveyEnd::answered;
  bool unreadable = false;   // this version generates other cases
  std::string message = {};  // if there is no answer: the reason
  double seconds = 0;
  std::vector<uint32_t> d = {};
};

/// Runs the cases. The record holds errors of the device.
SealedRecord ask_sealed_point(const SealedPoint& point, Target target, const Executor& execute);
/// The record of a device that gives this answer.
SealedRecord record_of_answer(const SealedPoint& point, std::string_view answer);

enum class SealedVerdict : uint8_t {
  as_predicted,
  other_answer,  // another known answer than the predicted one
  named,         // a known answer, where the file withholds the prediction
  none_known,    // no known answer
  unreadable,    // made by another version
  not_answered,
};

/// "as predicted", "another answer", ...
std::string_view print(SealedVerdict verdict);

struct [[nodiscard]] SealedFinding {
  std::string point = {};
  SealedVerdict verdict = SealedVerdict::not_answered;
  std::string found = {};    // the answer that matches every case, or what happened
  std::string nearest = {};  // the answer that matches most cases, if none matches all
  int64_t cases = 0;         // number of cases of the point
  int64_t deciding = 0;      // cases that refute at least one other answer; for the nearest answer: cases that match
};

/// Compares hashes. An answer is found only if it matches all cases and no other answer does.
SealedFinding finding_of(const SealedPoint& point, const SealedRecord& record);

/// A GPU's answers to a whole file.
struct [[nodiscard]] SealedAnswers {
  std::string gpu = {}, driver = {}, cuda = {}, date = {}, version = {};
  Target target = Target::sm_100a;
  std::string sha256 = {};  // of the file with the prediction
  double seconds = 0;
  std::vector<SealedRecord> records = {};

  const SealedRecord* find(std::string_view point) const;
};

TensorFile to_file(const SealedAnswers& answers);
SealedAnswers read_sealed_answers(const TensorFile& file);

struct SealedOptions {
  std::string path = {};            // of the prediction; empty: the compiled-in one for the GPU
  double seconds = 50;              // start no point after this time
  double unit_seconds = 10;         // a point that takes longer is stopped
  int jobs = 4;                     // processes at a time
  std::function<bool()> stop = {};  // called before each point; true: start no more
  /// The program that measures one point, with its first arguments; it is called with the point's name, "-o" and a
  /// path. It calls run_sealed_point and writes the answers there. An empty name reports only the GPU.
  std::vector<std::string> command = {};
};

/// The answers for one point; for an empty name only the GPU. `path` is the prediction's file; empty for the
/// compiled-in one for the GPU. Throws Error if there is no GPU, no such point or no prediction.
SealedAnswers run_sealed_point(std::string_view point, const std::string& path, const SurveyDevice& device);

/// A prediction, and the GPU's answers.
struct [[nodiscard]] SealedRun {
  SealedFile file = {};
  SealedAnswers answers = {};

  /// One finding per point. A point that was not started in time has no answer.
  std::vector<SealedFinding> findings() const;
};

/// Identifies the GPU and then runs all points, each in its own process. Points that were not started in time have no
/// record. Throws Error if there is no GPU, or no prediction for its target.
SealedRun run_sealed(const SealedOptions& options,
                     const std::function<void(int64_t done, int64_t points)>& progress = {});

/// {"target", "points", "cases", "sha256"}, with the numbers of points and cases.
Report describe(const SealedFile& file);
/// {"gpu", "rehearsal", "target", "driver", "cuda", "date", "sealed_sha256", "seconds", "points"}; a point is {"point",
/// "instruction", "verdict", "found", "predicted", "cases", "deciding"}, and "nearest" if no answer matches all cases.
Report describe(const SealedRun& run);

}  // namespace bitmma
