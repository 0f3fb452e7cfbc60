// SPDX-License-Identifier: MIT
// Which bytes of global memory several blocks use.
#include "kernel/block_uses.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <span>

#include "bitmma/core/random.hpp"
#include "support/catch.hpp"

using namespace bitmma;

TEST_CASE("conflicts between blocks are those of each byte by itself, whatever the size and place of the accesses") {
  struct Byte {
    int writer = -1, reader = -1;  // -1: none
    bool changed = false, has_readers = false;
  };
  constexpr size_t bytes = 224;
  auto uses = std::make_unique<kernel::BlockUses>(bytes);
  std::array<Byte, bytes> reference;
  RandomStream random(5, 1);
  int conflicting = 0, free_of_conflict = 0;
  for (int round = 0; round < 200'000; ++round) {
    if (round % 50 == 0) uses = std::make_unique<kernel::BlockUses>(bytes), reference = {};
    constexpr std::array<size_t, 9> sizes{1, 2, 4, 8, 16, 32, 12, 64, 128};
    const size_t size = sizes[static_cast<size_t>(random.between(0, 8))];
    size_t at = 4 * static_cast<size_t>(random.between(0, static_cast<int>((bytes - size) / 4))) +
                (size < 4 ? size * static_cast<size_t>(random.between(0, 4 / static_cast<int>(size) - 1)) : 0);
    if (size >= 64 && random.one_in(2)) at -= at % 64;  // whole lines
    const int block = random.between(0, 3);
    const bool is_write = random.between(0, 1) == 1, changes = is_write && random.between(0, 1) == 1;
    bool conflicts = false;
    for (Byte& byte : std::span(reference).subspan(at, size)) {
      if (!is_write) {
        conflicts |= byte.changed && byte.writer != block;
        byte.has_readers |= byte.reader >= 0 && byte.reader != block;
        if (byte.reader < 0) byte.reader = block;
        continue;
      }
      conflicts |= changes && ((byte.writer >= 0 && byte.writer != block) || byte.has_readers ||
                               (byte.reader >= 0 && byte.reader != block));
      if (changes) byte.writer = block, byte.changed = true;
      else if (byte.writer < 0) byte.writer = block;
    }
    REQUIRE(uses->note(static_cast<size_t>(block), at, size, is_write, changes) == conflicts);
    ++(conflicts ? conflicting : free_of_conflict);
  }
  CHECK((conflicting > 10'000 && free_of_conflict > 10'000));
}

TEST_CASE(
    "blocks that meet have no conflict, by clocks of all blocks; others have, but for earlier ones of several "
    "readers") {
  using Clock = std::array<int, 4>;  // of each block: what is known of it
  struct Use {
    int block = -1, time = 0;
    bool changed = false;
  };
  constexpr size_t bytes = 24;
  RandomStream random(6, 1);
  int conflicting = 0, free_of_conflict = 0, ordered = 0;
  for (int round = 0; round < 40'000; ++round) {
    kernel::BlockOrder order(4);
    kernel::BlockUses uses(bytes, &order);
    std::array<Clock, 4> clocks{};  // of each block; its own is the number of its atomics
    Clock meeting{};                // of the place of the atomics
    std::array<Use, bytes> writers{}, readers{};
    for (auto& clock : clocks) clock.fill(-1);
    meeting.fill(-1);
    for (size_t i = 0; i < 4; ++i) clocks[i][i] = 0;
    for (bool conflicts = false; !conflicts;) {
      const auto block = static_cast<size_t>(random.between(0, 3));
      Clock& own = clocks[block];
      if (random.one_in(3)) {
        order.meet(block);
        for (size_t i = 0; i < 4; ++i) meeting[i] = own[i] = std::max(meeting[i], own[i]);
        ++own[block];
        continue;
      }
      if (random.one_in(60)) break;
      const auto size = static_cast<size_t>(1 << random.between(0, 3));
      const size_t at = size * static_cast<size_t>(random.between(0, static_cast<int>(bytes / size) - 1));
      const bool is_write = random.between(0, 1) == 1, changes = is_write && random.between(0, 1) == 1;
      const auto is_known = [&](const Use& use) {
        if (use.block < 0 || use.block == static_cast<int>(block)) return true;
        const bool known = use.time <= own[static_cast<size_t>(use.block)];
        ordered += known ? 1 : 0;
        return known;
      };
      for (size_t i = at; i < at + size; ++i) {
        const Use use{.block = static_cast<int>(block), .time = own[block], .changed = changes};
        if (!is_write) {
          conflicts |= writers[i].changed && !is_known(writers[i]);
          readers[i] = use;
        } else {
          conflicts |= changes && (!is_known(writers[i]) || !is_known(readers[i]));
          if (changes || writers[i].block < 0) writers[i] = use;
        }
      }
      REQUIRE(uses.note(block, at, size, is_write, changes) == conflicts);
      ++(conflicts ? conflicting : free_of_conflict);
    }
  }
  CHECK((conflicting > 10'000 && free_of_conflict > 10'000 && ordered > 10'000));
}
