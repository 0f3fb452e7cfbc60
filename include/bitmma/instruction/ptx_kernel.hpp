// The complete PTX kernel that executes one instruction on real hardware, many cases a launch.
//
// One CTA of 128 threads per case: image -> shared memory on a 1024-byte boundary, its address into the descriptors,
// registers loaded, fence, the instruction, commit, wait, D stored. Parameters are global addresses, each [cases, ...]:
//   smem_in, a_desc, b_desc, a_regs, metadata, c_regs, d_regs     (those the instruction does not use are not read)
#pragma once

#include <cstdint>
#include <string>

#include "bitmma/instruction/instruction.hpp"
#include "bitmma/instruction/tmem_move.hpp"

namespace bitmma {

inline constexpr std::string_view kernel_name = "bitmma_case";
inline constexpr int kernel_threads = 128;

/// Bytes from one case's image to the next in global memory, and what the kernel copies: a multiple of 16.
constexpr int64_t kernel_image_stride(int64_t image_bytes) { return (image_bytes + 15) / 16 * 16; }

/// Dynamic shared memory of one CTA: the image, room to align it, and 16 bytes for an mbarrier and an address.
constexpr int64_t kernel_shared_bytes(int64_t image_bytes) { return kernel_image_stride(image_bytes) + 1024 + 16; }

/// The PTX target that has the instruction: "sm_90a", "sm_120a" for mma.sync, or the first that has a tcgen05.
std::string_view ptx_target(const Instruction& instruction);

/// The instruction with its operands, as it stands in the kernel: registers d0.., a0.., descriptors, immediates.
std::string ptx_statement(const Instruction& instruction);
std::string ptx_statement(const TmemMove& move);

/// The whole kernel of a wgmma or mma.sync, ready for ptxas or the driver. Does not check legality, so that ptxas can
/// be asked about it. mma.sync has no image, a warp a case, and the parameters
///   a_regs, b_regs, metadata, c_regs, scale_a, scale_b, d_regs
std::string ptx_kernel(const Instruction& instruction, int64_t image_bytes);

/// The kernel of a tcgen05 instruction: one CTA of 128 threads a case, or a cluster of two with cta_group::2. It
/// allocates Tensor Memory, fills it, issues the instruction, waits and drains it. No Blackwell GPU has run it for this
/// project; ptxas 13.0 assembles it. Parameters are global addresses:
///   smem_in [cases, ctas, image stride]   tmem_in, result_out [cases, ctas, 128, columns]   words64_in, words32_in
///   below regs_in [cases, 32, registers] (st)   result_out of an ld: [cases, 32, registers]
std::string tcgen05_kernel(const Instruction& instruction, int64_t image_bytes, int columns, std::string_view target);
std::string tcgen05_kernel(const TmemMove& move, int64_t image_bytes, int columns, std::string_view target);

/// Columns the kernel allocates, for as many as a case has: a power of two, 32 and more.
int kernel_tmem_columns(int columns);

/// The operands of one case, as the kernel's words64_in and words32_in hold them.
enum class Tcgen05Words64 : int { a_desc, b_desc, zero_column_mask };  // a_desc is also the source of cp
enum class Tcgen05Words32 : int {
  idesc,
  d_tmem,
  a_tmem,
  metadata_tmem,
  scale_a_tmem,
  scale_b_tmem,
  enable_input_d,
  taddr,
  warp,
  lane_masks
};
inline constexpr int tcgen05_words64 = 4, tcgen05_words32 = 20;

/// Whether the statement names disable-output-lane registers: neither .ws nor block-scaled kinds have them.
bool has_lane_masks(const Instruction& instruction);

}  // namespace bitmma
