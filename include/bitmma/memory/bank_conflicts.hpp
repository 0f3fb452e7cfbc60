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
#include <string_view>
#include <vector>

#include "bitmma/core/table.hpp"
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

/// One wavefront of a request: the thread whose word each bank delivers, the lowest of those that share the word; -1
/// for an idle bank.
struct BankWavefront {
  int request = 0;
  std::array<int, 32> threads = {};
};
/// The wavefronts of an access, in order: in each bank the words in the order in which threads name them. Throws Error
/// like bank_use().
std::vector<BankWavefront> bank_wavefronts(std::span<const int64_t> addresses, int bytes);

/// What a warp moves between shared memory and registers.
enum class WarpMove : uint8_t { ldmatrix_x1, ldmatrix_x2, ldmatrix_x4, b8, b16, b32, b64, b128 };
struct WarpMoveInfo {
  WarpMove id;
  std::string_view name;
  int matrices;  // of ldmatrix and stmatrix; 0 for ld.shared and st.shared
  int bytes;     // of a thread
};
inline constexpr auto warp_moves = std::to_array<WarpMoveInfo>({
    {WarpMove::ldmatrix_x1, "ldmatrix.x1", 1, 16},
    {WarpMove::ldmatrix_x2, "ldmatrix.x2", 2, 16},
    {WarpMove::ldmatrix_x4, "ldmatrix.x4", 4, 16},
    {WarpMove::b8, "ld.b8", 0, 1},
    {WarpMove::b16, "ld.b16", 0, 2},
    {WarpMove::b32, "ld.b32", 0, 4},
    {WarpMove::b64, "ld.b64", 0, 8},
    {WarpMove::b128, "ld.b128", 0, 16},
});
static_assert(are_in_enum_order(warp_moves));

/// The first element and the byte of every thread that supplies an address. A line is a row of a map whose columns are
/// contiguous, or a column of a map whose rows are.
struct [[nodiscard]] WarpAccess {
  struct Thread {
    int64_t row = 0, col = 0, byte = 0;
  };
  int bytes = 0;  // of a thread
  bool along_rows = false;
  std::vector<Thread> threads = {};

  std::vector<int64_t> addresses() const;
};
/// The access of a map with the axes row, col and byte that begins at element (row, col). ldmatrix: matrix j begins 8
/// (j % 2) lines and 16 (j / 2) bytes later, the order of the registers of A. ld: the threads follow each other along a
/// line, and `lines` (a power of two up to 32) lines are read; 0: as few as the threads fill. Throws Error if elements
/// do not fill the bytes of a thread in one aligned piece, or the access leaves the map.
WarpAccess warp_access(const Map& map, WarpMove move, int64_t row, int64_t col, int lines = 0);

/// One matrix of ldmatrix or stmatrix: 8 rows of 16 bytes of a map of shared memory.
struct [[nodiscard]] MatrixBankUse {
  int64_t row = 0, col = 0;  // coordinates of its first element
  BankUse use = {};
};
/// Every matrix of a map with the axes row, col and byte: rows of 16 bytes along columns, or along rows if neighbours
/// along rows are contiguous, as .trans reads them. Throws Error if elements do not fill such matrices.
std::vector<MatrixBankUse> matrix_bank_use(const Map& map);

}  // namespace bitmma
