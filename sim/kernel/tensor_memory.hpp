// SPDX-License-Identifier: MIT
// Tensor Memory of a block: 128 lanes of 512 columns of 32 bits.
#pragma once

#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "bitmma/instruction/state.hpp"

namespace bitmma::kernel {

inline constexpr uint32_t tensor_memory_columns = 512;
inline constexpr int64_t tensor_memory_lanes = 128;

struct TensorMemory {
  explicit TensorMemory(std::span<const uint8_t> shared) {
    state.set(Field::tmem, std::vector<uint32_t>(tensor_memory_lanes * tensor_memory_columns),
              {1, tensor_memory_lanes, tensor_memory_columns});
    state.borrow(Field::smem, shared, {std::ssize(shared)});
  }

  State state = {};  // with tmem and smem; each instruction sets and clears its own numbers
  /// For each column: the first column of its allocation plus one, or 0 if it is free.
  std::vector<uint16_t> allocated = std::vector<uint16_t>(tensor_memory_columns);
};

}  // namespace bitmma::kernel
