// SPDX-License-Identifier: MIT
// Reductions of shared memory into global memory by bulk copies: 512 bytes at a time.
#include <cstdint>

__device__ uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

#define REDUCE(name, operation)                                                                                         \
  /** Block b adds x's 512 bytes b to y's. */                                                                           \
  extern "C" __global__ void name(const uint32_t* x, uint32_t* y) {                                                     \
    __shared__ alignas(128) uint32_t words[128];                                                                        \
    words[threadIdx.x] = x[128 * blockIdx.x + threadIdx.x];                                                             \
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");                                                        \
    __syncthreads();                                                                                                    \
    if (threadIdx.x != 0) return;                                                                                       \
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group." operation " [%0], [%1], 512;" ::"l"(             \
                     y + 128 * blockIdx.x), "r"(shared_address(words)) : "memory");                                     \
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");                              \
  }

REDUCE(reduce_add_f16, "add.noftz.f16")
REDUCE(reduce_add_bf16, "add.noftz.bf16")
REDUCE(reduce_add_f32, "add.f32")
REDUCE(reduce_add_f64, "add.f64")
REDUCE(reduce_add_u32, "add.u32")
REDUCE(reduce_add_u64, "add.u64")
REDUCE(reduce_min_f16, "min.f16")
REDUCE(reduce_max_f16, "max.f16")
REDUCE(reduce_min_bf16, "min.bf16")
REDUCE(reduce_max_bf16, "max.bf16")
REDUCE(reduce_min_s32, "min.s32")
REDUCE(reduce_max_s32, "max.s32")
REDUCE(reduce_min_s64, "min.s64")
REDUCE(reduce_max_u64, "max.u64")
REDUCE(reduce_inc_u32, "inc.u32")
REDUCE(reduce_dec_u32, "dec.u32")
REDUCE(reduce_and_b32, "and.b32")
REDUCE(reduce_or_b64, "or.b64")
REDUCE(reduce_xor_b32, "xor.b32")
