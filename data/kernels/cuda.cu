// SPDX-License-Identifier: MIT
// Kernels that bitmma runs: `nvcc -ptx -arch=sm_90a -lineinfo cuda.cu` makes cuda.ptx. README.md says what each is for.
#include <cuda_fp16.h>
#include <cstdint>

/// y[block] = the sum of x, by shuffles and shared memory.
extern "C" __global__ void reduce(const float* x, float* y, int n) {
  __shared__ float part[32];
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
  }
}

/// An inclusive scan of each block's integers.
extern "C" __global__ void scan(const int* x, int* y) {
  extern __shared__ int buffer[];
  const int t = threadIdx.x, n = blockDim.x;
  buffer[t] = x[blockIdx.x * n + t];
  __syncthreads();
  for (int o = 1; o < n; o *= 2) {
    const int other = t >= o ? buffer[t - o] : 0;
    __syncthreads();
    buffer[t] += other;
    __syncthreads();
  }
  y[blockIdx.x * n + t] = buffer[t];
}

/// y = x transposed, in tiles of 32 x 32 by blocks of 32 x 8.
extern "C" __global__ void transpose(const float* x, float* y, int rows, int cols) {
  __shared__ float tile[32][33];
  int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8)
    if (row + i < rows && col < cols) tile[threadIdx.y + i][threadIdx.x] = x[(row + i) * cols + col];
  __syncthreads();
  col = blockIdx.y * 32 + threadIdx.x, row = blockIdx.x * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8)
    if (row + i < cols && col < rows) y[(row + i) * rows + col] = tile[threadIdx.x][threadIdx.y + i];
}

/// Counts of bytes, in shared memory first.
extern "C" __global__ void histogram(const uint8_t* x, unsigned* counts, int n) {
  __shared__ unsigned own[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) own[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&own[x[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&counts[i], own[i]);
}

__device__ float all_sum(float x, float* part) {
  for (int o = 16; o; o >>= 1) x += __shfl_xor_sync(~0u, x, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
  __syncthreads();
  x = 0;
  for (int i = 0; i < blockDim.x / 32; ++i) x += part[i];
  __syncthreads();
  return x;
}

/// y = softmax(x) of each row, a block a row.
extern "C" __global__ void softmax(const float* x, float* y, int cols) {
  __shared__ float part[32];
  x += blockIdx.x * cols, y += blockIdx.x * cols;
  float most = -INFINITY;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) most = fmaxf(most, x[i]);
  for (int o = 16; o; o >>= 1) most = fmaxf(most, __shfl_xor_sync(~0u, most, o));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = most;
  __syncthreads();
  for (int i = 0; i < blockDim.x / 32; ++i) most = fmaxf(most, part[i]);
  __syncthreads();
  float sum = 0;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += expf(x[i] - most);
  sum = all_sum(sum, part);
  for (int i = threadIdx.x; i < cols; i += blockDim.x) y[i] = expf(x[i] - most) / sum;
}

/// y = (x - mean) / sqrt(variance + eps) * w + b of each row.
extern "C" __global__ void layer_norm(const float* x, const float* w, const float* b, float* y, int cols, float eps) {
  __shared__ float part[32];
  x += blockIdx.x * cols, y += blockIdx.x * cols;
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += x[i];
  const float mean = all_sum(sum, part) / cols;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) squares += (x[i] - mean) * (x[i] - mean);
  const float scale = rsqrtf(all_sum(squares, part) / cols + eps);
  for (int i = threadIdx.x; i < cols; i += blockDim.x) y[i] = (x[i] - mean) * scale * w[i] + b[i];
}

/// d [m, n] = a [m, k] b [n, k]^T by mma.sync: a warp makes 16 x 8 outputs, with ldmatrix and cp.async.
extern "C" __global__ void matmul(const __half* a, const __half* b, float* d, int n, int k) {
  __shared__ __align__(16) __half tile[24 * 16];
  const int lane = threadIdx.x, row = blockIdx.y * 16, col = blockIdx.x * 8;
  const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
  float c0 = 0, c1 = 0, c2 = 0, c3 = 0;
  for (int from = 0; from < k; from += 16) {
    const __half* source = a + (row + lane / 2) * k + from + 8 * (lane % 2);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at + 16 * lane), "l"(source) : "memory");
    if (lane < 16) {
      source = b + (col + lane / 2) * k + from + 8 * (lane % 2);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at + 512 + 16 * lane), "l"(source) : "memory");
    }
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;\n" ::: "memory");
    __syncthreads();
    uint32_t a0, a1, a2, a3, b0, b1;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a0), "=r"(a1), "=r"(a2), "=r"(a3)
                 : "r"(at + 32 * (lane % 16) + 16 * (lane / 16)));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(b0), "=r"(b1)
                 : "r"(at + 512 + 32 * (lane % 8) + 16 * (lane / 8 % 2)));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    __syncthreads();
  }
  float* to = d + (row + lane / 4) * n + col + 2 * (lane % 4);
  to[0] = c0, to[1] = c1, to[8 * n] = c2, to[8 * n + 1] = c3;
}

/// Branches in branches, a loop of a different length in each lane, and a return in the middle.
extern "C" __global__ void diverge(const int* x, int* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  int value = x[i], steps = 0;
  if (value < 0) {
    if (value % 2) {
      y[i] = -1;
      return;
    }
    value = -value;
  }
  while (value != 1 && steps < 200) {
    value = value % 2 ? 3 * value + 1 : value / 2;
    ++steps;
  }
  y[i] = steps + 1000 * __popc(__ballot_sync(__activemask(), steps > 10));
}

// Wrong on purpose, each in one way that `which` picks.
extern "C" __global__ void faulty(const float* x, float* y, int which) {
  __shared__ float shared[128];
  const int t = threadIdx.x;
  if (which == 0) y[t] = x[t + 1];                                          // beyond the end in the last thread
  if (which == 1) y[t] = *(const float*)((const char*)x + 2 * t);           // misaligned in thread 1
  if (which == 2) y[t] = shared[t];                                         // nothing wrote it
  if (which == 3) {                                                         // no barrier
    shared[t] = x[t];
    y[t] = shared[127 - t];
  }
  if (which == 4 && t < 64) __syncthreads();                                // half of the block
  if (which == 4 && t >= 64) asm volatile("bar.sync 1;");
  if (which == 5) {                                                         // right
    shared[t] = x[t];
    __syncthreads();
    y[t] = shared[127 - t];
  }
  if (which == 6) asm volatile("trap;");
}
