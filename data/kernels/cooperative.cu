// SPDX-License-Identifier: MIT
// Blocks that wait for each other: `nvcc -ptx -arch=sm_90 cooperative.cu` makes cooperative.ptx.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

/// y[block] = the sum of x over the grid, the same in each block.
extern "C" __global__ void sums(const float* x, float* partial, float* y, int n) {
  const cg::grid_group grid = cg::this_grid();
  float sum = 0;
  for (int i = grid.thread_rank(); i < n; i += grid.size()) sum += x[i];
  for (int distance = 16; distance; distance >>= 1) sum += __shfl_xor_sync(~0u, sum, distance);
  __shared__ float warps[32];
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    sum = 0;
    for (int i = 0; i < blockDim.x / 32; ++i) sum += warps[i];
    partial[blockIdx.x] = sum;
  }
  grid.sync();
  if (grid.thread_rank() == 0) {
    sum = 0;
    for (int i = 0; i < gridDim.x; ++i) sum += partial[i];
    partial[gridDim.x] = sum;
  }
  grid.sync();
  if (threadIdx.x == 0) y[blockIdx.x] = partial[gridDim.x];
}

/// p[blocks + i] = p[i + 1] of another block, which writes it before it arrives; with work between arrival and wait.
extern "C" __global__ void ring(unsigned* p) {
  cg::grid_group grid = cg::this_grid();
  if (threadIdx.x == 0) p[blockIdx.x] = blockIdx.x + 100;
  auto token = grid.barrier_arrive();
  const unsigned own = blockIdx.x * 1000;
  grid.barrier_wait(std::move(token));
  if (threadIdx.x == 0) p[gridDim.x + blockIdx.x] = p[(blockIdx.x + 1) % gridDim.x] + own;
}

/// The same with clusters of two blocks, which write into each other's shared memory.
extern "C" __global__ void __cluster_dims__(2, 1, 1) pairs(unsigned* p) {
  cg::cluster_group cluster = cg::this_cluster();
  __shared__ unsigned word;
  *cluster.map_shared_rank(&word, cluster.block_rank() ^ 1) = blockIdx.x + 100;
  cluster.sync();
  if (threadIdx.x == 0) p[blockIdx.x] = word;
  cg::this_grid().sync();
  if (threadIdx.x == 0) p[gridDim.x + blockIdx.x] = p[(blockIdx.x + 1) % gridDim.x];
}

/// A barrier of the program's own: bar counts the blocks that have arrived.
extern "C" __global__ void counted(volatile unsigned* bar, unsigned* p) {
  if (threadIdx.x == 0) p[blockIdx.x] = blockIdx.x + 100;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd((unsigned*)bar, 1);
    while (*bar < gridDim.x) {
    }
    __threadfence();
  }
  __syncthreads();
  if (threadIdx.x == 0) p[gridDim.x + blockIdx.x] = p[(blockIdx.x + 1) % gridDim.x];
}

/// Waits for the block behind it by an atomic that changes nothing, and sleeps in between.
extern "C" __global__ void chain(unsigned* flags, unsigned* p) {
  if (blockIdx.x + 1 < gridDim.x) {
    while (atomicCAS(flags + blockIdx.x + 1, 1, 1) != 1) __nanosleep(100);
    __threadfence();
  }
  p[blockIdx.x] = blockIdx.x + 1 < gridDim.x ? p[blockIdx.x + 1] + 1 : 7;
  __threadfence();
  atomicExch(flags + blockIdx.x, 1);
}

/// The lanes of a warp take a lock in turn, while the other blocks' lanes do; then all blocks meet.
extern "C" __global__ void locks(unsigned* lock, unsigned* p) {
  while (atomicCAS(lock, 0, 1) != 0) {
  }
  __threadfence();
  *(volatile unsigned*)p += 1;
  __threadfence();
  atomicExch(lock, 0);
  cg::this_grid().sync();
  if (threadIdx.x == 0) p[1 + blockIdx.x] = *(volatile unsigned*)p;
}
