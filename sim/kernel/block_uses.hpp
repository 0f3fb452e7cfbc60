// SPDX-License-Identifier: MIT
// Which blocks (of a launch with clusters: which clusters) wrote and read each byte of an allocation of global memory.
// Blocks run at the same time or in any order, so that what one writes and another reads or writes decides bits by
// chance. Most warps read and write whole lines of 64 bytes, for which one record stands:
//
//   line 0   written by block 3, read by block 3
//   line 1   apart: every byte has its own record
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace bitmma::kernel {

class BlockUses {
 public:
  explicit BlockUses(size_t bytes) : lines_(bytes / line_bytes + 1) {}
  ~BlockUses() { std::free(records_.load()); }
  BlockUses(const BlockUses&) = delete;
  BlockUses& operator=(const BlockUses&) = delete;

  /// Notes an access of block `block` to the `bytes` bytes from `at`, which is a multiple of `bytes` if that is 16 or
  /// less. `changes`: for a write, whether it changes their values. True if it conflicts with an access of another
  /// block.
  bool note(size_t block, size_t at, size_t bytes, bool is_write, bool changes);

 private:
  static constexpr size_t line_bytes = 64, word_bytes = 4;

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
};

}  // namespace bitmma::kernel
