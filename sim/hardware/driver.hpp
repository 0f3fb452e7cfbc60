// SPDX-License-Identifier: MIT
// The used part of the CUDA driver API, loaded at run time and declared here because its header may be absent.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/error.hpp"

namespace bitmma::driver {

using Result = int;
using DevicePointer = unsigned long long;
struct Context;
struct Module;
struct Function;
struct Stream;

enum DeviceAttribute : int {
  compute_capability_major = 75,
  compute_capability_minor = 76,
  max_shared_bytes_opt_in = 97,
};
enum FunctionAttribute : int { max_dynamic_shared_bytes = 8 };
enum JitOption : int { error_log_buffer = 5, error_log_buffer_bytes = 6 };

/// Function pointers, named after their functions: cuDeviceGetName is device_get_name.
struct Api {
  Result (*init)(unsigned);
  Result (*driver_get_version)(int*);
  Result (*device_get_count)(int*);
  Result (*device_get)(int*, int);
  Result (*device_get_name)(char*, int, int);
  Result (*device_get_attribute)(int*, int, int);
  Result (*primary_context_retain)(Context**, int);
  Result (*primary_context_release)(int);
  Result (*context_set_current)(Context*);
  Result (*module_load_data)(Module**, const void*, unsigned, int*, void**);
  Result (*module_unload)(Module*);
  Result (*module_get_function)(Function**, Module*, const char*);
  Result (*function_set_attribute)(Function*, int, int);
  Result (*memory_alloc)(DevicePointer*, std::size_t);
  Result (*memory_free)(DevicePointer);
  Result (*copy_to_device)(DevicePointer, const void*, std::size_t, Stream*);
  Result (*copy_to_host)(void*, DevicePointer, std::size_t, Stream*);
  Result (*stream_create)(Stream**, unsigned);
  Result (*stream_synchronize)(Stream*);
  Result (*stream_destroy)(Stream*);
  Result (*launch)(Function*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream*, void**,
                   void**);
  Result (*error_name)(Result, const char**);
  Result (*error_string)(Result, const char**);
};

/// Opens libcuda.so.1. Throws Error if the library or one of the functions is missing.
Api load_api();

/// The message of a failed call: "GPU: cuMemAlloc = CUDA_ERROR_OUT_OF_MEMORY (2): out of memory", and how to fix
/// it.
Violation violation_of(const Api& api, Result result, std::string_view call);

/// Throws Error, naming the call, if the driver did not return success.
void require(const Api& api, Result result, std::string_view call);

/// The version of the kernel driver, which the API does not report: "580.159.04", or unknown_version.
inline constexpr std::string_view unknown_version = "unknown";
std::string read_version();

/// The memory, module and stream of one launch; the destructor frees them.
class Launch {
 public:
  explicit Launch(const Api& api) : api_(api) {}
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  /// Allocates device memory of at least 16 bytes.
  DevicePointer allocate(std::size_t bytes);

  /// Frees everything. Returns a violation for each call that the driver refused.
  std::vector<Violation> release();

  Module* module = nullptr;
  Stream* stream = nullptr;

 private:
  const Api& api_;
  std::vector<DevicePointer> allocations_;
};

}  // namespace bitmma::driver
