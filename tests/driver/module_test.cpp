// Modules, libraries, functions, variables, the linker.
#include "driver/api.hpp"

using namespace bitmma::driver;
using namespace bitmma::driver::test;

TEST_CASE("variables of a module keep their values over launches, and the host reads and writes them") {
  const TestContext context;
  const CUmodule module = load(other_ptx), other = load(other_ptx);
  CUdeviceptr out = allocate(4), counter = 0, factor = 0, others = 0;
  size_t bytes = 0;
  const CUfunction count = function_of(module, "count");
  const auto result = [&] {
    CHECK(launch(count, 1, 1, {&out}) == CUDA_SUCCESS);
    return download<unsigned>(out, 1)[0];
  };
  CHECK(result() == 24);
  CHECK(result() == 27);
  CHECK(call("cuModuleGetGlobal_v2", &counter, &bytes, module, "counter") == CUDA_SUCCESS);
  CHECK(bytes == 4);
  CHECK(download<unsigned>(counter, 1)[0] == 9);
  CHECK(call("cuMemsetD32_v2", counter, 99U, size_t{1}) == CUDA_SUCCESS);
  CHECK(result() == 300);
  CHECK(call("cuModuleGetGlobal_v2", &factor, &bytes, module, "factor") == CUDA_SUCCESS);
  CHECK(call("cuModuleGetGlobal_v2", &others, &bytes, other, "factor") == CUDA_SUCCESS);
  CHECK(factor != others);
  CHECK(call("cuMemsetD32_v2", factor, 2U, size_t{1}) == CUDA_SUCCESS);
  CHECK(result() == 202);
  CHECK(download<unsigned>(others, 1)[0] == 3);
  CHECK(call("cuModuleGetGlobal_v2", &factor, &bytes, module, "nothing") == CUDA_ERROR_NOT_FOUND);
}

TEST_CASE("functions of a module, and what they say about themselves") {
  const TestContext context;
  const CUmodule module = load(other_ptx);
  unsigned count = 0;
  CHECK(call("cuModuleGetFunctionCount", &count, module) == CUDA_SUCCESS);
  std::vector<CUfunction> functions(count);
  CHECK(call("cuModuleEnumerateFunctions", functions.data(), count, module) == CUDA_SUCCESS);
  const CUfunction take = function_of(module, "take");
  CHECK(std::find(functions.begin(), functions.end(), take) != functions.end());
  const char* name = nullptr;
  CHECK(call("cuFuncGetName", &name, take) == CUDA_SUCCESS);
  CHECK(std::string(name) == "take");
  CHECK(call("cuFuncGetName", &name, CUfunction{}) == CUDA_ERROR_INVALID_VALUE);
  CHECK(call("cuFuncGetName", &name, reinterpret_cast<CUfunction>(module)) == CUDA_ERROR_INVALID_HANDLE);
  size_t offset = 1, bytes = 0;
  CHECK(call("cuFuncGetParamInfo", take, size_t{0}, &offset, &bytes) == CUDA_SUCCESS);
  CHECK((offset == 0 && bytes == 16));
  CHECK(call("cuFuncGetParamInfo", take, size_t{1}, &offset, &bytes) == CUDA_ERROR_INVALID_VALUE);
  const auto attribute = [&](const char* kernel, CUfunction_attribute id) {
    int value = -1;
    CHECK(call("cuFuncGetAttribute", &value, id, function_of(module, kernel)) == CUDA_SUCCESS);
    return value;
  };
  CHECK(attribute("race", CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) == 4);
  CHECK(attribute("race", CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) == 48 * 1024 - 4);
  CHECK(attribute("bounded", CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 64);
  CHECK(attribute("take", CU_FUNC_ATTRIBUTE_BINARY_VERSION) == 90);
  const auto set = [&](int value) {
    return call("cuFuncSetAttribute", function_of(module, "race"), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                value);
  };
  CHECK(set(227 * 1024) == CUDA_ERROR_INVALID_VALUE);
  CHECK(set(227 * 1024 - 4) == CUDA_SUCCESS);
  CHECK(attribute("race", CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) == 227 * 1024 - 4);
  const auto available = [&](const char* kernel) {
    size_t most = 0;
    CHECK(call("cuOccupancyAvailableDynamicSMemPerBlock", &most, function_of(module, kernel), 1, 128) == CUDA_SUCCESS);
    return most;
  };
  CHECK((available("race") == 227 * 1024 - 4 && available("take") == 48 * 1024));
  CUfunction none = nullptr;
  CHECK(call("cuModuleGetFunction", &none, module, "none") == CUDA_ERROR_NOT_FOUND);
  CHECK(call("cuModuleUnload", module) == CUDA_SUCCESS);
  CHECK(call("cuModuleUnload", module) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(launch(take, 1, 1) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("a library needs no context, and a kernel launches as a function") {
  REQUIRE(call("cuInit", 0U) == CUDA_SUCCESS);
  CUlibrary library = nullptr;
  CHECK(call("cuLibraryLoadData", &library, static_cast<const void*>(other_ptx), static_cast<CUjit_option*>(nullptr),
             static_cast<void**>(nullptr), 0U, static_cast<CUlibraryOption*>(nullptr), static_cast<void**>(nullptr),
             0U) == CUDA_SUCCESS);
  CUkernel kernel = nullptr;
  CHECK(call("cuLibraryGetKernel", &kernel, library, "nothing") == CUDA_SUCCESS);
  CUfunction function = nullptr;
  CHECK(call("cuKernelGetFunction", &function, kernel) == CUDA_SUCCESS);
  const TestContext context;
  CHECK(launch(function, 1, 32) == CUDA_SUCCESS);
  CHECK(launch(kernel, 1, 32) == CUDA_SUCCESS);
  CHECK(call("cuLibraryUnload", library) == CUDA_SUCCESS);
}

TEST_CASE("what is no PTX is refused: text with an error, machine code, another GPU's PTX") {
  const TestContext context;
  CUmodule module = nullptr;
  const auto load_data = [&](const char* image) {
    return call("cuModuleLoadData", &module, static_cast<const void*>(image));
  };
  CHECK(load_data("nonsense") == CUDA_ERROR_INVALID_PTX);
  CHECK(load_data("\177ELF\2\1\1") == CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(load_data(".version 8.6\n.target sm_100a\n.address_size 64\n.visible .entry e() { ret; }\n") ==
        CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(load_data(nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(call("cuModuleLoad", &module, "/nowhere/kernel.ptx") == CUDA_ERROR_FILE_NOT_FOUND);
  char log[64] = "untouched";
  CUjit_option options[]{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[]{log, reinterpret_cast<void*>(sizeof log)};
  CHECK(call("cuModuleLoadDataEx", &module, static_cast<const void*>("nonsense"), 2U, +options, +values) ==
        CUDA_ERROR_INVALID_PTX);
  CHECK(std::string(log).find("PTX line 1") == 0);
  CHECK(reinterpret_cast<uintptr_t>(values[1]) == std::string(log).size());
}

TEST_CASE("a kernel with an instruction that bitmma does not have is refused when it is used") {
  const TestContext context;
  const CUmodule module = load(
      ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry e() { .reg .b32 %r<2>; nonsense.u32 %r1, 1; ret; "
      "}\n"
      ".visible .entry f() { ret; }\n");
  CHECK(launch(function_of(module, "e"), 1, 1) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(launch(function_of(module, "f"), 1, 1) == CUDA_SUCCESS);
}

TEST_CASE("the linker joins PTX") {
  const TestContext context;
  CUlinkState state = nullptr;
  CHECK(call("cuLinkCreate_v2", 0U, static_cast<CUjit_option*>(nullptr), static_cast<void**>(nullptr), &state) ==
        CUDA_SUCCESS);
  const std::string header = ".version 8.0\n.target sm_90\n.address_size 64\n",
                    caller = header +
                             ".extern .func (.param .b32 r) five();\n.visible .entry use(.param .u64 out) {\n"
                             ".reg .b32 %r<2>; .reg .b64 %rd<2>; ld.param.u64 %rd1, [out];\n"
                             "{ .param .b32 r; call.uni (r), five, (); ld.param.b32 %r1, [r]; }\n"
                             "st.global.u32 [%rd1], %r1; ret; }\n",
                    callee = header + ".visible .func (.param .b32 r) five() { st.param.b32 [r], 5; ret; }\n";
  for (const std::string& text : {callee, caller})
    CHECK(call("cuLinkAddData_v2", state, CU_JIT_INPUT_PTX, static_cast<void*>(const_cast<char*>(text.data())),
               text.size(), "input", 0U, static_cast<CUjit_option*>(nullptr),
               static_cast<void**>(nullptr)) == CUDA_SUCCESS);
  void* image = nullptr;
  size_t bytes = 0;
  CHECK(call("cuLinkComplete", state, &image, &bytes) == CUDA_SUCCESS);
  CUdeviceptr out = allocate(4);
  CHECK(launch(function_of(load(static_cast<const char*>(image)), "use"), 1, 1, {&out}) == CUDA_SUCCESS);
  CHECK(download<unsigned>(out, 1)[0] == 5);
  CHECK(call("cuLinkDestroy", state) == CUDA_SUCCESS);
}

TEST_CASE("PTX for a GPU before sm_70 runs, as on every later one") {
  const TestContext context;
  for (const char* const target : {"sm_10", "sm_20", "sm_35, texmode_independent", "sm_62"}) {
    const std::string ptx =
        std::string(".version 2.3\n.target ") + target + "\n.address_size 64\n.visible .entry k() { ret; }\n";
    INFO(target);
    CHECK(launch(function_of(load(ptx), "k"), 1, 1) == CUDA_SUCCESS);
  }
  const char* const other = ".version 8.0\n.target sm_100\n.address_size 64\n.visible .entry k() { ret; }\n";
  CUmodule module = nullptr;
  CHECK(call("cuModuleLoadData", &module, static_cast<const void*>(other)) == CUDA_ERROR_NO_BINARY_FOR_GPU);
}

TEST_CASE("a grid may wait for all its blocks by the functions of the device runtime") {
  // Each block counts itself between barriers, and thread 0 of each writes what it then sees: all have counted.
  const TestContext context;
  const char* const ptx = R"(
.version 8.0
.target sm_90
.address_size 64
.extern .func (.param .b64 func_retval0) cudaCGGetIntrinsicHandle(.param .b32 cudaCGGetIntrinsicHandle_param_0);
.extern .func (.param .b32 func_retval0) cudaCGSynchronize(.param .b64 a, .param .b32 b);
.visible .entry k(.param .u64 out)
{
  .reg .pred %p<3>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [out];
  { .param .b32 scope; .param .b64 handle;
    st.param.b32 [scope], 1;
    call (handle), cudaCGGetIntrinsicHandle, (scope);
    ld.param.b64 %rd2, [handle]; }
  mov.u32 %r4, 1;
AGAIN:
  mov.u32 %r1, %tid.x;
  setp.ne.u32 %p1, %r1, 0;
  @!%p1 red.global.add.u32 [%rd1], 1;
  { .param .b64 a; .param .b32 b; .param .b32 result;
    st.param.b64 [a], %rd2;
    st.param.b32 [b], 0;
    call (result), cudaCGSynchronize, (a, b);
    ld.param.b32 %r5, [result]; }
  ld.volatile.global.u32 %r2, [%rd1];
  mov.u32 %r3, %ctaid.x;
  mad.wide.u32 %rd3, %r3, 8, %rd1;
  mad.wide.u32 %rd3, %r4, 4, %rd3;
  @!%p1 st.global.u32 [%rd3], %r2;
  { .param .b64 a; .param .b32 b; .param .b32 result;
    st.param.b64 [a], %rd2;
    st.param.b32 [b], 0;
    call (result), cudaCGSynchronize, (a, b);
    ld.param.b32 %r5, [result]; }
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %p2, %r4, 3;
  @%p2 bra AGAIN;
  ret;
}
)";
  constexpr unsigned blocks = 5;
  const CUfunction k = function_of(load(ptx), "k");
  for (int repeat = 0; repeat < 2; ++repeat) {
    CUdeviceptr out = upload(std::vector<uint32_t>(1 + 2 * blocks));
    void* parameters[]{&out};
    REQUIRE(call("cuLaunchCooperativeKernel", k, blocks, 1U, 1U, 64U, 1U, 1U, 0U, CUstream{},
                 static_cast<void**>(parameters)) == CUDA_SUCCESS);
    CHECK(download<uint32_t>(out, 1 + 2 * blocks) == std::vector<uint32_t>{10, 5, 10, 5, 10, 5, 10, 5, 10, 5, 10});
  }
}
