// SPDX-License-Identifier: MIT
// Runs kernels on a GPU through the CUDA driver, for record_kernels.py. Needs no CUDA toolkit:
//
//   g++ -std=c++20 -O1 launch_kernels.cpp -o launch_kernels -ldl && ./launch_kernels JOBS
//
// JOBS is a file of lines: "module FILE", "launch ENTRY GX GY GZ BX BY BZ SHARED", "memory FILE" (read before the
// launch, written to FILE.gpu after it), "map FILE NUMBERS" (the same memory as a tensor map: see map_line there;
// "im2col" likewise), "value HEX BYTES", "run". Files are relative to the folder of JOBS.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace {

void* library = nullptr;
int line_of_jobs = 0;  // the current line

template <typename... Arguments>
void call(const char* name, Arguments... arguments) {
  auto* const function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
  const int error = function ? function(arguments...) : -1;
  if (error == 0) return;
  std::fprintf(stderr, "line %d: %s: error %d\n", line_of_jobs, name, error);
  std::exit(2);
}

std::vector<char> read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "%s: cannot be read\n", path.c_str());
    std::exit(2);
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Memory {
  std::string file;
  uint64_t address = 0;
  std::vector<char> bytes = {};
};

struct alignas(64) Value {
  uint64_t words[16] = {};  // for a tensor map all 128 bytes
};

/// The result of cuTensorMapEncodeTiled, or for `im2col` of cuTensorMapEncodeIm2col, for the numbers of a line.
Value tensor_map(std::istringstream& numbers, uint64_t address, bool im2col) {
  Value map;
  int lower[3] = {}, upper[3] = {};
  uint32_t channels = 0, pixels = 0;
  int type = 0, swizzle = 0, fill = 0;
  uint32_t rank = 0, box[5] = {}, element_strides[5] = {};
  uint64_t sizes[5] = {}, strides[4] = {};
  numbers >> type >> rank;
  for (uint32_t i = 0; i < rank; ++i) numbers >> sizes[i];
  for (uint32_t i = 0; i + 1 < rank; ++i) numbers >> strides[i];
  if (im2col) {
    for (uint32_t i = 0; i + 2 < rank; ++i) numbers >> lower[i];
    for (uint32_t i = 0; i + 2 < rank; ++i) numbers >> upper[i];
    numbers >> channels >> pixels;
  } else {
    for (uint32_t i = 0; i < rank; ++i) numbers >> box[i];
  }
  for (uint32_t i = 0; i < rank; ++i) numbers >> element_strides[i];
  numbers >> swizzle >> fill;
  if (im2col) {
    call("cuTensorMapEncodeIm2col", static_cast<void*>(&map), type, rank, reinterpret_cast<void*>(address), &sizes[0],
         &strides[0], &lower[0], &upper[0], channels, pixels, &element_strides[0], 0, swizzle, 0, fill);
    return map;
  }
  call("cuTensorMapEncodeTiled", static_cast<void*>(&map), type, rank, reinterpret_cast<void*>(address), &sizes[0],
       &strides[0], &box[0], &element_strides[0], 0, swizzle, 0, fill);
  return map;
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) {
    std::fprintf(stderr, "usage: launch_kernels JOBS\n");
    return 2;
  }
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) {
    std::fprintf(stderr, "no CUDA driver\n");
    return 2;
  }
  const std::string jobs = words[1], folder = jobs.substr(0, jobs.rfind('/') + 1);
  int device = 0;
  void *context = nullptr, *module = nullptr, *function = nullptr;
  call("cuInit", 0U);
  call("cuDeviceGet", &device, 0);
  call("cuDevicePrimaryCtxRetain", &context, device);
  call("cuCtxSetCurrent", context);
  char name[100] = {};
  call("cuDeviceGetName", &name[0], 100, device);
  int driver = 0;
  call("cuDriverGetVersion", &driver);
  std::ofstream(folder + "gpu.txt") << name << ", driver API " << driver << '\n';

  unsigned grid[3], block[3], shared = 0;
  std::vector<Memory> memories;
  std::vector<Value> values;
  int launches = 0;
  std::ifstream lines(jobs);
  for (std::string line; std::getline(lines, line);) {
    ++line_of_jobs;
    std::istringstream text(line);
    std::string verb, first;
    text >> verb >> first;
    if (verb == "module") {
      std::vector<char> image = read(folder + first);
      image.push_back(0);
      call("cuModuleLoadData", &module, static_cast<const void*>(image.data()));
    } else if (verb == "launch") {
      call("cuModuleGetFunction", &function, module, first.c_str());
      text >> grid[0] >> grid[1] >> grid[2] >> block[0] >> block[1] >> block[2] >> shared;
      if (shared > 48 * 1024) call("cuFuncSetAttribute", function, 8, static_cast<int>(shared));
      memories.clear();
      values.clear();
    } else if (verb == "memory" || verb == "map" || verb == "im2col") {
      Memory memory{.file = folder + first, .bytes = read(folder + first)};
      call("cuMemAlloc_v2", &memory.address, memory.bytes.size());
      call("cuMemcpyHtoD_v2", memory.address, static_cast<const void*>(memory.bytes.data()), memory.bytes.size());
      values.push_back(verb == "memory" ? Value{{memory.address}} : tensor_map(text, memory.address, verb == "im2col"));
      memories.push_back(std::move(memory));
    } else if (verb == "value") {
      values.push_back({{std::strtoull(first.c_str(), nullptr, 16)}});
    } else if (verb == "run") {
      std::vector<void*> parameters;
      for (Value& value : values) parameters.push_back(&value);
      call("cuLaunchKernel", function, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared,
           static_cast<void*>(nullptr), parameters.data(), static_cast<void**>(nullptr));
      call("cuCtxSynchronize");
      for (Memory& memory : memories) {
        call("cuMemcpyDtoH_v2", static_cast<void*>(memory.bytes.data()), memory.address, memory.bytes.size());
        call("cuMemFree_v2", memory.address);
        std::ofstream(memory.file + ".gpu", std::ios::binary)
            .write(memory.bytes.data(), static_cast<std::streamsize>(memory.bytes.size()));
      }
      ++launches;
    }
  }
  std::printf("%d launches on %s\n", launches, name);
  return 0;
}
