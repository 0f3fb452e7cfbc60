// SPDX-License-Identifier: MIT
#include "bitmma/math/evidence.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/core/target_names.hpp"
#include "compared.hpp"

namespace bitmma {

extern const char* const math_h100_csv;
extern const char* const math_h200_csv;
extern const char* const math_compared_csv;

namespace {

/// The arguments of one function that were compared with one GPU.
struct Compared {
  std::string_view gpu = {};
  uint64_t arguments = 0;
  bool all = false, random = false;
};
/// Keyed by the name of the function.
using ComparedByName = std::map<std::string, std::vector<Compared>, std::less<>>;

/// The cells of every row, without the header row.
std::vector<std::vector<std::string_view>> rows_of(std::string_view csv) {
  std::vector<std::vector<std::string_view>> rows;
  while (!csv.empty()) {
    std::string_view line = csv.substr(0, csv.find('\n'));
    csv.remove_prefix(std::min(line.size() + 1, csv.size()));
    std::vector<std::string_view> cells;
    while (!line.empty()) {
      cells.push_back(line.substr(0, line.find(',')));
      line.remove_prefix(std::min(cells.back().size() + 1, line.size()));
    }
    if (!cells.empty()) rows.push_back(std::move(cells));
  }
  rows.erase(rows.begin());
  return rows;
}

uint64_t number_of(std::string_view text) {
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

void add_compared(ComparedByName& by_name, std::string_view name, const Compared& compared) {
  std::vector<Compared>& all = by_name.try_emplace(std::string(name)).first->second;
  const auto same = std::ranges::find_if(
      all, [&](const Compared& known) { return known.gpu == compared.gpu && known.all == compared.all; });
  if (same == all.end()) all.push_back(compared);
  else if (!compared.all) same->arguments += compared.arguments;
}

/// A 64-bit result has rows "NAME low" and "NAME high" for the same arguments; an f64 function has rows "NAME mantissas
/// from .." and "NAME exponents" for some arguments.
const ComparedByName& compared() {
  static const ComparedByName all = [] {
    ComparedByName by_name;
    for (const auto& [gpu, csv] : {std::pair("H100", math_h100_csv), std::pair("H200", math_h200_csv)}) {
      for (const std::vector<std::string_view>& row : rows_of(csv)) {
        const std::string_view name = row[0].substr(0, row[0].find(' ')), part = row[0].substr(name.size());
        const bool is_whole = part.empty() || part == " low" || part == " high";
        add_compared(by_name, name, {.gpu = gpu, .arguments = number_of(row[1]), .all = is_whole});
      }
    }
    for (const std::vector<std::string_view>& row : rows_of(math_compared_csv))
      add_compared(
          by_name, row[0],
          {.gpu = row[1], .arguments = number_of(row[2]), .all = row[3] == "all", .random = row[3] == "random"});
    return by_name;
  }();
  return all;
}

/// Prints 8000000 as "8,000,000".
std::string grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (int i = static_cast<int>(text.size()) - 3; i > 0; i -= 3) text.insert(static_cast<size_t>(i), 1, ',');
  return text;
}

/// "an H100 and an H200".
std::string print_gpus(const std::vector<std::string_view>& gpus) {
  return fmt::format("an {}", fmt::join(gpus, " and an "));
}

void require_target(TargetSet legal, Target target, const std::string& name) {
  if (legal.contains(target)) return;
  throw Error({.code = ViolationCode::other_target,
               .field = "target",
               .seen = std::string(print(target)),
               .legal = names_of(legal),
               .fix = fmt::format("{} requires one of these", name)});
}

}  // namespace

EvidenceOfWords math::compared_or(const std::string& name, int operands, Target target, EvidenceOfWords otherwise) {
  const auto entry = compared().find(name);
  // H100 and H200 are the same chip.
  if (entry == compared().end() || info(target).chip != Target::sm_90) return otherwise;
  std::vector<std::string_view> of_all;
  std::vector<std::string> sampled;
  uint64_t arguments = 0;
  for (const Compared& comparison : entry->second) {
    if (comparison.all) {
      of_all.push_back(comparison.gpu);
      arguments = comparison.arguments;
    } else {
      sampled.push_back(fmt::format("{} {} of an {}", grouped(comparison.arguments),
                                    operands == 1   ? (comparison.random ? "random words" : "words")
                                    : operands == 2 ? "random pairs"
                                                    : "random triples",
                                    comparison.gpu));
    }
  }
  if (of_all.empty()) return {.level = WordEvidence::sampled, .source = fmt::format("{}", fmt::join(sampled, ", "))};
  const std::string count = arguments == uint64_t{1} << 32 ? "2^32" : grouped(arguments);
  return {.level = WordEvidence::measured, .source = fmt::format("all {} words of {}", count, print_gpus(of_all))};
}

EvidenceOfWords evidence_of(const MathInstruction& instruction, Target target) {
  const std::string name = print(instruction);
  require_target(targets_of(instruction), target, name);
  const EvidenceOfWords otherwise = [&]() -> EvidenceOfWords {
    if (instruction.accuracy == MathAccuracy::rounded)
      return {.level = WordEvidence::documented, .source = "IEEE 754; PTX ISA 9.7.3 and 9.7.4"};
    if (info(target).chip == Target::sm_90)
      return {.level = WordEvidence::compiled, .source = "SASS of ptxas 13.0, the tables of the special function unit"};
    return {.level = WordEvidence::assumed,
            .source = "as on sm_90a: the PTX ISA bounds the error, but no results of this GPU were compared"};
  }();
  const int operands = operand_count(instruction.operation);
  if (!instruction.x2) return math::compared_or(name, operands, target, otherwise);
  MathInstruction half = instruction;
  half.x2 = false;
  const EvidenceOfWords of_half = evidence_of(half, target);
  EvidenceOfWords of_halves = otherwise;
  if (of_half.level <= WordEvidence::sampled) {
    of_halves = {
        .level = WordEvidence::documented,
        .source = fmt::format("each half as {} (PTX ISA): {}, {}", print(half), print(of_half.level), of_half.source)};
  }
  return math::compared_or(name, operands, target, of_halves);
}

EvidenceOfWords evidence_of(const CvtInstruction& instruction, Target target) {
  const std::string name = print(instruction);
  require_target(targets_of(instruction), target, name);
  const bool is_documented = source_of(instruction).starts_with("PTX ISA");
  return math::compared_or(name, static_cast<int>(operands_of(instruction).size()), target,
                           {.level = is_documented ? WordEvidence::documented : WordEvidence::compiled,
                            .source = std::string(source_of(instruction))});
}

}  // namespace bitmma
