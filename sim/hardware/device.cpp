// SPDX-License-Identifier: MIT
#include "bitmma/hardware/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <mutex>

#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/hardware/ptx_kernel.hpp"
#include "bitmma/hardware/word_campaign.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "driver.hpp"

namespace bitmma {

struct Gpu::Device {
  driver::Api api = driver::load_api();
  int number = 0;
  driver::Context* context = nullptr;
  std::string name;
  int cuda_version = 0;
  int capability = 0;
  int64_t max_shared_bytes = 0;
  std::mutex mutex;
  std::vector<Violation> refused = {};  // under the mutex: calls in which the driver did not free something

  void require(driver::Result result, std::string_view what) const { driver::require(api, result, what); }
  int attribute(driver::DeviceAttribute which) const {
    int value = 0;
    require(api.device_get_attribute(&value, which, number), "cuDeviceGetAttribute");
    return value;
  }
  void note(const std::vector<Violation>& violations) {
    const std::lock_guard lock(mutex);
    for (const Violation& violation : violations) {
      if (std::ranges::find(refused, violation.field, &Violation::field) == refused.end()) refused.push_back(violation);
    }
  }
};

Gpu::Gpu(int ordinal) : device_(std::make_unique<Device>()) {
  Device& device = *device_;
  device.require(device.api.init(0), "cuInit");
  int count = 0;
  device.require(device.api.device_get_count(&count), "cuDeviceGetCount");
  if (ordinal < 0 || ordinal >= count) {
    throw Error({.field = "GPU device",
                 .seen = std::to_string(ordinal),
                 .expected = count > 0 ? fmt::format("0..{}", count - 1) : "a machine with an NVIDIA GPU"});
  }
  device.require(device.api.device_get(&device.number, ordinal), "cuDeviceGet");
  std::array<char, 256 + 1> name{};  // the last byte stays 0, whatever the driver writes
  device.require(device.api.device_get_name(name.data(), static_cast<int>(name.size()) - 1, device.number),
                 "cuDeviceGetName");
  device.name = printable(name.data());
  if (device.name.empty()) device.name = "GPU without a name";
  device.require(device.api.driver_get_version(&device.cuda_version), "cuDriverGetVersion");
  const int major = device.attribute(driver::compute_capability_major);
  const int minor = device.attribute(driver::compute_capability_minor);
  if (major < 1 || major > 99 || minor < 0 || minor > 9) {
    throw Error({.code = ViolationCode::gpu_failed,
                 .field = "GPU: compute capability",
                 .seen = fmt::format("{}.{}", major, minor),
                 .expected = "1.0..99.9",
                 .fix = "nvidia-smi shows whether the driver is intact"});
  }
  device.capability = 10 * major + minor;
  device.max_shared_bytes = device.attribute(driver::max_shared_bytes_opt_in);
  device.require(device.api.primary_context_retain(&device.context, device.number), "cuDevicePrimaryCtxRetain");
}

Gpu::~Gpu() {
  if (device_->context) device_->api.primary_context_release(device_->number);
}

std::vector<Violation> Gpu::close() {
  Device& device = *device_;
  if (device.context) {
    device.context = nullptr;
    const driver::Result result = device.api.primary_context_release(device.number);
    if (result != 0) device.note({driver::violation_of(device.api, result, "cuDevicePrimaryCtxRelease")});
  }
  return as_warnings(device.refused);
}

std::string Gpu::name() const { return device_->name; }
std::string Gpu::driver_version() const { return driver::read_version(); }
std::string Gpu::cuda_version() const {
  return fmt::format("{}.{}", device_->cuda_version / 1000, device_->cuda_version % 1000 / 10);
}
int Gpu::capability() const { return device_->capability; }
Executor Gpu::executor() const {
  return [this](const Instruction& instruction, Target target, std::span<const State> cases) {
    return run(instruction, target, cases);
  };
}

namespace {

/// "sm_90" for sm_90a.
std::string_view without_letter(Target target) {
  const std::string_view name = print(target);
  return name.substr(0, name.find_last_of("0123456789") + 1);
}

/// A target means one generation: another GPU may lack the instruction, or compute other bits.
void require_target(const Gpu& gpu, const Instruction& instruction, Target target) {
  const std::string own = fmt::format("sm_{}", gpu.capability());
  if (without_letter(target) == own) return;
  const TargetSet targets = targets_of(instruction);
  const std::optional<Target> of_gpu = target_named(own + "a");
  const bool exists = of_gpu && targets.contains(*of_gpu);
  throw Error({.code = ViolationCode::unsupported_target,
               .field = "GPU",
               .seen = fmt::format("{} ({})", gpu.name(), own),
               .expected = exists ? std::string(print(target)) : print(targets),
               .fix = exists ? "the cases are for that target" : print(instruction) + " exists there only"});
}

}  // namespace

std::vector<State> Gpu::run(const Instruction& instruction, Target target, std::span<const State> cases) const {
  require_legal(instruction, target);
  require_target(*this, instruction, target);
  if (reads_kept_operand(instruction)) {
    throw Error({.field = "collector",
                 .seen = print(instruction),
                 .expected = "fill, discard or none: in this kernel no earlier instruction keeps an operand",
                 .source = "PTX ISA 9.7.16.10.9.1"});
  }
  if (cases.empty()) return {};
  KernelShape shape = kernel_shape_of(cases);
  shape.target = target;
  const Kernel kernel = ptx_kernel(instruction, shape);
  return launch_results(kernel, cases, launch(kernel, launch_inputs(kernel, cases), cases.size(), print(instruction)));
}

std::vector<uint32_t> Gpu::run(const WordFunction& function, const WordArguments& arguments) const {
  if (arguments.count == 0) return {};
  const bool with_arrays = !arguments.a.empty();
  const std::optional<Target> target = target_of(*this);
  if (!target)
    throw Error({.code = ViolationCode::unsupported_target,
                 .field = "GPU",
                 .seen = name(),
                 .expected = "a GPU that this version knows"});
  const Kernel kernel = word_kernel(function, *target, with_arrays);
  const size_t ctas = (arguments.count + kernel_threads - 1) / kernel_threads;
  std::vector<std::vector<uint8_t>> inputs;
  const auto add = [&](const void* words, size_t count, size_t padded) {
    std::vector<uint8_t>& bytes = inputs.emplace_back(4 * padded);
    std::memcpy(bytes.data(), words, 4 * count);
  };
  if (with_arrays) {
    for (const std::vector<uint32_t>* operand : {&arguments.a, &arguments.b, &arguments.c}) {
      if (inputs.size() == static_cast<size_t>(function.operands)) break;
      if (operand->size() != arguments.count) {
        throw Error({.code = ViolationCode::wrong_shape,
                     .field = fmt::format("operand {} of {}", inputs.size() + 1, function.name),
                     .seen = fmt::format("{} words", operand->size()),
                     .expected = fmt::format("{} words", arguments.count)});
      }
      add(operand->data(), arguments.count, ctas * kernel_threads);
    }
  } else {
    add(&arguments.first, 1, 1);
  }
  const std::vector<uint8_t> output = launch(kernel, inputs, ctas, function.name);
  std::vector<uint32_t> results(arguments.count);
  std::memcpy(results.data(), output.data(), 4 * results.size());
  return results;
}

std::vector<uint8_t> Gpu::launch(const Kernel& kernel, const std::vector<std::vector<uint8_t>>& inputs, size_t cases,
                                 std::string_view what) const {
  Device& device = *device_;
  const driver::Api& api = device.api;
  if (!device.context)
    throw Error({.code = ViolationCode::gpu_failed, .field = "GPU", .seen = "closed", .expected = "an open Gpu"});
  const int64_t image_bytes = kernel.shape.image_bytes, shared_bytes = kernel_shared_bytes(image_bytes);
  if (shared_bytes > device.max_shared_bytes) {
    throw Error({.code = ViolationCode::too_large,
                 .field = "shared memory of a CTA on this GPU",
                 .seen = fmt::format("{} bytes", device.max_shared_bytes),
                 .expected = fmt::format("{} bytes or more: {} for the image, {} for the kernel", shared_bytes,
                                         kernel_image_stride(image_bytes), kernel_shared_bytes(0))});
  }
  device.require(api.context_set_current(device.context), "cuCtxSetCurrent");
  driver::Launch resources(api);
  std::array<char, 4096 + 1> log{};  // the last byte stays 0, whatever the driver writes
  std::array<int, 2> options{driver::error_log_buffer, driver::error_log_buffer_bytes};
  std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size() - 1)};
  const driver::Result loaded =
      api.module_load_data(&resources.module, kernel.text.c_str(), 2, options.data(), values.data());
  if (loaded != 0) {
    Violation violation = driver::violation_of(api, loaded, "cuModuleLoadDataEx");
    std::string text = log.data();
    while (text.ends_with('\n')) text.pop_back();
    violation.seen += text.empty() ? ", without a log" : fmt::format("; its log: {}", text);
    violation.fix = fmt::format("{}; the kernel was made for {}", violation.fix, what);
    throw Error(std::move(violation));
  }
  driver::Function* function = nullptr;
  device.require(api.module_get_function(&function, resources.module, kernel.entry.c_str()), "cuModuleGetFunction");
  device.require(api.function_set_attribute(function, driver::max_dynamic_shared_bytes, static_cast<int>(shared_bytes)),
                 "cuFuncSetAttribute");
  device.require(api.stream_create(&resources.stream, 1), "cuStreamCreate");

  std::vector<driver::DevicePointer> pointers;
  for (const std::vector<uint8_t>& input : inputs) {
    pointers.push_back(resources.allocate(input.size()));
    if (input.empty()) continue;
    device.require(api.copy_to_device(pointers.back(), input.data(), input.size(), resources.stream),
                   "cuMemcpyHtoDAsync");
  }
  std::vector<uint8_t> output(static_cast<size_t>(kernel.output.bytes_per_case) * cases);
  pointers.push_back(resources.allocate(output.size()));
  std::vector<void*> parameters;
  for (driver::DevicePointer& pointer : pointers) parameters.push_back(&pointer);
  // A kernel's compiler may add pointer parameters, which may be null; other kernels do not read these two.
  driver::DevicePointer null = 0;
  parameters.insert(parameters.end(), {&null, &null});
  device.require(
      api.launch(function, static_cast<unsigned>(cases) * static_cast<unsigned>(kernel.ctas), 1, 1, kernel_threads, 1,
                 1, static_cast<unsigned>(shared_bytes), resources.stream, parameters.data(), nullptr),
      "cuLaunchKernel");
  device.require(api.copy_to_host(output.data(), pointers.back(), output.size(), resources.stream),
                 "cuMemcpyDtoHAsync");
  device.require(api.stream_synchronize(resources.stream), "cuStreamSynchronize after the kernel");
  device.note(resources.release());
  return output;
}

std::optional<Target> target_of(const Gpu& gpu) {
  for (const char* letter : {"a", ""}) {
    if (const auto target = target_named(fmt::format("sm_{}{}", gpu.capability(), letter))) return target;
  }
  return std::nullopt;
}

std::vector<std::pair<std::string, std::string>> provenance_of(const Gpu& gpu) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return {{"driver", gpu.driver_version()},
          {"cuda", gpu.cuda_version()},
          {"date", fmt::format("{:04}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday)}};
}

}  // namespace bitmma
