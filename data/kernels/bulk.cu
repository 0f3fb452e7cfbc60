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
/// fault: 0 none; 1: nobody waits for the copies; 2: the consumers do not free a stage; 3: too few bytes are expected.
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
