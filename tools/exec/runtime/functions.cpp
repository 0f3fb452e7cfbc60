// SPDX-License-Identifier: MIT
// Attributes of kernels, and how many blocks of them a multiprocessor holds.
#include "runtime.hpp"

namespace bitmma::runtime {
namespace {

/// cudaFuncAttributes.
struct FunctionAttributes {
  std::size_t shared_bytes, constant_bytes, local_bytes;
  int most_threads, registers, ptx_version, binary_version, cache_mode_ca, most_dynamic_shared_bytes,
      preferred_shared_carveout, cluster_must_be_set, cluster_width, cluster_height, cluster_depth,
      cluster_scheduling_policy, non_portable_cluster_allowed;
  int reserved[16];
};
static_assert(sizeof(FunctionAttributes) == 144);

/// The result of a function of the driver for the kernel of a host stub.
template <typename Function>
int call_with_kernel(const void* host, const Function& function) {
  return call([&] {
    CUkernel kernel = nullptr;
    const int code = find_kernel(host, kernel);
    return code == error::success ? int{function(kernel)} : code;
  });
}
CUfunction as_function(CUkernel kernel) { return reinterpret_cast<CUfunction>(kernel); }

CUdevice current_device() {
  CUdevice device = 0;
  cuCtxGetDevice(&device);
  return device;
}

}  // namespace

extern "C" {

int cudaFuncGetAttributes(FunctionAttributes* attributes, const void* function) {
  if (!attributes) return record(error::invalid_value);
  return call_with_kernel(function, [&](CUkernel kernel) {
    int code = error::success;
    const auto get = [&](CUfunction_attribute attribute) {
      int value = 0;
      if (code == error::success) code = cuKernelGetAttribute(&value, attribute, kernel, current_device());
      return value;
    };
    *attributes = {.shared_bytes = std::size_t(get(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)),
                   .constant_bytes = std::size_t(get(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES)),
                   .local_bytes = std::size_t(get(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)),
                   .most_threads = get(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
                   .registers = get(CU_FUNC_ATTRIBUTE_NUM_REGS),
                   .ptx_version = get(CU_FUNC_ATTRIBUTE_PTX_VERSION),
                   .binary_version = get(CU_FUNC_ATTRIBUTE_BINARY_VERSION),
                   .cache_mode_ca = get(CU_FUNC_ATTRIBUTE_CACHE_MODE_CA),
                   .most_dynamic_shared_bytes = get(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES),
                   .preferred_shared_carveout = get(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT),
                   .cluster_must_be_set = get(CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET),
                   .cluster_width = get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH),
                   .cluster_height = get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT),
                   .cluster_depth = get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH),
                   .cluster_scheduling_policy = get(CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE),
                   .non_portable_cluster_allowed = get(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED),
                   .reserved = {}};
    return code;
  });
}
// cudaFuncAttribute has the numbers of CUfunction_attribute.
int cudaFuncSetAttribute(const void* function, int attribute, int value) {
  return call_with_kernel(
      function, [&](CUkernel kernel) { return cuKernelSetAttribute(attribute, value, kernel, current_device()); });
}
int cudaKernelSetAttributeForDevice(CUkernel kernel, int attribute, int value, int device) {
  return call([&] { return cuKernelSetAttribute(attribute, value, kernel, device); });
}
int cudaFuncSetCacheConfig(const void* function, int) {
  return call_with_kernel(function, [](CUkernel) { return error::success; });
}
int cudaFuncSetSharedMemConfig(const void* function, int) {
  return call_with_kernel(function, [](CUkernel) { return error::success; });
}
int cudaFuncGetName(const char** name, const void* function) {
  return call_with_kernel(function, [&](CUkernel kernel) { return cuKernelGetName(name, kernel); });
}
int cudaFuncGetParamInfo(const void* function, std::size_t index, std::size_t* offset, std::size_t* bytes) {
  return call_with_kernel(function,
                          [&](CUkernel kernel) { return cuKernelGetParamInfo(kernel, index, offset, bytes); });
}

int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int threads,
                                                           std::size_t shared_bytes, unsigned flags) {
  return call_with_kernel(function, [&](CUkernel kernel) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, as_function(kernel), threads, shared_bytes,
                                                                flags);
  });
}
int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                  std::size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared_bytes, 0);
}
int cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, const void* function, int blocks, int threads) {
  return call_with_kernel(function, [&](CUkernel kernel) {
    return cuOccupancyAvailableDynamicSMemPerBlock(bytes, as_function(kernel), blocks, threads);
  });
}
int cudaOccupancyMaxPotentialClusterSize(int* blocks, const void* function, const LaunchConfig* config) {
  return call_with_kernel(function, [&](CUkernel kernel) {
    const CUlaunchConfig driver = driver_config(*config);
    return cuOccupancyMaxPotentialClusterSize(blocks, as_function(kernel), &driver);
  });
}
int cudaOccupancyMaxActiveClusters(int* clusters, const void* function, const LaunchConfig* config) {
  return call_with_kernel(function, [&](CUkernel kernel) {
    const CUlaunchConfig driver = driver_config(*config);
    return cuOccupancyMaxActiveClusters(clusters, as_function(kernel), &driver);
  });
}
}

}  // namespace bitmma::runtime
