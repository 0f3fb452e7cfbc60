// SPDX-License-Identifier: MIT
// Places logical matrices in images, descriptors, registers and Tensor Memory, from which an instruction reads them
// back. The inverse of gather_operands.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "bitmma/arithmetic/operands.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/instruction/instruction.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/instruction/state.hpp"
#include "bitmma/layout/canonical.hpp"

namespace bitmma {

/// The layout of a matrix in shared memory. The strides are the smallest legal ones, each increased by the padding.
struct OperandLayout {
  Major major = Major::k;
  Swizzle swizzle = Swizzle::b128;
  int64_t padding_bytes = 0;  // a multiple of 16
  int64_t start_bytes =
      0;                // added to the 1024-aligned start address, to start inside a swizzle pattern. Rows with K = 96
                        // that then cross their 128 bytes continue in a second buffer (absolute leading dimension)
  int base_offset = 0;  // the descriptor's base offset
  /// LBO and SBO in place of the smallest strides, as multiples of 16. The padding then has no effect.
  std::optional<int64_t> leading_dim_byte_offset = {}, stride_dim_byte_offset = {};

  bool operator==(const OperandLayout&) const = default;
};

/// Parses "k-major:128", "mn-major:none" (for operand A also "m-major:none", for B "n-major:none"), with start_bytes
/// "k-major:128@96", with strides and base offset "k-major:none,lbo=128,sbo=2048" and "k-major:128,base=3@384". Throws
/// Error for other texts.
OperandLayout parse_operand_layout(std::string_view text, std::optional<Role> operand = {});

/// The strides of a rows x cols matrix: those of the layout, or the smallest plus its padding.
Strides strides_of(const OperandLayout& layout, int element_bits, int rows, int cols);

/// Numbers of a state by field: addresses, descriptors, a warp index.
using StateNumbers = std::vector<std::pair<Field, uint64_t>>;

/// The placement of all operands. Instructions that read nothing from shared memory ignore the layouts.
struct [[nodiscard]] Placement {
  OperandLayout a = {}, b = {};
  std::optional<uint64_t> zero_column_mask = {};  // for tcgen05.mma.ws: B starts at its column shift
  /// For moves: random addresses are multiples of the columns that a move with one repetition accesses. No source says
  /// whether hardware accepts other addresses.
  bool aligned_columns = false;
  StateNumbers numbers = {};  // replace drawn numbers, and those that follow from the layouts
};

/// The instruction with the major-ness of the layouts.
Instruction with_majors(const Instruction& instruction, const OperandLayout& a, const OperandLayout& b);

/// A state that contains `operands`: images, descriptors, registers and Tensor Memory, with all copies filled. Bytes,
/// bits and registers without an element are drawn from `filler`, so that wrong reads show. Without C the accumulator
/// is filler. Throws Error if a layout cannot hold its matrix one-to-one, the instruction cannot read that major-ness,
/// a padding is not a multiple of 16, or an image exceeds 2^18 bytes. `instruction` must already have the layouts'
/// major-ness.
State place_operands(const Instruction& instruction, const Placement& placement, const Operands& operands,
                     RandomStream filler);

/// The logical m x k matrix of a sparse A, with zeros for elements that are not stored. For dense operands, A itself.
Matrix logical_a(const Instruction& instruction, const Operands& operands);

/// Stored elements and positions for a logical m x k matrix with at most the allowed non-zero codes in each chunk.
/// Throws Error otherwise, which names row and chunk. For a dense instruction: A itself and no positions.
void compress_a(const Instruction& instruction, const Matrix& logical, Operands& operands);

}  // namespace bitmma
