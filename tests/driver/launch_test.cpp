// Launches: parameters in all forms, faults, clusters; how many blocks are resident.
#include "driver/api.hpp"

using namespace bitmma::driver;
using namespace bitmma::driver::test;

namespace {

constexpr unsigned count = 1000;

struct Sum {
  CUmodule module = load(add_ptx);
  CUfunction add = function_of(module, "add");
  CUdeviceptr x = upload(std::vector<float>(count, 1.5F)), y = upload(std::vector<float>(count, 2.25F));
  unsigned n = count;

  std::vector<void*> parameters() { return {&x, &y, &n}; }
};

}  // namespace

TEST_CASE("a kernel gets its parameters by pointers, or as bytes") {
  const TestContext context;
  Sum sum;
  CHECK(launch(sum.add, 8, 128, sum.parameters()) == CUDA_SUCCESS);
  CHECK(download<float>(sum.y, count) == std::vector<float>(count, 3.75F));
  struct {
    CUdeviceptr x, y;
    unsigned n, padding;
  } bytes{sum.x, sum.y, 1, 0};
  size_t size = sizeof bytes;
  void* extra[]{CU_LAUNCH_PARAM_BUFFER_POINTER, &bytes, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  const auto launch_extra = [&] {
    return call("cuLaunchKernel", sum.add, 8U, 1U, 1U, 128U, 1U, 1U, 0U, CUstream{}, static_cast<void**>(nullptr),
                static_cast<void**>(extra));
  };
  CHECK(launch_extra() == CUDA_SUCCESS);
  CHECK(download<float>(sum.y, 2) == std::vector<float>{5.25F, 3.75F});
  size = 16;
  CHECK(launch_extra() == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a structure by value, and shared memory whose size the launch says") {
  const TestContext context;
  const CUmodule module = load(other_ptx);
  const CUdeviceptr out = upload(std::vector<unsigned>{0, 0});
  struct {
    CUdeviceptr to;
    unsigned value;
  } pair{out, 77};
  CHECK(launch(function_of(module, "take"), 1, 1, {&pair}) == CUDA_SUCCESS);
  CHECK(download<unsigned>(out, 1)[0] == 77);
  CUdeviceptr second = out + 4;
  CHECK(launch(function_of(module, "dynamic"), 1, 1, {&second}, 4096) == CUDA_SUCCESS);
  CHECK(download<unsigned>(out, 2)[1] == 4096);
  const CUfunction dynamic = function_of(module, "dynamic");
  CHECK(launch(dynamic, 1, 1, {&second}, 64 << 10) == CUDA_ERROR_INVALID_VALUE);
  CHECK(call("cuFuncSetAttribute", dynamic, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10) == CUDA_SUCCESS);
  CHECK(launch(dynamic, 1, 1, {&second}, 64 << 10) == CUDA_SUCCESS);
}

TEST_CASE("cuLaunchKernelEx takes clusters and cooperative launches, and ignores advice") {
  const TestContext context;
  const CUmodule module = load(other_ptx);
  CUdeviceptr out = upload(std::vector<unsigned>(8, 99));
  CUlaunchAttribute attributes[3]{};
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attributes[0].value.clusterDim = {4, 1, 1};
  attributes[1].id = static_cast<CUlaunchAttributeID>(6);  // programmatic stream serialization
  attributes[2].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  CUlaunchConfig config{8, 1, 1, 1, 1, 1, 0, nullptr, attributes, 3};
  void* parameters[]{&out};
  const auto run = [&] {
    return call("cuLaunchKernelEx", static_cast<const CUlaunchConfig*>(&config), function_of(module, "rank"),
                static_cast<void**>(parameters), static_cast<void**>(nullptr));
  };
  CHECK(run() == CUDA_SUCCESS);
  CHECK(download<unsigned>(out, 8) == std::vector<unsigned>{0, 1, 2, 3, 0, 1, 2, 3});
  attributes[2].value.cooperative = 1;
  CHECK(run() == CUDA_SUCCESS);
  config.gridDimX = 16;
  attributes[2].value.cooperative = 0;
  attributes[0].value.clusterDim = {16, 1, 1};
  CUdeviceptr ranks = upload(std::vector<unsigned>(16, 99));
  parameters[0] = &ranks;
  CHECK(run() == CUDA_ERROR_INVALID_CLUSTER_SIZE);
  CHECK(call("cuFuncSetAttribute", function_of(module, "rank"), CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
             1) == CUDA_SUCCESS);
  CHECK(run() == CUDA_SUCCESS);
  CHECK(download<unsigned>(ranks, 16)[15] == 15);
  attributes[0].value.clusterDim = {32, 1, 1};
  CHECK(run() == CUDA_ERROR_INVALID_CLUSTER_SIZE);
  attributes[2].value.cooperative = 1;
  attributes[0].value.clusterDim = {1, 1, 1};
  config.gridDimX = 132 * 32 + 1;
  CHECK(run() == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

TEST_CASE("a launch of a wrong shape changes nothing, and the context goes on") {
  const TestContext context;
  const CUmodule module = load(other_ptx);
  const CUfunction nothing = function_of(module, "nothing"), bounded = function_of(module, "bounded");
  CHECK(launch(nothing, 0, 32) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(nothing, 1, 2048) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(nothing, 1, 32, {}, 300 << 10) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(bounded, 1, 128) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(reinterpret_cast<CUfunction>(module), 1, 32) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(launch(bounded, 1, 64) == CUDA_SUCCESS);
}

TEST_CASE("a fault has CUDA's code, and ends its context alone") {
  struct Case {
    const char* kernel;
    CUresult result;
    unsigned block = 64;
    bool stores = false;
    uint64_t offset = 0;
  };
  for (const Case& each :
       {Case{"store", CUDA_ERROR_ILLEGAL_ADDRESS, 1, true, 8}, Case{"store", CUDA_ERROR_MISALIGNED_ADDRESS, 1, true, 2},
        Case{"stop", CUDA_ERROR_LAUNCH_FAILED}, Case{"race", CUDA_ERROR_LAUNCH_FAILED},
        Case{"wait", CUDA_ERROR_LAUNCH_TIMEOUT}, Case{"assert_nothing", CUDA_ERROR_ASSERT}}) {
    INFO(each.kernel << " " << each.offset);
    const TestContext other;
    const TestContext context;
    const CUmodule module = load(other_ptx);
    CUdeviceptr to = allocate(8) + each.offset;
    unsigned value = 1;
    const std::vector<void*> parameters = each.stores ? std::vector<void*>{&to, &value} : std::vector<void*>{};
    CHECK(launch(function_of(module, each.kernel), 1, each.block, parameters) == each.result);
    CHECK(call("cuCtxSynchronize") == each.result);
    CUdeviceptr address = 0;
    CHECK(call("cuMemAlloc_v2", &address, size_t{8}) == each.result);
    CUcontext current = nullptr;
    call("cuCtxPopCurrent_v2", &current);
    CHECK(call("cuMemAlloc_v2", &address, size_t{8}) == CUDA_SUCCESS);
    call("cuCtxPushCurrent_v2", current);
  }
}

TEST_CASE("what a kernel computes from memory that nothing wrote is reported, unless the host wrote it") {
  const auto report = [] {
    std::string text(size_t{1} << 20, ' ');
    const auto write = reinterpret_cast<size_t (*)(char*, size_t)>(symbol("bitmma_exec_report"));
    text.resize(std::min(write(text.data(), text.size()), text.size()));
    return text;
  };
  const TestContext context;
  Sum sum;
  sum.x = allocate(4 * count);
  CHECK(call("cuMemsetD32_v2", sum.x, 0U, size_t{count}) == CUDA_SUCCESS);
  CHECK(launch(sum.add, 8, 128, sum.parameters()) == CUDA_SUCCESS);
  const CUdeviceptr unwritten = allocate(4 * count);
  CHECK(call("cuMemcpyDtoD_v2", sum.x, unwritten, size_t{4 * count}) == CUDA_SUCCESS);
  const std::string before = report();
  CHECK(launch(sum.add, 8, 128, sum.parameters()) == CUDA_SUCCESS);
  CHECK(before.find("has not been written") == std::string::npos);
  CHECK(report().find("has not been written") != std::string::npos);
}

TEST_CASE("resident blocks follow from threads and shared memory") {
  const TestContext context;
  const CUfunction nothing = function_of(load(other_ptx), "nothing");
  const auto resident = [&](int threads, size_t bytes) {
    int blocks = -1;
    CHECK(call("cuOccupancyMaxActiveBlocksPerMultiprocessor", &blocks, nothing, threads, bytes) == CUDA_SUCCESS);
    return blocks;
  };
  CHECK(resident(1024, 0) == 2);
  CHECK(resident(32, 0) == 32);
  CHECK(resident(128, 100 << 10) == 2);
  CHECK(resident(128, 228 << 10) == 0);
  int grid = 0, block = 0;
  CHECK(call("cuOccupancyMaxPotentialBlockSize", &grid, &block, nothing, CUoccupancyB2DSize{}, size_t{0}, 0) ==
        CUDA_SUCCESS);
  CHECK((grid == 264 && block == 1024));
}
