// The complete PTX kernel that executes one instruction on real hardware, many cases a launch.
//
// One CTA of 128 threads per case: image -> shared memory on a 1024-byte boundary, its address into the descriptors,
// registers loaded, fence, the instruction, commit, wait, D stored. Parameters are global addresses, each [cases, ...]:
//   smem_in, a_desc, b_desc, a_regs, metadata, c_regs, d_regs     (those the instruction does not use are not read)
#pragma once

#include <cstdint>
#include <string>

#include "bitmma/instruction/instruction.hpp"

namespace bitmma {

inline constexpr std::string_view kernel_name = "bitmma_case";
inline constexpr int kernel_threads = 128;

/// Bytes from one case's image to the next in global memory, and what the kernel copies: a multiple of 16.
constexpr int64_t kernel_image_stride(int64_t image_bytes) { return (image_bytes + 15) / 16 * 16; }

/// Dynamic shared memory of one CTA: the image and room to align it.
constexpr int64_t kernel_shared_bytes(int64_t image_bytes) { return kernel_image_stride(image_bytes) + 1024; }

/// The PTX target that has the instruction: "sm_90a", or "sm_100a" for tcgen05.
std::string_view ptx_target(const Instruction& instruction);

/// The instruction with its operands, as it stands in the kernel: registers d0.., a0.., descriptors, immediates.
std::string ptx_statement(const Instruction& instruction);

/// The whole kernel of a wgmma, ready for ptxas or the driver. Does not check legality, so that ptxas can be asked about
/// it. There is none for tcgen05.mma yet: its statement is known, the kernel around it is not written.
std::string ptx_kernel(const Instruction& instruction, int64_t image_bytes);

}  // namespace bitmma
