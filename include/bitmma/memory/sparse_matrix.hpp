// SPDX-License-Identifier: MIT
// A sparse matrix and its stored form: pruning, compression as CUTLASS and PyTorch do it, and back.
//
//   2:4   row  0 5 0 -3 | 7 0 0 0     stored 5 -3 | 7 0     metadata 0b11'01 | 0b11'00 (CUTLASS), 0b10'00 (PyTorch)
//
// A chunk with fewer non-zero elements than it stores needs positions for zeros; libraries differ in them, which is the
// only difference of their stored forms. Sources: CUTLASS, transform/kernel/sm90_sparse_gemm_compressor.hpp; PyTorch,
// torch/sparse/_semi_structured_conversions.py.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "bitmma/formats/matrix.hpp"
#include "bitmma/memory/metadata.hpp"

namespace bitmma {

/// The positions that store zeros.
enum class SparseFill : uint8_t {
  lowest,   // the lowest free ones; a code of -0 counts as non-zero
  cutlass,  // the last; the first if the last is taken; an empty chunk of 2:4 has twice the first (metadata 0)
  pytorch,  // the third, then the fourth; an empty chunk of 1:2 has the second
};
struct SparseFillInfo {
  SparseFill id;
  std::string_view name;
};
inline constexpr auto sparse_fills = std::to_array<SparseFillInfo>({
    {SparseFill::lowest, "lowest"},
    {SparseFill::cutlass, "cutlass"},
    {SparseFill::pytorch, "pytorch"},
});
/// The fill of this name. Throws Error for others, which are listed.
SparseFill sparse_fill_named(std::string_view name);

/// The pattern "1:2", "2:4" or "4:8" (pairs of 4-bit codes). Throws Error for others.
const SparsePattern& sparse_pattern_named(std::string_view name);

/// The matrix with zeros for all but the largest magnitudes of each chunk; of equal ones the first stay. Pairs of 4:8
/// are compared by the sum of their magnitudes; NaN is largest. Throws Error unless the columns are whole chunks.
Matrix prune(const Matrix& logical, const SparsePattern& pattern);

/// Rows of stored elements, and the four bits of every chunk, row by row.
struct CompressedMatrix {
  Matrix stored = {};
  std::vector<uint8_t> nibbles = {};
};
/// The stored form. Throws Error unless the columns are whole chunks, and for a chunk with too many non-zero elements,
/// which it names.
CompressedMatrix compress(const Matrix& logical, const SparsePattern& pattern, SparseFill fill);
/// The logical matrix. Of two stored elements at one position the first counts. Throws Error for another number of
/// nibbles, and for metadata of 1:2 other than 0b0100 and 0b1110.
Matrix decompress(const Matrix& stored, std::span<const uint8_t> nibbles, const SparsePattern& pattern);

}  // namespace bitmma
