// SPDX-License-Identifier: MIT
// Bulk copies that complete on mbarriers, two stages deep: a producer thread, and warps that wait for its copies.
#include <cstdint>

constexpr int stages = 2, stage_floats = 256;

__device__ uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ void init(uint64_t* barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}
__device__ void expect(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
__device__ void arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
__device__ void wait(uint64_t* barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nWAIT_%=:\nmbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra WAIT_%=;\n}" ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}
__device__ void load(void* to, const void* from, int bytes, uint64_t* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(barrier)) : "memory");
}
__device__ void store(void* to, const void* from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)), "r"(bytes)
               : "memory");
}

/// y = by * x + 1 of n floats, a multiple of 256. A block of 128 threads and a warp whose first thread copies.
/// fault: 0 none; 1: no thread waits for the copies; 2: the consumers do not free a stage; 3: too few bytes are expected.
extern "C" __global__ void bulk_scale(const float* x, float* y, float by, int n, int fault) {
  __shared__ alignas(128) float in[stages][stage_floats];
  __shared__ alignas(128) float out[stage_floats];
  __shared__ uint64_t full[stages], empty[stages];
  if (threadIdx.x == 0) {
    for (int i = 0; i < stages; ++i) init(&full[i], 1), init(&empty[i], 128);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  const int tiles = n / stage_floats;
  if (threadIdx.x >= 128) {
    if (threadIdx.x == 128) {
      for (int tile = 0; tile < tiles; ++tile) {
        const int stage = tile % stages, round = tile / stages;
        wait(&empty[stage], (round & 1) ^ 1);
        const int bytes = stage_floats * 4;
        expect(&full[stage], fault == 3 ? bytes - 16 : bytes);
        load(in[stage], x + tile * stage_floats, bytes, &full[stage]);
      }
    }
    return;
  }
  for (int tile = 0; tile < tiles; ++tile) {
    const int stage = tile % stages, round = tile / stages;
    if (fault != 1) wait(&full[stage], round & 1);
    float values[2];
    for (int i = 0; i < 2; ++i) values[i] = in[stage][threadIdx.x + 128 * i] * by + 1.0f;
    if (fault != 2) arrive(&empty[stage]);
    asm volatile("bar.sync 1, 128;" ::: "memory");
    for (int i = 0; i < 2; ++i) out[threadIdx.x + 128 * i] = values[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("bar.sync 1, 128;" ::: "memory");
    if (threadIdx.x == 0) {
      store(y + tile * stage_floats, out, stage_floats * 4);
      asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
    }
  }
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
__device__ void store_box(const TensorMap& map, int x, int y, const void* from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(x), "r"(y),
               "r"(shared_address(from)) : "memory");
}

/// Of a K-major tile with 128-byte swizzle: 1024 bytes from 8 rows to the next 8.
__device__ uint64_t descriptor(const void* tile) {
  return (shared_address(tile) & 0x3FFFF) >> 4 | uint64_t{1} << 16 | uint64_t{64} << 32 | uint64_t{1} << 62;
}

/// d = a b^T of 64 x k and 64 x k bf16, k a multiple of 64: one warpgroup, boxes of 64 x 64, wgmma m64n64k16.
extern "C" __global__ void tma_product(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                                       const __grid_constant__ TensorMap d, int k) {
  __shared__ alignas(1024) uint16_t tile_a[64 * 64], tile_b[64 * 64];
  __shared__ alignas(128) float tile_d[64 * 64];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    init(&full, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  float sum[32] = {};
  for (int at = 0; at < k; at += 64) {
    if (threadIdx.x == 0) {
      expect(&full, 2 * 64 * 64 * 2);
      load_box(tile_a, a, at, 0, &full);
      load_box(tile_b, b, at, 0, &full);
    }
    wait(&full, at / 64 & 1);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int step = 0; step < 4; ++step) {
      asm volatile(
          "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,"
          "%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, 1, 1, 1, 0, 0;"
          : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]), "+f"(sum[7]),
            "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]), "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]),
            "+f"(sum[15]), "+f"(sum[16]), "+f"(sum[17]), "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]), "+f"(sum[21]),
            "+f"(sum[22]), "+f"(sum[23]), "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]), "+f"(sum[28]),
            "+f"(sum[29]), "+f"(sum[30]), "+f"(sum[31])
          : "l"(descriptor(tile_a) + 2 * step), "l"(descriptor(tile_b) + 2 * step));
    }
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    __syncthreads();
  }
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = 0; i < 32; ++i) {
    const int row = 16 * warp + lane / 4 + 8 * (i / 2 % 2), col = 8 * (i / 4) + 2 * (lane % 4) + i % 2;
    tile_d[64 * row + col] = sum[i];
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    store_box(d, 0, 0, tile_d);
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
}
