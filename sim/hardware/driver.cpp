#include "driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "bitmma/core/error.hpp"

namespace bitmma::driver {

Api load_api() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    const char* const reason = dlerror();
    throw Error({.field = "GPU",
                 .seen = reason ? reason : "libcuda.so.1 cannot be loaded",
                 .expected = "a machine with an NVIDIA driver",
                 .fix = "everything that needs no GPU works without one"});
  }
  Api api{};
  const auto load = [&](auto& function, const char* name) {
    void* const symbol = dlsym(library, name);
    if (!symbol) {
      throw Error({.field = "GPU driver",
                   .seen = fmt::format("no {} in libcuda.so.1", name),
                   .expected = "a driver of CUDA 12.0 or newer",
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
  load(api.error_string, "cuGetErrorString");
  return api;
}

void require(const Api& api, Result result, std::string_view what) {
  if (result == 0) return;
  const char* text = nullptr;
  api.error_string(result, &text);
  throw Error({.field = fmt::format("GPU: {}", what),
               .seen = fmt::format("error {}, {}", result, text ? text : "unknown"),
               .expected = "success",
               .fix = "run fewer cases at a time to find the one"});
}

std::string read_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string word;
  while (file >> word) {
    const bool number =
        word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos;
    if (number) return word;
  }
  return "unknown";
}

Launch::~Launch() {
  if (stream) api_.stream_synchronize(stream);
  for (const DevicePointer pointer : allocations_) api_.memory_free(pointer);
  if (module) api_.module_unload(module);
  if (stream) api_.stream_destroy(stream);
}

DevicePointer Launch::allocate(size_t bytes) {
  DevicePointer pointer = 0;
  require(api_, api_.memory_alloc(&pointer, std::max<size_t>(bytes, 16)), "cuMemAlloc");
  allocations_.push_back(pointer);
  return pointer;
}

}  // namespace bitmma::driver
