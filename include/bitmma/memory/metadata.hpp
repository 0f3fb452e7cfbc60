// Sparse metadata of wgmma.mma_async.sp: which columns of a chunk the stored elements of A came from.
//
//   f16, row 3, stored elements 0 and 1: lane 4*3 + 2*selector, bits 1:0 and 3:2. 0b11'01 keeps columns 1 and 3 of 0..3.
//
// Source: PTX ISA 9.7.15.6.2; every row, stored element and selector measured on an H200 (data/README.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/formats/format.hpp"
#include "bitmma/memory/fragment.hpp"

namespace bitmma {

/// How one group of types keeps its metadata; one row per group.
struct MetadataLayout {
  int stored_k = 0;         // stored elements per row of A
  int chunk = 0;            // logical columns per chunk
  int stored_per_chunk = 0;
  int field_bits = 0;       // bits of metadata per stored element
  int selectors = 0;        // legal sp-sel values are 0 .. selectors-1
};

/// The layout for A elements of `element_bits` bits: 8, 16 or 32.
const MetadataLayout& metadata_layout(int element_bits);

/// Where the field of stored element `stored` of `row` begins: thread of the warpgroup, register 0, lowest bit.
RegisterPlace metadata_place_of(const MetadataLayout& layout, int row, int stored, int selector);

/// A stored tf32 element that meets a word put together from two 16-bit halves of B, because its metadata nibble is one
/// PTX leaves undefined. Half h of a column of B is bits 16*(h%2) and up of element k = h / 2.
struct MixedTerm {
  uint16_t row = 0, stored = 0;
  uint16_t low_half = 0, high_half = 0;

  bool operator==(const MixedTerm&) const = default;
};

struct Selection {
  std::vector<uint16_t> k;       // entry row * stored_k + stored: the row of B that a stored element meets
  std::vector<MixedTerm> mixed;  // by row, then stored: these meet two halves instead
  int64_t undefined_chunks = 0;  // chunks whose metadata PTX does not define
};

/// What the metadata registers select. Undefined metadata does what an H200 does with it (docs/evidence.md): the
/// positions of 2:4 types count one by one, in any order and also twice the same; a tf32 nibble names two halves.
Selection select(const MetadataLayout& layout, std::span<const uint32_t> metadata, int rows, int selector);

/// The metadata registers that select `k` (as Selection has it). Registers nobody reads are zero.
std::vector<uint32_t> encode_metadata(const MetadataLayout& layout, std::span<const uint16_t> k, int rows,
                                      int selector);

}  // namespace bitmma
