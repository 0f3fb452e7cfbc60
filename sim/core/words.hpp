// SPDX-License-Identifier: MIT
// Sixteen bytes at a time, for gather and scatter: GNU vectors, for which every x86-64 and ARMv8 has registers.
#pragma once

#include <cstdint>
#include <cstring>

#define BITMMA_INLINE [[gnu::always_inline]] inline

namespace bitmma {

using Words [[gnu::vector_size(16)]] = uint32_t;
using Doubles [[gnu::vector_size(16)]] = uint64_t;
using Halves [[gnu::vector_size(16)]] = uint16_t;
using Bytes [[gnu::vector_size(16)]] = uint8_t;

template <typename V>
BITMMA_INLINE V load(const void* from) {
  V vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

template <typename V>
BITMMA_INLINE void store(const V& vector, void* to) {
  std::memcpy(to, &vector, sizeof vector);
}

/// Eight 16-bit numbers -> words.
BITMMA_INLINE void store_words(const Halves& halves, uint32_t* to) {
  store(__builtin_shufflevector(halves, Halves{}, 0, 8, 1, 9, 2, 10, 3, 11), to);
  store(__builtin_shufflevector(halves, Halves{}, 4, 12, 5, 13, 6, 14, 7, 15), to + 4);
}

/// Sixteen bytes -> words.
BITMMA_INLINE void store_words(const Bytes& bytes, uint32_t* to) {
  const Bytes none{};
  store_words(reinterpret_cast<Halves>(
                  __builtin_shufflevector(bytes, none, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)),
              to);
  store_words(reinterpret_cast<Halves>(
                  __builtin_shufflevector(bytes, none, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)),
              to + 8);
}

/// Transposes four rows of four words in place.
BITMMA_INLINE void transpose(Words (&words)[4]) {
  const Words low01 = __builtin_shufflevector(words[0], words[1], 0, 4, 1, 5),
              high01 = __builtin_shufflevector(words[0], words[1], 2, 6, 3, 7),
              low23 = __builtin_shufflevector(words[2], words[3], 0, 4, 1, 5),
              high23 = __builtin_shufflevector(words[2], words[3], 2, 6, 3, 7);
  words[0] = __builtin_shufflevector(low01, low23, 0, 1, 4, 5),
  words[1] = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
  words[2] = __builtin_shufflevector(high01, high23, 0, 1, 4, 5),
  words[3] = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
}

}  // namespace bitmma
