// SPDX-License-Identifier: MIT
// Reads integers from files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "bitmma/files/tensor_file.hpp"

namespace bitmma {

/// The integer of `size` bytes (at most 8) that begins at `at`. The caller guarantees that these bytes exist.
inline uint64_t little_endian(const TensorBytes& bytes, size_t at, size_t size) {
  std::array<uint8_t, 8> parts{};
  bytes.copy_to(std::span(parts).first(size), at);
  uint64_t word = 0;
  for (size_t i = 0; i < size; ++i) word |= uint64_t{parts[i]} << 8 * i;
  return word;
}

}  // namespace bitmma
