// SPDX-License-Identifier: MIT
// Register fragments: the thread, register and bit that hold element (row, col); and the inverse.
//
// wgmma, thread t of the warpgroup: warp w = t / 32, lane l = t % 32, g = l / 4, q = l % 4. P = elements per register.
//   A, register r, position p:  row = 16 w + g + 8 (r & 1)          k   = P q + p + 4 P (r >> 1)
//   D, element i = P r + p:     row = 16 w + g + 8 ((i >> 1) & 1)   col = 8 (i >> 2) + 2 q + (i & 1)
//
// One rule covers all types: P is 1, 2, 4 or 32 for A and 1 or 2 for D. A sparse A is the stored matrix of K/2 columns.
// mma.sync is the same with one warp and 16 or 8 rows, and also has B in registers:
//   B, register r, position p:  n = g                               k   = P q + p + 4 P r
// f64 has 64-bit registers, P = 1. m8n8k4 of f16 is four products of 8 x 8 x 4, one per quad pair, stacked: rows
// 8 p ... 8 p + 7 of A and D, rows 4 p ... 4 p + 3 of B belong to threads 4 p ... 4 p + 3 and 16 + 4 p ... 19 + 4 p.
// Source: PTX ISA 9.7.15.5.1.1 figures 148-155, checked against CUTLASS in data/oracle; 9.7.14.5.14 for mma.sync.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "bitmma/core/error.hpp"
#include "bitmma/formats/matrix.hpp"

namespace bitmma {

enum class FragmentRole : uint8_t {
  a,
  b,
  d,
  // For a quad pair: t = l % 4, h = l / 16, element i = P r + p.
  quad_rows,    // A .row: row t + 4 h, k = i.  B .col: column t + 4 h, k = i.  D f16: row t + 4 h, column i
  quad_cols,    // A .col: row i + 4 h, k = t.  B .row: column i + 4 h, k = t
  quad_d_f32,   // row (l & 1) + (i & 2) + 4 h, column (i & 4) + (l & 2) + (i & 1)
  quad_rows_b,  // quad_rows and quad_cols for B, which is stacked along k
  quad_cols_b,
};

/// A rows x cols matrix distributed over the registers of a group of threads.
struct [[nodiscard]] Fragment {
  FragmentRole role = FragmentRole::d;
  int rows = 64;
  int cols = 0;
  int element_bits = 32;
  int threads = 128;

  int elements_per_register() const { return element_bits > 32 ? 1 : element_bits > 0 ? 32 / element_bits : 0; }
  /// True if registers have 64 bits, stored as two words.
  bool is_wide() const { return element_bits > 32; }
  /// Registers per thread.
  int registers() const {
    const int64_t each = int64_t{threads} * elements_per_register();
    return each > 0 ? static_cast<int>(int64_t{rows} * cols / each) : 0;
  }
  /// Number of 32-bit words of all threads.
  int64_t words() const { return int64_t{threads} * registers() * (is_wide() ? 2 : 1); }
};

/// A in registers: 64 x k, or 64 x k/2 stored elements if sparse. Always four registers.
Fragment wgmma_a_fragment(Format a, int stored_k);
/// The accumulator: 64 x n; two f16 share a register.
Fragment wgmma_d_fragment(Format d, int n);

/// The fragments of mma.sync: m is 16 or 8, n is 8. `element_bits`: 8 if all types are stored in bytes, 4 for packed
/// 4-bit codes. B is n x k.
Fragment mma_a_fragment(int element_bits, int stored_k, int m = 16);
Fragment mma_b_fragment(int element_bits, int k);
Fragment mma_d_fragment(int element_bits = 32, int m = 16);
/// The fragments of m8n8k4 of f16, with four stacked products: A 32 x 4, B as 8 x 16, C and D 32 x 8.
Fragment quad_a_fragment(bool column_major);
Fragment quad_b_fragment(bool row_major);
Fragment quad_d_fragment(Format d);

struct RegisterPlace {
  int thread = 0;
  int reg = 0;
  int bit = 0;  // lowest bit of the element in the register

  bool operator==(const RegisterPlace&) const = default;
};

struct MatrixPlace {
  int row = 0;
  int col = 0;

  bool operator==(const MatrixPlace&) const = default;
};

/// Block scales of mma.sync: the byte of a lane's scale register that holds scale `j` of row `row` of A. The thread
/// id selects which pair of a quad's threads supplies them, the byte id the first byte. Source: PTX ISA
/// 9.7.14.5.14.
constexpr RegisterPlace mma_scale_a_place(int row, int j, int byte_id, int thread_id) {
  return {.thread = 4 * (row % 8) + 2 * thread_id + row / 8, .reg = 0, .bit = 8 * (byte_id + j)};
}
/// The same for scale `j` of column `col` of B; the thread id selects one thread of a quad.
constexpr RegisterPlace mma_scale_b_place(int col, int j, int byte_id, int thread_id) {
  return {.thread = 4 * col + thread_id, .reg = 0, .bit = 8 * (byte_id + j)};
}

/// The place of element (row, col). This and the following functions throw Error for a fragment that does not fill
/// whole registers, and for rows, columns, threads, registers and bits out of range.
RegisterPlace place_of(const Fragment& fragment, int row, int col);

/// The element in bit `bit` of register `reg` of thread `thread`.
MatrixPlace element_at(const Fragment& fragment, int thread, int reg, int bit);

/// CuTe's notation, (thread, value) -> row + rows * col: "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))".
std::string print_cute(const Fragment& fragment);

/// Reads the matrix from `registers`, thread-major, fragment.words() words. Throws Error for any other number of
/// words.
Matrix gather(std::span<const uint32_t> registers, const Fragment& fragment, Format format, std::string_view operand);

/// Writes the matrix to `registers`; the inverse of gather, with the same errors.
void scatter(const Matrix& values, const Fragment& fragment, std::span<uint32_t> registers, std::string_view operand);

/// The same with rows and columns exchanged.
Matrix gather_transposed(std::span<const uint32_t> registers, const Fragment& fragment, Format format,
                         std::string_view operand);
void scatter_transposed(const Matrix& values, const Fragment& fragment, std::span<uint32_t> registers,
                        std::string_view operand);

}  // namespace bitmma
