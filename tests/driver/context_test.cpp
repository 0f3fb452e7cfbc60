// Devices and contexts.
#include "driver/api.hpp"
#include "driver/attributes.hpp"

using namespace bitmma::driver;
using test::call, test::TestContext;

TEST_CASE("the device is an H100: name, attributes, memory") {
  REQUIRE(call("cuInit", 0U) == CUDA_SUCCESS);
  int count = 0, device = -1, version = 0;
  CHECK(call("cuDeviceGetCount", &count) == CUDA_SUCCESS);
  CHECK(count == 1);
  CHECK(call("cuDeviceGet", &device, 0) == CUDA_SUCCESS);
  CHECK(device == 0);
  CHECK(call("cuDeviceGet", &device, 1) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(call("cuDriverGetVersion", &version) == CUDA_SUCCESS);
  CHECK(version == cuda_version);
  char name[64] = {};
  CHECK(call("cuDeviceGetName", name, 64, 0) == CUDA_SUCCESS);
  CHECK(std::string(name) == "NVIDIA H100 80GB HBM3");
  CHECK(call("cuDeviceGetName", name, 7, 0) == CUDA_SUCCESS);
  CHECK(std::string(name) == "NVIDIA");
  const auto get = [](int id) {
    int value = -1;
    CHECK(call("cuDeviceGetAttribute", &value, id, 0) == CUDA_SUCCESS);
    return value;
  };
  CHECK(get(major_capability) == 9);
  CHECK(get(multiprocessors) == 132);
  CHECK(get(l2_bytes) == 50 << 20);
  CHECK(get(shared_of_block_optin) == 227 << 10);
  int value = 0;
  CHECK(call("cuDeviceGetAttribute", &value, 5000, 0) == CUDA_ERROR_INVALID_VALUE);
  size_t bytes = 0;
  CHECK(call("cuDeviceTotalMem_v2", &bytes, 0) == CUDA_SUCCESS);
  CHECK(bytes == size_t{1} << 30);  // the limit
}

TEST_CASE("the device has an attribute of each number up to 147") {
  REQUIRE(call("cuInit", 0U) == CUDA_SUCCESS);
  int value = 0;
  for (int id = 1; id <= 147; ++id) CHECK(call("cuDeviceGetAttribute", &value, id, 0) == CUDA_SUCCESS);
  CHECK(call("cuDeviceGetAttribute", &value, 148, 0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a thread has a stack of contexts") {
  const TestContext first, second;
  CUcontext current = nullptr;
  CHECK(call("cuCtxGetCurrent", &current) == CUDA_SUCCESS);
  CHECK(current == second.get());
  CHECK(call("cuCtxPopCurrent_v2", &current) == CUDA_SUCCESS);
  CHECK(current == second.get());
  CHECK(call("cuCtxGetCurrent", &current) == CUDA_SUCCESS);
  CHECK(current == first.get());
  CHECK(call("cuCtxPushCurrent_v2", second.get()) == CUDA_SUCCESS);
  CHECK(call("cuCtxSetCurrent", first.get()) == CUDA_SUCCESS);
  CHECK(call("cuCtxSetCurrent", reinterpret_cast<CUcontext>(&current)) == CUDA_ERROR_INVALID_CONTEXT);
  unsigned long long one = 0, other = 0;
  CHECK(call("cuCtxGetId", first.get(), &one) == CUDA_SUCCESS);
  CHECK(call("cuCtxGetId", second.get(), &other) == CUDA_SUCCESS);
  CHECK(one != other);
}

TEST_CASE("the primary context is one for all who retain it, and its memory ends with it") {
  REQUIRE(call("cuInit", 0U) == CUDA_SUCCESS);
  CUcontext one = nullptr, other = nullptr;
  CHECK(call("cuDevicePrimaryCtxRetain", &one, 0) == CUDA_SUCCESS);
  CHECK(call("cuDevicePrimaryCtxRetain", &other, 0) == CUDA_SUCCESS);
  CHECK(one == other);
  CHECK(call("cuCtxSetCurrent", one) == CUDA_SUCCESS);
  size_t before = 0, free = 0, total = 0;
  CHECK(call("cuMemGetInfo_v2", &before, &total) == CUDA_SUCCESS);
  test::allocate(1 << 20);
  CHECK(call("cuMemGetInfo_v2", &free, &total) == CUDA_SUCCESS);
  CHECK(free == before - (1 << 20));
  unsigned flags = 1;
  int active = 0;
  CHECK(call("cuDevicePrimaryCtxRelease_v2", 0) == CUDA_SUCCESS);
  CHECK(call("cuDevicePrimaryCtxGetState", 0, &flags, &active) == CUDA_SUCCESS);
  CHECK(active == 1);
  CHECK(call("cuDevicePrimaryCtxRelease_v2", 0) == CUDA_SUCCESS);
  CHECK(call("cuDevicePrimaryCtxGetState", 0, &flags, &active) == CUDA_SUCCESS);
  CHECK(active == 0);
  CHECK(call("cuMemGetInfo_v2", &free, &total) == CUDA_ERROR_INVALID_CONTEXT);
  const TestContext context;
  CHECK(call("cuMemGetInfo_v2", &free, &total) == CUDA_SUCCESS);
  CHECK(free == before);
}

TEST_CASE("limits can be set and are read back") {
  const TestContext context;
  size_t value = 0;
  CHECK(call("cuCtxGetLimit", &value, 2) == CUDA_SUCCESS);
  CHECK(value == 8 << 20);
  CHECK(call("cuCtxSetLimit", 2, size_t{1} << 25) == CUDA_SUCCESS);
  CHECK(call("cuCtxGetLimit", &value, 2) == CUDA_SUCCESS);
  CHECK(value == 1 << 25);
  CHECK(call("cuCtxGetLimit", &value, 99) == CUDA_ERROR_UNSUPPORTED_LIMIT);
  int least = 1, greatest = 1;
  CHECK(call("cuCtxGetStreamPriorityRange", &least, &greatest) == CUDA_SUCCESS);
  CHECK((least == 0 && greatest == -5));
}
