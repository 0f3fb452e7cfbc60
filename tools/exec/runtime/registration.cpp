// SPDX-License-Identifier: MIT
// What nvcc's host code calls before main: it registers each fat binary with its kernels and variables, by the
// addresses of their host stubs. They are loaded on first use.
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <type_traits>

#include "runtime.hpp"

namespace bitmma::runtime {
namespace {

struct Binary {
  const void* image = nullptr;
  CUlibrary library = nullptr;
  int code = error::success;  // of loading
  std::set<void**> managed = {};
};
struct Kernel {
  Binary* binary = nullptr;
  std::string name = {};
  CUkernel handle = nullptr;
};
struct Variable {
  Binary* binary = nullptr;
  std::string name = {};
  std::size_t bytes = 0;
  bool is_managed = false;
};

// Programs register before main and from constructors of libraries, so that the tables are made on first use; they are
// never destroyed, since programs unregister after the destructors of this library.
struct Registry {
  std::recursive_mutex mutex;
  std::map<const void*, Kernel> kernels;
  std::map<const void*, Variable> variables;
  std::set<Binary*> binaries;
  std::set<const void*> handles;  // of kernels
};
Registry& registry() {
  static Registry& made = *new Registry;
  return made;
}

int load(Binary& binary) {
  if (binary.library || binary.code != error::success) return binary.code;
  if (const int code = use_context(); code != error::success) return code;
  binary.code = cuLibraryLoadData(&binary.library, binary.image, nullptr, nullptr, 0, nullptr, nullptr, 0);
  return binary.code;
}

/// A managed variable's host name is a pointer to it, which is set when the variable has an address.
int set_managed(Binary& binary) {
  if (binary.managed.empty()) return error::success;
  if (const int code = load(binary); code != error::success) return code;
  for (void** const pointer : binary.managed) {
    CUdeviceptr variable = 0;
    std::size_t bytes = 0;
    const int code =
        cuLibraryGetManaged(&variable, &bytes, binary.library, registry().variables.at(pointer).name.c_str());
    if (code != error::success) return code;
    *pointer = reinterpret_cast<void*>(variable);
  }
  return error::success;
}

/// Of such a launch the runtime library of CUDA 12 says that the configuration is invalid; that of 13.0 says that a
/// value is, as the driver does (measured on an H200).
bool is_beyond_device(const LaunchConfig& config) {
  CUdevice device = 0;
  cuCtxGetDevice(&device);
  // CUdevice_attribute 2 to 7: the largest blocks and grids.
  const unsigned extents[] = {config.block.x, config.block.y, config.block.z,
                              config.grid.x,  config.grid.y,  config.grid.z};
  for (int i = 0; i < 6; ++i) {
    int most = 0;
    cuDeviceGetAttribute(&most, 2 + i, device);
    if (extents[i] == 0 || extents[i] > static_cast<unsigned>(most)) return true;
  }
  int most_threads = 0;
  cuDeviceGetAttribute(&most_threads, 1, device);
  return uint64_t{config.block.x} * config.block.y * config.block.z > static_cast<unsigned>(most_threads);
}

int launch(CUkernel kernel, const LaunchConfig& config, void** arguments) {
  if (is_beyond_device(config)) return major_version == 12 ? error::invalid_configuration : error::invalid_value;
  const CUlaunchConfig driver = driver_config(config);
  return cuLaunchKernelEx(&driver, reinterpret_cast<CUfunction>(kernel), arguments, nullptr);
}

struct CallConfiguration {
  Dim3 grid, block;
  std::size_t dynamic_shared_bytes;
  CUstream stream;
};
/// Of <<<...>>>, one within the other if an argument's constructor launches a kernel. Trivial, so that it outlives the
/// main thread's other objects: destructors of static objects may launch, too.
struct CallConfigurations {
  std::array<CallConfiguration, 16> rows;
  std::size_t count;
};
static_assert(std::is_trivially_destructible_v<CallConfigurations>);
thread_local CallConfigurations call_configurations;

}  // namespace

int find_kernel(const void* function, CUkernel& kernel) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().kernels.find(function);
  if (found == registry().kernels.end()) {
    // Functions that take a kernel also take the handle that __cudaGetKernel or cudaLibraryGetKernel gave.
    kernel = static_cast<CUkernel>(const_cast<void*>(function));
    return registry().handles.contains(function) ? error::success : error::invalid_device_function;
  }
  if (const int code = load(*found->second.binary); code != error::success) return code;
  if (!found->second.handle) {
    const int code =
        cuLibraryGetKernel(&found->second.handle, found->second.binary->library, found->second.name.c_str());
    if (code != error::success) return error::invalid_device_function;
    registry().handles.insert(found->second.handle);
  }
  kernel = found->second.handle;
  return error::success;
}

int find_variable(const void* symbol, CUdeviceptr& variable, std::size_t& bytes) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().variables.find(symbol);
  if (found == registry().variables.end()) return error::invalid_symbol;
  Binary& binary = *found->second.binary;
  if (const int code = load(binary); code != error::success) return code;
  const char* const name = found->second.name.c_str();
  const int code = found->second.is_managed ? cuLibraryGetManaged(&variable, &bytes, binary.library, name)
                                            : cuLibraryGetGlobal(&variable, &bytes, binary.library, name);
  return code == error::success ? error::success : error::invalid_symbol;
}

void forget_libraries() {
  const std::lock_guard lock(registry().mutex);
  for (Binary* const binary : registry().binaries) binary->library = nullptr, binary->code = error::success;
  for (auto& [function, kernel] : registry().kernels) kernel.handle = nullptr;
  registry().handles.clear();
}

CUlaunchConfig driver_config(const LaunchConfig& config) {
  return {.gridDimX = config.grid.x,
          .gridDimY = config.grid.y,
          .gridDimZ = config.grid.z,
          .blockDimX = config.block.x,
          .blockDimY = config.block.y,
          .blockDimZ = config.block.z,
          .sharedMemBytes = static_cast<unsigned>(config.dynamic_shared_bytes),
          .hStream = config.stream,
          .attrs = config.attributes,
          .numAttrs = config.attribute_count};
}

extern "C" {

void** __cudaRegisterFatBinary(void* image) {
  const std::lock_guard lock(registry().mutex);
  auto* const binary = new Binary{.image = image};
  registry().binaries.insert(binary);
  return reinterpret_cast<void**>(binary);
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void** handle) {
  const std::lock_guard lock(registry().mutex);
  auto* const binary = reinterpret_cast<Binary*>(handle);
  if (registry().binaries.erase(binary) == 0) return;
  std::erase_if(registry().kernels, [&](const auto& row) { return row.second.binary == binary; });
  std::erase_if(registry().variables, [&](const auto& row) { return row.second.binary == binary; });
  // The library stays loaded: at the end of the program a later destructor may still use its memory.
  delete binary;
}
void __cudaRegisterFunction(void** handle, const void* host, void*, const char* name, int, void*, void*, void*, void*,
                            int*) {
  const std::lock_guard lock(registry().mutex);
  registry().kernels[host] = {.binary = reinterpret_cast<Binary*>(handle), .name = name};
}
void __cudaRegisterVar(void** handle, void* host, void*, const char* name, int, std::size_t bytes, int, int) {
  const std::lock_guard lock(registry().mutex);
  registry().variables[host] = {.binary = reinterpret_cast<Binary*>(handle), .name = name, .bytes = bytes};
}
void __cudaRegisterManagedVar(void** handle, void** pointer, void*, const char* name, int, std::size_t bytes, int,
                              int) {
  const std::lock_guard lock(registry().mutex);
  auto* const binary = reinterpret_cast<Binary*>(handle);
  registry().variables[pointer] = {.binary = binary, .name = name, .bytes = bytes, .is_managed = true};
  binary->managed.insert(pointer);
}
char __cudaInitModule(void** handle) {
  const std::lock_guard lock(registry().mutex);
  return record(set_managed(*reinterpret_cast<Binary*>(handle))) == error::success;
}

// A launch f<<<grid, block>>>(x) pushes its configuration, calls f's host stub, and the stub pops it.
unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, std::size_t shared_bytes, CUstream stream) {
  CallConfigurations& configurations = call_configurations;
  if (configurations.count == configurations.rows.size())
    return static_cast<unsigned>(record(error::memory_allocation));
  configurations.rows[configurations.count++] = {grid, block, shared_bytes, stream};
  return error::success;
}
int __cudaPopCallConfiguration(Dim3* grid, Dim3* block, std::size_t* shared_bytes, CUstream* stream) {
  if (call_configurations.count == 0) return record(error::missing_configuration);
  const CallConfiguration& last = call_configurations.rows[--call_configurations.count];
  *grid = last.grid, *block = last.block, *shared_bytes = last.dynamic_shared_bytes, *stream = last.stream;
  return error::success;
}

int __cudaGetKernel(CUkernel* kernel, const void* function) {
  return call([&] { return find_kernel(function, *kernel); });
}
int cudaGetKernel(CUkernel* kernel, const void* function) { return __cudaGetKernel(kernel, function); }
int cudaGetFuncBySymbol(CUfunction* function, const void* symbol) {
  return call([&] {
    CUkernel kernel = nullptr;
    const int code = find_kernel(symbol, kernel);
    return code == error::success ? cuKernelGetFunction(function, kernel) : code;
  });
}

int cudaLaunchKernelExC(const LaunchConfig* config, const void* function, void** arguments) {
  return call([&] {
    CUkernel kernel = nullptr;
    const int code = find_kernel(function, kernel);
    return code == error::success ? launch(kernel, *config, arguments) : code;
  });
}
int cudaLaunchKernel(const void* function, Dim3 grid, Dim3 block, void** arguments, std::size_t shared_bytes,
                     CUstream stream) {
  const LaunchConfig config{.grid = grid, .block = block, .dynamic_shared_bytes = shared_bytes, .stream = stream};
  return cudaLaunchKernelExC(&config, function, arguments);
}
int cudaLaunchCooperativeKernel(const void* function, Dim3 grid, Dim3 block, void** arguments, std::size_t shared_bytes,
                                CUstream stream) {
  CUlaunchAttribute cooperative{.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .pad = {}, .value = {.cooperative = 1}};
  const LaunchConfig config{.grid = grid,
                            .block = block,
                            .dynamic_shared_bytes = shared_bytes,
                            .stream = stream,
                            .attributes = &cooperative,
                            .attribute_count = 1};
  return cudaLaunchKernelExC(&config, function, arguments);
}
int __cudaLaunchKernel(CUkernel kernel, Dim3 grid, Dim3 block, void** arguments, std::size_t shared_bytes,
                       CUstream stream) {
  // nvcc's host code calls it also if __cudaGetKernel failed, whose code is then the last error.
  if (!kernel) return cudaLaunchKernel(nullptr, grid, block, arguments, shared_bytes, stream);
  return call([&] {
    return launch(kernel, {.grid = grid, .block = block, .dynamic_shared_bytes = shared_bytes, .stream = stream},
                  arguments);
  });
}

int cudaGetSymbolAddress(void** pointer, const void* symbol) {
  std::size_t bytes = 0;
  return call([&] { return find_variable(symbol, *address_of(pointer), bytes); });
}
int cudaGetSymbolSize(std::size_t* bytes, const void* symbol) {
  CUdeviceptr variable = 0;
  return call([&] { return find_variable(symbol, variable, *bytes); });
}

int cudaLibraryLoadData(CUlibrary* library, const void* code, int* jit_options, void** jit_values, unsigned jit_count,
                        int* options, void** values, unsigned count) {
  return call(
      [&] { return cuLibraryLoadData(library, code, jit_options, jit_values, jit_count, options, values, count); });
}
int cudaLibraryLoadFromFile(CUlibrary* library, const char* path, int* jit_options, void** jit_values,
                            unsigned jit_count, int* options, void** values, unsigned count) {
  return call(
      [&] { return cuLibraryLoadFromFile(library, path, jit_options, jit_values, jit_count, options, values, count); });
}
int cudaLibraryUnload(CUlibrary library) {
  return call([&] { return cuLibraryUnload(library); });
}
int cudaLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  return call([&] {
    const int code = cuLibraryGetKernel(kernel, library, name);
    const std::lock_guard lock(registry().mutex);
    if (code == error::success) registry().handles.insert(*kernel);
    return code;
  });
}
int cudaLibraryGetKernelCount(unsigned* count, CUlibrary library) {
  return call([&] { return cuLibraryGetKernelCount(count, library); });
}
int cudaLibraryEnumerateKernels(CUkernel* kernels, unsigned count, CUlibrary library) {
  return call([&] {
    const int code = cuLibraryEnumerateKernels(kernels, count, library);
    const std::lock_guard lock(registry().mutex);
    if (code == error::success) registry().handles.insert(kernels, kernels + count);
    return code;
  });
}
int cudaLibraryGetGlobal(void** pointer, std::size_t* bytes, CUlibrary library, const char* name) {
  return call([&] { return cuLibraryGetGlobal(address_of(pointer), bytes, library, name); });
}
int cudaLibraryGetManaged(void** pointer, std::size_t* bytes, CUlibrary library, const char* name) {
  return call([&] { return cuLibraryGetManaged(address_of(pointer), bytes, library, name); });
}
}

}  // namespace bitmma::runtime
