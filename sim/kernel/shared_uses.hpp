// SPDX-License-Identifier: MIT
// Who used each byte of a block's shared memory last: what a race is found by. A record stands for a word of 4 bytes;
// a word that narrower accesses use has one for each byte. The records of words lie in arrays, one for each field, so
// that those of a whole warp are compared and written by a few vector instructions:
//
//   writers        0 0 3 3 3 3 ...      1 + the warp that wrote the word, and how
//   write_epochs   0 0 7 7 7 7 ...
//   readers        0 0 5 5 5 5 ...      warps 0 and 2 read words 2 to 5 since warp 2 wrote them
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "../core/words.hpp"

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

  bool operator==(const SharedUse&) const = default;
};

/// How the bytes of a word are recorded. A byte of a word that no narrower access used is never by itself.
enum class SharedBytes : uint8_t {
  together,  // the word has one record
  alike,     // each byte has one, and those of a word differ in write_lane alone
  apart,     // each byte has one
};

/// Memory that begins where a cache line does.
template <typename T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t line{64};
  LineAllocator() = default;
  template <typename U>
  LineAllocator(const LineAllocator<U>&) {}
  T* allocate(size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), line)); }
  void deallocate(T* memory, size_t) { ::operator delete(memory, line); }
  bool operator==(const LineAllocator&) const = default;
};
template <typename T>
using LineVector = std::vector<T, LineAllocator<T>>;

class SharedUses {
 public:
  static constexpr size_t word = 4, unit = 16;  // bytes

  /// Records for `bytes` bytes of a block of `warps` warps.
  void resize(size_t bytes, size_t warps);
  /// Forgets all accesses.
  void clear();
  bool is_empty() const { return writers_.empty(); }
  /// Forgets the accesses to these bytes.
  void forget(size_t at, size_t bytes);

  /// Whether any of the 16 aligned bytes at `at` was used since clear() or forget_unit().
  bool is_unit_used(size_t at) const { return is_used_[at / unit] != 0; }
  void forget_unit(size_t at) { is_used_[at / unit] = 0; }
  BITMMA_INLINE void use_unit(size_t at) { is_used_[at / unit] = 1; }
  BITMMA_INLINE void use_units(size_t at, size_t bytes) {
    for (size_t i = at / unit; i <= (at + bytes - 1) / unit; ++i) is_used_[i] = 1;
  }

  /// The epochs of the last reads of a record: [w] is that of warp w of the block.
  struct ReadEpochs {
    uint32_t* first = nullptr;
    size_t stride = 1;
    uint32_t& operator[](int warp) const { return first[static_cast<size_t>(warp) * stride]; }
  };

  /// Calls body(use, epochs, first byte) for each record of these bytes.
  template <typename Body>
  void for_each(size_t at, size_t bytes, const Body& body) {
    for (size_t i = at / word; word * i < at + bytes; ++i) {
      const size_t first = std::max(at, word * i), end = std::min(at + bytes, word * (i + 1));
      if (bytes_of_word_[i] == SharedBytes::together && end - first == word) {
        SharedUse use = of_word(i);
        body(use, ReadEpochs{&read_epochs_[i], words()}, first);
        set_word(i, use);
        continue;
      }
      if (bytes_of_word_[i] == SharedBytes::alike && end - first == word) {
        use_alike(i, body);
        continue;
      }
      const size_t part = split(i);
      for (size_t byte = first; byte < end; ++byte)
        body(parts_[part][byte % word], ReadEpochs{&part_epochs_[(word * part + byte % word) * warps_]}, byte);
    }
  }

  /// The fields of the records of words, side by side from one word on. They hold for words whose bytes are not apart.
  struct Row {
    uint32_t* writers = nullptr;  // 0: none; otherwise as coded()
    uint32_t* write_epochs = nullptr;
    int* write_instructions = nullptr;
    uint8_t* write_lanes = nullptr;  // of each byte
    uint32_t* readers = nullptr;
    int* read_instructions = nullptr;
    SharedBytes* bytes = nullptr;
  };
  BITMMA_INLINE Row row(size_t at) {
    const size_t i = at / word;
    return {&writers_[i], &write_epochs_[i],      &write_instructions_[i], &write_lanes_[word * i],
            &readers_[i], &read_instructions_[i], &bytes_of_word_[i]};
  }
  /// The epochs of the last reads by a warp of the block, of the words from the byte `at` on.
  BITMMA_INLINE uint32_t* read_epochs(int warp, size_t at) {
    return &read_epochs_[static_cast<size_t>(warp) * words() + at / word];
  }
  /// The newest epoch of a warp of the block in which it may have read.
  uint32_t newest_read(int warp) const { return newest_reads_[static_cast<size_t>(warp)]; }
  /// Call when a warp of the block reads.
  void expect_read(int warp, uint32_t epoch) { newest_reads_[static_cast<size_t>(warp)] = epoch; }
  /// Call before words become `alike`.
  void expect_narrow() { has_narrow_ = true; }

  /// A writer in a Row.
  static constexpr uint32_t writer_bits = 0xFFFF, atomic_bit = 1 << 16, generic_bit = 1 << 17;
  static constexpr uint32_t coded(int writer, bool by_atomic, bool is_generic) {
    return static_cast<uint32_t>(writer + 1) | (by_atomic ? atomic_bit : 0) | (is_generic ? generic_bit : 0);
  }

  /// Bytes of memory a byte of shared memory takes, of a block of `warps` warps.
  static int64_t bytes_for_byte(int64_t warps) {
    constexpr int64_t fields = 7;  // of 4 bytes, with that of parts
    return fields + warps + 1;
  }

 private:
  /// for_each of the bytes of a word that are alike. They stay so if they can. An access to all of them has one epoch.
  template <typename Body>
  void use_alike(size_t index, const Body& body) {
    std::array<SharedUse, word> uses;
    bool stay = true;
    for (size_t i = 0; i < word; ++i) {
      uses[i] = of_word(index);
      uses[i].write_lane = write_lanes_[word * index + i];
      body(uses[i], ReadEpochs{&read_epochs_[index], words()}, word * index + i);
      SharedUse as_first = uses[i];
      as_first.write_lane = uses[0].write_lane;
      stay = stay && as_first == uses[0];
    }
    if (!stay) {
      parts_[split(index)] = uses;
      return;
    }
    set_word(index, uses[0]);
    for (size_t i = 0; i < word; ++i) write_lanes_[word * index + i] = uses[i].write_lane;
  }

  /// The number of a word's records for bytes, which get those of the word.
  size_t split(size_t index);
  SharedUse of_word(size_t i) const {
    const uint32_t writer = writers_[i];
    return {.write_epoch = write_epochs_[i],
            .writer = static_cast<int16_t>(static_cast<int>(writer & writer_bits) - 1),
            .by_atomic = (writer & atomic_bit) != 0,
            .write_lane = write_lanes_[word * i],
            .is_generic = (writer & generic_bit) != 0,
            .write_instruction = write_instructions_[i],
            .readers = readers_[i],
            .read_instruction = read_instructions_[i]};
  }
  void set_word(size_t i, const SharedUse& use) {
    writers_[i] = use.writer < 0 ? 0 : coded(use.writer, use.by_atomic, use.is_generic);
    write_epochs_[i] = use.write_epoch;
    write_instructions_[i] = use.write_instruction;
    std::fill_n(&write_lanes_[word * i], word, use.write_lane);
    readers_[i] = use.readers;
    read_instructions_[i] = use.read_instruction;
  }
  size_t words() const { return writers_.size(); }

  size_t warps_ = 0;
  LineVector<uint32_t> writers_ = {}, write_epochs_ = {}, readers_ = {};
  LineVector<int> write_instructions_ = {}, read_instructions_ = {};
  LineVector<uint8_t> write_lanes_ = {};
  LineVector<uint32_t> read_epochs_ = {};    // of warp 0 for all words, then of warp 1 ...
  std::vector<uint32_t> newest_reads_ = {};  // of each warp
  LineVector<SharedBytes> bytes_of_word_ = {};
  std::vector<uint32_t> parts_of_word_ = {};  // 1 + the index in parts_; 0: none yet
  bool has_narrow_ = false;                   // some words may not be `together`
  std::vector<uint8_t> is_used_ = {};         // of each unit
  std::vector<std::array<SharedUse, word>> parts_ = {};
  std::vector<uint32_t> part_epochs_ = {};
};

}  // namespace bitmma::kernel
