// The runtime library as a program of nvcc uses it: a fat binary is registered with the addresses of host functions and
// variables, and kernels are launched by them. The declarations are this test's own, so that it needs no CUDA.
#include <dlfcn.h>

#include <cstring>
#include <numeric>
#include <set>

#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma::test;

extern "C" {
struct Dim3 {
  unsigned x, y, z;
};
struct LaunchConfig {
  Dim3 grid, block;
  size_t shared_bytes;
  void* stream;
  void* attributes;
  unsigned attribute_count;
};
void** __cudaRegisterFatBinary(void* wrapper);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaUnregisterFatBinary(void** handle);
void __cudaRegisterFunction(void** handle, const void* host, char* device, const char* name, int, void*, void*, void*,
                            void*, int*);
void __cudaRegisterVar(void** handle, char* host, char* device, const char* name, int, size_t bytes, int constant, int);
void __cudaRegisterManagedVar(void** handle, void** host, char* device, const char* name, int, size_t bytes, int, int);
char __cudaInitModule(void** handle);
unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, size_t shared_bytes, void* stream);
int __cudaPopCallConfiguration(Dim3* grid, Dim3* block, size_t* shared_bytes, void* stream);
int __cudaGetKernel(void** kernel, const void* host);
int __cudaLaunchKernel(void* kernel, Dim3 grid, Dim3 block, void** arguments, size_t shared_bytes, void* stream);
int cudaLaunchKernel(const void* host, Dim3 grid, Dim3 block, void** arguments, size_t shared_bytes, void* stream);
int cudaLaunchKernelExC(const LaunchConfig* config, const void* host, void** arguments);
int cudaMalloc(void** pointer, size_t bytes);
int cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height);
int cudaMallocManaged(void** pointer, size_t bytes, unsigned flags);
int cudaMallocHost(void** pointer, size_t bytes);
int cudaFree(void* pointer);
int cudaFreeHost(void* pointer);
int cudaMemcpy(void* to, const void* from, size_t bytes, int kind);
int cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height, int kind);
int cudaMemset(void* to, int value, size_t bytes);
int cudaMemsetAsync(void* to, int value, size_t bytes, void* stream);
int cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height);
int cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset, int kind);
int cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset, int kind);
int cudaGetSymbolSize(size_t* bytes, const void* symbol);
int cudaPointerGetAttributes(void* attributes, const void* pointer);
int cudaGetDeviceCount(int* count);
int cudaGetDevice(int* device);
int cudaSetDevice(int device);
int cudaDeviceGetAttribute(int* value, int attribute, int device);
int cudaDeviceSynchronize();
int cudaDeviceGetLimit(size_t* value, int limit);
int cudaDeviceEnablePeerAccess(int peer, unsigned flags);
int cudaDeviceSetCacheConfig(int config);
int cudaDeviceGetCacheConfig(int* config);
int cudaGetDeviceFlags(unsigned* flags);
int cudaMallocAsync(void** pointer, size_t bytes, void* stream);
int cudaFuncGetAttributes(void* attributes, const void* host);
int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* host, int threads, size_t shared_bytes);
int cudaGetLastError();
int cudaPeekAtLastError();
const char* cudaGetErrorName(int code);
const char* cudaGetErrorString(int code);
int cudaRuntimeGetVersion(int* version);
int cudaStreamCreate(void** stream);
int cudaStreamDestroy(void* stream);
int cudaStreamIsCapturing(void* stream, int* status);
int cudaStreamBeginCapture(void* stream, int mode);
int cudaStreamEndCapture(void* stream, void** graph);
int cudaStreamGetCaptureInfo(void* stream, int* status, unsigned long long* id);
int cudaGraphInstantiate(void** exec, void* graph, unsigned long long flags);
int cudaGraphLaunch(void* exec, void* stream);
int cudaGraphExecDestroy(void* exec);
int cudaGraphDestroy(void* graph);
int cudaStreamWaitEvent(void* stream, void* event, unsigned flags);
int cudaEventCreate(void** event);
int cudaEventDestroy(void* event);
int cudaEventRecord(void* event, void* stream);
int cudaEventElapsedTime(float* milliseconds, void* start, void* end);
int cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version, unsigned long long flags,
                                     int* status);
}

namespace {

constexpr bool is_12 = BITMMA_CUDART_MAJOR == 12;
constexpr int host_to_device = 1, device_to_host = 2, device_to_device = 3;

/// data/fatbins/scale.cu as nvcc's host code registers it.
struct Program {
  struct {
    uint32_t magic = 0x466243b1, version = 1;
    const char* container = nullptr;
    const void* containers = nullptr;
  } wrapper;
  std::string container;
  void** handle = nullptr;
  char scale = 0, factor = 0, launches = 0;  // what the host has at these names are addresses alone
  int* total = nullptr;

  explicit Program(const std::string& name = "sm_90a") : container(read_text(oracle_path(name + ".fatbin"))) {
    wrapper.container = container.data();
    handle = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(handle, &scale, &scale, "scale", -1, nullptr, nullptr, nullptr, nullptr, nullptr);
    __cudaRegisterVar(handle, &factor, &factor, "factor", 0, 4, 1, 0);
    __cudaRegisterVar(handle, &launches, &launches, "launches", 0, 4, 0, 0);
    __cudaRegisterManagedVar(handle, reinterpret_cast<void**>(&total), nullptr, "total", 0, 4, 0, 0);
    __cudaRegisterFatBinaryEnd(handle);
  }
  ~Program() { __cudaUnregisterFatBinary(handle); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
};

struct Numbers {
  const float* x;
  int n;
};

/// The arguments of scale, and its result for 100 numbers.
struct Call {
  static constexpr int n = 100;
  std::vector<float> in = std::vector<float>(n);
  float* y = nullptr;
  Numbers numbers{nullptr, n};
  float a = 1.5F;
  void* arguments[3] = {&y, &numbers, &a};

  Call() {
    std::iota(in.begin(), in.end(), 1.0F);
    void *x = nullptr, *out = nullptr;
    REQUIRE(cudaMalloc(&x, n * sizeof(float)) == 0);
    REQUIRE(cudaMalloc(&out, n * sizeof(float)) == 0);
    REQUIRE(cudaMemcpy(x, in.data(), n * sizeof(float), host_to_device) == 0);
    numbers.x = static_cast<float*>(x), y = static_cast<float*>(out);
  }
  ~Call() { cudaFree(const_cast<float*>(numbers.x)), cudaFree(y); }

  /// True if the result is `times` the input; clears it.
  bool is_scaled(float times) {
    std::vector<float> out(n);
    CHECK(cudaMemcpy(out.data(), y, n * sizeof(float), device_to_host) == 0);
    CHECK(cudaMemset(y, 0, n * sizeof(float)) == 0);
    for (size_t i = 0; i < out.size(); ++i) {
      if (out[i] != times * in[i]) return false;
    }
    return true;
  }
};

template <typename T>
T at(const std::vector<char>& bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace

TEST_CASE("a registered kernel is launched in all forms, and its variables last") {
  Program program;
  Call call;
  const Dim3 grid{2, 1, 1}, block{64, 1, 1};
  CHECK(cudaLaunchKernel(&program.scale, grid, block, call.arguments, 0, nullptr) == 0);
  CHECK(call.is_scaled(3));

  void* kernel = nullptr;
  CHECK(__cudaGetKernel(&kernel, &program.scale) == 0);
  CHECK(__cudaPushCallConfiguration(grid, block, 16, nullptr) == 0);
  Dim3 pushed_grid{}, pushed_block{};
  size_t shared_bytes = 0;
  void* stream = &call;
  CHECK(__cudaPopCallConfiguration(&pushed_grid, &pushed_block, &shared_bytes, &stream) == 0);
  CHECK((pushed_grid.x == 2 && pushed_block.x == 64 && shared_bytes == 16 && stream == nullptr));
  CHECK(__cudaLaunchKernel(kernel, pushed_grid, pushed_block, call.arguments, shared_bytes, stream) == 0);
  CHECK(call.is_scaled(3));
  CHECK(__cudaPopCallConfiguration(&pushed_grid, &pushed_block, &shared_bytes, &stream) == 52);

  const LaunchConfig config{grid, block, 0, nullptr, nullptr, 0};
  const float factor = -4;
  CHECK(cudaMemcpyToSymbol(&program.factor, &factor, sizeof factor, 0, host_to_device) == 0);
  CHECK(cudaLaunchKernelExC(&config, &program.scale, call.arguments) == 0);
  CHECK(call.is_scaled(-6));
  CHECK(cudaLaunchKernelExC(&config, kernel, call.arguments) == 0);
  CHECK(call.is_scaled(-6));

  int launches = 0;
  size_t bytes = 0;
  CHECK(cudaMemcpyFromSymbol(&launches, &program.launches, sizeof launches, 0, device_to_host) == 0);
  CHECK(launches == 4);
  CHECK(cudaGetSymbolSize(&bytes, &program.factor) == 0);
  CHECK(bytes == 4);
  CHECK(__cudaInitModule(program.handle) == 1);
  REQUIRE(program.total != nullptr);
  CHECK(*program.total == 45);
  *program.total = -100;
  CHECK(cudaLaunchKernel(&program.scale, grid, block, call.arguments, 0, nullptr) == 0);
  CHECK(cudaDeviceSynchronize() == 0);
  CHECK(*program.total == -90);
}

TEST_CASE("of two programs that register the same names, each has its variables") {
  Program first, second("lz4");
  const float factor = 7;
  CHECK(cudaMemcpyToSymbol(&first.factor, &factor, sizeof factor, 0, host_to_device) == 0);
  Call call;
  CHECK(cudaLaunchKernel(&second.scale, {2, 1, 1}, {64, 1, 1}, call.arguments, 0, nullptr) == 0);
  CHECK(call.is_scaled(3));
  CHECK(cudaLaunchKernel(&first.scale, {2, 1, 1}, {64, 1, 1}, call.arguments, 0, nullptr) == 0);
  CHECK(call.is_scaled(10.5F));
}

TEST_CASE("launches that cannot be have the runtime library's errors, and the last one is kept once") {
  Program program, sass("cubin");
  Call call;
  cudaGetLastError();
  const auto launched = [&](const void* function, Dim3 grid, Dim3 block) {
    const int code = cudaLaunchKernel(function, grid, block, call.arguments, 0, nullptr);
    CHECK(cudaPeekAtLastError() == code);
    CHECK(cudaGetLastError() == code);
    CHECK(cudaGetLastError() == 0);
    return code;
  };
  constexpr int of_configuration = is_12 ? 9 : 1;  // of 13.0: measured on an H200
  CHECK(launched(&program.scale, {0, 1, 1}, {64, 1, 1}) == of_configuration);
  CHECK(launched(&program.scale, {1, 1, 1}, {32, 33, 1}) == of_configuration);
  CHECK(launched(&program.scale, {1, 65536, 1}, {32, 1, 1}) == of_configuration);
  CHECK(launched(&call, {1, 1, 1}, {32, 1, 1}) == 98);
  CHECK(launched(&sass.scale, {1, 1, 1}, {32, 1, 1}) == 209);
  const float factor = 1;
  CHECK(cudaMemcpyToSymbol(&program.factor, &factor, 4, 1, host_to_device) == 1);
  CHECK(cudaMemcpyToSymbol(&call, &factor, 4, 0, host_to_device) == 13);
  CHECK(cudaMemcpy(call.y, &factor, 4, 9) == 21);
  CHECK(cudaSetDevice(1) == 101);
  cudaGetLastError();
  CHECK(cudaGetErrorName(209) == std::string("cudaErrorNoKernelImageForDevice"));
  CHECK(cudaGetErrorString(9) == std::string("invalid configuration argument"));
  CHECK(cudaGetErrorName(12345) == std::string("unrecognized error code"));
}

TEST_CASE("errors and answers that were measured on an H200 with CUDA 13.0") {
  void *memory = nullptr, *event = nullptr;
  size_t pitch = 0, limit = 0;
  int config = 0;
  unsigned flags = 0;
  REQUIRE((cudaMallocPitch(&memory, &pitch, 100, 3) == 0 && cudaEventCreate(&event) == 0));
  CHECK(cudaMemcpy2D(memory, 10, memory, 100, 50, 3, device_to_device) == 12);
  CHECK(cudaFree(memory) == 0);
  CHECK((cudaMallocAsync(&memory, 0, nullptr) == 0 && memory == nullptr));
  CHECK(cudaStreamWaitEvent(nullptr, event, 7) == 1);
  CHECK(cudaDeviceGetLimit(&limit, 77) == 1);
  CHECK((cudaDeviceGetLimit(&limit, 1) == 0 && limit == 8650752));
  CHECK((cudaDeviceEnablePeerAccess(0, 0) == 217 && cudaDeviceEnablePeerAccess(1, 0) == 101));
  CHECK((cudaDeviceSetCacheConfig(2) == 0 && cudaDeviceGetCacheConfig(&config) == 0 && config == 2));
  CHECK((cudaGetDeviceFlags(&flags) == 0 && flags == 8));
  CHECK(cudaEventDestroy(event) == 0);
  cudaGetLastError();
}

// As in programs, the type has another pointer than the library's, which -fsanitize=function would report.
__attribute__((no_sanitize("undefined"))) static int device_properties(void* properties) {
  const auto get = reinterpret_cast<int (*)(void*, int)>(
      dlsym(RTLD_DEFAULT, is_12 ? "cudaGetDeviceProperties_v2" : "cudaGetDeviceProperties"));
  REQUIRE(get != nullptr);
  return get(properties, 0);
}

TEST_CASE("cudaDeviceProp has the layout of its version") {
  std::vector<char> bytes(2048, '\x55');
  REQUIRE(device_properties(bytes.data()) == 0);
  CHECK(std::string(bytes.data()).starts_with("NVIDIA"));
  const auto attribute = [](int id) {
    int value = 0;
    CHECK(cudaDeviceGetAttribute(&value, id, 0) == 0);
    return value;
  };
  CHECK(at<int>(bytes, 320) == 1024);                         // maxThreadsPerBlock
  CHECK(at<int>(bytes, 360) == attribute(75));                // major
  CHECK(at<int>(bytes, is_12 ? 388 : 384) == attribute(16));  // multiProcessorCount
  CHECK(at<size_t>(bytes, is_12 ? 696 : 672) ==               // sharedMemPerBlockOptin
        static_cast<size_t>(attribute(97)));
  CHECK(at<int>(bytes, is_12 ? 772 : 748) == attribute(120));  // clusterLaunch
  CHECK(at<size_t>(bytes, 288) > size_t{1} << 30);             // totalGlobalMem
  CHECK(bytes[is_12 ? 1031 : 1007] == 0);
  CHECK(bytes[is_12 ? 1032 : 1008] == '\x55');
}

TEST_CASE("memory: pitches, rectangles, managed and host memory, and what a pointer is") {
  void *device = nullptr, *managed = nullptr, *host = nullptr;
  size_t pitch = 0;
  REQUIRE(cudaMallocPitch(&device, &pitch, 100, 3) == 0);
  CHECK(pitch >= 100);
  const std::string text = "abcdefghijklmnopqrstuvwxyz";
  CHECK(cudaMemset2D(device, pitch, 'X', 100, 3) == 0);
  CHECK(cudaMemcpy2D(device, pitch, text.data(), 8, 5, 3, host_to_device) == 0);
  std::string back(21, '?');
  CHECK(cudaMemcpy2D(back.data(), 7, device, pitch, 6, 3, device_to_host) == 0);
  CHECK(back == "abcdeX?ijklmX?qrstuX?");
  REQUIRE(cudaMallocManaged(&managed, 64, 1) == 0);
  std::memcpy(managed, "managed", 8);
  CHECK(cudaMemcpy(device, managed, 8, device_to_device) == 0);
  REQUIRE(cudaMallocHost(&host, 64) == 0);
  CHECK(cudaMemcpy(host, device, 8, 4) == 0);
  CHECK(static_cast<char*>(host) == std::string("managed"));
  const auto type = [](const void* pointer) {
    std::vector<char> attributes(128, '\x55');
    CHECK(cudaPointerGetAttributes(attributes.data(), pointer) == 0);
    CHECK(attributes[is_12 ? 24 : 88] == '\x55');
    return at<int>(attributes, 0);
  };
  CHECK((type(&pitch) == 0 && type(host) == 1 && type(device) == 2 && type(managed) == 3));
  CHECK((cudaFree(device) == 0 && cudaFree(managed) == 0 && cudaFreeHost(host) == 0 && cudaFree(nullptr) == 0));
  CHECK(cudaMalloc(&device, size_t{1} << 50) == 2);
  cudaGetLastError();
}

TEST_CASE("devices, versions, streams, events, attributes of kernels, entry points of the driver") {
  Program program;
  int count = 0, device = -1, version = 0, status = -1, blocks = 0;
  CHECK((cudaGetDeviceCount(&count) == 0 && count == 1));
  CHECK((cudaSetDevice(0) == 0 && cudaGetDevice(&device) == 0 && device == 0));
  CHECK((cudaRuntimeGetVersion(&version) == 0 && version / 1000 == BITMMA_CUDART_MAJOR));
  void *stream = nullptr, *start = nullptr, *end = nullptr, *function = nullptr;
  CHECK((cudaStreamCreate(&stream) == 0 && cudaEventCreate(&start) == 0 && cudaEventCreate(&end) == 0));
  CHECK((cudaEventRecord(start, stream) == 0 && cudaEventRecord(end, stream) == 0));
  float milliseconds = -1;
  CHECK((cudaEventElapsedTime(&milliseconds, start, end) == 0 && milliseconds >= 0));
  CHECK((cudaStreamIsCapturing(stream, &status) == 0 && status == 0));
  unsigned long long id = 0;
  void *graph = nullptr, *exec = nullptr, *word = nullptr;
  int value = -1;
  CHECK((cudaMalloc(&word, 4) == 0 && cudaMemset(word, 0, 4) == 0));
  CHECK(cudaStreamBeginCapture(stream, 0) == 0);
  CHECK((cudaStreamGetCaptureInfo(stream, &status, &id) == 0 && status == 1 && id != 0));
  CHECK((cudaMemsetAsync(word, 1, 4, stream) == 0 && cudaStreamEndCapture(stream, &graph) == 0));
  CHECK((cudaMemcpy(&value, word, 4, 2) == 0 && value == 0));
  CHECK((cudaGraphInstantiate(&exec, graph, 0) == 0 && cudaGraphDestroy(graph) == 0));
  CHECK((cudaGraphLaunch(exec, stream) == 0 && cudaGraphExecDestroy(exec) == 0));
  CHECK((cudaMemcpy(&value, word, 4, 2) == 0 && value == 0x01010101));
  CHECK(cudaFree(word) == 0);
  CHECK(cudaStreamDestroy(stream) == 0);
  std::vector<char> attributes(256, '\x55');
  CHECK(cudaFuncGetAttributes(attributes.data(), &program.scale) == 0);
  CHECK(at<int>(attributes, 24) == 1024);  // maxThreadsPerBlock
  CHECK((attributes[143] == 0 && attributes[144] == '\x55'));
  CHECK((cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &program.scale, 256, 0) == 0 && blocks > 0));
  CHECK((cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 12000, 0, &status) == 0 && status == 0));
  CHECK(function != nullptr);
  CHECK(cudaGetDriverEntryPointByVersion("cuNothing", &function, 12000, 0, &status) == 0);
  CHECK((status == 1 && function == nullptr));
}

TEST_CASE("the library exports every name of NVIDIA's, and no other") {
  void* const library = dlopen(BITMMA_CUDART, RTLD_NOW);
  REQUIRE(library != nullptr);
  std::set<std::string> names, others;
  std::istringstream rows(read_text(source_path("tools/exec/runtime/names.csv")));
  for (std::string row; std::getline(rows, row);) {
    if (row.starts_with('#') || row.starts_with("name,")) continue;
    const size_t first = row.find(','), second = row.find(',', first + 1);
    const std::string version = row.substr(first + 1, second - first - 1);
    (version.empty() || version == std::to_string(BITMMA_CUDART_MAJOR) ? names : others).insert(row.substr(0, first));
  }
  CHECK(names.size() == (is_12 ? 435 : 422));
  const std::string version = is_12 ? "libcudart.so.12" : "libcudart.so.13";
  for (const std::string& name : names) {
    INFO(name);
    CHECK(dlvsym(library, name.c_str(), version.c_str()) != nullptr);
  }
  for (const std::string& name : others) {
    INFO(name);
    CHECK((names.contains(name) || dlsym(library, name.c_str()) == nullptr));
  }
}

extern "C" {
struct ChannelDesc {
  int x, y, z, w, kind;
};
struct TextureResource {
  int type;
  union {
    void* array;
    int reserved[32];
  };
  unsigned flags;
};
struct TextureDesc {
  int address_mode[3], filter_mode, read_mode, srgb;
  float border[4];
  int has_normalized_coordinates;
  unsigned max_anisotropy;
  int mipmap_filter_mode;
  float levels[3];
  int disable_trilinear_optimization, seamless_cubemap;
};
struct Copy3D {
  void* from_array;
  size_t from_position[3];
  void* from;
  size_t from_pitch[3];
  void* to_array;
  size_t to_position[3];
  void* to;
  size_t to_pitch[3];
  size_t extent[3];
  int kind;
};
ChannelDesc cudaCreateChannelDesc(int x, int y, int z, int w, int kind);
int cudaMallocArray(void** array, const ChannelDesc* desc, size_t width, size_t height, unsigned flags);
int cudaFreeArray(void* array);
int cudaArrayGetInfo(ChannelDesc* desc, size_t* extent, unsigned* flags, void* array);
int cudaMemcpy2DToArray(void* to, size_t x, size_t y, const void* from, size_t pitch, size_t width, size_t height, int);
int cudaMemcpy2DFromArray(void* to, size_t pitch, void* from, size_t x, size_t y, size_t width, size_t height, int);
int cudaMemcpy3D(const Copy3D* copy);
int cudaCreateTextureObject(uint64_t* object, const TextureResource* resource, const TextureDesc* desc, const void*);
int cudaDestroyTextureObject(uint64_t object);
int cudaGetTextureObjectResourceDesc(TextureResource* resource, uint64_t object);
int cudaGetTextureObjectTextureDesc(TextureDesc* desc, uint64_t object);
int cudaCreateSurfaceObject(uint64_t* object, const TextureResource* resource);
int cudaDestroySurfaceObject(uint64_t object);
}

TEST_CASE("arrays are copied in elements and in bytes, and their objects give back what described them") {
  const ChannelDesc desc = cudaCreateChannelDesc(16, 16, 0, 0, 1);
  void* array = nullptr;
  REQUIRE(cudaMallocArray(&array, &desc, 4, 2, 2) == 0);
  std::vector<uint16_t> values(16), back(16);
  std::iota(values.begin(), values.end(), uint16_t{1});
  CHECK(cudaMemcpy2DToArray(array, 0, 0, values.data(), 16, 16, 2, 1) == 0);
  // Two texels from (1, 1) on, into the place of two elements of the host's row: x counts texels there, bytes here.
  Copy3D copy{};
  copy.from_array = array, copy.from_position[0] = 1, copy.from_position[1] = 1;
  copy.to = back.data(), copy.to_pitch[0] = 32, copy.to_position[0] = 4;
  copy.extent[0] = 2, copy.extent[1] = 1, copy.extent[2] = 1, copy.kind = 2;
  CHECK(cudaMemcpy3D(&copy) == 0);
  CHECK(std::vector<uint16_t>(back.begin(), back.begin() + 7) == std::vector<uint16_t>{0, 0, 11, 12, 13, 14, 0});
  CHECK(cudaMemcpy2DFromArray(back.data(), 16, array, 0, 0, 16, 2, 2) == 0);
  CHECK(back == values);
  ChannelDesc known{};
  size_t extent[3] = {};
  unsigned flags = 0;
  CHECK(cudaArrayGetInfo(&known, extent, &flags, array) == 0);
  CHECK((known.x == 16 && known.y == 16 && known.z == 0 && known.kind == 1));
  CHECK((extent[0] == 4 && extent[1] == 2 && extent[2] == 0 && flags == 2));

  TextureResource resource{};
  resource.array = array;
  TextureDesc texture{};
  texture.read_mode = 1, texture.has_normalized_coordinates = 1, texture.address_mode[1] = 2;
  uint64_t object = 0, surface = 0;
  REQUIRE(cudaCreateTextureObject(&object, &resource, &texture, nullptr) == 0);
  TextureResource resource_back{};
  TextureDesc texture_back{};
  CHECK(cudaGetTextureObjectResourceDesc(&resource_back, object) == 0);
  CHECK(cudaGetTextureObjectTextureDesc(&texture_back, object) == 0);
  CHECK(resource_back.array == array);
  CHECK(std::memcmp(&texture, &texture_back, sizeof texture) == 0);
  CHECK(cudaCreateSurfaceObject(&surface, &resource) == 0);
  CHECK(cudaDestroySurfaceObject(surface) == 0);
  CHECK(cudaDestroyTextureObject(object) == 0);
  texture.filter_mode = 1;
  REQUIRE(cudaCreateTextureObject(&object, &resource, &texture, nullptr) == 0);
  CHECK(cudaDestroyTextureObject(object) == 0);
  texture.read_mode = 0;  // integers as they are have no filter: as recorded on an H200
  CHECK(cudaCreateTextureObject(&object, &resource, &texture, nullptr) == 26);
  CHECK(cudaGetLastError() == 26);
  texture.srgb = 1, texture.read_mode = 1;
  CHECK(cudaCreateTextureObject(&object, &resource, &texture, nullptr) == 801);
  CHECK(cudaGetLastError() == 801);
  const ChannelDesc wrong{16, 8, 0, 0, 1};
  CHECK(cudaMallocArray(&array, &wrong, 4, 2, 0) == 20);
  CHECK(cudaGetLastError() == 20);
  CHECK(cudaFreeArray(resource.array) == 0);
}
