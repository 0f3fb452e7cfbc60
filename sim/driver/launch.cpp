// SPDX-License-Identifier: MIT
// Launches of kernels, and the answers about how many blocks a multiprocessor holds.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "bitmma/core/interrupt.hpp"
#include "driver.hpp"

namespace bitmma::driver {
namespace {

int64_t nanoseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin).count();
}

/// What CUDA calls a fault of a kernel; nothing for a launch that was refused.
std::optional<CUresult> result_of_fault(ViolationCode code) {
  switch (code) {
    case ViolationCode::out_of_bounds: return CUDA_ERROR_ILLEGAL_ADDRESS;
    case ViolationCode::misaligned: return CUDA_ERROR_MISALIGNED_ADDRESS;
    case ViolationCode::deadlock: return CUDA_ERROR_LAUNCH_TIMEOUT;
    case ViolationCode::failed_assertion: return CUDA_ERROR_ASSERT;
    case ViolationCode::unwritten_read:
    case ViolationCode::shared_memory_race:
    case ViolationCode::kernel_trap:
    case ViolationCode::undefined_by_ptx: return CUDA_ERROR_LAUNCH_FAILED;
    default: return std::nullopt;
  }
}

CUresult result_of_refusal(const Violation& violation, bool is_cooperative) {
  switch (violation.code) {
    case ViolationCode::unsupported_ptx:
    case ViolationCode::missing_argument: return CUDA_ERROR_NOT_SUPPORTED;
    case ViolationCode::too_large:
      return is_cooperative ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    default: return violation.field == "cluster" ? CUDA_ERROR_INVALID_CLUSTER_SIZE : CUDA_ERROR_INVALID_VALUE;
  }
}

/// Throws Failure, and reports why, for what a kernel may do only after its program has asked for it.
void require_allowed(Driver& driver, Function& function, const Launch& launch) {
  const auto refuse = [&](std::string field, std::string seen, std::string expected, std::string fix, CUresult result) {
    driver.report.add_fault(
        function.info.name,
        {{.field = std::move(field), .seen = std::move(seen), .expected = std::move(expected), .fix = std::move(fix)}},
        result);
    throw Failure{result};
  };
  const int most_shared = function_attribute(driver, function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  if (launch.dynamic_shared_bytes > most_shared)
    refuse("dynamic shared memory", fmt::format("{} bytes", launch.dynamic_shared_bytes),
           fmt::format("at most {}", most_shared),
           "the program may raise it by CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, as cudaFuncSetAttribute does",
           CUDA_ERROR_INVALID_VALUE);
  constexpr int64_t portable_blocks = 8;
  const std::array<int64_t, 3> cluster = launch.cluster.value_or(std::array<int64_t, 3>{1, 1, 1});
  if (const int64_t blocks = cluster[0] * cluster[1] * cluster[2];
      blocks > portable_blocks &&
      function_attribute(driver, function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) == 0)
    refuse("cluster", fmt::format("{} blocks", blocks), fmt::format("at most {}", portable_blocks),
           "the program may allow more by CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED",
           CUDA_ERROR_INVALID_CLUSTER_SIZE);
}

/// A line on a terminal while a launch takes more than a second.
class Progress {
 public:
  explicit Progress(const std::string& kernel) : kernel_(kernel) {}
  ~Progress() {
    if (is_shown_) std::fputs("\r\033[K", stderr);
  }
  void operator()() {
    static const bool is_terminal = isatty(STDERR_FILENO) != 0;
    const auto seconds = static_cast<int>(nanoseconds_since(begin_) / 1'000'000'000);
    if (!is_terminal || seconds <= shown_seconds_) return;
    shown_seconds_ = seconds;
    is_shown_ = true;
    std::fputs(fmt::format("\r\033[Kbitmma exec: {}, {} s", kernel_, seconds).c_str(), stderr);
  }

 private:
  const std::string& kernel_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int shown_seconds_ = 0;
  bool is_shown_ = false;
};

}  // namespace

std::vector<uint8_t> bytes_of_parameters(const PtxEntryInfo& info, const LaunchCall& call) {
  std::vector<uint8_t> bytes(static_cast<size_t>(info.parameter_bytes()));
  if (call.parameters) {
    for (size_t i = 0; i < info.parameters.size(); ++i) {
      const PtxParameter& parameter = info.parameters[i];
      require_pointer(call.parameters[i]);
      std::memcpy(bytes.data() + parameter.offset, call.parameters[i], static_cast<size_t>(parameter.bytes));
    }
    return bytes;
  }
  const void* buffer = nullptr;
  size_t size = 0;
  for (void** word = call.extra; word && *word != CU_LAUNCH_PARAM_END; word += 2) {
    if (*word == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = word[1];
    else if (*word == CU_LAUNCH_PARAM_BUFFER_SIZE) size = *static_cast<const size_t*>(word[1]);
    else throw Failure{CUDA_ERROR_INVALID_VALUE};
  }
  require(size >= bytes.size() && (buffer || bytes.empty()), CUDA_ERROR_INVALID_VALUE);
  if (!bytes.empty()) std::memcpy(bytes.data(), buffer, bytes.size());
  return bytes;
}

void launch_kernel(Driver& driver, Context& context, Function& function, LaunchCall call) {
  const std::string& name = function.info.name;
  Launch& launch = call.launch;
  launch.parameter_bytes = bytes_of_parameters(function.info, call);
  launch.memory = &driver.memory;
  launch.threads = driver.settings.threads;
  launch.checks = driver.settings.checks;
  launch.races = driver.settings.races;
  launch.clock = driver.settings.clock.value_or(0);
  const PtxEntry& entry = decoded(driver, function);
  require_allowed(driver, function, launch);
  const auto begin = std::chrono::steady_clock::now();
  try {
    if (driver.recorder) driver.recorder->begin(function.module->text, function.module->ptx, function.info, launch);
    Progress progress(name);
    const InterruptScope scope([&] { progress(); });
    const LaunchReport done = bitmma::launch(entry, launch);
    if (!done.printed.empty()) std::fputs(done.printed.c_str(), stdout), std::fflush(stdout);
    if (driver.recorder) driver.recorder->end(driver.memory, true);
    driver.report.add_launch(name, done.thread_instructions, nanoseconds_since(begin));
    for (const Violation& warning : done.warnings) driver.report.add_warning(name, warning);
  } catch (const Error& error) {
    if (driver.recorder) driver.recorder->end(driver.memory, false);
    const Violation& first = error.violations().front();
    const std::optional<CUresult> fault = result_of_fault(first.code);
    const CUresult result = fault ? *fault : result_of_refusal(first, launch.cooperative);
    driver.report.add_fault(name, error.violations(), result);
    if (fault) {
      driver.report.add_launch(name, 0, nanoseconds_since(begin));
      context.fault = result;
    }
    throw Failure{result};
  }
}

}  // namespace bitmma::driver

using namespace bitmma::driver;

namespace {

CUresult launch(CUfunction function, const LaunchCall& call, CUstream stream) {
  return in_context([&](Driver& driver, Context& context) {
    if (const Capture* const capture = capture_of(driver, stream)) {
      GraphNode& node = add_kernel_node(driver, *capture->graph, stream->dependencies, driver.function(function), call);
      stream->dependencies = {{.from = &node}};
    } else {
      launch_kernel(driver, context, driver.function(function), call);
    }
  });
}

bitmma::Launch shape(unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                     unsigned block_z, unsigned shared_bytes) {
  return {.grid = {grid_x, grid_y, grid_z}, .block = {block_x, block_y, block_z}, .dynamic_shared_bytes = shared_bytes};
}

/// The blocks of a kernel that a multiprocessor holds, as far as their threads and shared memory limit them: bitmma
/// does not know the registers that ptxas would take.
int resident_blocks(Driver& driver, Function& function, int threads, size_t dynamic_bytes) {
  const auto limit = [&](AttributeId id) { return *attribute(driver.gpu, id); };
  require(threads > 0, CUDA_ERROR_INVALID_VALUE);
  if (threads > limit(max_threads_of_block)) return 0;
  const int64_t shared = decoded(driver, function).shared_bytes() + static_cast<int64_t>(dynamic_bytes);
  if (shared > limit(shared_of_block_optin)) return 0;
  const int warps = (threads + 31) / 32;
  return static_cast<int>(
      std::min<int64_t>({limit(blocks_of_multiprocessor), limit(threads_of_multiprocessor) / 32 / warps,
                         limit(shared_of_multiprocessor) / (shared + limit(reserved_shared_of_block))}));
}

CUresult count_resident_blocks(int* count, CUfunction function, int threads, size_t dynamic_bytes) {
  return in_context([&](Driver& driver, Context&) {
    require_pointer(count);
    *count = resident_blocks(driver, driver.function(function), threads, dynamic_bytes);
  });
}

CUresult best_block(int* grid, int* block, CUfunction handle, CUoccupancyB2DSize bytes_of_block, size_t dynamic_bytes,
                    int most_threads) {
  return in_context([&](Driver& driver, Context&) {
    require_pointer(grid), require_pointer(block);
    Function& function = driver.function(handle);
    const int most = most_threads > 0 ? std::min(most_threads, 1024) : 1024;
    int best_threads = 0;
    for (int threads = most; threads >= 32; threads -= 32) {
      const size_t bytes = bytes_of_block ? bytes_of_block(threads) : dynamic_bytes;
      const int blocks = resident_blocks(driver, function, threads, bytes);
      if (blocks * threads <= best_threads) continue;
      best_threads = blocks * threads;
      *block = threads;
      *grid = blocks * *attribute(driver.gpu, multiprocessors);
    }
    require(best_threads > 0, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  });
}

}  // namespace

extern "C" {

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** parameters,
                        void** extra) {
  return launch(function,
                {.launch = shape(grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes),
                 .parameters = parameters,
                 .extra = extra},
                stream);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                   CUstream stream, void** parameters) {
  LaunchCall call{.launch = shape(grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes),
                  .parameters = parameters};
  call.launch.cooperative = true;
  return launch(function, call, stream);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  LaunchCall call{.launch = shape(config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                                  config->blockDimY, config->blockDimZ, config->sharedMemBytes),
                  .parameters = parameters,
                  .extra = extra};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    const auto& cluster = attribute.value.clusterDim;
    // The others are advice, or order launches, which run one after the other here.
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) call.launch.cooperative = attribute.value.cooperative != 0;
    else if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      call.launch.cluster = {cluster.x, cluster.y, cluster.z};
  }
  return launch(function, call, config->hStream);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* count, CUfunction function, int threads,
                                                     size_t dynamic_bytes) {
  return count_resident_blocks(count, function, threads, dynamic_bytes);
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* count, CUfunction function, int threads,
                                                              size_t dynamic_bytes, unsigned) {
  return count_resident_blocks(count, function, threads, dynamic_bytes);
}

CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function, CUoccupancyB2DSize bytes_of_block,
                                          size_t dynamic_bytes, int most_threads) {
  return best_block(grid, block, function, bytes_of_block, dynamic_bytes, most_threads);
}
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction function,
                                                   CUoccupancyB2DSize bytes_of_block, size_t dynamic_bytes,
                                                   int most_threads, unsigned) {
  return best_block(grid, block, function, bytes_of_block, dynamic_bytes, most_threads);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction handle, int blocks, int threads) {
  return in_context([&](Driver& driver, Context&) {
    require_pointer(bytes);
    require(blocks > 0 && threads > 0, CUDA_ERROR_INVALID_VALUE);
    const int64_t own = decoded(driver, driver.function(handle)).shared_bytes(),
                  room = *attribute(driver.gpu, shared_of_multiprocessor) / blocks -
                         *attribute(driver.gpu, reserved_shared_of_block);
    const int allowed =
        function_attribute(driver, driver.function(handle), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    *bytes = static_cast<size_t>(std::clamp<int64_t>(room - own, 0, allowed));
  });
}

CUresult cuOccupancyMaxActiveClusters(int* count, CUfunction handle, const CUlaunchConfig* config) {
  return in_context([&](Driver& driver, Context&) {
    require_pointer(count), require_pointer(config);
    const int threads = static_cast<int>(config->blockDimX * config->blockDimY * config->blockDimZ);
    int64_t cluster = 1;
    for (unsigned i = 0; i < config->numAttrs; ++i) {
      const auto& shape = config->attrs[i].value.clusterDim;
      if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) cluster = int64_t{shape.x} * shape.y * shape.z;
    }
    require(cluster > 0, CUDA_ERROR_INVALID_VALUE);
    *count = static_cast<int>(resident_blocks(driver, driver.function(handle), threads, config->sharedMemBytes) *
                              *attribute(driver.gpu, multiprocessors) / cluster);
  });
}

CUresult cuOccupancyMaxPotentialClusterSize(int* size, CUfunction handle, const CUlaunchConfig*) {
  return in_context([&](Driver& driver, Context&) {
    require_pointer(size);
    const auto set = driver.function(handle).attributes.find(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
    *size = set != driver.function(handle).attributes.end() && set->second != 0 ? 16 : 8;
  });
}

}  // extern "C"
