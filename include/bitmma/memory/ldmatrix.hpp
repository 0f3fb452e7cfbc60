// SPDX-License-Identifier: MIT
// ldmatrix and stmatrix: 8 x 8 matrices of 16-bit elements between shared memory and the registers of a warp.
//
//   ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {r0, r1, r2, r3}, [p]
//
// Matrix j fills register j of every thread. Its rows, 16 bytes each, may be anywhere: thread 8 j + i supplies the
// address of row i. Thread 4 g + q (g = 0..7, q = 0..3) then holds the elements (row, col)
//                    bits 15:0    bits 31:16
//   without .trans   (g, 2 q)     (g, 2 q + 1)
//   with .trans      (2 q, g)     (2 q + 1, g)
// stmatrix is the inverse map. Without .trans four adjacent bytes stay together, so elements of any
// width can be moved; .trans exchanges rows and columns of 16-bit elements.
//
// sm_100a and later also have shapes of 8-bit elements, rows of 16 elements in memory, byte b of a register:
//   ldmatrix m8n16         8 rows, row g, columns 4 q + b
//   ldmatrix m16n16.trans  16 rows, two registers: row 4 q + b, column g of the first and g + 8 of the second
//   stmatrix m16n8.trans   8 rows: row 2 q + b % 2, column g + 8 (b / 2)
// .b8x16.b4x16_p64 and .b6x16_p32 unpack 16 codes of 4 or 6 bits, which follow each other in the row's first 8 or 12
// bytes, into bits 3:0 or 5:0 of bytes. Source: PTX ISA 9.7.14.5.15, 9.7.14.5.16; CUTLASS, copy_traits_sm100.hpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/memory/fragment.hpp"

namespace bitmma {

enum class LdMatrixShape : uint8_t { m8n8, m8n16, m16n16, m16n8 };

struct LdMatrix {
  int count = 4;            // number of matrices: 1, 2 or 4
  bool transposed = false;  // .trans
  bool store = false;       // stmatrix
  LdMatrixShape shape = LdMatrixShape::m8n8;
  int packed_bits = 0;  // of a code that is unpacked into a byte: 4 (.b4x16_p64) or 6 (.b6x16_p32)

  int element_bits() const { return shape == LdMatrixShape::m8n8 ? 16 : 8; }  // in registers
  int rows() const { return shape == LdMatrixShape::m16n16 ? 16 : 8; }        // of a matrix in memory, 16 bytes each
  int cols() const { return shape == LdMatrixShape::m8n8 ? 8 : 16; }
  int registers_per_matrix() const { return shape == LdMatrixShape::m16n16 ? 2 : 1; }
  int registers() const { return count * registers_per_matrix(); }  // per thread

  bool operator==(const LdMatrix&) const = default;
};

/// An element of one of the matrices, as it is in memory.
struct LdMatrixElement {
  int matrix = 0;
  int row = 0;
  int col = 0;

  bool operator==(const LdMatrixElement&) const = default;
};

/// The place in memory of byte `byte` of a matrix's register `reg`, in a shape of 8-bit elements.
constexpr MatrixPlace byte_place(LdMatrixShape shape, int thread, int reg, int byte) {
  const int g = thread / 4, q = thread % 4;
  if (shape == LdMatrixShape::m8n16) return {.row = g, .col = 4 * q + byte};
  if (shape == LdMatrixShape::m16n8) return {.row = 2 * q + byte % 2, .col = g + 8 * (byte / 2)};
  return {.row = 4 * q + byte, .col = g + 8 * reg};
}

/// Throws Error for a count, and for a combination of shape, .trans and type, that PTX does not have.
void require_legal(const LdMatrix& move);
/// "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16".
std::string print(const LdMatrix& move);
/// The inverse, for qualifiers in any order, .shared::cta and generic addresses. Throws Error for every wrong, repeated
/// and missing qualifier.
LdMatrix parse_ldmatrix(std::string_view text);

/// The place of an element in the registers. This and the next two functions throw Error if `move` is illegal or an
/// index is out of range.
RegisterPlace place_of(const LdMatrix& move, const LdMatrixElement& element);
/// The element that holds bit `bit` of register `reg` of thread `thread`.
LdMatrixElement element_at(const LdMatrix& move, int thread, int reg, int bit);
/// The thread that supplies the address of a row.
int address_thread(const LdMatrix& move, int matrix, int row);

/// The start of 8 rows of 16 bytes in a matrix in memory.
struct MatrixBlock {
  int row = 0;
  int byte = 0;  // in each row

  bool operator==(const MatrixBlock&) const = default;
};

/// The block that fills each register of a warp's fragment, found by comparing the two maps. Memory holds the matrix
/// row by row; with `transposed` column by column, and .trans transposes it. Nothing if the fragment is another map, or
/// covers several warps.
std::optional<std::vector<MatrixBlock>> ldmatrix_blocks(const Fragment& fragment, bool transposed);

/// The fewest instructions that fill `registers` registers, by their counts: 4, 4, 2 for 10.
std::vector<int> ldmatrix_counts(int registers);

}  // namespace bitmma
