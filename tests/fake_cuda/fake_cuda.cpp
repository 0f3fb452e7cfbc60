// A CUDA driver for tests: every call that bitmma uses, with memory of the host in place of a GPU's and kernels that do
// nothing. It is built as libcuda.so.1 in a folder of its own and found through LD_LIBRARY_PATH. Variables of the
// environment say how it misbehaves:
//
//   FAKE_CUDA_FAIL=cuMemAlloc_v2:3:2    the third use of the call returns error 2; use 0: every use
//   FAKE_CUDA_SIGNAL=cuLaunchKernel:1:2 the first use of the call raises signal 2; several with commas between
//   FAKE_CUDA_TRACE=FILE                gets a line for each call, and what is left when the context is given back
//   FAKE_CUDA_ANSWERS=FILE              copies to the host take their bytes from here, one after the other
//   FAKE_CUDA_NAME, _COUNT, _CAPABILITY (90), _SHARED    what devices are; a name that is too long gets no NUL
//   FAKE_CUDA_LOG                       what the compiler of PTX says; too long a text gets no NUL
//   FAKE_CUDA_NO_TEXTS                  errors have neither names nor texts
#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <string>

namespace {

constexpr int invalid_value = 1, out_of_answers = 999;

std::string setting(const char* name, const char* otherwise = "") {
  const char* const text = std::getenv(name);
  return text ? text : otherwise;
}

int number(const char* name, int otherwise) {
  const std::string text = setting(name);
  return text.empty() ? otherwise : std::stoi(text);
}

/// The last number of the entry "call:use:number" that is meant, 0 without one.
int entry(const char* variable, const std::string& call, int use) {
  std::string rest = setting(variable);
  while (!rest.empty()) {
    const std::string text = rest.substr(0, rest.find(','));
    rest.erase(0, text.size() + 1);
    const size_t first = text.find(':'), second = text.find(':', first + 1);
    const int listed_use = std::stoi(text.substr(first + 1));
    if (text.substr(0, first) == call && (listed_use == use || listed_use == 0))
      return std::stoi(text.substr(second + 1));
  }
  return 0;
}

void trace(const std::string& line) {
  const std::string path = setting("FAKE_CUDA_TRACE");
  if (!path.empty()) std::ofstream(path, std::ios::app) << line + "\n";
}

/// Notes the use of a call. Returns the error that it is to return.
int use_of(const char* call) {
  static std::mutex mutex;
  static std::map<std::string, int> uses;
  const std::lock_guard lock(mutex);
  const int use = ++uses[call];
  trace(call);
  if (const int signal = entry("FAKE_CUDA_SIGNAL", call, use)) std::raise(signal);
  return entry("FAKE_CUDA_FAIL", call, use);
}

/// As many bytes as fit; the NUL as well if it does.
void copy_text(const std::string& text, char* to, size_t size) {
  std::memcpy(to, text.c_str(), std::min(size, text.size() + 1));
}

std::atomic<int> allocations{0}, modules{0}, streams{0};
int something;  // what handles point to

/// Makes a handle, or destroys one.
template <typename T>
int make(const char* call, T** handle, std::atomic<int>& alive) {
  if (const int error = use_of(call)) return error;
  *handle = &something;
  ++alive;
  return 0;
}
int destroy(const char* call, std::atomic<int>& alive) {
  if (const int error = use_of(call)) return error;
  --alive;
  return 0;
}

struct ErrorText {
  int code;
  const char *name, *text;
};
constexpr std::array error_texts{
    ErrorText{2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    ErrorText{100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    ErrorText{218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    ErrorText{700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    ErrorText{719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"}};

int text_of(int code, const char** text, const char* ErrorText::*which) {
  *text = nullptr;
  if (std::getenv("FAKE_CUDA_NO_TEXTS")) return invalid_value;
  for (const ErrorText& error_text : error_texts) {
    if (error_text.code == code) *text = error_text.*which;
  }
  return *text ? 0 : invalid_value;
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return use_of("cuInit"); }
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return use_of("cuDriverGetVersion");
}
int cuDeviceGetCount(int* count) {
  *count = number("FAKE_CUDA_COUNT", 1);
  return use_of("cuDeviceGetCount");
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return use_of("cuDeviceGet");
}
int cuDeviceGetName(char* name, int size, int) {
  copy_text(setting("FAKE_CUDA_NAME", "Fake H200"), name, static_cast<size_t>(size));
  return use_of("cuDeviceGetName");
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  const int capability = number("FAKE_CUDA_CAPABILITY", 90);
  if (attribute == 75) *value = capability / 10;
  else if (attribute == 76) *value = capability % 10;
  else if (attribute == 97) *value = number("FAKE_CUDA_SHARED", 232448);
  else return invalid_value;
  return use_of("cuDeviceGetAttribute");
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = &something;
  return use_of("cuDevicePrimaryCtxRetain");
}
int cuDevicePrimaryCtxRelease_v2(int) {
  trace("left: " + std::to_string(allocations) + " allocations, " + std::to_string(modules) + " modules, " +
        std::to_string(streams) + " streams");
  return use_of("cuDevicePrimaryCtxRelease_v2");
}
int cuCtxSetCurrent(void*) { return use_of("cuCtxSetCurrent"); }
int cuModuleLoadDataEx(void** module, const void*, unsigned options, int* names, void** values) {
  const int error = make("cuModuleLoadDataEx", module, modules);
  char* log = nullptr;
  size_t size = 0;
  for (unsigned i = 0; i < options; ++i) {
    if (names[i] == 5) log = static_cast<char*>(values[i]);
    if (names[i] == 6) size = reinterpret_cast<size_t>(values[i]);
  }
  if (error && log) copy_text(setting("FAKE_CUDA_LOG"), log, size);
  return error;
}
int cuModuleUnload(void*) { return destroy("cuModuleUnload", modules); }
int cuModuleGetFunction(void** function, void*, const char*) {
  *function = &something;
  return use_of("cuModuleGetFunction");
}
int cuFuncSetAttribute(void*, int, int) { return use_of("cuFuncSetAttribute"); }
int cuMemAlloc_v2(unsigned long long* pointer, size_t size) {
  if (const int error = use_of("cuMemAlloc_v2")) return error;
  *pointer = reinterpret_cast<unsigned long long>(std::calloc(size, 1));
  ++allocations;
  return 0;
}
int cuMemFree_v2(unsigned long long pointer) {
  std::free(reinterpret_cast<void*>(pointer));  // also when it says that it did not: no leak of the program
  return destroy("cuMemFree_v2", allocations);
}
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, size_t size, void*) {
  std::memcpy(reinterpret_cast<void*>(to), from, size);
  return use_of("cuMemcpyHtoDAsync_v2");
}
int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, size_t size, void*) {
  if (const int error = use_of("cuMemcpyDtoHAsync_v2")) return error;
  const std::string path = setting("FAKE_CUDA_ANSWERS");
  if (path.empty()) {
    std::memcpy(to, reinterpret_cast<const void*>(from), size);
    return 0;
  }
  static std::ifstream answers(path, std::ios::binary);
  answers.read(static_cast<char*>(to), static_cast<std::streamsize>(size));
  return answers ? 0 : out_of_answers;
}
int cuStreamCreate(void** stream, unsigned) { return make("cuStreamCreate", stream, streams); }
int cuStreamSynchronize(void*) { return use_of("cuStreamSynchronize"); }
int cuStreamDestroy_v2(void*) { return destroy("cuStreamDestroy_v2", streams); }
int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**) {
  return use_of("cuLaunchKernel");
}
int cuGetErrorName(int code, const char** text) { return text_of(code, text, &ErrorText::name); }
int cuGetErrorString(int code, const char** text) { return text_of(code, text, &ErrorText::text); }

}  // extern "C"
