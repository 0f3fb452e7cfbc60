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

/// Logical k of every stored element: entry row * stored_k + stored. A tf32 nibble that is neither 0x4 nor 0xE, or a
/// chunk that names one column twice or in falling order, is undefined in PTX; what this does with it is said in
/// metadata.cpp, and `warnings` gets a line that counts them.
std::vector<uint16_t> selected_k(const MetadataLayout& layout, std::span<const uint32_t> metadata, int rows,
                                 int selector, std::vector<Violation>* warnings = nullptr);

/// The metadata registers that select `k` (as selected_k returns it). Registers nobody reads are zero.
std::vector<uint32_t> encode_metadata(const MetadataLayout& layout, std::span<const uint16_t> k, int rows,
                                      int selector);

}  // namespace bitmma
