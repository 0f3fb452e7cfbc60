// Several threads, a fork, and what stays when everything is freed.
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <thread>

#include "core/json.hpp"
#include "driver/api.hpp"

using namespace bitmma::driver;
using namespace bitmma::driver::test;

namespace {

size_t call_size(char* text, size_t bytes) {
  return reinterpret_cast<size_t (*)(char*, size_t)>(symbol("bitmma_exec_report"))(text, bytes);
}

}  // namespace

TEST_CASE("several threads use a context at a time") {
  const TestContext context;
  const CUfunction add = function_of(load(add_ptx), "add");
  std::vector<std::thread> threads;
  std::vector<std::vector<float>> results(4);
  for (size_t number = 0; number < results.size(); ++number) {
    threads.emplace_back([&, number] {
      unsigned n = 256;
      if (call("cuCtxSetCurrent", context.get()) != CUDA_SUCCESS) return;
      for (int round = 0; round < 20; ++round) {
        CUdeviceptr x = 0, y = 0;
        const std::vector<float> values(n, static_cast<float>(number));
        for (CUdeviceptr* const address : {&x, &y}) {
          call("cuMemAlloc_v2", address, size_t{4 * n});
          call("cuMemcpyHtoD_v2", *address, static_cast<const void*>(values.data()), size_t{4 * n});
        }
        void* parameters[]{&x, &y, &n};
        call("cuLaunchKernel", add, 2U, 1U, 1U, 128U, 1U, 1U, 0U, CUstream{}, static_cast<void**>(parameters),
             static_cast<void**>(nullptr));
        results[number].resize(n);
        call("cuMemcpyDtoH_v2", static_cast<void*>(results[number].data()), y, size_t{4 * n});
        for (const CUdeviceptr address : {x, y}) call("cuMemFree_v2", address);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t number = 0; number < results.size(); ++number)
    CHECK(results[number] == std::vector<float>(256, 2 * static_cast<float>(number)));
}

TEST_CASE("a thread whose context another one has destroyed gets an error") {
  auto context = std::make_unique<TestContext>();
  const CUcontext destroyed = context->get();
  std::thread([&] {
    CHECK(call("cuCtxSetCurrent", destroyed) == CUDA_SUCCESS);
    std::thread([&] { CHECK(call("cuCtxDestroy_v2", destroyed) == CUDA_SUCCESS); }).join();
    CHECK(call("cuCtxSynchronize") == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  }).join();
}

TEST_CASE("a child of a process that has used the driver gets an error, as with CUDA, and the parent goes on") {
  const TestContext context;
  const CUdeviceptr address = allocate(16);
  const pid_t child = fork();
  if (child == 0) {
    CUdeviceptr other = 0;
    const bool is_refused = call("cuMemAlloc_v2", &other, size_t{16}) == CUDA_ERROR_NOT_INITIALIZED &&
                            call("cuInit", 0U) == CUDA_ERROR_NOT_INITIALIZED;
    _exit(is_refused ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(call("cuMemsetD8_v2", address, uint8_t{1}, size_t{16}) == CUDA_SUCCESS);
}

// AddressSanitizer keeps memory that is freed.
TEST_CASE("nothing stays of contexts, modules and memory that are gone", "[unsanitized]") {
  const auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    int count = 0;
    for (std::string line; std::getline(maps, line);) ++count;
    return count;
  };
  const auto round = [] {
    const TestContext context;
    const CUmodule module = load(other_ptx);
    CUdeviceptr out = upload(std::vector<unsigned>(1 << 20)), factor = 0;
    CUstream stream = nullptr;
    size_t bytes = 0;
    CHECK(call("cuStreamCreate", &stream, 0U) == CUDA_SUCCESS);
    CHECK(launch(function_of(module, "count"), 1, 1, {&out}) == CUDA_SUCCESS);
    CHECK(call("cuModuleGetGlobal_v2", &factor, &bytes, module, "factor") == CUDA_SUCCESS);
  };
  for (int i = 0; i < 20; ++i) round();
  const int before = mappings();
  for (int i = 0; i < 50; ++i) round();
  CHECK(mappings() <= before + 2);
}

TEST_CASE("the report so far counts launches, warnings and faults, and is shortened to the caller's room") {
  const auto report = [] {
    std::string text(call_size(nullptr, 0) + 1, ' ');
    CHECK(call_size(text.data(), text.size()) == text.size() - 1);
    CHECK(text.back() == '\0');
    text.pop_back();
    return bitmma::Json::parse(text);
  };
  const TestContext context;
  const auto launches_of = [](const bitmma::Json& json, const char* name) -> int64_t {
    for (const bitmma::Json& kernel : json["kernels"])
      if (kernel["kernel"] == name) return kernel["launches"];
    return 0;
  };
  const bitmma::Json before = report();
  const CUmodule module = load(other_ptx);
  for (int i = 0; i < 3; ++i) CHECK(launch(function_of(module, "nothing"), 1, 1) == CUDA_SUCCESS);
  std::vector<uint8_t> bytes(4);
  CHECK(call("cuMemcpyDtoH_v2", static_cast<void*>(bytes.data()), allocate(4), size_t{4}) == CUDA_SUCCESS);
  CUdeviceptr nowhere = 16;
  unsigned value = 0;
  CHECK(launch(function_of(module, "store"), 1, 1, {&nowhere, &value}) == CUDA_ERROR_ILLEGAL_ADDRESS);
  const bitmma::Json after = report();
  CHECK(launches_of(after, "nothing") == launches_of(before, "nothing") + 3);
  CHECK(after["warnings"].size() == before["warnings"].size() + 1);
  CHECK(after["faults"].size() == before["faults"].size() + 1);
  CHECK(after["faults"].back()["result"] == CUDA_ERROR_ILLEGAL_ADDRESS);
  char start[8] = "*******";
  CHECK(call_size(start, 5) > 5);
  CHECK(std::string(start, 8) == std::string("{\n  \0**", 8));
}

TEST_CASE("a clock that a kernel reads counts instructions, and the report names it once") {
  const TestContext context;
  const CUfunction clock = function_of(load(R"(
.version 8.0
.target sm_75
.address_size 64
.visible .entry clock(.param .u64 out)
{
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [out];
  mov.u64 %rd2, %globaltimer;
  mov.u64 %rd3, %clock64;
  st.global.u64 [%rd1], %rd2;
  st.global.u64 [%rd1+8], %rd3;
  ret;
}
)"),
                                       "clock");
  CUdeviceptr out = allocate(16);
  std::vector<uint64_t> first;
  for (int i = 0; i < 2; ++i) {
    CHECK(launch(clock, 1, 1, {&out}) == CUDA_SUCCESS);
    const std::vector<uint64_t> values = download<uint64_t>(out, 2);
    CHECK(values[0] < values[1]);
    CHECK(values[1] < 100);
    if (i == 0) first = values;
    CHECK(values == first);
  }
  std::string text(call_size(nullptr, 0) + 1, ' ');
  call_size(text.data(), text.size());
  text.pop_back();
  int64_t entries = 0, count = 0;
  const bitmma::Json report = bitmma::Json::parse(text);
  for (const bitmma::Json& entry : report["uncertain"]) {
    if (entry["kernel"] != "clock") continue;
    ++entries;
    count += entry["count"].get<int64_t>();
  }
  CHECK(entries == 1);
  CHECK(count == 1);
}
