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
// width can be moved; .trans exchanges rows and columns of 16-bit elements. Not here: m16n16, m8n16 and
// m16n8 of sm_100a and later, which move 8-bit elements; kernels run them. Source: PTX ISA 9.7.14.5.15, 9.7.14.5.16.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/memory/fragment.hpp"

namespace bitmma {

struct LdMatrix {
  int count = 4;            // number of matrices, and of registers per thread: 1, 2 or 4
  bool transposed = false;  // .trans
  bool store = false;       // stmatrix

  bool operator==(const LdMatrix&) const = default;
};

/// A 16-bit element of one of the matrices.
struct LdMatrixElement {
  int matrix = 0;
  int row = 0;
  int col = 0;

  bool operator==(const LdMatrixElement&) const = default;
};

/// Throws Error for a count other than 1, 2 and 4.
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
