#include "bitmma/gpu/device.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "bitmma/core/error.hpp"
#include "bitmma/instruction/ptx_kernel.hpp"

namespace bitmma {
namespace {

// The part of the CUDA driver API that is used, declared here because the header may be absent.
using Result = int;
using DevicePointer = unsigned long long;
struct Context;
struct Module;
struct Function;
struct Stream;

enum DeviceAttribute : int { max_shared_bytes_opt_in = 97, compute_capability_major = 75, compute_capability_minor = 76 };
enum FunctionAttribute : int { max_dynamic_shared_bytes = 8 };
enum JitOption : int { error_log_buffer = 5, error_log_buffer_bytes = 6 };

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
  Result (*memory_alloc)(DevicePointer*, size_t);
  Result (*memory_free)(DevicePointer);
  Result (*copy_to_device)(DevicePointer, const void*, size_t, Stream*);
  Result (*copy_to_host)(void*, DevicePointer, size_t, Stream*);
  Result (*stream_create)(Stream**, unsigned);
  Result (*stream_synchronize)(Stream*);
  Result (*stream_destroy)(Stream*);
  Result (*launch)(Function*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream*, void**, void**);
  Result (*error_string)(Result, const char**);
};

[[noreturn]] void refuse(std::string field, std::string seen, std::string legal, std::string fix) {
  throw Error({.field = std::move(field), .seen = std::move(seen), .legal = std::move(legal), .fix = std::move(fix)});
}

Api load_api() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    const char* const reason = dlerror();
    refuse("GPU", reason ? reason : "libcuda.so.1 cannot be loaded", "a machine with an NVIDIA driver",
           "every command but gpu works without one");
  }
  Api api{};
  const auto load = [&](auto& function, const char* name) {
    void* const symbol = dlsym(library, name);
    if (!symbol) refuse("GPU driver", fmt::format("no {} in libcuda.so.1", name), "a driver of CUDA 12.0 or newer", "update the driver");
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

/// The kernel driver's version, which the CUDA API does not tell.
std::string read_driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string word;
  while (file >> word) {
    const bool number = word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos;
    if (number) return word;
  }
  return "unknown";
}

}  // namespace

struct Gpu::State {
  Api api = load_api();
  int device = 0;
  Context* context = nullptr;
  std::string name;
  int cuda_version = 0;
  int capability = 0;  // 90 for sm_90
  int64_t max_shared_bytes = 0;

  void require(Result result, std::string_view what) const {
    if (result == 0) return;
    const char* text = nullptr;
    api.error_string(result, &text);
    refuse(fmt::format("GPU: {}", what), fmt::format("error {}, {}", result, text ? text : "unknown"), "success",
           "run one file at a time to find the case");
  }
};

namespace {

/// Device memory and stream of one run, freed whatever happens.
class Run {
 public:
  explicit Run(const Api& api) : api_(api) {}
  ~Run() {
    if (stream) api_.stream_synchronize(stream);
    for (const DevicePointer pointer : allocations_) api_.memory_free(pointer);
    if (module) api_.module_unload(module);
    if (stream) api_.stream_destroy(stream);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  Result allocate(DevicePointer& pointer, size_t bytes) {
    const Result result = api_.memory_alloc(&pointer, std::max<size_t>(bytes, 16));
    if (result == 0) allocations_.push_back(pointer);
    return result;
  }

  Module* module = nullptr;
  Stream* stream = nullptr;

 private:
  const Api& api_;
  std::vector<DevicePointer> allocations_;
};

}  // namespace

Gpu::Gpu(int ordinal) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.require(state.api.init(0), "cuInit");
  int count = 0;
  state.require(state.api.device_get_count(&count), "cuDeviceGetCount");
  if (ordinal < 0 || ordinal >= count) {
    refuse("GPU device", std::to_string(ordinal), count > 0 ? fmt::format("0..{}", count - 1) : "a machine with an NVIDIA GPU", "");
  }
  state.require(state.api.device_get(&state.device, ordinal), "cuDeviceGet");
  std::array<char, 256> name{};
  state.require(state.api.device_get_name(name.data(), static_cast<int>(name.size()), state.device), "cuDeviceGetName");
  state.name = name.data();
  state.require(state.api.driver_get_version(&state.cuda_version), "cuDriverGetVersion");
  int major = 0, minor = 0, shared = 0;
  state.require(state.api.device_get_attribute(&major, compute_capability_major, state.device), "cuDeviceGetAttribute");
  state.require(state.api.device_get_attribute(&minor, compute_capability_minor, state.device), "cuDeviceGetAttribute");
  state.require(state.api.device_get_attribute(&shared, max_shared_bytes_opt_in, state.device), "cuDeviceGetAttribute");
  state.capability = 10 * major + minor;
  state.max_shared_bytes = shared;
  state.require(state.api.primary_context_retain(&state.context, state.device), "cuDevicePrimaryCtxRetain");
}

Gpu::~Gpu() {
  if (state_->context) state_->api.primary_context_release(state_->device);
}

std::string Gpu::name() const { return state_->name; }
std::string Gpu::driver_version() const { return read_driver_version(); }
std::string Gpu::cuda_version() const { return fmt::format("{}.{}", state_->cuda_version / 1000, state_->cuda_version % 1000 / 10); }

std::vector<std::vector<uint32_t>> Gpu::run(const Instruction& instruction, std::span<const Machine> cases) {
  const State& state = *state_;
  const Api& api = state.api;
  // "a" targets run on exactly their own generation.
  if (fmt::format("sm_{}a", state.capability) != ptx_target(instruction)) {
    refuse("GPU", fmt::format("{} (sm_{})", state.name, state.capability), std::string(ptx_target(instruction)),
           fmt::format("{} exists on that target only", print(instruction)));
  }
  int64_t image_bytes = 0;
  for (const Machine& machine : cases) image_bytes = std::max(image_bytes, static_cast<int64_t>(machine.smem.size()));
  const int64_t shared_bytes = kernel_shared_bytes(image_bytes);
  if (shared_bytes > state.max_shared_bytes) {
    refuse("shared-memory image", fmt::format("{} bytes", image_bytes),
           fmt::format("at most {} bytes on this GPU", state.max_shared_bytes - kernel_shared_bytes(0)), "");
  }
  state.require(api.context_set_current(state.context), "cuCtxSetCurrent");

  Run run(api);
  const std::string ptx = ptx_kernel(instruction, image_bytes);
  std::array<char, 4096> log{};
  std::array<int, 2> options{error_log_buffer, error_log_buffer_bytes};
  std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size())};
  const Result loaded = api.module_load_data(&run.module, ptx.c_str(), 2, options.data(), values.data());
  if (loaded != 0) refuse("GPU: PTX", log.data(), "PTX that the driver takes", "bitmma ptx prints it");
  Function* function = nullptr;
  state.require(api.module_get_function(&function, run.module, std::string(kernel_name).c_str()), "cuModuleGetFunction");
  state.require(api.function_set_attribute(function, max_dynamic_shared_bytes, static_cast<int>(shared_bytes)), "cuFuncSetAttribute");
  state.require(api.stream_create(&run.stream, 1), "cuStreamCreate");

  // Tensors, case by case, as the kernel expects them.
  const size_t stride = static_cast<size_t>(kernel_image_stride(image_bytes)), count = cases.size();
  const auto d_words = static_cast<size_t>(d_fragment(instruction).words());
  std::vector<uint8_t> images(stride * count);
  std::vector<uint64_t> a_desc(count), b_desc(count);
  std::vector<uint32_t> a_regs, metadata, c_regs(d_words * count), d_regs(d_words * count);
  for (size_t i = 0; i < count; ++i) {
    const Machine& machine = cases[i];
    std::copy(machine.smem.begin(), machine.smem.end(), images.begin() + static_cast<std::ptrdiff_t>(stride * i));
    a_desc[i] = machine.a_desc;
    b_desc[i] = machine.b_desc;
    a_regs.insert(a_regs.end(), machine.a_regs.begin(), machine.a_regs.end());
    metadata.insert(metadata.end(), machine.metadata.begin(), machine.metadata.end());
    std::copy(machine.c_regs.begin(), machine.c_regs.end(), c_regs.begin() + static_cast<std::ptrdiff_t>(d_words * i));
  }
  std::array<DevicePointer, 7> pointers{};
  const auto upload = [&](size_t parameter, const auto& tensor) {
    const size_t bytes = tensor.size() * sizeof(tensor[0]);
    state.require(run.allocate(pointers[parameter], bytes), "cuMemAlloc");
    if (bytes > 0) state.require(api.copy_to_device(pointers[parameter], tensor.data(), bytes, run.stream), "cuMemcpyHtoDAsync");
  };
  upload(0, images);
  upload(1, a_desc);
  upload(2, b_desc);
  upload(3, a_regs);
  upload(4, metadata);
  upload(5, c_regs);
  upload(6, d_regs);
  std::array<void*, 7> parameters{};
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i] = &pointers[i];
  state.require(api.launch(function, static_cast<unsigned>(count), 1, 1, kernel_threads, 1, 1, static_cast<unsigned>(shared_bytes),
                           run.stream, parameters.data(), nullptr),
                "cuLaunchKernel");
  state.require(api.copy_to_host(d_regs.data(), pointers[6], d_regs.size() * sizeof d_regs[0], run.stream), "cuMemcpyDtoHAsync");
  state.require(api.stream_synchronize(run.stream), "the kernel");
  std::vector<std::vector<uint32_t>> results;
  for (size_t i = 0; i < count; ++i) {
    const auto first = d_regs.begin() + static_cast<std::ptrdiff_t>(d_words * i);
    results.emplace_back(first, first + static_cast<std::ptrdiff_t>(d_words));
  }
  return results;
}

}  // namespace bitmma
