#include "bitmma/gpu/device.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <sstream>

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

enum DeviceAttribute : int {
  max_shared_bytes_opt_in = 97,
  compute_capability_major = 75,
  compute_capability_minor = 76
};
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
  Result (*launch)(Function*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream*, void**,
                   void**);
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
    if (!symbol)
      refuse("GPU driver", fmt::format("no {} in libcuda.so.1", name), "a driver of CUDA 12.0 or newer",
             "update the driver");
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
    const bool number =
        word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos;
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
    refuse("GPU device", std::to_string(ordinal),
           count > 0 ? fmt::format("0..{}", count - 1) : "a machine with an NVIDIA GPU", "");
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
std::string Gpu::cuda_version() const {
  return fmt::format("{}.{}", state_->cuda_version / 1000, state_->cuda_version % 1000 / 10);
}

std::string Gpu::own_target() const { return fmt::format("sm_{}a", state_->capability); }

void Gpu::require_target(std::span<const std::string_view> targets, const std::string& name) const {
  // "a" targets run on exactly their own generation.
  if (std::ranges::find(targets, std::string_view(own_target())) != targets.end()) return;
  refuse("GPU", fmt::format("{} (sm_{})", state_->name, state_->capability),
         fmt::format("{}", fmt::join(targets, " or ")), fmt::format("{} exists there only", name));
}

namespace {

template <typename T>
std::span<const uint8_t> bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)};
}

size_t round_up(size_t value, size_t unit) { return unit == 0 ? value : (value + unit - 1) / unit * unit; }

/// `words` cut into `count` equal pieces.
std::vector<std::vector<uint32_t>> pieces_of(const std::vector<uint32_t>& words, size_t count) {
  std::vector<std::vector<uint32_t>> pieces;
  const size_t size = words.size() / count;
  for (size_t i = 0; i < count; ++i) {
    const auto first = words.begin() + static_cast<std::ptrdiff_t>(size * i);
    pieces.emplace_back(first, first + static_cast<std::ptrdiff_t>(size));
  }
  return pieces;
}

}  // namespace

std::vector<uint32_t> Gpu::launch(const std::string& ptx, size_t ctas, int64_t image_bytes,
                                  std::span<const std::span<const uint8_t>> inputs, size_t result_words) {
  const State& state = *state_;
  const Api& api = state.api;
  const int64_t shared_bytes = kernel_shared_bytes(image_bytes);
  if (shared_bytes > state.max_shared_bytes) {
    refuse("shared-memory image", fmt::format("{} bytes", image_bytes),
           fmt::format("at most {} bytes on this GPU", state.max_shared_bytes - kernel_shared_bytes(0)), "");
  }
  state.require(api.context_set_current(state.context), "cuCtxSetCurrent");
  Run run(api);
  std::array<char, 4096> log{};
  std::array<int, 2> options{error_log_buffer, error_log_buffer_bytes};
  std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size())};
  const Result loaded = api.module_load_data(&run.module, ptx.c_str(), 2, options.data(), values.data());
  if (loaded != 0) refuse("GPU: PTX", log.data(), "PTX that the driver takes", "bitmma ptx prints it");
  Function* function = nullptr;
  state.require(api.module_get_function(&function, run.module, std::string(kernel_name).c_str()),
                "cuModuleGetFunction");
  state.require(api.function_set_attribute(function, max_dynamic_shared_bytes, static_cast<int>(shared_bytes)),
                "cuFuncSetAttribute");
  state.require(api.stream_create(&run.stream, 1), "cuStreamCreate");

  std::vector<DevicePointer> pointers(inputs.size() + 1);
  for (size_t i = 0; i < inputs.size(); ++i) {
    state.require(run.allocate(pointers[i], inputs[i].size()), "cuMemAlloc");
    if (!inputs[i].empty())
      state.require(api.copy_to_device(pointers[i], inputs[i].data(), inputs[i].size(), run.stream),
                    "cuMemcpyHtoDAsync");
  }
  std::vector<uint32_t> result(result_words);
  state.require(run.allocate(pointers.back(), result.size() * sizeof result[0]), "cuMemAlloc");
  std::vector<void*> parameters;
  for (DevicePointer& pointer : pointers) parameters.push_back(&pointer);
  state.require(api.launch(function, static_cast<unsigned>(ctas), 1, 1, kernel_threads, 1, 1,
                           static_cast<unsigned>(shared_bytes), run.stream, parameters.data(), nullptr),
                "cuLaunchKernel");
  state.require(api.copy_to_host(result.data(), pointers.back(), result.size() * sizeof result[0], run.stream),
                "cuMemcpyDtoHAsync");
  state.require(api.stream_synchronize(run.stream), "the kernel");
  return result;
}

std::vector<std::vector<uint32_t>> Gpu::run(const Instruction& instruction, std::span<const Machine> cases) {
  require_target(std::array{ptx_target(instruction)}, print(instruction));
  int64_t image_bytes = 0;
  for (const Machine& machine : cases) image_bytes = std::max(image_bytes, static_cast<int64_t>(machine.smem.size()));
  // Tensors, case by case, as the kernel expects them.
  const size_t stride = static_cast<size_t>(kernel_image_stride(image_bytes)), count = cases.size();
  const auto d_words = static_cast<size_t>(d_fragment(instruction).words());
  std::vector<uint8_t> images(stride * count);
  std::vector<uint64_t> a_desc(count), b_desc(count);
  std::vector<uint32_t> a_regs, b_regs, metadata, c_regs(d_words * count), scale_a, scale_b;
  for (size_t i = 0; i < count; ++i) {
    const Machine& machine = cases[i];
    std::copy(machine.smem.begin(), machine.smem.end(), images.begin() + static_cast<std::ptrdiff_t>(stride * i));
    a_desc[i] = machine.a_desc;
    b_desc[i] = machine.b_desc;
    a_regs.insert(a_regs.end(), machine.a_regs.begin(), machine.a_regs.end());
    metadata.insert(metadata.end(), machine.metadata.begin(), machine.metadata.end());
    b_regs.insert(b_regs.end(), machine.b_regs.begin(), machine.b_regs.end());
    scale_a.insert(scale_a.end(), machine.scale_a.begin(), machine.scale_a.end());
    scale_b.insert(scale_b.end(), machine.scale_b.begin(), machine.scale_b.end());
    std::copy(machine.c_regs.begin(), machine.c_regs.end(), c_regs.begin() + static_cast<std::ptrdiff_t>(d_words * i));
  }
  if (instruction.family == Family::mma_sync) {
    const std::array of_warp{bytes_of(a_regs), bytes_of(b_regs),  bytes_of(metadata),
                             bytes_of(c_regs), bytes_of(scale_a), bytes_of(scale_b)};
    return pieces_of(launch(ptx_kernel(instruction, 0), count, 0, of_warp, d_words * count), count);
  }
  const std::array inputs{bytes_of(images), bytes_of(a_desc),   bytes_of(b_desc),
                          bytes_of(a_regs), bytes_of(metadata), bytes_of(c_regs)};
  return pieces_of(launch(ptx_kernel(instruction, image_bytes), count, image_bytes, inputs, d_words * count), count);
}

namespace {

/// The inputs of tcgen05_kernel, collected case by case. Tensor Memory is padded to the columns that the kernel
/// allocates.
struct Tcgen05Inputs {
  int ctas = 1, columns = 0;
  size_t stride = 0;
  std::vector<uint8_t> images;
  std::vector<uint32_t> tmem, words32, regs;
  std::vector<uint64_t> words64;

  Tcgen05Inputs(int ctas_, int columns_, int64_t image_bytes)
      : ctas(ctas_),
        columns(kernel_tmem_columns(columns_)),
        stride(static_cast<size_t>(kernel_image_stride(image_bytes))) {}

  void add(const std::array<std::span<const uint8_t>, 2>& smem, std::span<const uint32_t> cells, int case_columns) {
    for (int cta = 0; cta < ctas; ++cta) {
      const std::span<const uint8_t> image = smem[static_cast<size_t>(cta)];
      images.insert(images.end(), image.begin(), image.end());
      images.resize(round_up(images.size(), stride));
    }
    for (size_t lane = 0; lane < static_cast<size_t>(ctas) * tmem_lanes; ++lane) {
      const auto row = cells.subspan(lane * static_cast<size_t>(case_columns), static_cast<size_t>(case_columns));
      tmem.insert(tmem.end(), row.begin(), row.end());
      tmem.resize(round_up(tmem.size(), static_cast<size_t>(columns)));
    }
    words64.resize(words64.size() + tcgen05_words64);
    words32.resize(words32.size() + tcgen05_words32);
  }
  uint64_t& word(Tcgen05Words64 which) {
    return words64[words64.size() - tcgen05_words64 + static_cast<size_t>(which)];
  }
  uint32_t& word(Tcgen05Words32 which, int index = 0) {
    return words32[words32.size() - tcgen05_words32 + static_cast<size_t>(which) + static_cast<size_t>(index)];
  }
  std::array<std::span<const uint8_t>, 5> inputs() const {
    return {bytes_of(images), bytes_of(tmem), bytes_of(words64), bytes_of(words32), bytes_of(regs)};
  }
};

/// Without the padding of the columns.
std::vector<uint32_t> without_padding(const std::vector<uint32_t>& tmem, int columns, int wanted) {
  std::vector<uint32_t> result;
  for (size_t first = 0; first < tmem.size(); first += static_cast<size_t>(columns)) {
    result.insert(result.end(), tmem.begin() + static_cast<std::ptrdiff_t>(first),
                  tmem.begin() + static_cast<std::ptrdiff_t>(first) + wanted);
  }
  return result;
}

template <typename Machine>
int64_t largest_image(std::span<const Machine> cases) {
  int64_t bytes = 0;
  for (const Machine& machine : cases)
    bytes =
        std::max({bytes, static_cast<int64_t>(machine.smem[0].size()), static_cast<int64_t>(machine.smem[1].size())});
  return bytes;
}

}  // namespace

std::vector<std::vector<uint32_t>> Gpu::run(const Instruction& instruction, std::span<const Tcgen05Machine> cases) {
  require_target(tcgen05_targets(instruction), print(instruction));
  const int64_t image_bytes = largest_image(cases);
  Tcgen05Inputs inputs(instruction.cta_group, cases.front().columns, image_bytes);
  for (const Tcgen05Machine& machine : cases) {
    using enum Tcgen05Words32;
    const Tcgen05Registers& registers = machine.registers;
    inputs.add(machine.smem, machine.tmem, machine.columns);
    inputs.word(Tcgen05Words64::a_desc) = registers.a_desc;
    inputs.word(Tcgen05Words64::b_desc) = registers.b_desc;
    inputs.word(Tcgen05Words64::zero_column_mask) = registers.zero_column_mask.value_or(0);
    inputs.word(idesc) = idesc_of(instruction);
    inputs.word(d_tmem) = registers.d_tmem;
    inputs.word(a_tmem) = registers.a_tmem;
    inputs.word(metadata_tmem) = registers.metadata_tmem;
    inputs.word(scale_a_tmem) = registers.scale_a_tmem;
    inputs.word(scale_b_tmem) = registers.scale_b_tmem;
    inputs.word(enable_input_d) = static_cast<uint32_t>(instruction.scale_d);
    for (int i = 0; i < 8; ++i) inputs.word(lane_masks, i) = registers.disable_output_lane[static_cast<size_t>(i)];
  }
  const std::string ptx = tcgen05_kernel(instruction, image_bytes, inputs.columns, own_target());
  std::vector<std::vector<uint32_t>> results =
      pieces_of(launch(ptx, cases.size() * static_cast<size_t>(instruction.cta_group), image_bytes, inputs.inputs(),
                       inputs.tmem.size()),
                cases.size());
  for (std::vector<uint32_t>& result : results) result = without_padding(result, inputs.columns, cases.front().columns);
  return results;
}

std::vector<std::vector<uint32_t>> Gpu::run(const TmemMove& move, std::span<const TmemMoveMachine> cases) {
  require_target(std::array<std::string_view, 2>{"sm_100a", "sm_103a"}, print(move));
  const int64_t image_bytes = largest_image(cases);
  Tcgen05Inputs inputs(move.cta_group, cases.front().columns, image_bytes);
  for (const TmemMoveMachine& machine : cases) {
    inputs.add(machine.smem, machine.tmem, machine.columns);
    inputs.word(Tcgen05Words64::a_desc) = machine.s_desc;
    inputs.word(Tcgen05Words32::taddr) = machine.taddr;
    inputs.word(Tcgen05Words32::warp) = static_cast<uint32_t>(machine.warp);
    inputs.regs.insert(inputs.regs.end(), machine.regs.begin(), machine.regs.end());
  }
  const bool is_ld = move.kind == MoveKind::ld;
  const size_t words = is_ld ? cases.size() * 32 * static_cast<size_t>(move.ldst.registers()) : inputs.tmem.size();
  const std::string ptx = tcgen05_kernel(move, image_bytes, inputs.columns, own_target());
  std::vector<std::vector<uint32_t>> results =
      pieces_of(launch(ptx, cases.size() * static_cast<size_t>(move.cta_group), image_bytes, inputs.inputs(), words),
                cases.size());
  for (std::vector<uint32_t>& result : results) {
    if (!is_ld) result = without_padding(result, inputs.columns, cases.front().columns);
  }
  return results;
}

}  // namespace bitmma
