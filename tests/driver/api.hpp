// The driver API of the library that is tested, as a program has it: by dlopen and dlsym.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "driver/cuda.hpp"
#include "support/catch.hpp"

namespace bitmma::driver::test {

/// The address of a symbol; nullptr if the library has none.
void* symbol(const char* name);

/// Calls a function of the API. Arguments need the width of its parameters: size_t{1}, not 1. As in programs, its type
/// has other pointers than the library's, which -fsanitize=function would report.
template <typename... Arguments>
__attribute__((no_sanitize("undefined"))) CUresult call(const char* name, Arguments... arguments) {
  void* const address = symbol(name);
  if (!address) throw std::runtime_error(std::string("no symbol ") + name);
  return reinterpret_cast<CUresult (*)(Arguments...)>(address)(arguments...);
}

/// A context of its own for a test, which a fault may end.
class TestContext {
 public:
  TestContext() {
    REQUIRE(call("cuInit", 0U) == CUDA_SUCCESS);
    REQUIRE(call("cuCtxCreate_v2", &context_, 0U, 0) == CUDA_SUCCESS);
  }
  ~TestContext() { call("cuCtxDestroy_v2", context_); }
  TestContext(const TestContext&) = delete;
  TestContext& operator=(const TestContext&) = delete;

  CUcontext get() const { return context_; }

 private:
  CUcontext context_ = nullptr;
};

inline CUdeviceptr allocate(size_t bytes) {
  CUdeviceptr address = 0;
  REQUIRE(call("cuMemAlloc_v2", &address, bytes) == CUDA_SUCCESS);
  return address;
}

template <typename T>
CUdeviceptr upload(const std::vector<T>& values) {
  const CUdeviceptr address = allocate(values.size() * sizeof(T));
  REQUIRE(call("cuMemcpyHtoD_v2", address, static_cast<const void*>(values.data()), values.size() * sizeof(T)) ==
          CUDA_SUCCESS);
  return address;
}

template <typename T>
std::vector<T> download(CUdeviceptr address, size_t count) {
  std::vector<T> values(count);
  REQUIRE(call("cuMemcpyDtoH_v2", static_cast<void*>(values.data()), address, count * sizeof(T)) == CUDA_SUCCESS);
  return values;
}

inline CUmodule load(const std::string& ptx) {
  CUmodule module = nullptr;
  REQUIRE(call("cuModuleLoadData", &module, static_cast<const void*>(ptx.c_str())) == CUDA_SUCCESS);
  return module;
}

inline CUfunction function_of(CUmodule module, const char* name) {
  CUfunction function = nullptr;
  REQUIRE(call("cuModuleGetFunction", &function, module, name) == CUDA_SUCCESS);
  return function;
}

inline CUresult launch(CUfunction function, unsigned grid, unsigned block, std::vector<void*> parameters = {},
                       unsigned shared_bytes = 0) {
  return call("cuLaunchKernel", function, grid, 1U, 1U, block, 1U, 1U, shared_bytes, CUstream{}, parameters.data(),
              static_cast<void**>(nullptr));
}

/// y[i] += x[i] for i below n; thread i of a grid of one dimension.
extern const char* const add_ptx;
/// Kernels that do what they must not, variables, a struct by value.
extern const char* const other_ptx;

}  // namespace bitmma::driver::test
