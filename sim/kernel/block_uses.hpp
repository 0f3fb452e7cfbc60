// SPDX-License-Identifier: MIT
// Which blocks (of a launch with clusters: which clusters) wrote and read each byte of an allocation of global memory.
// Blocks run at the same time or in any order, so that what one writes and another reads or writes decides bits by
// chance. Most warps read and write whole lines of 64 bytes, for which one record stands:
//
//   line 0   written by block 3, read by block 3
//   line 1   apart: every byte has its own record
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <vector>

namespace bitmma::kernel {

/// What the blocks of a cooperative launch know of each other. Each atomic and each ordered access of global memory
/// (volatile, relaxed, acquire, release) counts as a release and an acquire of a single place: what a block did before
/// its own is known to the blocks whose own come later. So blocks that meet, by whatever barrier or flag, have no race;
/// a race of blocks whose atomics separate the accesses by chance is not found. A block's accesses between two of its
/// atomics are a segment:
///
///   block 0   writes x   atom: segment 1 ends at time 1
///   block 1              ld.acquire: knows what ended until time 1   reads x
class BlockOrder {
 public:
  explicit BlockOrder(size_t blocks) : blocks_(blocks) {}

  /// Call at an atomic or ordered access of a block.
  void meet(size_t block);
  /// The segment of a block's access. 0 if there are too many: what no later access conflicts with.
  uint32_t segment_of(size_t block);
  /// Whether a block knows of all accesses in a segment, or they are its own.
  bool knows(size_t block, uint32_t segment) const {
    return segments_[segment].end <= blocks_[block].known || segments_[segment].block == block;
  }

 private:
  friend class BlockUses;
  static constexpr uint32_t never = std::numeric_limits<uint32_t>::max();
  static constexpr size_t most_segments = size_t{1} << 24;

  struct Segment {
    uint32_t block = 0, end = 0;
  };
  struct Block {
    uint32_t segment = 0;  // 0: none has begun since the last atomic
    uint32_t known = 0;    // the time of that atomic
  };
  std::vector<Block> blocks_ = {};
  std::vector<Segment> segments_ = {Segment{}};
  uint32_t now_ = 0;
  bool has_conflict_ = false;  // the first one alone is of interest
};

class BlockUses {
 public:
  /// `order`: of a cooperative launch, whose blocks run on one thread; it must outlive the uses.
  explicit BlockUses(size_t bytes, BlockOrder* order = nullptr)
      : lines_(bytes / line_bytes + 1), order_(order), pages_(order ? bytes / page_bytes + 1 : 0) {}
  ~BlockUses() { std::free(records_.load()); }
  BlockUses(const BlockUses&) = delete;
  BlockUses& operator=(const BlockUses&) = delete;

  /// Notes an access of block `block` to the `bytes` bytes from `at`, which is a multiple of `bytes` if that is 16 or
  /// less. `changes`: for a write, whether it changes their values. True if it conflicts with an access of another
  /// block. Of readers that know nothing of each other the last one alone counts in a cooperative launch.
  bool note(size_t block, size_t at, size_t bytes, bool is_write, bool changes);
  BlockOrder* order() const { return order_; }

 private:
  static constexpr size_t line_bytes = 64, word_bytes = 4, page_bytes = 4096;

  /// The segments in which a byte was used last. That of the writer has the highest bit set if the value changed.
  struct OrderedUsers {
    uint32_t writer = 0, reader = 0;
    bool operator==(const OrderedUsers&) const = default;
  };
  bool note_ordered(size_t block, size_t at, size_t bytes, bool is_write, bool changes);

  /// The blocks that used a byte, as tags: 0 for none, otherwise a number of the block. That of the writer has the
  /// highest bit set if the value changed.
  struct Users {
    uint16_t writer = 0, reader = 0;
    bool operator==(const Users&) const = default;
  };
  struct Access {
    uint16_t tag = 0;
    bool is_write = false, changes = false;
  };
  /// Whether the access conflicts with `users`; afterwards these include it.
  static bool use(const Access& access, Users& users);

  uint64_t* make_records();
  bool note_line(uint32_t& line, const Access& access, bool& conflicts);
  void part(uint32_t& line, uint64_t* writers, uint64_t* readers);
  bool note_words(uint64_t* all_writers, uint64_t* all_readers, size_t at, size_t bytes, const Access& access);
  size_t words() const { return lines_ * (line_bytes / word_bytes); }

  // For each word the tags of the writers of its four bytes, the first byte's lowest; then those of the readers; then
  // for each line those of all its bytes: the reader's above the writer's. An allocation that no block uses gets none,
  // and pages that no block uses stay untouched.
  size_t lines_ = 0;
  std::atomic<uint64_t*> records_ = nullptr;

  // In a cooperative launch: instead of these a record of each byte, in the pages that blocks use.
  BlockOrder* order_ = nullptr;
  std::vector<std::unique_ptr<std::array<OrderedUsers, page_bytes>>> pages_ = {};
};

}  // namespace bitmma::kernel
