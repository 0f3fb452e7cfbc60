// SPDX-License-Identifier: MIT
// Who used each byte of a block's shared memory last: what a race is found by. A record stands for a word of 4 bytes;
// a word that narrower accesses use has one for each byte.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bitmma::kernel {

/// The last accesses to a byte or word of shared memory. A warp's epoch counts its barriers.
struct SharedUse {
  uint32_t write_epoch = 0;
  int16_t writer = -1;  // number of the warp in the cluster
  bool by_atomic = false;
  uint8_t write_lane = 0;
  bool is_generic = false;  // written through the generic proxy: an async-proxy read needs a fence first
  int write_instruction = -1;
  uint32_t readers = 0;  // mask of the block's warps that read since the last write
  int read_instruction = -1;
};

class SharedUses {
 public:
  static constexpr size_t word = 4, unit = 16;  // bytes

  /// Records for `bytes` bytes of a block of `warps` warps.
  void resize(size_t bytes, size_t warps);
  /// Forgets all accesses.
  void clear();
  bool is_empty() const { return words_.empty(); }
  /// Forgets the accesses to these bytes.
  void forget(size_t at, size_t bytes);

  /// Whether any of the 16 aligned bytes at `at` was used since clear() or forget_unit().
  bool is_unit_used(size_t at) const { return is_used_[at / unit] != 0; }
  void forget_unit(size_t at) { is_used_[at / unit] = 0; }
  void use_units(size_t at, size_t bytes) {
    for (size_t i = at / unit; i <= (at + bytes - 1) / unit; ++i) is_used_[i] = 1;
  }

  /// Calls body(use, epochs, first byte) for each record of these bytes. epochs[w] is the epoch of the last read by
  /// warp w of the block.
  template <typename Body>
  void for_each(size_t at, size_t bytes, const Body& body) {
    for (size_t i = at / word; word * i < at + bytes; ++i) {
      const size_t first = std::max(at, word * i), end = std::min(at + bytes, word * (i + 1));
      if (parts_of_word_[i] == 0 && end - first == word) {
        body(words_[i], &epochs_[i * warps_], first);
        continue;
      }
      const size_t part = split(i);
      for (size_t byte = first; byte < end; ++byte)
        body(parts_[part][byte % word], &part_epochs_[(word * part + byte % word) * warps_], byte);
    }
  }

  /// The record of an aligned word; nullptr if its bytes have records of their own.
  SharedUse* whole_word(size_t at) { return parts_of_word_[at / word] == 0 ? &words_[at / word] : nullptr; }
  uint32_t* epochs_of_word(size_t at) { return &epochs_[at / word * warps_]; }

  /// Bytes of memory a byte of shared memory takes, of a block of `warps` warps.
  static int64_t bytes_for_byte(int64_t warps) {
    return (static_cast<int64_t>(sizeof(SharedUse) + sizeof(uint32_t)) + 4 * warps) / static_cast<int64_t>(word) + 1;
  }

 private:
  /// The number of a word's records for bytes, which get those of the word.
  size_t split(size_t index);

  size_t warps_ = 0;
  std::vector<SharedUse> words_ = {};
  std::vector<uint32_t> epochs_ = {}, parts_of_word_ = {};  // parts: 1 + the index in parts_; 0: a whole word
  std::vector<uint8_t> is_used_ = {};                       // of each unit
  std::vector<std::array<SharedUse, word>> parts_ = {};
  std::vector<uint32_t> part_epochs_ = {};
};

}  // namespace bitmma::kernel
