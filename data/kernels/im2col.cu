// SPDX-License-Identifier: MIT
// Copies of pixels in mode im2col by tensor maps of 3 to 5 dimensions, byte by byte: what lies in shared memory after a
// load, and in the tensor after a store. One block; `at` has the coordinates of the first pixel, the innermost first,
// and then the offsets of a load.
#include "tensor_copy.cuh"

/// `bytes` of the pixels are copied into `all` bytes of shared memory that were 0xA5, or from there.
#define COPIES(rank, coordinates, offsets, ...)                                                                     \
  extern "C" __global__ void load_##rank(const __grid_constant__ TensorMap map, const int* at, uint8_t* out,        \
                                         int bytes, int all) {                                                      \
    extern __shared__ __align__(1024) uint8_t box[];                                                                \
    __shared__ uint64_t full;                                                                                       \
    for (int i = threadIdx.x; i < all; i += blockDim.x) box[i] = 0xA5;                                              \
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");                                                    \
    if (threadIdx.x == 0) init(&full);                                                                              \
    __syncthreads();                                                                                                \
    if (threadIdx.x == 0) {                                                                                         \
      expect(&full, bytes);                                                                                         \
      asm volatile("cp.async.bulk.tensor." #rank                                                                    \
                   "d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, " coordinates           \
                   "], [%2], " offsets ";" ::"r"(shared_address(box)),                                              \
                   "l"(&map), "r"(shared_address(&full)), __VA_ARGS__                                               \
                   : "memory");                                                                                     \
    }                                                                                                               \
    wait(&full);                                                                                                    \
    for (int i = threadIdx.x; i < all; i += blockDim.x) out[i] = box[i];                                            \
  }                                                                                                                 \
  extern "C" __global__ void store_##rank(const __grid_constant__ TensorMap map, const int* at, const uint8_t* in,  \
                                          int all) {                                                                \
    extern __shared__ __align__(1024) uint8_t box[];                                                                \
    for (int i = threadIdx.x; i < all; i += blockDim.x) box[i] = in[i];                                             \
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");                                                    \
    __syncthreads();                                                                                                \
    if (threadIdx.x == 0) {                                                                                         \
      asm volatile("cp.async.bulk.tensor." #rank "d.global.shared::cta.im2col_no_offs.bulk_group [%1, " coordinates \
                   "], [%0];" ::"r"(shared_address(box)),                                                           \
                   "l"(&map), "r"(0), __VA_ARGS__                                                                   \
                   : "memory");                                                                                     \
      asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");                        \
    }                                                                                                               \
  }

COPIES(3, "{%3, %4, %5}", "{%6}", "r"(at[0]), "r"(at[1]), "r"(at[2]), "h"(static_cast<uint16_t>(at[3])))
COPIES(4, "{%3, %4, %5, %6}", "{%7, %8}", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
       "h"(static_cast<uint16_t>(at[4])), "h"(static_cast<uint16_t>(at[5])))
COPIES(5, "{%3, %4, %5, %6, %7}", "{%8, %9, %10}", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]),
       "h"(static_cast<uint16_t>(at[5])), "h"(static_cast<uint16_t>(at[6])), "h"(static_cast<uint16_t>(at[7])))
