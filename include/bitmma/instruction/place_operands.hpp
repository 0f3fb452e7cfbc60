// SPDX-License-Identifier: MIT
// Laying logical matrices out: the images, descriptors, registers and Tensor Memory from which an instruction reads
// them back. The inverse of gather_operands.
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

/// How a matrix is to lie in shared memory. The strides are the smallest that fit, each grown by the padding.
struct OperandLayout {
  Major major = Major::k;
  Swizzle swizzle = Swizzle::b128;
  int64_t padding_bytes = 0;  // a multiple of 16
  int64_t start_bytes =
      0;                // added to the 1024-aligned start address: data inside a swizzle pattern. Rows of K = 96 that
                        // then pass the end of their 128 bytes go on in a second buffer (absolute leading dimension)
  int base_offset = 0;  // of the descriptor, as it is
  /// In place of the smallest strides: LBO and SBO as they are, multiples of 16. The padding then changes nothing.
  std::optional<int64_t> leading_dim_byte_offset = {}, stride_dim_byte_offset = {};

  bool operator==(const OperandLayout&) const = default;
};

/// Reads "k-major:128", "mn-major:none" (of operand A also "m-major:none", of B "n-major:none"), with start_bytes
/// "k-major:128@96", with strides and base offset "k-major:none,lbo=128,sbo=2048" and "k-major:128,base=3@384". Throws
/// Error.
OperandLayout parse_operand_layout(std::string_view text, std::optional<Role> operand = {});

/// The strides that a rows x cols matrix gets: those of the layout, or the smallest with its padding.
Strides strides_of(const OperandLayout& layout, int element_bits, int rows, int cols);

/// Numbers of a state by field: addresses, descriptors, the index of a warp.
using StateNumbers = std::vector<std::pair<Field, uint64_t>>;

/// Where everything goes. Instructions that read nothing from shared memory have no use for layouts.
struct Placement {
  OperandLayout a = {}, b = {};
  std::optional<uint64_t> zero_column_mask = {};  // of tcgen05.mma.ws: B begins at its column shift
  /// Of moves: random addresses are multiples of the columns that a move of one repetition touches. No source says that
  /// hardware takes others; none says that it does not.
  bool aligned_columns = false;
  StateNumbers numbers = {};  // in place of those that are drawn, or follow from the layouts
};

/// The instruction with the major-ness of the layouts.
Instruction with_majors(const Instruction& instruction, const OperandLayout& a, const OperandLayout& b);

/// A state that holds `operands`: images, descriptors, registers, Tensor Memory, all copies filled. Bytes, bits and
/// registers that no element uses are drawn from `filler`, so that wrong reads show. Without C the accumulator is
/// filler. Throws Error when a layout cannot hold its matrix one-to-one, the instruction cannot read that major-ness, a
/// padding is no multiple of 16, or an image passes 2^18 bytes. `instruction` must carry the layouts' major-ness
/// already.
State place_operands(const Instruction& instruction, const Placement& placement, const Operands& operands,
                     RandomStream filler);

/// The logical m x k matrix of a sparse A, with zeros for elements that are not stored. Dense operands: A itself.
Matrix logical_a(const Instruction& instruction, const Operands& operands);

/// Stored elements and their positions from a logical m x k matrix that has at most the allowed non-zero codes in each
/// chunk. Throws Error naming row and chunk otherwise. Dense: A itself and no positions.
void compress_a(const Instruction& instruction, const Matrix& logical, Operands& operands);

}  // namespace bitmma
