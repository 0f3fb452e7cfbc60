// SPDX-License-Identifier: MIT
// Bank conflicts: the number of wavefronts in which shared memory serves an access of a warp.
//
//   ldmatrix of 8 rows of 16 bytes, 128 bytes apart      8 wavefronts: all rows begin in bank 0
//   the same under Swizzle<3,4,3>                        1 wavefront
//
// Shared memory has 32 banks of 4 bytes; a wavefront takes one word of each bank. Threads that access the same
// word share it. An access of 4 bytes or fewer per thread is one request of 32 threads, one of 8 bytes two
// requests of 16, and one of 16 bytes, or a matrix of ldmatrix and stmatrix, is a request of 8 threads. Source:
// CUDA C++ Programming Guide, shared memory; NVIDIA's profiler counts wider accesses as split this way. Not
// measured here.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "bitmma/memory/map.hpp"

namespace bitmma {

struct [[nodiscard]] BankUse {
  int requests = 0;  // wavefronts without conflicts
  int wavefronts = 0;
  std::array<int, 32> words = {};  // distinct words per bank, in the request whose maximum is largest
};

/// The bank use for the byte addresses of up to 32 threads that each access `bytes`: 1, 2, 4, 8 or 16. Throws Error for
/// other sizes, for addresses that are negative or not aligned to `bytes`, and for more threads.
BankUse bank_use(std::span<const int64_t> addresses, int bytes);

/// One matrix of ldmatrix or stmatrix: 8 rows of 16 bytes of a map of shared memory.
struct [[nodiscard]] MatrixBankUse {
  int64_t row = 0, col = 0;  // coordinates of its first element
  BankUse use = {};
};
/// Every matrix of a map with the axes row, col and byte: rows of 16 bytes along columns, or along rows if neighbours
/// along rows are contiguous, as .trans reads them. Throws Error if elements do not fill such matrices.
std::vector<MatrixBankUse> matrix_bank_use(const Map& map);

}  // namespace bitmma
