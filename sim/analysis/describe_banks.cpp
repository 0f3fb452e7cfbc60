// SPDX-License-Identifier: MIT
#include "bitmma/analysis/describe_banks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

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

WarpReport describe_warp(const WarpAccess& access, std::string_view move) {
  const std::vector<int64_t> addresses = access.addresses();
  const std::vector<BankWavefront> wavefronts = bank_wavefronts(addresses, access.bytes);
  const BankUse use = bank_use(addresses, access.bytes);
  const bool is_free = use.wavefronts == use.requests;
  std::set<int64_t> bytes;
  Report threads = Report::list(), lines = Report::list();
  for (size_t i = 0; i < access.threads.size(); ++i) {
    const WarpAccess::Thread& thread = access.threads[i];
    for (int64_t byte = 0; byte < access.bytes; ++byte) bytes.insert(thread.byte + byte);
    threads.append({{"thread", i}, {"row", thread.row}, {"col", thread.col}, {"byte", thread.byte}});
  }
  for (const BankWavefront& wavefront : wavefronts) {
    lines.append({{"request", wavefront.request},
                  {"threads", std::vector<int>(wavefront.threads.begin(), wavefront.threads.end())}});
  }
  WarpReport warp{.is_free = is_free};
  warp.report = {{"access", move},           {"bytes", bytes.size()},        {"threads", std::move(threads)},
                 {"requests", use.requests}, {"wavefronts", use.wavefronts}, {"lines", std::move(lines)}};
  const WarpAccess::Thread &first = access.threads.front(), &last = access.threads.back();
  const std::string title =
      fmt::format("{} from row {}, col {}: {} bytes in {}, {}, {} without conflicts", move, first.row, first.col,
                  bytes.size(), counted(use.requests, "request"), counted(use.wavefronts, "wavefront"), use.requests);
  warp.report.add_text(title, is_free ? Tone::good : Tone::bad);
  const std::string ends = fmt::format("T0 row {}, col {} at byte {} ... T{} row {}, col {} at byte {}", first.row,
                                       first.col, first.byte, access.threads.size() - 1, last.row, last.col, last.byte);
  warp.report.add_text(ends);
  warp.report.add_text("a line is a wavefront; below each bank the thread whose word it delivers (or the lowest)\n");
  std::string head = "request  bank";
  for (size_t bank = 0; bank < 32; ++bank) head += fmt::format(" {:>2}", bank);
  warp.report.add_text(head);
  warp.picture = {.title = title, .notes = {ends}, .corner = "request", .has_equal_columns = true};
  for (size_t bank = 0; bank < 32; ++bank) warp.picture.column_heads.push_back(std::to_string(bank));
  int request = -1;
  for (const BankWavefront& wavefront : wavefronts) {
    std::string line =
        fmt::format("{:>7}      ", wavefront.request == request ? "+" : std::to_string(wavefront.request));
    std::vector<PictureCell> cells;
    for (const int thread : wavefront.threads) {
      line += thread < 0 ? "  ." : fmt::format(" {:>2}", thread);
      cells.push_back({.text = thread < 0 ? "" : fmt::format("T{}", thread), .color = thread < 0 ? -1 : thread});
      cells.back().has_edge_above = wavefront.request != request;
    }
    warp.report.add_text(line);
    warp.picture.rows.emplace_back(std::to_string(wavefront.request), std::move(cells));
    request = wavefront.request;
  }
  return warp;
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
