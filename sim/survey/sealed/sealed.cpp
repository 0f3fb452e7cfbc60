// SPDX-License-Identifier: MIT
// Makes a sealed prediction, runs it on a device, and compares the answers.
#include "bitmma/survey/sealed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "../../core/seconds.hpp"
#include "../cases.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/instruction/statement.hpp"
#include "points.hpp"

namespace bitmma {
namespace {

using sealed::Point;

constexpr size_t first_cases = 32;       // for every point
constexpr int least_differing = 3;       // number of cases in which any two answers must differ
constexpr uint64_t most_numbers = 4000;  // limit of case numbers to try

Point point_named(Target target, std::string_view name) {
  for (Point& point : sealed::points_of(target)) {
    if (point.name == name) return std::move(point);
  }
  throw Error({.field = "point", .seen = shortened(printable(name)), .expected = "a point that this version supports"});
}

std::vector<uint32_t> hashes_of(const Point& point, uint64_t number) {
  const survey::Asked asked = point.draw(number);
  std::vector<uint32_t> hashes;
  for (const sealed::Rival& rival : point.rivals) hashes.push_back(sealed::hash_of(rival.left(asked, number)));
  return hashes;
}

/// For each pair of answers, the number of cases that separate it.
class Pairs {
 public:
  explicit Pairs(size_t answers) : answers_(answers), differing_(answers * answers) {}

  /// True if the case separates a pair that needs more cases.
  bool needs(const std::vector<uint32_t>& d) const {
    return any_pair([&](size_t x, size_t y) { return d[x] != d[y] && at(x, y) < least_differing; });
  }
  void add(const std::vector<uint32_t>& d) {
    for (size_t x = 0; x < answers_; ++x) {
      for (size_t y = x + 1; y < answers_; ++y) differing_[x * answers_ + y] += d[x] != d[y] ? 1 : 0;
    }
  }
  bool all_differ() const {
    return !any_pair([&](size_t x, size_t y) { return at(x, y) < least_differing; });
  }
  /// The pair with the fewest separating cases.
  std::pair<size_t, size_t> worst() const {
    std::pair<size_t, size_t> found{0, 1};
    for (size_t x = 0; x < answers_; ++x) {
      for (size_t y = x + 1; y < answers_; ++y) {
        if (at(x, y) < at(found.first, found.second)) found = {x, y};
      }
    }
    return found;
  }
  int at(size_t x, size_t y) const { return differing_[x * answers_ + y]; }

 private:
  template <typename Test>
  bool any_pair(Test test) const {
    for (size_t x = 0; x < answers_; ++x) {
      for (size_t y = x + 1; y < answers_; ++y) {
        if (test(x, y)) return true;
      }
    }
    return false;
  }

  size_t answers_;
  std::vector<int> differing_;
};

/// Case numbers that separate all answers. A case has at most as many results as JSON has letters.
std::vector<uint64_t> chosen_cases(const Point& point) {
  constexpr size_t most_results = 62;
  Pairs pairs(point.rivals.size());
  std::vector<uint64_t> chosen;
  for (uint64_t number = 0; number < most_numbers; ++number) {
    if (chosen.size() >= first_cases && pairs.all_differ()) return chosen;
    const std::vector<uint32_t> d = hashes_of(point, number);
    std::vector<uint32_t> results = d;
    std::ranges::sort(results);
    const auto repeated = std::ranges::unique(results);
    if (results.size() - repeated.size() > most_results) continue;
    if (chosen.size() >= first_cases && !pairs.needs(d)) continue;
    pairs.add(d);
    chosen.push_back(number);
  }
  const auto [x, y] = pairs.worst();
  throw Error({.field = point.name,
               .seen = fmt::format("\"{}\" and \"{}\" differ in {} of {} cases", point.rivals[x].text,
                                   point.rivals[y].text, pairs.at(x, y), most_numbers),
               .expected = fmt::format("{} or more", least_differing)});
}

SealedPoint sealed_point(const Point& point, const std::vector<uint64_t>& numbers) {
  SealedPoint made{.name = point.name,
                   .instruction = print(point.instruction),
                   .answers = {},
                   .predicted = point.rivals.front().text};
  std::vector<size_t> order(point.rivals.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return point.rivals[i].text; });
  for (const size_t i : order) made.answers.push_back(point.rivals[i].text);
  survey::Hash inputs;
  for (const uint64_t number : numbers) {
    inputs.add(point.draw(number).before);
    const std::vector<uint32_t> d = hashes_of(point, number);
    SealedCase one{.number = number};
    for (const size_t i : order) one.d.push_back(d[i]);
    made.cases.push_back(std::move(one));
  }
  made.inputs = inputs.value();
  return made;
}

}  // namespace

std::vector<std::string> sealed_point_names(Target target) {
  std::vector<std::string> names;
  for (const Point& point : sealed::points_of(target)) names.push_back(point.name);
  return names;
}

SealedPoint make_sealed_point(Target target, std::string_view name, std::vector<uint64_t> cases) {
  return sealed_point(point_named(target, name), cases);
}

SealedFile make_sealed(Target target, std::string_view withhold, int threads) {
  const std::vector<Point> points = sealed::points_of(target);
  if (points.empty())
    throw Error({.field = "target", .seen = std::string(print(target)), .expected = "a target with open points"});
  SealedFile file{.target = target};
  file.points.resize(points.size());
  std::vector<std::vector<Violation>> wrong(points.size());
  parallel_for(points.size(), threads, [&](size_t i) {
    try {
      file.points[i] = sealed_point(points[i], chosen_cases(points[i]));
    } catch (const Error& error) {
      wrong[i] = error.violations();
    }
  });
  std::vector<Violation> all_wrong;
  for (const std::vector<Violation>& of_point : wrong)
    all_wrong.insert(all_wrong.end(), of_point.begin(), of_point.end());
  if (!all_wrong.empty()) throw Error(std::move(all_wrong));
  bool is_withheld = withhold.empty();
  for (SealedPoint& point : file.points) {
    if (withhold.empty() || point.name.find(withhold) == std::string::npos) continue;
    point.predicted.reset();
    is_withheld = true;
  }
  if (!is_withheld)
    throw Error({.field = "withhold",
                 .seen = std::string(withhold),
                 .expected = "text that occurs in the name of a point",
                 .fix = fmt::format("such as \"{}\"", file.points.front().name)});
  return file;
}

SealedRecord ask_sealed_point(const SealedPoint& point, Target target, const Executor& execute) {
  SealedRecord record{.point = point.name};
  const auto start = std::chrono::steady_clock::now();
  const auto refuse = [&](std::string message) {
    record.message = shortened(printable(message), 2000);
    record.d.clear();
  };
  std::vector<survey::Asked> asked;
  std::optional<Point> made;
  try {  // another version may lack the point, or draw operands that the instruction rejects
    made = point_named(target, point.name);
    survey::Hash inputs;
    for (const SealedCase& one : point.cases) {
      asked.push_back(made->draw(one.number));
      inputs.add(asked.back().before);
    }
    record.unreadable = inputs.value() != point.inputs || print(made->instruction) != point.instruction;
    if (record.unreadable) refuse("the cases differ from those of this version");
  } catch (const Error& error) {
    record.unreadable = true;
    refuse(error.what());
  }
  if (record.unreadable) return record;
  try {
    constexpr size_t most_at_once = 16;
    for (size_t first = 0; first < asked.size(); first += most_at_once) {
      std::vector<State> before;
      for (size_t i = first; i < std::min(asked.size(), first + most_at_once); ++i) before.push_back(asked[i].before);
      const std::vector<State> after = execute(made->instruction, target, before);
      if (after.size() != before.size())
        throw Error({.field = "states after the instruction",
                     .seen = std::to_string(after.size()),
                     .expected = std::to_string(before.size())});
      for (size_t i = 0; i < after.size(); ++i)
        record.d.push_back(sealed::hash_of(made->left(asked[first + i], point.cases[first + i].number, after[i])));
    }
  } catch (const std::exception& error) {
    record.end = SurveyEnd::failed;
    refuse(error.what());
  }
  record.seconds = seconds_since(start);
  return record;
}

SealedRecord record_of_answer(const SealedPoint& point, std::string_view answer) {
  const auto found = std::ranges::find(point.answers, answer);
  if (found == point.answers.end())
    throw Error({.field = "answer", .seen = std::string(answer), .expected = "an answer of the point"});
  SealedRecord record{.point = point.name};
  for (const SealedCase& one : point.cases)
    record.d.push_back(one.d[static_cast<size_t>(found - point.answers.begin())]);
  return record;
}

std::string_view print(SealedVerdict verdict) {
  switch (verdict) {
    case SealedVerdict::as_predicted: return "as predicted";
    case SealedVerdict::other_answer: return "another answer";
    case SealedVerdict::named: return "named";
    case SealedVerdict::none_known: return "none known";
    case SealedVerdict::unreadable: return "unreadable";
    default: return "no answer";
  }
}

std::vector<SealedFinding> SealedRun::findings() const {
  std::vector<SealedFinding> all;
  for (const SealedPoint& point : file.points) {
    const SealedRecord* const record = answers.find(point.name);
    all.push_back(
        finding_of(point, record ? *record : SealedRecord{.end = SurveyEnd::failed, .message = "not asked in time"}));
  }
  return all;
}

SealedFinding finding_of(const SealedPoint& point, const SealedRecord& record) {
  SealedFinding finding{.point = point.name, .cases = static_cast<int64_t>(point.cases.size())};
  if (record.unreadable || record.end != SurveyEnd::answered || record.d.size() != point.cases.size()) {
    finding.verdict = record.unreadable ? SealedVerdict::unreadable : SealedVerdict::not_answered;
    finding.found = record.message.empty() ? std::string(print(record.end)) : record.message;
    return finding;
  }
  std::vector<int64_t> fitting(point.answers.size());
  for (size_t answer = 0; answer < fitting.size(); ++answer) {
    for (size_t i = 0; i < record.d.size(); ++i) fitting[answer] += record.d[i] == point.cases[i].d[answer] ? 1 : 0;
  }
  const auto all = std::ranges::count(fitting, finding.cases);
  const auto best = static_cast<size_t>(std::ranges::max_element(fitting) - fitting.begin());
  if (all != 1) {
    finding.verdict = SealedVerdict::none_known;
    finding.found = "none of the known answers";
    finding.nearest = point.answers[best];
    finding.deciding = fitting[best];
    return finding;
  }
  finding.found = point.answers[best];
  for (const SealedCase& one : point.cases)
    finding.deciding += std::ranges::any_of(one.d, [&](uint32_t d) { return d != one.d[best]; }) ? 1 : 0;
  finding.verdict = !point.predicted                    ? SealedVerdict::named
                    : *point.predicted == finding.found ? SealedVerdict::as_predicted
                                                        : SealedVerdict::other_answer;
  return finding;
}

}  // namespace bitmma
