// SPDX-License-Identifier: MIT
// Bank conflicts: in how many pieces shared memory serves an access of a warp.
//
//   ldmatrix of 8 rows of 16 bytes, 128 bytes apart      8 wavefronts: all rows begin in bank 0
//   the same under Swizzle<3,4,3>                        1 wavefront
//
// Shared memory has 32 banks of 4 bytes; a wavefront takes one word of each. Threads that want the same word share it.
// An access of 4 bytes or fewer a thread is one request of 32 threads, one of 8 bytes two requests of 16, one of 16
// bytes, and a matrix of ldmatrix and stmatrix, a request of 8 threads.
// Source: CUDA C++ Programming Guide, shared memory; that wider accesses are cut so is what NVIDIA's profiler counts.
// Not measured here.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "bitmma/memory/map.hpp"

namespace bitmma {

struct BankUse {
  int requests = 0;  // wavefronts without conflicts
  int wavefronts = 0;
  std::array<int, 32> words = {};  // different words of each bank, in the request that has the most of one
};

/// Of the byte addresses of up to 32 threads that access `bytes` each, 1, 2, 4, 8 or 16. Throws Error for others, for
/// addresses below 0 or not aligned to `bytes`, and for more threads.
BankUse bank_use(std::span<const int64_t> addresses, int bytes);

/// One matrix of ldmatrix or stmatrix: 8 rows of 16 bytes of a map of shared memory.
struct MatrixBankUse {
  int64_t row = 0, col = 0;  // of its first element
  BankUse use = {};
};
/// Every matrix of a map with the axes row, col and byte: rows of 16 bytes along columns, or where neighbours along
/// rows lie together, along rows, as .trans reads them. Throws Error where elements do not fill such matrices.
std::vector<MatrixBankUse> matrix_bank_use(const Map& map);

}  // namespace bitmma
