// SPDX-License-Identifier: MIT
// What the files of the runtime library share. libcudart.so.12 and libcudart.so.13 are built from the same files, over
// the functions of our libcuda.so.1, as NVIDIA's are over those of the driver.
//
//   int cudaMalloc(void** pointer, std::size_t bytes) {
//     return call([&] { return cuMemAlloc_v2(address_of(pointer), bytes); });
//   }
//
// Functions, arguments and layouts are those of the CUDA Runtime API's documentation. Error codes are ints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "driver_api.hpp"

namespace bitmma::runtime {

/// 12 or 13: which library this is.
constexpr int major_version = BITMMA_CUDART_MAJOR;
/// As cudaRuntimeGetVersion gives it. 12.9 is the last release of 12.
constexpr int runtime_version = major_version == 12 ? 12090 : 13000;

namespace error {
constexpr int success = 0, invalid_value = 1, memory_allocation = 2, invalid_configuration = 9,
              invalid_pitch_value = 12, invalid_symbol = 13, invalid_device_pointer = 17,
              invalid_channel_descriptor = 20, invalid_memcpy_direction = 21, invalid_filter_setting = 26,
              invalid_norm_setting = 27, missing_configuration = 52, invalid_device_function = 98, invalid_device = 101,
              peer_access_unsupported = 217, not_ready = 600, not_supported = 801;
}

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

/// cudaLaunchConfig_t.
struct LaunchConfig {
  Dim3 grid, block;
  std::size_t dynamic_shared_bytes = 0;
  CUstream stream = nullptr;
  CUlaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

enum class MemcpyKind : int { host_to_host, host_to_device, device_to_host, device_to_device, by_address };

struct MemoryTypes {
  CUmemorytype source, destination;
};
MemoryTypes memory_types(MemcpyKind kind);

/// cudaExtent.
struct Extent {
  std::size_t width, height, depth;
};

/// The bytes of a texel of an array; 0 for a handle of no array.
std::size_t texel_bytes(CUarray array);

/// Records the code for cudaGetLastError, unless it says success or that work has not ended, and returns it.
int record(int code);
/// Makes the primary context of device 0 current on a thread that has none.
int use_context();
/// The result of a function of the driver, called with a context, for the caller.
template <typename Function>
int call(const Function& function) {
  if (const int code = use_context(); code != error::success) return record(code);
  return record(function());
}

/// Answers with a value that does not depend on the driver.
template <typename T>
int answer(T* to, T value) {
  if (!to) return record(error::invalid_value);
  *to = value;
  return error::success;
}

inline CUdeviceptr* address_of(void** pointer) { return reinterpret_cast<CUdeviceptr*>(pointer); }
inline CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

/// The kernel of a function that a program registered, or of a handle that __cudaGetKernel gave.
int find_kernel(const void* function, CUkernel& kernel);
/// A variable that a program registered.
int find_variable(const void* symbol, CUdeviceptr& variable, std::size_t& bytes);
/// Drops what is loaded, for cudaDeviceReset; it is loaded again on use.
void forget_libraries();

/// CUDA's arguments of a launch, as the driver takes them.
CUlaunchConfig driver_config(const LaunchConfig& config);

}  // namespace bitmma::runtime
