// SPDX-License-Identifier: MIT
#include "bitmma/analysis/describe_banks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bitmma/core/text.hpp"
#include "bitmma/memory/layout_descriptor.hpp"

namespace bitmma {
namespace {

std::string print_use(const BankUse& use) {
  std::string words;
  for (const int count : use.words) words += fmt::format(" {}", count);
  return fmt::format("{}, {} without conflicts\nwords per bank 0-31, in the request with the most words in one bank:{}",
                     counted(use.wavefronts, "wavefront"), use.requests, words);
}

}  // namespace

Report describe(const BankUse& use) {
  Report report{{"wavefronts", use.wavefronts},
                {"without_conflicts", use.requests},
                {"words_by_bank", std::vector<int>(use.words.begin(), use.words.end())}};
  return report.add_text(print_use(use));
}

ConflictReport describe_conflicts(const Map& map, std::string_view access) {
  const std::vector<MatrixBankUse> uses = matrix_bank_use(map);
  const auto worst = std::ranges::max_element(uses, {}, [](const MatrixBankUse& use) { return use.use.wavefronts; });
  int64_t wavefronts = 0;
  Report matrices = Report::list();
  for (const MatrixBankUse& use : uses) {
    wavefronts += use.use.wavefronts;
    matrices.append({{"row", use.row}, {"col", use.col}, {"wavefronts", use.use.wavefronts}});
  }
  const int64_t count = std::ssize(uses);
  const bool is_free = wavefronts == count;
  Report report{{"access", access},
                {"matrices", std::move(matrices)},
                {"wavefronts", wavefronts},
                {"without_conflicts", count},
                {"worst", describe(worst->use)}};
  report.add_text(
      fmt::format("{} of all {} of 8 rows of 16 bytes: {}, {} without conflicts", access,
                  count == 1 ? "1 matrix" : fmt::format("{} matrices", count), counted(wavefronts, "wavefront"), count),
      is_free ? Tone::good : Tone::bad);
  report.add_text(fmt::format("worst, from row {}, col {}: {}", worst->row, worst->col, print_use(worst->use)));
  return {.is_free = is_free, .report = std::move(report)};
}

Report describe_swizzle_uses() {
  Report uses = Report::list();
  std::vector<std::string> heading{"instruction", "bits", "major"};
  for (const SwizzleInfo& mode : swizzles) heading.emplace_back(mode.name);
  std::vector<std::vector<std::string>> table{heading};
  for (const SwizzleUse& use : swizzle_uses()) {
    uses.append({{"instruction", use.instruction},
                 {"target", print(use.target)},
                 {"element_bits", use.element_bits},
                 {"major", print(use.major)},
                 {"swizzle", info(use.swizzle).name},
                 {"accepted", use.is_accepted},
                 {"reasons", use.reasons}});
    if (use.swizzle == Swizzle::none)
      table.push_back({std::string(use.instruction), std::to_string(use.element_bits), std::string(print(use.major))});
    table.back().emplace_back(use.is_accepted ? "yes" : "-");
  }
  uses.add_text(table);
  uses.add_text(
      "rows: bits of an element in memory (6- and 4-bit types of kind::f8f6f4 and mxf8f6f4 have 8); columns: swizzles");
  uses.add_text(
      "TMA writes all of them (bitmma layout smem --tma shows where); tcgen05.cp reads all swizzles of its GPU");
  return uses;
}

}  // namespace bitmma
