// Laying logical matrices out: the shared-memory image, descriptors and registers from which an instruction reads them
// back. The inverse of gather_operands.
#pragma once

#include <cstdint>
#include <vector>

#include "bitmma/core/random.hpp"
#include "bitmma/instruction/simulate.hpp"

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

  bool operator==(const OperandLayout&) const = default;
};

/// Reads "k-major:128", "mn-major:none", or with start_bytes "k-major:128@96". Throws Error.
OperandLayout parse_operand_layout(std::string_view text);

/// Owner of what a Machine looks at.
struct MachineState {
  std::vector<uint8_t> smem;
  uint64_t a_desc = 0, b_desc = 0;
  std::vector<uint32_t> a_regs, metadata, c_regs, b_regs, scale_a, scale_b;

  Machine view() const {
    return {.smem = smem,
            .a_desc = a_desc,
            .b_desc = b_desc,
            .a_regs = a_regs,
            .metadata = metadata,
            .c_regs = c_regs,
            .b_regs = b_regs,
            .scale_a = scale_a,
            .scale_b = scale_b};
  }
};

/// Where both matrices go; the same for every case. A starts at 0 (unless it is in registers), B on the next 1024.
struct Placement {
  SmemDescriptor a, b;
  int64_t image_bytes = 0;  // a multiple of 1024
};

/// Throws Error when a layout cannot hold its matrix one-to-one, the instruction cannot read that major-ness, a padding
/// is no multiple of 16 or the image passes 2^18 bytes. `instruction` must carry the layouts' major-ness already.
Placement plan_placement(const Instruction& instruction, const OperandLayout& a, const OperandLayout& b);

/// The instruction with imm_trans_a and imm_trans_b as the layouts need them.
Instruction with_majors(Instruction instruction, const OperandLayout& a, const OperandLayout& b);

/// One machine that holds `operands`. Bytes that no element uses are drawn from `filler`, so that wrong reads show; so
/// are padding bits and registers that mma.sync does not read. mma.sync has no use for `placement`.
MachineState place_operands(const Instruction& instruction, const Placement& placement, const Operands& operands,
                            RandomStream filler);

/// The logical M x K matrix of a sparse A: zeros where nothing is stored. Dense operands: A itself.
BitMatrix logical_a(const Instruction& instruction, const Operands& operands);

/// Stored elements and their positions from a logical M x K matrix that has at most the allowed non-zero codes in each
/// chunk. Throws Error naming row and chunk otherwise. Dense: A itself and no positions.
void compress_a(const Instruction& instruction, const BitMatrix& logical, Operands& operands);

}  // namespace bitmma
