// SPDX-License-Identifier: MIT
// Loads and stores of all lanes of a warp at once. Most accesses of a warp fill a range of memory, each lane with its
// own element:
//
//   lane      0   1   2   3 ...      0   1   2   3 ...
//   bytes     0   4   8  12 ...      8  12   0   4 ...
//
// Then one check of the range stands for those of the lanes. Wherever it does not say that all is well, the lanes are
// looked at one by one (locate), which says what is wrong.
#pragma once

#include <array>
#include <vector>

#include "machine.hpp"

namespace bitmma::kernel {

/// The operands of ld and st.
struct MemoryDetails {
  struct Part {
    uint32_t slot = 0;
    int bits = 32;  // register width
  };
  Address address = {};
  Type type = Type::b32;
  int bytes = 4;  // size of an element
  std::vector<Part> parts = {};

  int total() const { return bytes * static_cast<int>(parts.size()); }
};

/// ld and st, compiled for the processor's instruction set; the Op's details are MemoryDetails.
Run load_run();
Run store_run();
/// The same, lane by lane.
void load_by_lanes(Warp& warp, const Op& op, Mask mask);
void store_by_lanes(Warp& warp, const Op& op, Mask mask);

/// The rows of matrices that an instruction reads in shared memory, of 16 bytes each.
using MatrixRows = std::array<std::array<uint8_t, 16>, lanes>;
/// Reads the row at the address of each lane of `mask`. False if the lanes have to be looked at one by one.
bool read_rows(Warp& warp, const Op& op, Mask mask, const Address& address, MatrixRows& rows);

/// The allocation that holds the bytes; nullptr if none does.
const GlobalRegion* region_of(Cta& cta, uint64_t address, uint64_t bytes);
/// Notes a use of bytes of global memory, and warns once of a conflict between blocks.
void note_block_use(Warp& warp, const Op& op, const GlobalRegion& region, size_t at, size_t bytes, bool is_write,
                    bool changes);

}  // namespace bitmma::kernel
