// SPDX-License-Identifier: MIT
#include "bitmma/memory/bank_conflicts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

namespace bitmma {

namespace {

constexpr int64_t word_bytes = 4, banks = 32;

void require_access(std::span<const int64_t> addresses, int bytes) {
  if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8 && bytes != 16)
    throw Error({.field = "bytes a thread", .seen = std::to_string(bytes), .legal = {"1", "2", "4", "8", "16"}});
  if (addresses.empty() || addresses.size() > 32)
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = "addresses",
                 .seen = std::to_string(addresses.size()),
                 .expected = "1..32, one a thread"});
  for (const int64_t address : addresses) {
    if (address < 0 || address % bytes != 0)
      throw Error({.field = "address",
                   .seen = std::to_string(address),
                   .expected = fmt::format("0 or more, a multiple of the {} bytes of a thread", bytes)});
  }
}

}  // namespace

std::vector<BankWavefront> bank_wavefronts(std::span<const int64_t> addresses, int bytes) {
  require_access(addresses, bytes);
  std::vector<BankWavefront> wavefronts;
  const size_t threads = bytes <= word_bytes ? 32 : static_cast<size_t>(128 / bytes);
  for (size_t first = 0, request = 0; first < addresses.size(); first += threads, ++request) {
    std::set<int64_t> words;
    std::array<size_t, banks> used = {};
    const size_t begin = wavefronts.size();
    for (size_t thread = first; thread < std::min(first + threads, addresses.size()); ++thread) {
      const int64_t address = addresses[thread];
      for (int64_t word = address / word_bytes; word <= (address + bytes - 1) / word_bytes; ++word) {
        if (!words.insert(word).second) continue;
        const auto bank = static_cast<size_t>(word % banks);
        const size_t wavefront = begin + used[bank]++;
        if (wavefront == wavefronts.size()) {
          wavefronts.push_back({.request = static_cast<int>(request)});
          wavefronts.back().threads.fill(-1);
        }
        wavefronts[wavefront].threads[bank] = static_cast<int>(thread);
      }
    }
  }
  return wavefronts;
}

BankUse bank_use(std::span<const int64_t> addresses, int bytes) {
  const std::vector<BankWavefront> wavefronts = bank_wavefronts(addresses, bytes);
  std::vector<std::array<int, banks>> words(static_cast<size_t>(wavefronts.back().request) + 1);
  for (const BankWavefront& wavefront : wavefronts) {
    std::array<int, banks>& of_request = words[static_cast<size_t>(wavefront.request)];
    for (size_t bank = 0; bank < banks; ++bank) of_request[bank] += wavefront.threads[bank] >= 0;
  }
  const auto most = [](const std::array<int, banks>& of_request) { return *std::ranges::max_element(of_request); };
  return {.requests = static_cast<int>(words.size()),
          .wavefronts = static_cast<int>(wavefronts.size()),
          .words = *std::ranges::max_element(words, {}, most)};
}

std::vector<int64_t> WarpAccess::addresses() const {
  std::vector<int64_t> all;
  for (const Thread& thread : threads) all.push_back(thread.byte);
  return all;
}

WarpAccess warp_access(const Map& map, WarpMove move, int64_t row, int64_t col, int lines) {
  const auto index = static_cast<size_t>(move);
  if (index >= warp_moves.size())
    throw Error({.field = "warp", .seen = std::to_string(index), .legal = row_names(warp_moves)});
  const WarpMoveInfo& info = warp_moves[index];
  if (lines != 0 && (info.matrices != 0 || lines < 0 || lines > 32 || 32 % lines != 0)) {
    throw Error(
        {.field = "warp lines",
         .seen = std::to_string(lines),
         .expected = info.matrices != 0 ? "0: ldmatrix reads 8 lines for each matrix" : "1, 2, 4, 8, 16 or 32"});
  }
  const size_t byte = map.axis("byte");
  const int64_t rows = map.axes[map.axis("row")].extent, cols = map.axes[map.axis("col")].extent;
  const std::optional<size_t> bit = map.find("bit");
  const int64_t element_bits = map.axes[byte].width > 1 || !bit ? 8 * map.axes[byte].width : map.axes[*bit].step();
  const int64_t width = 8 * info.bytes / element_bits;
  if (width < 1 || width * element_bits != 8 * info.bytes) {
    throw Error({.field = "warp",
                 .seen = std::string(info.name),
                 .expected = fmt::format("{} bits or more, whole elements", element_bits)});
  }
  const auto byte_at = [&](int64_t r, int64_t c) -> int64_t {
    if (r < 0 || r >= rows || c < 0 || c >= cols) {
      throw Error({.field = "row, col",
                   .seen = fmt::format("{}, {}", r, c),
                   .expected = fmt::format("0..{}, 0..{}: the warp reads outside the matrix", rows - 1, cols - 1)});
    }
    return map.place_of({r, c})[byte];
  };
  WarpAccess access{.bytes = info.bytes};
  // Neighbours along a line of 16 bytes share them; one of the two directions has such lines.
  const int64_t of_unit = std::max<int64_t>(2, 128 / element_bits);
  access.along_rows = !(cols >= 2 && byte_at(0, std::min(cols, of_unit) - 1) / 16 == byte_at(0, 0) / 16);
  const int64_t along = access.along_rows ? row : col, line = access.along_rows ? col : row;
  const auto add = [&](int64_t at_line, int64_t at) {
    const int64_t r = access.along_rows ? at : at_line, c = access.along_rows ? at_line : at;
    const int64_t first = byte_at(r, c);
    const int64_t last = access.along_rows ? byte_at(r + width - 1, c) : byte_at(r, c + width - 1);
    if (first % info.bytes != 0 || last / info.bytes != first / info.bytes) {
      throw Error({.field = "row, col",
                   .seen = fmt::format("{}, {} at byte {}", r, c, first),
                   .expected = fmt::format("{} bytes in one piece, aligned to {}", info.bytes, info.bytes)});
    }
    access.threads.push_back({.row = r, .col = c, .byte = first});
  };
  if (info.matrices != 0) {
    for (int64_t i = 0; i < int64_t{8} * info.matrices; ++i)
      add(line + i % 8 + 8 * (i / 8 % 2), along + i / 16 * width);
    return access;
  }
  const int64_t left = ((access.along_rows ? rows : cols) - along) / width;
  int64_t of_line = 1;
  while (of_line < 32 && 2 * of_line <= left) of_line *= 2;
  if (lines != 0) of_line = 32 / lines;
  for (int64_t thread = 0; thread < 32; ++thread) add(line + thread / of_line, along + thread % of_line * width);
  return access;
}

std::vector<MatrixBankUse> matrix_bank_use(const Map& map) {
  const size_t row = map.axis("row"), col = map.axis("col"), byte = map.axis("byte");
  const int64_t rows = map.axes[row].extent, cols = map.axes[col].extent;
  const std::optional<size_t> bit = map.find("bit");
  const int64_t element_bits = map.axes[byte].width > 1 || !bit ? 8 * map.axes[byte].width : map.axes[*bit].step();
  const auto byte_at = [&](int64_t r, int64_t c) { return map.place_of({r, c})[byte]; };
  const auto refuse = [&](std::string seen) {
    throw Error({.field = "layout",
                 .seen = std::move(seen),
                 .expected = "whole matrices of 8 rows of 16 bytes, each row in one piece and aligned to 16 bytes"});
  };
  for (const bool along_rows : {false, true}) {
    const int64_t inner = along_rows ? rows : cols, outer = along_rows ? cols : rows;
    const auto at = [&](int64_t o, int64_t i) { return along_rows ? byte_at(i, o) : byte_at(o, i); };
    // The number of elements in one 16-byte row.
    int64_t width = 1;
    while (width < inner && at(0, width) / 16 == at(0, 0) / 16) ++width;
    if (width == 1 && !along_rows && rows > 1) continue;
    if (at(0, 0) % 16 != 0 || width * element_bits != 128 || inner % width != 0 || outer % 8 != 0)
      refuse(fmt::format("{} x {} elements from byte {}", rows, cols, at(0, 0)));
    std::vector<MatrixBankUse> uses;
    for (int64_t o = 0; o < outer; o += 8) {
      for (int64_t i = 0; i < inner; i += width) {
        std::array<int64_t, 8> addresses{};
        for (int64_t line = 0; line < 8; ++line) {
          const int64_t first = at(o + line, i), last = at(o + line, i + width - 1);
          if (first % 16 != 0 || last / 16 != first / 16)
            refuse(fmt::format("a row of a matrix from byte {} to byte {}", first, last));
          addresses[static_cast<size_t>(line)] = first;
        }
        uses.push_back({.row = along_rows ? i : o, .col = along_rows ? o : i, .use = bank_use(addresses, 16)});
      }
    }
    return uses;
  }
  refuse("neighbouring elements that are not contiguous");
  return {};
}

}  // namespace bitmma
