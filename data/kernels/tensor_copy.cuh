// SPDX-License-Identifier: MIT
// What the kernels of tma.cu and im2col.cu share: a tensor map as a parameter, and a barrier for its copies.
#pragma once

#include <cstdint>

/// What cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col fill.
struct alignas(64) TensorMap {
  char bytes[128];
};

__device__ uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ void init(uint64_t* barrier) {
  asm volatile(
      "mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(shared_address(barrier))
      : "memory");
}
__device__ void expect(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(bytes)
               : "memory");
}
__device__ void wait(uint64_t* barrier) {
  asm volatile(
      "{\n.reg .pred done;\nWAIT_%=:\nmbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], 0;\n"
      "@!done bra WAIT_%=;\n}" ::"r"(shared_address(barrier))
      : "memory");
}
