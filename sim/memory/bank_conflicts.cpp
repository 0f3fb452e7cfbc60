// SPDX-License-Identifier: MIT
#include "bitmma/memory/bank_conflicts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

namespace bitmma {

BankUse bank_use(std::span<const int64_t> addresses, int bytes) {
  constexpr int64_t word = 4, banks = 32;
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
  BankUse use;
  const size_t threads = bytes <= word ? 32 : static_cast<size_t>(128 / bytes);
  for (size_t first = 0; first < addresses.size(); first += threads) {
    std::set<int64_t> words;
    for (const int64_t address : addresses.subspan(first, std::min(threads, addresses.size() - first))) {
      for (int64_t at = address / word; at <= (address + bytes - 1) / word; ++at) words.insert(at);
    }
    std::array<int, 32> count = {};
    for (const int64_t place : words) ++count[static_cast<size_t>(place % banks)];
    const int most = *std::ranges::max_element(count);
    ++use.requests;
    use.wavefronts += most;
    if (most > *std::ranges::max_element(use.words)) use.words = count;
  }
  return use;
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
