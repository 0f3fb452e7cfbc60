// SPDX-License-Identifier: MIT
// The PTX kernel that executes one instruction on real hardware, many cases a launch, and what its parameters hold.
//
//   ptx_kernel(instruction, {.image_bytes = 4096}).text          for ptxas or the driver
//
//   wgmma      a CTA of 128 threads a case: smem_in, a_desc_in, b_desc_in, a_regs_in, metadata_in, c_regs_in,
//   d_regs_out mma.sync   a warp a case: a_regs_in, b_regs_in, metadata_in, c_regs_in, scale_a_in, scale_b_in,
//   d_regs_out tcgen05    a CTA of 128 threads a case, or a cluster of two with cta_group::2: smem_in, tmem_in,
//   words64_in,
//              words32_in, regs_in, result_out. It allocates Tensor Memory, fills it, issues the instruction, waits and
//              drains it. No Blackwell GPU has run it for this project; ptxas 13.0 assembles it.
//
// Every parameter is a global address of an array [cases, bytes_per_case]. The kernel copies the image to a 1024-byte
// boundary of shared memory and adds its address to the descriptors.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/target.hpp"
#include "bitmma/instruction/instruction.hpp"
#include "bitmma/instruction/state.hpp"

namespace bitmma {

inline constexpr std::string_view kernel_name = "bitmma_case";
inline constexpr int kernel_threads = 128;  // of a CTA

/// Bytes from one CTA's image to the next in global memory, all of which the kernel copies: a multiple of 16.
constexpr int64_t kernel_image_stride(int64_t image_bytes) { return (image_bytes + 15) / 16 * 16; }

/// Dynamic shared memory of one CTA: the image, room to align it, and 16 bytes for an mbarrier and an address.
constexpr int64_t kernel_shared_bytes(int64_t image_bytes) { return kernel_image_stride(image_bytes) + 1024 + 16; }

/// Columns of Tensor Memory that the kernel allocates, for as many as a case has: a power of two, 32 and more.
int kernel_tmem_columns(int columns);

/// The request for a kernel.
struct KernelShape {
  int64_t image_bytes = 0;            // shared memory of a CTA
  int columns = 128;                  // Tensor Memory of a CTA
  std::optional<Target> target = {};  // default_target without
};

/// What holds the largest of the cases.
KernelShape kernel_shape_of(std::span<const State> cases);

/// A field of the state at a fixed place of a parameter.
struct KernelSlot {
  FieldRule rule = {};
  int64_t offset_bytes = 0;  // from the first byte of the case
  /// For an array: bytes from one row of its last extent to the next. Images and Tensor Memory are padded to these.
  int64_t row_bytes = 0;
};

/// A 32-bit number of the instruction value, at a fixed place of a parameter.
struct KernelNumber {
  uint32_t number = 0;
  int64_t offset_bytes = 0;
};

struct KernelParameter {
  std::string name = {};
  int64_t bytes_per_case = 0;  // 0: the kernel does not read it
  std::vector<KernelSlot> slots = {};
  std::vector<KernelNumber> numbers = {};
};

struct Kernel {
  std::string text = {};  // PTX, or a cubin
  std::string entry = std::string(kernel_name);
  KernelShape shape = {};
  int ctas = 1;                              // of a case
  std::vector<KernelParameter> inputs = {};  // in the order of the kernel's parameters
  KernelParameter output = {};               // the last parameter: the buffer that the instruction writes
};

/// The kernel of the instruction, for `shape.target`. Does not check legality, so that ptxas can be asked about it.
Kernel ptx_kernel(const Instruction& instruction, const KernelShape& shape = {});

/// True of .collector::X::use and ::lastuse: they read an operand that an instruction before has kept, and a kernel has
/// one instruction. What they read then is undefined (PTX ISA 9.7.16.10.9.1): nothing runs them on hardware.
bool reads_kept_operand(const Instruction& instruction);

/// The arrays that the kernel's inputs point to, filled from the states; numbers and optional arrays that a state lacks
/// are 0. Throws Error when a state lacks what the instruction needs, or a buffer is not of the kernel's size.
std::vector<std::vector<uint8_t>> launch_inputs(const Kernel& kernel, std::span<const State> cases);

/// States with what the instruction wrote, from the array that the kernel's output points to.
std::vector<State> launch_results(const Kernel& kernel, std::span<const State> cases, std::span<const uint8_t> output);

}  // namespace bitmma
