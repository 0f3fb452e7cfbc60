// SPDX-License-Identifier: MIT
#include "driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

#include "bitmma/core/error.hpp"

namespace bitmma::driver {

Api load_api() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* const reason = dlerror();
    throw Error({.code = ViolationCode::no_gpu,
                 .field = "GPU",
                 .seen = reason ? reason : "libcuda.so.1 cannot be loaded",
                 .expected = "a machine with an NVIDIA driver",
                 .fix = "all other commands work without a GPU"});
  }
  Api api{};
  const auto load = [&](auto& function, const char* name) {
    void* const symbol = dlsym(library, name);
    if (!symbol) {
      throw Error({.code = ViolationCode::gpu_failed,
                   .field = "GPU driver",
                   .seen = fmt::format("libcuda.so.1 does not define {}", name),
                   .expected = "a driver for CUDA 12.0 or newer",
                   .fix = "update the driver"});
    }
    std::memcpy(&function, &symbol, sizeof symbol);
  };
  load(api.init, "cuInit");
  load(api.driver_get_version, "cuDriverGetVersion");
  load(api.device_get_count, "cuDeviceGetCount");
  load(api.device_get, "cuDeviceGet");
  load(api.device_get_name, "cuDeviceGetName");
  load(api.device_get_attribute, "cuDeviceGetAttribute");
  load(api.primary_context_retain, "cuDevicePrimaryCtxRetain");
  load(api.primary_context_release, "cuDevicePrimaryCtxRelease_v2");
  load(api.context_set_current, "cuCtxSetCurrent");
  load(api.module_load_data, "cuModuleLoadDataEx");
  load(api.module_unload, "cuModuleUnload");
  load(api.module_get_function, "cuModuleGetFunction");
  load(api.function_set_attribute, "cuFuncSetAttribute");
  load(api.memory_alloc, "cuMemAlloc_v2");
  load(api.memory_free, "cuMemFree_v2");
  load(api.copy_to_device, "cuMemcpyHtoDAsync_v2");
  load(api.copy_to_host, "cuMemcpyDtoHAsync_v2");
  load(api.stream_create, "cuStreamCreate");
  load(api.stream_synchronize, "cuStreamSynchronize");
  load(api.stream_destroy, "cuStreamDestroy_v2");
  load(api.launch, "cuLaunchKernel");
  load(api.error_name, "cuGetErrorName");
  load(api.error_string, "cuGetErrorString");
  return api;
}

namespace {

/// How users can fix an error. The names are those of CUresult, for drivers that do not report them.
struct ErrorInfo {
  Result code = 0;
  std::string_view name = {};
  std::string_view fix = {};
};

constexpr std::string_view find_the_case = "run fewer cases at a time to find the one that fails";
constexpr std::string_view no_stub = "this libcuda.so.1 is a stub: remove its folder from LD_LIBRARY_PATH";
constexpr std::string_view other_driver = "the driver may be too old for the PTX, which `bitmma ptx` prints";

constexpr std::array errors{
    ErrorInfo{2, "CUDA_ERROR_OUT_OF_MEMORY",
              "run fewer cases at a time; nvidia-smi shows which processes use the memory"},
    ErrorInfo{3, "CUDA_ERROR_NOT_INITIALIZED", "nvidia-smi shows whether the driver runs"},
    ErrorInfo{34, "CUDA_ERROR_STUB_LIBRARY", no_stub},
    ErrorInfo{46, "CUDA_ERROR_DEVICE_UNAVAILABLE",
              "nvidia-smi shows the processes on the GPU and its compute mode; an exclusive mode requires --jobs 1"},
    ErrorInfo{100, "CUDA_ERROR_NO_DEVICE", "nvidia-smi -L lists GPUs; CUDA_VISIBLE_DEVICES may hide them"},
    ErrorInfo{101, "CUDA_ERROR_INVALID_DEVICE", "nvidia-smi -L lists GPUs; CUDA_VISIBLE_DEVICES may hide them"},
    ErrorInfo{200, "CUDA_ERROR_INVALID_IMAGE", other_driver},
    ErrorInfo{209, "CUDA_ERROR_NO_BINARY_FOR_GPU", other_driver},
    ErrorInfo{218, "CUDA_ERROR_INVALID_PTX", other_driver},
    ErrorInfo{222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", other_driver},
    ErrorInfo{700, "CUDA_ERROR_ILLEGAL_ADDRESS", find_the_case},
    ErrorInfo{702, "CUDA_ERROR_LAUNCH_TIMEOUT", "run fewer cases at a time, or on a GPU without a display"},
    ErrorInfo{715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", find_the_case},
    ErrorInfo{716, "CUDA_ERROR_MISALIGNED_ADDRESS", find_the_case},
    ErrorInfo{718, "CUDA_ERROR_INVALID_PC", find_the_case},
    ErrorInfo{719, "CUDA_ERROR_LAUNCH_FAILED", find_the_case},
    ErrorInfo{721, "CUDA_ERROR_TENSOR_MEMORY_LEAK", find_the_case},
    ErrorInfo{802, "CUDA_ERROR_SYSTEM_NOT_READY", "GPUs with NVLink need nvidia-fabricmanager to run"},
    ErrorInfo{803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
              "libcuda.so.1 does not belong to the loaded driver: restart the machine"},
    ErrorInfo{804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", no_stub},
};

/// The driver's text for the error; empty if the driver has none.
std::string text_of(Result (*ask)(Result, const char**), Result result) {
  const char* text = nullptr;
  return ask(result, &text) == 0 && text ? text : "";
}

}  // namespace

Violation violation_of(const Api& api, Result result, std::string_view call) {
  const auto known = std::ranges::find(errors, result, &ErrorInfo::code);
  std::string name = text_of(api.error_name, result);
  if (name.empty()) name = known != errors.end() ? known->name : "an error without a name";
  const std::string text = text_of(api.error_string, result);
  return {.code = ViolationCode::gpu_failed,
          .field = fmt::format("GPU: {}", call),
          .seen = fmt::format("{} ({}){}{}", name, result, text.empty() ? "" : ": ", text),
          .expected = "success",
          .fix = std::string(known != errors.end() ? known->fix : "nvidia-smi and dmesg may show more")};
}

void require(const Api& api, Result result, std::string_view call) {
  if (result != 0) throw Error(violation_of(api, result, call));
}

std::string read_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string word;
  while (file >> word) {
    const bool number =
        word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos;
    if (number) return word;
  }
  return std::string(unknown_version);
}

Launch::~Launch() {
  try {
    release();  // an earlier failure matters more than errors here
  } catch (const std::exception&) {
    // There is no memory left for the text of a refusal.
  }
}

std::vector<Violation> Launch::release() {
  std::vector<Violation> refused;
  std::string_view last;
  const auto note = [&](Result result, std::string_view call) {
    if (result == 0 || call == last) return;
    last = call;
    refused.push_back(violation_of(api_, result, call));
  };
  if (stream) note(api_.stream_synchronize(stream), "cuStreamSynchronize");
  for (const DevicePointer pointer : allocations_) note(api_.memory_free(pointer), "cuMemFree");
  if (module) note(api_.module_unload(module), "cuModuleUnload");
  if (stream) note(api_.stream_destroy(stream), "cuStreamDestroy");
  allocations_.clear();
  module = nullptr;
  stream = nullptr;
  return refused;
}

DevicePointer Launch::allocate(size_t bytes) {
  DevicePointer pointer = 0;
  allocations_.reserve(allocations_.size() + 1);  // so that no allocation of the driver is lost
  require(api_, api_.memory_alloc(&pointer, std::max<size_t>(bytes, 16)), "cuMemAlloc");
  allocations_.push_back(pointer);
  return pointer;
}

}  // namespace bitmma::driver
