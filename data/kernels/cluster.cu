// SPDX-License-Identifier: MIT
// Clusters: blocks that read, write and copy into each other's shared memory.
#include <cooperative_groups.h>

#include <cstdint>

namespace cg = cooperative_groups;

__device__ uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
/// The same place in the shared memory of another block of the cluster.
__device__ uint32_t address_in(uint32_t address, uint32_t rank) {
  uint32_t mapped;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}
__device__ void init(uint64_t* barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}
__device__ void publish_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void expect(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
__device__ void arrive_in(uint64_t* barrier, uint32_t rank) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(address_in(shared_address(barrier), rank))
               : "memory");
}
__device__ void wait(uint64_t* barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nWAIT_%=:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra WAIT_%=;\n}" ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}
__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

template <int which>
__device__ void read_special(uint32_t* to) {
  uint32_t value = 0;
  if constexpr (which == 0) asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(value));
  if constexpr (which == 1) asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(value));
  if constexpr (which == 2) asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(value));
  if constexpr (which == 3) asm("mov.u32 %0, %%cluster_ctaid.y;" : "=r"(value));
  if constexpr (which == 4) asm("mov.u32 %0, %%cluster_ctaid.z;" : "=r"(value));
  if constexpr (which == 5) asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(value));
  if constexpr (which == 6) asm("mov.u32 %0, %%clusterid.x;" : "=r"(value));
  if constexpr (which == 7) asm("mov.u32 %0, %%clusterid.y;" : "=r"(value));
  if constexpr (which == 8) asm("mov.u32 %0, %%nclusterid.x;" : "=r"(value));
  if constexpr (which == 9) asm("mov.u32 %0, %%nclusterid.z;" : "=r"(value));
  to[which] = value;
  if constexpr (which < 9) read_special<which + 1>(to);
}

/// 16 words a block, in the order of blocks: its special registers, and where its shared memory lies.
extern "C" __global__ void __cluster_dims__(2, 2, 1) cluster_ranks(uint32_t* out) {
  __shared__ int word;
  if (threadIdx.x != 0) return;
  uint32_t* const to = out + 16 * (blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z));
  read_special<0>(to);
  const uint32_t own = shared_address(&word), last = address_in(own, 3);
  to[10] = own, to[11] = last;
  asm("getctarank.shared::cluster.u32 %0, %1;" : "=r"(to[12]) : "r"(last));
  const uint64_t generic = reinterpret_cast<uint64_t>(&word);
  uint64_t other;
  asm("mapa.u64 %0, %1, %2;" : "=l"(other) : "l"(generic), "r"(2));
  to[13] = static_cast<uint32_t>(other - generic);
  asm("{\n.reg .pred p;\nisspacep.shared::cta p, %1;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(to[14]) : "l"(other));
  asm("{\n.reg .pred p;\nisspacep.shared::cluster p, %1;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(to[15]) : "l"(other));
}

/// The sum of n numbers for each cluster: of a block in shared memory, of the blocks in the order of their ranks.
/// fault: 0 none; 1: blocks end while the first still reads; 2: no block waits for the blocks' sums; 3: a rank too many.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_sum(const float* x, float* y, int n, int fault) {
  __shared__ float sums[128];
  const cg::cluster_group cluster = cg::this_cluster();
  const int part = n / 4, from = blockIdx.x / 4 * n + cluster.block_rank() * part;
  float sum = 0;
  for (int i = threadIdx.x; i < part; i += blockDim.x) sum += x[from + i];
  sums[threadIdx.x] = sum;
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (fault == 2) __syncthreads();
  else cluster.sync();
  if (cluster.block_rank() == 0 && threadIdx.x == 0) {
    float all = 0;
    for (int rank = 0; rank < (fault == 3 ? 5 : 4); ++rank) all += *cluster.map_shared_rank(&sums[0], rank);
    y[blockIdx.x / 4] = all;
  }
  if (fault != 1) cluster.sync();
}

/// A histogram of 4 x 128 bins, of which each block of a cluster has 128 in its shared memory.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_histogram(const uint32_t* x, uint32_t* bins, int n) {
  __shared__ uint32_t own[128];
  const cg::cluster_group cluster = cg::this_cluster();
  own[threadIdx.x] = 0;
  cluster.sync();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const uint32_t bin = x[i] % 512;
    atomicAdd(cluster.map_shared_rank(own, bin / 128) + bin % 128, 1);
  }
  cluster.sync();
  atomicAdd(&bins[cluster.block_rank() * 128 + threadIdx.x], own[threadIdx.x]);
}

/// Each block sends 128 words on to the next of its cluster with st.async, `turns` times, and adds its rank to what came.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_ring(uint32_t* words, int turns) {
  __shared__ uint32_t box[2][128];
  __shared__ uint64_t full[2];
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  const uint32_t next = (rank + 1) % 4;
  if (threadIdx.x == 0) {
    init(&full[0], 1), init(&full[1], 1);
    publish_barriers();
  }
  cluster_arrive();
  uint32_t word = words[blockIdx.x * 128 + threadIdx.x];
  cluster_wait();
  for (int turn = 0; turn < turns; ++turn) {
    const int stage = turn % 2;
    if (threadIdx.x == 0) expect(&full[stage], 128 * 4);
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(
                     address_in(shared_address(&box[stage][threadIdx.x]), next)),
                 "r"(word), "r"(address_in(shared_address(&full[stage]), next))
                 : "memory");
    wait(&full[stage], turn / 2 & 1);
    word = box[stage][threadIdx.x] + rank;
    cluster_arrive();
    cluster_wait();
  }
  words[blockIdx.x * 128 + threadIdx.x] = word;
}

/// Each block copies its 512 bytes in bulk to the block behind it.
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_copy(const uint32_t* from, uint32_t* to) {
  __shared__ alignas(16) uint32_t own[128], other[128];
  __shared__ uint64_t full;
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  own[threadIdx.x] = from[blockIdx.x * 128 + threadIdx.x];
  if (threadIdx.x == 0) {
    init(&full, 1);
    publish_barriers();
    expect(&full, 512);
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  cluster_arrive();
  cluster_wait();
  if (threadIdx.x == 0) {
    asm volatile(
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            address_in(shared_address(other), rank ^ 1)), "r"(shared_address(own)), "r"(512),
        "r"(address_in(shared_address(&full), rank ^ 1)) : "memory");
  }
  wait(&full, 0);
  to[blockIdx.x * 128 + threadIdx.x] = other[threadIdx.x];
  cluster_arrive();
  cluster_wait();
}

/// What cuTensorMapEncodeTiled fills.
struct alignas(64) TensorMap {
  char bytes[128];
};

__device__ void load_box(void* to, const TensorMap& map, int x, int y, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          shared_address(to)), "l"(&map), "r"(x), "r"(y), "r"(shared_address(barrier)) : "memory");
}
__device__ void load_box_for_all(void* to, const TensorMap& map, int x, int y, uint64_t* barrier, uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(to)), "l"(&map), "r"(x), "r"(y), "r"(shared_address(barrier)),
      "h"(blocks) : "memory");
}
/// Of a K-major tile with 128-byte swizzle: 1024 bytes from 8 rows to the next 8.
__device__ uint64_t descriptor(const void* tile) {
  return (shared_address(tile) & 0x3FFFF) >> 4 | uint64_t{1} << 16 | uint64_t{64} << 32 | uint64_t{1} << 62;
}

/// d = a b^T, 64 x 64 a block, k a multiple of 64. The two blocks of a cluster have the same rows of a: each loads half
/// of them for both. A warp loads two stages ahead, a warpgroup multiplies and tells both blocks that a stage is free.
extern "C" __global__ void __cluster_dims__(2, 1, 1)
    cluster_product(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* d, int n, int k) {
  constexpr int stages = 2;
  __shared__ alignas(1024) uint16_t tile_a[stages][64 * 64], tile_b[stages][64 * 64];
  __shared__ uint64_t full[stages], empty[stages];
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    for (int i = 0; i < stages; ++i) init(&full[i], 1), init(&empty[i], 2);
    publish_barriers();
  }
  cluster_arrive();
  cluster_wait();
  const int row = 64 * blockIdx.y, col = 64 * blockIdx.x, steps = k / 64;
  if (threadIdx.x >= 128) {
    if (threadIdx.x == 128) {
      for (int i = 0; i < steps; ++i) {
        const int stage = i % stages;
        wait(&empty[stage], (i / stages & 1) ^ 1);
        expect(&full[stage], 2 * 64 * 64 * 2);
        load_box_for_all(tile_a[stage] + rank * 32 * 64, a, 64 * i, row + 32 * rank, &full[stage], 3);
        load_box(tile_b[stage], b, 64 * i, col, &full[stage]);
      }
    }
  } else {
    float sum[32] = {};
    for (int i = 0; i < steps; ++i) {
      const int stage = i % stages;
      wait(&full[stage], i / stages & 1);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      for (int step = 0; step < 4; ++step) {
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
            "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, 1, 1, 1, 0, 0;"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]),
              "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]), "+f"(sum[12]), "+f"(sum[13]),
              "+f"(sum[14]), "+f"(sum[15]), "+f"(sum[16]), "+f"(sum[17]), "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]),
              "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]), "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]),
              "+f"(sum[28]), "+f"(sum[29]), "+f"(sum[30]), "+f"(sum[31])
            : "l"(descriptor(tile_a[stage]) + 2 * step), "l"(descriptor(tile_b[stage]) + 2 * step));
      }
      asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
      asm volatile("bar.sync 1, 128;" ::: "memory");
      if (threadIdx.x < 2) arrive_in(&empty[stage], threadIdx.x);
    }
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = 0; i < 32; ++i) {
      const int at_row = row + 16 * warp + lane / 4 + 8 * (i / 2 % 2), at_col = col + 8 * (i / 4) + 2 * (lane % 4) + i % 2;
      d[n * at_row + at_col] = sum[i];
    }
  }
  cluster_arrive();
  cluster_wait();
}
