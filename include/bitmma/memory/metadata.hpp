// SPDX-License-Identifier: MIT
// Sparse metadata: which columns of a chunk the stored elements of A come from. In every instruction four bits encode
// this for each chunk of a row; only the place of the four bits differs.
//
//   0b11'01: in a chunk of 4, columns 1 and 3 are stored; in a chunk of 8 fp4 codes, the pairs 2,3 and 6,7
//   wgmma, f16, row 3, chunk 0: lane 4*3 + 2*selector, bits 3:0
//
// Sources: PTX ISA 9.7.15.6.2 and 9.7.16.10.8; for wgmma every row, element and selector was measured on an H200
// (data/README.md). tcgen05 stores the bits in Tensor Memory: memory/tmem.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "bitmma/arithmetic/operands.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/formats/format.hpp"
#include "bitmma/memory/fragment.hpp"

namespace bitmma {

/// The sparsity of A. `unit` adjacent elements are kept or dropped together.
struct SparsePattern {
  int chunk = 0;             // logical columns per chunk
  int stored_per_chunk = 0;  // elements of the chunk that are kept
  int unit = 1;

  bool operator==(const SparsePattern&) const = default;
};
inline constexpr SparsePattern one_of_two{.chunk = 2, .stored_per_chunk = 1},
    two_of_four{.chunk = 4, .stored_per_chunk = 2}, two_pairs_of_eight{.chunk = 8, .stored_per_chunk = 4, .unit = 2};

/// The pattern of A in shared memory or registers in containers of `container_bits`: tf32 1:2, packed fp4 pairs, others
/// 2:4. With sparsity version 1 of tcgen05.mma, packed fp4 is 2:4 too.
constexpr const SparsePattern& sparse_pattern(int container_bits, int sparsity_version = 0) {
  return container_bits == 32                           ? one_of_two
         : container_bits == 4 && sparsity_version == 0 ? two_pairs_of_eight
                                                        : two_of_four;
}

/// The metadata registers of wgmma.sp and mma.sp: a warp's registers cover sixteen rows. One rule covers all types.
struct [[nodiscard]] MetadataLayout {
  SparsePattern pattern;
  int stored_k = 0;        // stored elements per row of A
  int field_bits = 0;      // bits of metadata per stored unit
  bool by_halves = false;  // rows r and r + 8 share a register, 16 bits each; otherwise each row has its own registers
  int selectors = 0;       // legal sparsity selectors are 0 .. selectors-1

  int fields_per_register() const { return field_bits > 0 ? (by_halves ? 16 : 32) / field_bits : 0; }
  bool operator==(const MetadataLayout&) const = default;
};

/// The layout for A of `stored_k` stored elements in containers of 4, 8, 16 or 32 bits.
MetadataLayout metadata_layout(int container_bits, int stored_k);
/// The same for a wgmma of elements of `element_bits` bits: 8, 16 or 32.
inline MetadataLayout metadata_layout(int element_bits) {
  return metadata_layout(element_bits, element_bits > 0 ? 256 / element_bits : 0);
}

/// The place of the field of stored element `stored` of `row`: thread of the warpgroup or warp, register 0, lowest bit.
RegisterPlace metadata_place_of(const MetadataLayout& layout, int row, int stored, int selector);

struct [[nodiscard]] Selection {
  std::vector<uint16_t> k = {};       // entry row * stored_k + stored: the row of B that a stored element multiplies
  std::vector<MixedTerm> mixed = {};  // by row, then stored: elements that multiply two halves instead
  int64_t undefined_chunks = 0;       // chunks whose metadata PTX does not define
};

/// What the nibbles select in `rows` rows of `stored_k` stored elements; nibble(row, chunk) has four bits. Undefined
/// nibbles act as on an H200 (docs/evidence.md): positions of 2:4 types are independent, in any order and even equal; a
/// tf32 nibble selects two halves. (On Blackwell that is a model choice.) Pairs of fp4 elements, which an H200 lacks,
/// act as others measured on an RTX PRO 6000 (data/published/statements.csv): the first position is at most 2 and the
/// second at least 1. `a`: the format of A.
Selection select(const SparsePattern& pattern, int rows, int stored_k,
                 const std::function<uint32_t(int row, int chunk)>& nibble, bool ordered = true,
                 Format a = Format::f16);

/// The nibble of a chunk whose stored elements multiply the columns `k`, stored_per_chunk of them.
uint32_t nibble_of(const SparsePattern& pattern, std::span<const uint16_t> k);

/// What metadata registers select, 32 registers for every 16 rows. With `ordered`, descending positions count as
/// undefined too; without it only equal ones.
Selection select(const MetadataLayout& layout, std::span<const uint32_t> metadata, int rows, int selector,
                 bool ordered = true, Format a = Format::f16);

/// The metadata registers that select `k` (as in Selection). Unread registers are zero.
std::vector<uint32_t> encode_metadata(const MetadataLayout& layout, std::span<const uint16_t> k, int rows,
                                      int selector);

}  // namespace bitmma
