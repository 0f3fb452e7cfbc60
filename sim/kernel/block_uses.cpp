// SPDX-License-Identifier: MIT
#include "block_uses.hpp"

#include <algorithm>
#include <new>

#include "bitmma/core/bits.hpp"

namespace bitmma::kernel {
namespace {

constexpr uint16_t changed = 0x8000, several = 0x7FFF;
constexpr size_t tags = several - 1;
/// Of a line whose words have records: no block has this tag.
constexpr uint32_t apart = 0xFFFFFFFF;

constexpr uint64_t four_of(uint16_t tag) { return tag * uint64_t{0x0001000100010001}; }

// Blocks on several threads share the records. A race of these accesses themselves can hide a conflict, and makes none:
// every tag is that of a block that used the byte.
uint64_t load(uint64_t& from) { return std::atomic_ref(from).load(std::memory_order_relaxed); }
void store(uint64_t& to, uint64_t value) { std::atomic_ref(to).store(value, std::memory_order_relaxed); }

}  // namespace

uint64_t* BlockUses::make_records() {
  auto* const made = static_cast<uint64_t*>(std::calloc(2 * words() + (lines_ + 1) / 2, sizeof(uint64_t)));
  if (!made) throw std::bad_alloc();
  uint64_t* earlier = nullptr;
  if (records_.compare_exchange_strong(earlier, made)) return made;
  std::free(made);  // a block on another thread was first
  return earlier;
}

bool BlockUses::use(const Access& access, Users& users) {
  const uint16_t tag = access.tag, number = users.writer & static_cast<uint16_t>(~changed);
  if (!access.is_write) {
    if (users.reader != tag && users.reader != several) users.reader = users.reader == 0 ? tag : several;
    return (users.writer & changed) != 0 && number != tag;
  }
  const bool is_shared = (number != 0 && number != tag) || (users.reader != 0 && users.reader != tag);
  if (access.changes) users.writer = tag | changed;
  else if (users.writer == 0) users.writer = tag;
  return access.changes && is_shared;
}

/// False if the line is apart.
bool BlockUses::note_line(uint32_t& line, const Access& access, bool& conflicts) {
  const std::atomic_ref record(line);
  uint32_t before = record.load(std::memory_order_acquire);
  for (;;) {
    if (before == apart) return false;
    Users users{.writer = static_cast<uint16_t>(before), .reader = static_cast<uint16_t>(before >> 16)};
    const bool is_conflict = use(access, users);
    const uint32_t next = uint32_t{users.reader} << 16 | users.writer;
    if (next == before || record.compare_exchange_weak(before, next, std::memory_order_acq_rel)) {
      conflicts = conflicts || is_conflict;
      return true;
    }
  }
}

/// Gives each byte of a line a record of its own.
void BlockUses::part(uint32_t& line, uint64_t* writers, uint64_t* readers) {
  const std::atomic_ref record(line);
  uint32_t before = record.load(std::memory_order_acquire);
  while (before != apart) {
    for (size_t i = 0; i < line_bytes / word_bytes; ++i) {
      store(writers[i], four_of(static_cast<uint16_t>(before)));
      store(readers[i], four_of(static_cast<uint16_t>(before >> 16)));
    }
    if (record.compare_exchange_weak(before, apart, std::memory_order_acq_rel)) return;
  }
}

bool BlockUses::note_words(uint64_t* all_writers, uint64_t* all_readers, size_t at, size_t bytes,
                           const Access& access) {
  const auto& [tag, is_write, changes] = access;
  bool conflicts = false;
  for (size_t word = at / word_bytes; word_bytes * word < at + bytes; ++word) {
    const size_t begin = word_bytes * word, first = std::max(at, begin) - begin,
                 end = std::min(at + bytes - begin, word_bytes);
    const uint64_t used = low_mask(static_cast<int>(16 * (end - first))) << 16 * first;
    const uint64_t before = load(all_writers[word]), read_before = load(all_readers[word]);
    uint64_t writers = before, readers = read_before;
    // Most accesses are those of a block alone, and not its first ones.
    const bool is_own = ((writers ^ four_of(tag | changed)) & used) == 0;
    const bool reads_alone = ((readers ^ four_of(tag)) & used) == 0;
    const bool is_read_by_several = ((readers ^ four_of(several)) & used) == 0;
    if (is_own && (reads_alone || (is_write && (readers & used) == 0))) continue;
    if (!is_write && (reads_alone || is_read_by_several) && (writers & four_of(changed) & used) == 0) continue;
    for (size_t i = first; i < end; ++i) {
      Users users{.writer = static_cast<uint16_t>(writers >> 16 * i),
                  .reader = static_cast<uint16_t>(readers >> 16 * i)};
      conflicts = use(access, users) || conflicts;
      const uint64_t others = ~(uint64_t{0xFFFF} << 16 * i);
      writers = (writers & others) | uint64_t{users.writer} << 16 * i;
      readers = (readers & others) | uint64_t{users.reader} << 16 * i;
    }
    if (writers != before) store(all_writers[word], writers);
    if (readers != read_before) store(all_readers[word], readers);
  }
  return conflicts;
}

void BlockOrder::meet(size_t block) {
  Block& own = blocks_[block];
  if (own.segment != 0) segments_[own.segment].end = ++now_, own.segment = 0;
  own.known = now_;
}

uint32_t BlockOrder::segment_of(size_t block) {
  uint32_t& segment = blocks_[block].segment;
  if (segment == 0 && segments_.size() < most_segments) {
    segment = static_cast<uint32_t>(segments_.size());
    segments_.push_back({.block = static_cast<uint32_t>(block), .end = never});
  }
  return segment;
}

bool BlockUses::note_ordered(size_t block, size_t at, size_t bytes, bool is_write, bool changes) {
  if (order_->has_conflict_) return false;
  constexpr uint32_t value_changed = 0x80000000;
  const uint32_t segment = order_->segment_of(block);
  OrderedUsers known;  // neighbours have the same users, mostly
  for (size_t i = at; i < at + bytes; ++i) {
    auto& page = pages_[i / page_bytes];
    if (!page) page = std::make_unique<std::array<OrderedUsers, page_bytes>>();
    OrderedUsers& users = (*page)[i % page_bytes];
    if (users != known) {
      const bool knows_writer = order_->knows(block, users.writer & ~value_changed);
      order_->has_conflict_ = is_write ? changes && (!knows_writer || !order_->knows(block, users.reader))
                                       : (users.writer & value_changed) != 0 && !knows_writer;
      if (order_->has_conflict_) return true;
      known = users;
    }
    if (!is_write) users.reader = segment;
    else if (changes) users.writer = segment | value_changed;
    else if (users.writer == 0) users.writer = segment;
  }
  return false;
}

bool BlockUses::note(size_t block, size_t at, size_t bytes, bool is_write, bool changes) {
  if (order_) return note_ordered(block, at, bytes, is_write, changes);
  const Access access{.tag = static_cast<uint16_t>(1 + (block < tags ? block : block % tags)),  // a division takes long
                      .is_write = is_write,
                      .changes = changes};
  uint64_t* const present = records_.load(std::memory_order_acquire);
  uint64_t* const writers = present ? present : make_records();
  uint64_t* const readers = writers + words();
  auto* const lines = reinterpret_cast<uint32_t*>(readers + words());
  bool conflicts = false;
  for (size_t next = 0; bytes > 0; bytes -= next, at += next) {
    const size_t line = at / line_bytes, first_word = line * (line_bytes / word_bytes);
    next = std::min(bytes, line_bytes - at % line_bytes);
    if (next == line_bytes && note_line(lines[line], access, conflicts)) continue;
    part(lines[line], writers + first_word, readers + first_word);
    conflicts = note_words(writers, readers, at, next, access) || conflicts;
  }
  return conflicts;
}

}  // namespace bitmma::kernel
