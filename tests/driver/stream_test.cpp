// Streams, events, functions of the host.
#include "driver/api.hpp"

using namespace bitmma::driver;
using namespace bitmma::driver::test;

TEST_CASE("streams have priorities and flags; default streams exist; others are refused") {
  const TestContext context;
  CUstream stream = nullptr;
  CHECK(call("cuStreamCreateWithPriority", &stream, 1U, -9) == CUDA_SUCCESS);
  int priority = 0;
  unsigned flags = 0;
  CHECK(call("cuStreamGetPriority", stream, &priority) == CUDA_SUCCESS);
  CHECK(call("cuStreamGetFlags", stream, &flags) == CUDA_SUCCESS);
  CHECK((priority == -5 && flags == 1));
  for (uintptr_t number : {0, 1, 2}) CHECK(call("cuStreamQuery", reinterpret_cast<CUstream>(number)) == CUDA_SUCCESS);
  CUcontext own = nullptr;
  CHECK(call("cuStreamGetCtx", stream, &own) == CUDA_SUCCESS);
  CHECK(own == context.get());
  CHECK(call("cuStreamDestroy_v2", stream) == CUDA_SUCCESS);
  CHECK(call("cuStreamSynchronize", stream) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("of two measurements the first is the shorter one, always by the same times") {
  const TestContext context;
  CUevent events[4] = {};
  float first = 0, second = 0;
  for (CUevent& event : events) CHECK(call("cuEventCreate", &event, 0U) == CUDA_SUCCESS);
  CHECK(call("cuEventElapsedTime_v2", &first, events[0], events[1]) == CUDA_ERROR_INVALID_HANDLE);
  for (CUevent& event : events) CHECK(call("cuEventRecord", event, CUstream{}) == CUDA_SUCCESS);
  CHECK(call("cuEventQuery", events[0]) == CUDA_SUCCESS);
  CHECK(call("cuEventElapsedTime_v2", &first, events[0], events[1]) == CUDA_SUCCESS);
  CHECK(call("cuEventElapsedTime_v2", &second, events[2], events[3]) == CUDA_SUCCESS);
  CHECK(second == first + 1000);
  for (CUevent& event : events) CHECK(call("cuEventDestroy_v2", event) == CUDA_SUCCESS);
  CHECK(call("cuEventQuery", events[0]) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("a function of the host runs in its stream, and may call the driver") {
  const TestContext context;
  int calls = 0;
  const CUhostFn count = [](void* data) {
    CUcontext current = nullptr;
    if (call("cuCtxGetCurrent", &current) == CUDA_SUCCESS) ++*static_cast<int*>(data);
  };
  CHECK(call("cuLaunchHostFunc", CUstream{}, count, static_cast<void*>(&calls)) == CUDA_SUCCESS);
  CHECK(calls == 1);
}
