// SPDX-License-Identifier: MIT
// What a GPU's textures and surfaces return: the bits of linear filtering, which texel a coordinate means, and what
// lies outside of an array.
//
//   nvcc -std=c++20 -arch=sm_90 -o record_textures lab/record_textures.cu && ./record_textures FOLDER
//   ./record_textures FOLDER 9    # what the first recording left open: also in data/kernels/textures.tar.xz
//   ./record_textures FOLDER 10   # what both left open: there, too
//   nvcc -std=c++20 -arch=sm_90 -DSURFACES -o record_surfaces lab/record_textures.cu && ./record_surfaces OTHER_FOLDER
//
// With -DSURFACES queries and surfaces, in a program of their own: a driver that does not load a module loads none of
// it. FOLDER/textures.txt has a line for each case, FOLDER/textures.bin the words of all cases one after another. A
// line is NAME key=value...; `texels=BYTES` bytes of texels, `coordinates=WORDS` and `results=WORDS` stand at
// `at=OFFSET`, in this order. A fetch has `per` words of coordinates and `keep` words of results. Without coordinates,
// `fetches=grid` means the centre of each texel in order of addresses, and `fetches=pairs` x = 2 p + 0.5 + a / 256 for
// each p, and a from 0 to 256. `error=NUMBER` is CUDA's error in place of results.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

enum class Op { tex, tex_integer, level, gather_r, gather_g, gather_b, gather_a };
enum class Kind { array, linear, pitch };
enum class Type { u8, s8, u16, s16, u32, s32, f16, f32 };
const char* const op_names[] = {"tex", "tex_integer", "level", "gather_r", "gather_g", "gather_b", "gather_a"};
const char* const kind_names[] = {"array", "linear", "pitch"};
const char* const type_names[] = {"u8", "s8", "u16", "s16", "u32", "s32", "f16", "f32"};
const char* const mode_names[] = {"wrap", "clamp", "mirror", "border"};

int bytes_of(Type type) { return type <= Type::s8 ? 1 : type <= Type::s16 || type == Type::f16 ? 2 : 4; }

struct Random {
  uint64_t state;
  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  int below(int n) { return int(next() >> 33) % n; }
  double unit() { return double(next() >> 11) * 0x1p-53; }
};

struct Case {
  std::string name;
  int dims = 1;
  bool is_layered = false;
  Kind kind = Kind::array;
  Type type = Type::f32;
  int channels = 1;
  int width = 1, height = 1, depth = 1;  // depth: of a layered array, its layers
  int modes[3] = {1, 1, 1};
  bool is_linear = false, is_normalized = false, reads_normalized = false;
  float border[4] = {0, 0, 0, 0};
  Op op = Op::tex;
  char result = 'f';  // f32, u32 or s32
  float level = 0;
  std::string fetches = "list";
  int keep = 1;
  std::vector<uint8_t> texels;
  std::vector<uint32_t> coordinates;
  int per() const { return dims + (is_layered ? 1 : 0); }
};

uint32_t word(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return bits;
}

struct Call {
  cudaTextureObject_t texture;
  const uint32_t* coordinates;
  uint32_t* results;
  int count, per, shape;  // shape: 1, 2, 3 dimensions; 4: a1d, 5: a2d
  Op op;
  char result;
  float level;
};

#define FETCH_F(text, ...) \
  asm volatile(text : "=f"(f[0]), "=f"(f[1]), "=f"(f[2]), "=f"(f[3]) : "l"(call.texture), __VA_ARGS__)
#define FETCH_R(text, ...) \
  asm volatile(text : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "l"(call.texture), __VA_ARGS__)
#define FETCH(before, type, after, ...)                                         \
  if (call.result == 'f') {                                                     \
    FETCH_F(before ".v4.f32." type " {%0,%1,%2,%3}, [%4, " after, __VA_ARGS__); \
    for (int i = 0; i < 4; ++i) r[i] = __float_as_uint(f[i]);                   \
  } else if (call.result == 'u') {                                              \
    FETCH_R(before ".v4.u32." type " {%0,%1,%2,%3}, [%4, " after, __VA_ARGS__); \
  } else {                                                                      \
    FETCH_R(before ".v4.s32." type " {%0,%1,%2,%3}, [%4, " after, __VA_ARGS__); \
  }

__global__ void fetch(Call call) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= call.count) return;
  float f[4], x[4] = {0, 0, 0, 0};
  uint32_t r[4], n[4] = {0, 0, 0, 0};
  for (int c = 0; c < call.per; ++c) {
    n[c] = call.coordinates[i * call.per + c];
    x[c] = __uint_as_float(n[c]);
  }
  if (call.op == Op::tex) {
    switch (call.shape) {
      case 1: FETCH("tex.1d", "f32", "{%5}];", "f"(x[0])); break;
      case 2: FETCH("tex.2d", "f32", "{%5,%6}];", "f"(x[0]), "f"(x[1])); break;
      case 3: FETCH("tex.3d", "f32", "{%5,%6,%7,%8}];", "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(0.0f)); break;
      case 4: FETCH("tex.a1d", "f32", "{%5,%6}];", "r"(n[0]), "f"(x[1])); break;
      case 5: FETCH("tex.a2d", "f32", "{%5,%6,%7,%8}];", "r"(n[0]), "f"(x[1]), "f"(x[2]), "f"(0.0f)); break;
    }
  } else if (call.op == Op::tex_integer) {
    switch (call.shape) {
      case 1: FETCH("tex.1d", "s32", "{%5}];", "r"(n[0])); break;
      case 2: FETCH("tex.2d", "s32", "{%5,%6}];", "r"(n[0]), "r"(n[1])); break;
      case 3: FETCH("tex.3d", "s32", "{%5,%6,%7,%8}];", "r"(n[0]), "r"(n[1]), "r"(n[2]), "r"(0)); break;
      case 4: FETCH("tex.a1d", "s32", "{%5,%6}];", "r"(n[0]), "r"(n[1])); break;
      case 5: FETCH("tex.a2d", "s32", "{%5,%6,%7,%8}];", "r"(n[0]), "r"(n[1]), "r"(n[2]), "r"(0)); break;
    }
  } else if (call.op == Op::level) {
    switch (call.shape) {
      case 1: FETCH("tex.level.1d", "f32", "{%5}], %6;", "f"(x[0]), "f"(call.level)); break;
      case 2: FETCH("tex.level.2d", "f32", "{%5,%6}], %7;", "f"(x[0]), "f"(x[1]), "f"(call.level)); break;
      case 3:
        FETCH("tex.level.3d", "f32", "{%5,%6,%7,%8}], %9;", "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(0.0f),
              "f"(call.level));
        break;
      case 4: FETCH("tex.level.a1d", "f32", "{%5,%6}], %7;", "r"(n[0]), "f"(x[1]), "f"(call.level)); break;
      case 5:
        FETCH("tex.level.a2d", "f32", "{%5,%6,%7,%8}], %9;", "r"(n[0]), "f"(x[1]), "f"(x[2]), "f"(0.0f),
              "f"(call.level));
        break;
    }
  } else if (call.shape == 2) {
    switch (call.op) {
      case Op::gather_r: FETCH("tld4.r.2d", "f32", "{%5,%6}];", "f"(x[0]), "f"(x[1])); break;
      case Op::gather_g: FETCH("tld4.g.2d", "f32", "{%5,%6}];", "f"(x[0]), "f"(x[1])); break;
      case Op::gather_b: FETCH("tld4.b.2d", "f32", "{%5,%6}];", "f"(x[0]), "f"(x[1])); break;
      default: FETCH("tld4.a.2d", "f32", "{%5,%6}];", "f"(x[0]), "f"(x[1])); break;
    }
  } else {
    switch (call.op) {
      case Op::gather_r:
        FETCH("tld4.r.a2d", "f32", "{%5,%6,%7,%8}];", "r"(n[0]), "f"(x[1]), "f"(x[2]), "f"(0.0f));
        break;
      default: FETCH("tld4.g.a2d", "f32", "{%5,%6,%7,%8}];", "r"(n[0]), "f"(x[1]), "f"(x[2]), "f"(0.0f)); break;
    }
  }
  for (int c = 0; c < 4; ++c) call.results[4 * i + c] = r[c];
}

FILE *text, *binary;
long offset = 0;

void put(const void* data, size_t bytes) {
  std::fwrite(data, 1, bytes, binary);
  offset += long(bytes);
}

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(2);
}

cudaChannelFormatDesc channel_desc(Type type, int channels) {
  const int bits = 8 * bytes_of(type);
  const cudaChannelFormatKind kind = type >= Type::f16 ? cudaChannelFormatKindFloat
                                     : type == Type::u8 || type == Type::u16 || type == Type::u32
                                         ? cudaChannelFormatKindUnsigned
                                         : cudaChannelFormatKindSigned;
  return cudaCreateChannelDesc(bits, channels > 1 ? bits : 0, channels > 2 ? bits : 0, channels > 2 ? bits : 0, kind);
}

struct Resource {
  cudaResourceDesc desc = {};
  cudaArray_t array = nullptr;
  void* memory = nullptr;
  cudaError_t error = cudaSuccess;
};

Resource make_resource(const Case& c, unsigned flags) {
  Resource made;
  const cudaChannelFormatDesc channels = channel_desc(c.type, c.channels);
  const size_t texel = size_t(c.channels) * bytes_of(c.type), row = texel * c.width;
  if (c.kind == Kind::array) {
    const bool has_depth = c.dims == 3 || c.is_layered;
    const cudaExtent extent = make_cudaExtent(c.width, c.dims >= 2 ? c.height : 0, has_depth ? c.depth : 0);
    made.error = cudaMalloc3DArray(&made.array, &channels, extent, flags | (c.is_layered ? cudaArrayLayered : 0));
    if (made.error != cudaSuccess) return made;
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(const_cast<uint8_t*>(c.texels.data()), row, c.width, c.dims >= 2 ? c.height : 1);
    copy.dstArray = made.array;
    copy.extent = make_cudaExtent(c.width, c.dims >= 2 ? c.height : 1, has_depth ? c.depth : 1);
    copy.kind = cudaMemcpyHostToDevice;
    check(cudaMemcpy3D(&copy), "cudaMemcpy3D");
    made.desc.resType = cudaResourceTypeArray;
    made.desc.res.array.array = made.array;
  } else if (c.kind == Kind::linear) {
    // Bytes on both sides that are not zero: a fetch outside that returned them would show.
    const size_t bytes = row + 8192;
    check(cudaMalloc(&made.memory, bytes), "cudaMalloc");
    check(cudaMemset(made.memory, 0x5a, bytes), "cudaMemset");
    made.desc.resType = cudaResourceTypeLinear;
    made.desc.res.linear = {static_cast<uint8_t*>(made.memory) + 4096, channels, row};
    check(cudaMemcpy(made.desc.res.linear.devPtr, c.texels.data(), row, cudaMemcpyHostToDevice), "cudaMemcpy");
  } else {
    const size_t pitch = (row + 511) / 512 * 512;
    check(cudaMalloc(&made.memory, pitch * c.height), "cudaMalloc");
    check(cudaMemset(made.memory, 0x5a, pitch * c.height), "cudaMemset");
    check(cudaMemcpy2D(made.memory, pitch, c.texels.data(), row, row, c.height, cudaMemcpyHostToDevice),
          "cudaMemcpy2D");
    made.desc.resType = cudaResourceTypePitch2D;
    made.desc.res.pitch2D = {made.memory, channels, size_t(c.width), size_t(c.height), pitch};
  }
  return made;
}

void release(Resource& resource) {
  if (resource.array) cudaFreeArray(resource.array);
  if (resource.memory) cudaFree(resource.memory);
}

cudaTextureDesc texture_desc(const Case& c) {
  cudaTextureDesc desc = {};
  for (int i = 0; i < 3; ++i) desc.addressMode[i] = cudaTextureAddressMode(c.modes[i]);
  desc.filterMode = c.is_linear ? cudaFilterModeLinear : cudaFilterModePoint;
  desc.readMode = c.reads_normalized ? cudaReadModeNormalizedFloat : cudaReadModeElementType;
  desc.normalizedCoords = c.is_normalized;
  std::memcpy(desc.borderColor, c.border, 16);
  return desc;
}

void describe(const Case& c) {
  std::fprintf(text,
               "%s op=%s result=%c dims=%d layered=%d resource=%s type=%s channels=%d width=%d height=%d depth=%d "
               "modes=%s,%s,%s filter=%s coordinates_normalized=%d read_normalized=%d border=%08x,%08x,%08x,%08x "
               "level=%g",
               c.name.c_str(), op_names[int(c.op)], c.result, c.dims, c.is_layered, kind_names[int(c.kind)],
               type_names[int(c.type)], c.channels, c.width, c.height, c.depth, mode_names[c.modes[0]],
               mode_names[c.modes[1]], mode_names[c.modes[2]], c.is_linear ? "linear" : "point", c.is_normalized,
               c.reads_normalized, word(c.border[0]), word(c.border[1]), word(c.border[2]), word(c.border[3]), c.level);
}

void record(const Case& c) {
  describe(c);
  Resource resource = make_resource(c, c.op >= Op::gather_r ? cudaArrayTextureGather : 0);
  cudaTextureObject_t texture = 0;
  const cudaTextureDesc desc = texture_desc(c);
  if (resource.error == cudaSuccess) resource.error = cudaCreateTextureObject(&texture, &resource.desc, &desc, nullptr);
  if (resource.error != cudaSuccess) {
    cudaGetLastError();
    std::fprintf(text, " error=%d\n", int(resource.error));
    release(resource);
    return;
  }
  std::vector<uint32_t> coordinates = c.coordinates;
  if (c.fetches == "grid") {
    for (int z = 0; z < c.depth; ++z)
      for (int y = 0; y < c.height; ++y)
        for (int x = 0; x < c.width; ++x) {
          coordinates.push_back(word(x + 0.5f));
          if (c.dims >= 2) coordinates.push_back(word(y + 0.5f));
          if (c.dims >= 3) coordinates.push_back(word(z + 0.5f));
        }
  } else if (c.fetches == "pairs") {
    for (int p = 0; p < c.width / 2; ++p)
      for (int a = 0; a <= 256; ++a) coordinates.push_back(word(float(2 * p + 0.5 + a / 256.0)));
  }
  const int count = int(coordinates.size()) / c.per();
  uint32_t *device_coordinates, *device_results;
  check(cudaMalloc(&device_coordinates, coordinates.size() * 4), "cudaMalloc");
  check(cudaMalloc(&device_results, size_t(count) * 16), "cudaMalloc");
  check(cudaMemcpy(device_coordinates, coordinates.data(), coordinates.size() * 4, cudaMemcpyHostToDevice), "copy");
  const int shape = c.is_layered ? 3 + c.dims : c.dims;
  fetch<<<(count + 127) / 128, 128>>>(
      {texture, device_coordinates, device_results, count, c.per(), shape, c.op, c.result, c.level});
  check(cudaGetLastError(), "a launch");
  check(cudaDeviceSynchronize(), c.name.c_str());
  std::vector<uint32_t> results(size_t(count) * 4), kept;
  check(cudaMemcpy(results.data(), device_results, results.size() * 4, cudaMemcpyDeviceToHost), "copy");
  for (int i = 0; i < count; ++i)
    for (int k = 0; k < c.keep; ++k) kept.push_back(results[size_t(i) * 4 + k]);
  std::fprintf(text, " fetches=%s per=%d keep=%d at=%ld texels=%zu coordinates=%zu results=%zu\n", c.fetches.c_str(),
               c.per(), c.keep, offset, c.texels.size(), c.coordinates.size(), kept.size());
  put(c.texels.data(), c.texels.size());
  put(c.coordinates.data(), c.coordinates.size() * 4);
  put(kept.data(), kept.size() * 4);
  cudaFree(device_coordinates);
  cudaFree(device_results);
  cudaDestroyTextureObject(texture);
  release(resource);
}

// Texels.
void add(std::vector<uint8_t>& bytes, uint32_t value, int size) {
  for (int i = 0; i < size; ++i) bytes.push_back(uint8_t(value >> (8 * i)));
}
std::vector<uint8_t> ramp(int texels) {
  std::vector<uint8_t> bytes;
  for (int i = 0; i < texels; ++i) add(bytes, word(float(i)), 4);
  return bytes;
}
/// `style`: 0 a random significand, 1: exponents from -4 to 4 too, 2: from -12 to 12, 3: from -40 to 40, 4: powers of
/// two, 5: each second texel (of all dimensions) is 0, 6: only each second one in each dimension is not 0, 7: special
/// values, 8: all positive with one exponent, 9: small integers. Signs are random but for 8.
std::vector<uint8_t> floats(int width, int height, int depth, int style, uint64_t seed) {
  const uint32_t special[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x7f812345, 0x00000000, 0x80000000,
                              0x3f800000, 0xbf800000, 0x00000001, 0x80000003, 0x007fffff, 0x00800000, 0x7f7fffff,
                              0xff7fffff, 0x7f000001, 0x00ffffff, 0x01000001, 0x3f800001, 0x4b800001};
  Random random{seed};
  std::vector<uint8_t> bytes;
  for (int z = 0; z < depth; ++z)
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x) {
        const uint32_t bits = uint32_t(random.next() >> 32), sign = bits & 0x80000000, significand = bits & 0x7fffff;
        const int spread = style == 1 ? 4 : style == 2 ? 12 : style == 3 ? 40 : style == 4 ? 6 : 0;
        const uint32_t exponent = uint32_t(127 + (spread ? random.below(2 * spread + 1) - spread : 0)) << 23;
        uint32_t value = sign | exponent | significand;
        if (style == 4) value = sign | exponent;
        if (style == 5 && (x + y + z) % 2 == 0) value = 0;
        if (style == 6 && (x % 2 == 0 || (height > 1 && y % 2 == 0) || (depth > 1 && z % 2 == 0))) value = 0;
        if (style == 7) value = special[random.below(20)];
        if (style == 8) value = exponent | significand;
        if (style == 9) value = word(float(int(bits % 16)));
        add(bytes, value, 4);
      }
  return bytes;
}
std::vector<uint8_t> random_bytes(size_t count, uint64_t seed) {
  Random random{seed};
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < count; ++i) bytes.push_back(uint8_t(random.next() >> 40));
  return bytes;
}
/// f16 without NaN and infinity; `style` 0: one exponent, 1: all.
std::vector<uint8_t> halves(size_t count, int style, uint64_t seed) {
  Random random{seed};
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = uint32_t(random.next() >> 32);
    add(bytes, style == 0 ? (bits & 0x83ff) | 0x3c00 : (bits & 0x7c00) == 0x7c00 ? bits & 0x83ff : bits & 0xffff, 2);
  }
  return bytes;
}

// Coordinates.
float step(float x, int ulps) {
  for (int i = 0; i < std::abs(ulps); ++i) x = std::nextafterf(x, ulps > 0 ? INFINITY : -INFINITY);
  return x;
}
/// Coordinates that are hard for an address mode: edges, infinities, NaN, huge and tiny ones.
std::vector<float> hard(int size, bool is_normalized) {
  const float one = is_normalized ? 1.0f : float(size);
  std::vector<float> list = {0.0f,   -0.0f,   INFINITY, -INFINITY, NAN,     -NAN,
                             1e-45f, -1e-45f, 1e-30f,   -1e-30f,   3.4e38f, -3.4e38f};
  for (int k = -4; k <= 4; ++k)
    for (int ulps = -2; ulps <= 2; ++ulps) {
      list.push_back(step(k * one, ulps));
      list.push_back(step((k + 0.5f) * one, ulps));
      list.push_back(step(k * one + 0.5f * one / size, ulps));
      list.push_back(step(k * one - 0.5f * one / size, ulps));
    }
  for (int e = -20; e <= 40; ++e)
    for (const float sign : {1.0f, -1.0f}) {
      list.push_back(sign * std::ldexp(1.0f, e));
      list.push_back(sign * std::ldexp(1.5f, e));
      list.push_back(sign * std::ldexp(1.2345671f, e));
    }
  return list;
}
std::vector<uint32_t> words(const std::vector<float>& list) {
  std::vector<uint32_t> result;
  for (const float x : list) result.push_back(word(x));
  return result;
}
/// Random places in and around a texture; half of them at multiples of 1/256 of a texel from a centre.
std::vector<uint32_t> places(int count, const int* extent, int dims, uint64_t seed, bool is_inside = true) {
  Random random{seed};
  std::vector<uint32_t> result;
  for (int i = 0; i < count; ++i)
    for (int d = 0; d < dims; ++d) {
      double x = is_inside ? 0.5 + random.unit() * (extent[d] - 1) : (3 * random.unit() - 1) * extent[d];
      if (i % 2) x = std::floor(x * 256) / 256;
      result.push_back(word(float(x)));
    }
  return result;
}
std::vector<float> dense(int size, std::initializer_list<int> texels, bool is_normalized) {
  std::vector<float> list;
  for (const int k : texels)
    for (int j = 0; j < 512; ++j)
      for (int ulps = -1; ulps <= 1; ++ulps) {
        const double x = k + j / 512.0;
        list.push_back(step(float(is_normalized ? x / size : x), ulps));
      }
  for (const int k : texels)
    for (int j = 1; j < 64; ++j)
      for (int e = 10; e <= 22; ++e)
        for (const int sign : {1, -1}) {
          const double x = k + (8 * j + 1) / 512.0 + sign * std::ldexp(1.0, -e);
          list.push_back(float(is_normalized ? x / size : x));
        }
  return list;
}

void filtered_coordinates() {
  for (const int size : {64, 37}) {
    Case c{.name = "fraction", .width = size, .is_linear = true, .texels = ramp(size)};
    c.coordinates = words(dense(size, {0, 1, 2, 5, 31, 35}, false));
    record(c);
  }
  for (const int size : {4096, 32768}) {
    Case c{.name = "fraction", .width = size, .is_linear = true, .texels = ramp(size)};
    c.coordinates = words(size == 4096 ? dense(size, {100, 4000}, false) : dense(size, {20001, 30000}, false));
    record(c);
  }
  for (const int size : {64, 63, 37, 100, 1000, 4096, 30011}) {
    for (const bool is_linear : {false, true}) {
      Case c{.name = "scaled", .width = size, .is_linear = is_linear, .is_normalized = true, .texels = ramp(size)};
      if (is_linear) {
        const int k = size / 3, m = size - 2;
        c.coordinates = words(dense(size, {k}, true));
        const std::vector<uint32_t> more = words(dense(size, {m}, true));
        c.coordinates.insert(c.coordinates.end(), more.begin(), more.begin() + 1536);
      }
      Random random{uint64_t(size)};
      for (int i = 0; i < 1500; ++i) {
        const int k = size < 1500 ? i % size : random.below(size);
        c.coordinates.push_back(word(step(float(double(k) / size), random.below(9) - 4)));
      }
      for (int i = 0; i < 500; ++i) c.coordinates.push_back(word(float(random.unit())));
      record(c);
    }
  }
  for (const int size : {64, 1000}) {
    Case c{.name = "point", .width = size, .texels = ramp(size)};
    for (int k = 0; k <= size; ++k)
      for (int ulps = -2; ulps <= 2; ++ulps) c.coordinates.push_back(word(step(float(k), ulps)));
    for (int k = 0; k < 40; ++k)
      for (int e = 5; e < 25; ++e) {
        c.coordinates.push_back(word(float(k + std::ldexp(1.0, -e))));
        c.coordinates.push_back(word(float(k - std::ldexp(1.0, -e))));
      }
    record(c);
  }
}

void address_modes() {
  for (const int size : {64, 37, 1})
    for (int mode = 0; mode < 4; ++mode)
      for (const bool is_normalized : {false, true})
        for (const bool is_linear : {false, true}) {
          Case c{.name = "address", .width = size, .is_linear = is_linear, .is_normalized = is_normalized};
          c.modes[0] = c.modes[1] = c.modes[2] = mode;
          c.border[0] = -8.0f;
          c.texels = ramp(size);
          c.coordinates = words(hard(size, is_normalized));
          Random random{uint64_t(size + mode)};
          for (int i = 0; i < 600; ++i) {
            const double x = (random.unit() * 8 - 4) * (is_normalized ? 1 : size);
            c.coordinates.push_back(word(float(x)));
          }
          record(c);
        }
  for (int x = 0; x < 4; ++x)
    for (int y = 0; y < 4; ++y)
      for (const bool is_linear : {false, true}) {
        Case c{.name = "address", .dims = 2, .width = 13, .height = 7, .is_linear = is_linear, .is_normalized = true};
        c.modes[0] = x, c.modes[1] = y;
        c.border[0] = 1024.0f;
        c.texels = floats(13, 7, 1, 9, 5);
        const int extent[] = {1, 1};
        c.coordinates = places(300, extent, 2, 9, false);
        record(c);
      }
  for (const bool is_linear : {false, true}) {
    Case c{.name = "address",
           .dims = 3,
           .width = 5,
           .height = 4,
           .depth = 3,
           .is_linear = is_linear,
           .is_normalized = true};
    c.modes[0] = 3, c.modes[1] = 0, c.modes[2] = 2;
    c.border[0] = 64.0f;
    c.texels = floats(5, 4, 3, 9, 6);
    const int extent[] = {1, 1, 1};
    c.coordinates = places(500, extent, 3, 10, false);
    record(c);
  }
}

void filtered_floats() {
  for (int style = 0; style < 10; ++style) {
    Case one{.name = "filter", .width = 2048, .is_linear = true, .texels = floats(2048, 1, 1, style, 100 + style)};
    const int extent_1[] = {2048};
    one.coordinates = places(6000, extent_1, 1, 200 + style);
    record(one);
    Case two{.name = "filter", .dims = 2, .width = 64, .height = 64, .is_linear = true};
    two.texels = floats(64, 64, 1, style, 300 + style);
    const int extent_2[] = {64, 64};
    two.coordinates = places(9000, extent_2, 2, 400 + style);
    record(two);
    Case three{.name = "filter", .dims = 3, .width = 16, .height = 16, .depth = 16, .is_linear = true};
    three.texels = floats(16, 16, 16, style, 500 + style);
    const int extent_3[] = {16, 16, 16};
    three.coordinates = places(6000, extent_3, 3, 600 + style);
    record(three);
  }
  // The weight of each corner: a single 1 in a tile of 2 x 2 (x 2) texels.
  for (int corner = 0; corner < 8; ++corner)
    for (const int dims : {2, 3}) {
      if (dims == 2 && corner >= 4) continue;
      Case c{.name = "weight", .dims = dims, .width = 2, .height = 2, .depth = dims == 3 ? 2 : 1, .is_linear = true};
      for (int i = 0; i < (dims == 3 ? 8 : 4); ++i) add(c.texels, word(i == corner ? 1.0f : 0.0f), 4);
      const int extent[] = {2, 2, 2};
      c.coordinates = places(4000, extent, dims, 700 + corner);
      record(c);
    }
  // In each texture of these, one significand: what is lost of the product with a weight.
  for (const uint32_t bits : {0x3fffffffu, 0x3f800001u, 0x3faaaaabu}) {
    Case c{.name = "product", .width = 4, .is_linear = true};
    for (int i = 0; i < 4; ++i) add(c.texels, i % 2 ? bits : 0, 4);
    c.fetches = "pairs";
    record(c);
  }
}

void filtered_small_types() {
  for (const Type type : {Type::u8, Type::s8, Type::u16, Type::s16, Type::f16}) {
    const int size = bytes_of(type);
    const bool is_float = type == Type::f16;
    const auto texels = [&](size_t count, int style, uint64_t seed) {
      return is_float ? halves(count, style, seed) : random_bytes(count * size, seed);
    };
    // Each value as it is.
    Case values{.name = "values", .dims = 2, .type = type, .width = 256, .height = size == 1 ? 1 : 256};
    values.reads_normalized = !is_float;
    values.fetches = "grid";
    for (int i = 0; i < (size == 1 ? 256 : 65536); ++i) add(values.texels, i, size);
    record(values);
    // 0 and a value, in all weights.
    Case pairs{.name = "pairs", .type = type, .width = 512, .is_linear = true, .reads_normalized = !is_float};
    pairs.fetches = "pairs";
    Random random{uint64_t(type) + 77};
    for (int i = 0; i < 256; ++i) {
      add(pairs.texels, 0, size);
      add(pairs.texels, size == 1 ? i : is_float ? 0x3c00 | (random.below(1024)) : random.below(65536), size);
    }
    record(pairs);
    for (int style = 0; style < (is_float ? 2 : 1); ++style) {
      Case one{.name = "filter", .type = type, .width = 2048, .is_linear = true, .reads_normalized = !is_float};
      one.texels = texels(2048, style, 800);
      const int extent_1[] = {2048};
      one.coordinates = places(6000, extent_1, 1, 801);
      record(one);
      Case two{.name = "filter", .dims = 2, .type = type, .width = 64, .height = 64, .is_linear = true};
      two.reads_normalized = !is_float;
      two.texels = texels(4096, style, 802);
      const int extent_2[] = {64, 64};
      two.coordinates = places(12000, extent_2, 2, 803);
      record(two);
      Case three{.name = "filter", .dims = 3, .type = type, .width = 16, .height = 16, .depth = 16, .is_linear = true};
      three.reads_normalized = !is_float;
      three.texels = texels(4096, style, 804);
      const int extent_3[] = {16, 16, 16};
      three.coordinates = places(8000, extent_3, 3, 805);
      record(three);
    }
  }
  // Channels do not differ.
  for (const Type type : {Type::u8, Type::s8, Type::u16, Type::s16, Type::f16, Type::f32})
    for (const int channels : {2, 4}) {
      Case c{.name = "channels",
             .dims = 2,
             .type = type,
             .channels = channels,
             .width = 16,
             .height = 16,
             .is_linear = true};
      c.reads_normalized = type < Type::f16;
      c.keep = 4;
      c.texels = type == Type::f16   ? halves(256 * channels, 1, 900)
                 : type == Type::f32 ? floats(256 * channels, 1, 1, 1, 900)
                                     : random_bytes(256 * channels * bytes_of(type), 900);
      const int extent[] = {16, 16};
      c.coordinates = places(600, extent, 2, 901);
      record(c);
    }
}

void points_of_types() {
  for (int t = 0; t < 8; ++t)
    for (const int channels : {1, 2, 4})
      for (const char result : {'f', 'u', 's'})
        for (const bool reads_normalized : {false, true}) {
          const Type type = Type(t);
          if (reads_normalized && type >= Type::u32) continue;
          Case c{.name = "type", .dims = 2, .type = type, .channels = channels, .width = 8, .height = 4};
          c.result = result;
          c.reads_normalized = reads_normalized;
          c.modes[0] = c.modes[1] = 3;
          const float border[] = {0.75f, -3.5f, 300.25f, 1e-3f};
          std::memcpy(c.border, border, 16);
          c.keep = 4;
          c.texels = random_bytes(32 * channels * bytes_of(type), 1000 + t);
          for (int y = -1; y < 5; ++y)
            for (int x = -1; x < 9; ++x)
              c.coordinates.push_back(word(x + 0.5f)), c.coordinates.push_back(word(y + 0.5f));
          record(c);
        }
  for (int t = 0; t < 6; ++t) {  // filters of integers, which CUDA refuses
    Case c{.name = "type", .dims = 2, .type = Type(t), .width = 8, .height = 4, .is_linear = true};
    c.texels = random_bytes(32 * bytes_of(c.type), 1100);
    c.coordinates = {word(1.25f), word(1.5f)};
    record(c);
  }
  // A border that is filtered, in each type.
  for (const Type type : {Type::u8, Type::s8, Type::u16, Type::s16, Type::f16, Type::f32}) {
    Case c{.name = "border", .dims = 2, .type = type, .channels = 4, .width = 4, .height = 4, .is_linear = true};
    c.reads_normalized = type < Type::f16;
    c.modes[0] = c.modes[1] = 3;
    const float border[] = {0.7123456f, -3.5123f, 0.33333f, 1e-3f};
    std::memcpy(c.border, border, 16);
    c.keep = 4;
    c.texels = type == Type::f16   ? halves(64, 0, 1200)
               : type == Type::f32 ? floats(64, 1, 1, 0, 1200)
                                   : random_bytes(64 * bytes_of(type), 1200);
    const int extent[] = {4, 4};
    c.coordinates = places(500, extent, 2, 1201, false);
    record(c);
  }
  // Special values and subnormal numbers of f32, f16 as they are.
  Case special{.name = "values", .dims = 2, .width = 20, .height = 20, .texels = floats(20, 20, 1, 7, 1300)};
  special.fetches = "grid";
  record(special);
}

void other_fetches() {
  for (int mode = 0; mode < 4; ++mode)
    for (const int dims : {1, 2, 3}) {
      Case c{.name = "integer", .dims = dims, .width = 9, .height = dims > 1 ? 5 : 1, .depth = dims > 2 ? 3 : 1};
      c.op = Op::tex_integer;
      c.modes[0] = c.modes[1] = c.modes[2] = mode;
      c.border[0] = -8.0f;
      c.texels = ramp(9 * c.height * c.depth);
      Random random{uint64_t(mode)};
      for (int i = 0; i < 200; ++i)
        for (int d = 0; d < dims; ++d) c.coordinates.push_back(uint32_t(random.below(20) - 6));
      for (const uint32_t far : {0x7fffffffu, 0x80000000u, 0xffffffffu, 0x00010000u, 0x40000000u})
        for (int d = 0; d < dims; ++d) c.coordinates.push_back(far);
      record(c);
      c.is_linear = true;
      record(c);
      c.is_linear = false, c.is_normalized = true;
      record(c);
    }
  for (const Type type : {Type::f32, Type::u8, Type::s16, Type::f16})
    for (int mode = 0; mode < 4; ++mode)
      for (const bool is_float : {false, true}) {
        Case c{.name = "linear_memory", .kind = Kind::linear, .type = type, .width = 100};
        c.op = is_float ? Op::tex : Op::tex_integer;
        c.modes[0] = mode;
        c.border[0] = -8.0f;
        c.result = type == Type::u8 ? 'u' : type == Type::s16 ? 's' : 'f';
        c.keep = 4;
        c.texels = random_bytes(100 * bytes_of(type), 1400);
        for (int i = -20; i < 140; ++i) c.coordinates.push_back(is_float ? word(i + 0.25f) : uint32_t(i));
        for (const uint32_t far : {0x7fffffffu, 0x80000000u, 0x00100000u})
          c.coordinates.push_back(is_float ? word(float(int(far))) : far);
        record(c);
        if (mode == 1) {
          c.reads_normalized = true;
          record(c);
          c.reads_normalized = false, c.is_normalized = true;
          record(c);
          c.is_normalized = false, c.is_linear = true;
          record(c);
        }
      }
  for (const bool is_linear : {false, true})
    for (int mode = 0; mode < 4; ++mode)
      for (const bool is_normalized : {false, true}) {
        Case c{.name = "pitch", .dims = 2, .kind = Kind::pitch, .width = 33, .height = 9, .is_linear = is_linear};
        c.is_normalized = is_normalized;
        c.modes[0] = c.modes[1] = mode;
        c.border[0] = -8.0f;
        c.texels = floats(33, 9, 1, 1, 1500);
        const int extent[] = {is_normalized ? 1 : 33, is_normalized ? 1 : 9};
        c.coordinates = places(400, extent, 2, 1501, false);
        record(c);
      }
  for (const float level : {0.0f, 0.3f, 0.75f, 3.0f, -2.0f, INFINITY, NAN})
    for (const int dims : {1, 2, 3}) {
      Case c{.name = "level", .dims = dims, .width = 9, .height = dims > 1 ? 5 : 1, .depth = dims > 2 ? 3 : 1};
      c.is_linear = true;
      c.op = Op::level;
      c.level = level;
      c.texels = floats(9, c.height, c.depth, 0, 1600);
      const int extent[] = {9, 5, 3};
      c.coordinates = places(60, extent, dims, 1601, false);
      record(c);
    }
  for (const Op op : {Op::gather_r, Op::gather_g, Op::gather_b, Op::gather_a})
    for (const int channels : {1, 2, 4})
      for (const bool is_linear : {false, true})
        for (const int mode : {1, 3, 0}) {
          Case c{.name = "gather", .dims = 2, .channels = channels, .width = 9, .height = 7, .is_linear = is_linear};
          c.modes[0] = c.modes[1] = mode;
          c.is_normalized = mode == 0;
          const float border[] = {-1, -2, -3, -4};
          std::memcpy(c.border, border, 16);
          c.op = op;
          c.keep = 4;
          c.texels = ramp(63 * channels);
          const int extent[] = {c.is_normalized ? 1 : 9, c.is_normalized ? 1 : 7};
          c.coordinates = places(100, extent, 2, 1701, false);
          if (op == Op::gather_r && channels == 1)
            for (int k = 0; k < 3; ++k)
              for (int j = 0; j < 512; j += 1) {
                c.coordinates.push_back(
                    word((2 + k + (j % 2 ? 0.5f : 0.0f) + (j / 2 - 128) / 16384.0f) / (c.is_normalized ? 9 : 1)));
                c.coordinates.push_back(word(3.25f / (c.is_normalized ? 7 : 1)));
              }
          record(c);
        }
  for (const Type type : {Type::u8, Type::s16, Type::f16}) {
    Case c{.name = "gather", .dims = 2, .type = type, .channels = 4, .width = 9, .height = 7};
    c.reads_normalized = type == Type::s16;
    c.result = type == Type::u8 ? 'u' : 'f';
    c.op = Op::gather_g;
    c.keep = 4;
    c.texels = random_bytes(63 * 4 * bytes_of(type), 1800);
    const int extent[] = {9, 7};
    c.coordinates = places(100, extent, 2, 1801, false);
    record(c);
  }
  for (const int dims : {1, 2})
    for (const bool is_linear : {false, true})
      for (const Op op : {Op::tex, Op::tex_integer, Op::level, Op::gather_r}) {
        if (op == Op::gather_r && dims == 1) continue;
        Case c{.name = "layers", .dims = dims, .is_layered = true, .width = 9, .height = dims > 1 ? 5 : 1, .depth = 4};
        c.is_linear = is_linear;
        c.op = op;
        c.keep = op == Op::gather_r ? 4 : 1;
        c.modes[0] = 3;
        c.border[0] = -8.0f;
        c.texels = ramp(9 * c.height * 4);
        Random random{1900};
        for (int i = 0; i < 200; ++i) {
          c.coordinates.push_back(i < 190 ? uint32_t(random.below(9) - 2) : uint32_t(random.next() >> 32));
          for (int d = 0; d < dims; ++d) {
            const int k = random.below(12 * 256) - 256;
            c.coordinates.push_back(op == Op::tex_integer ? uint32_t(k / 256) : word(float(k) / 256));
          }
        }
        record(c);
      }
}

/// What the first recording left open: from which size on a normalized coordinate has 22 bits, colours of borders, a
/// border in a dimension that texels do not have, special f16 values and -2^15 of s16 in filters.
void open_questions() {
  for (const int size : {1025,  1500,  1920,  2047,  2049,  3000,  4095,  4097,  5000,  8191,   8193,  10000,
                         12345, 16383, 16385, 20000, 25000, 32767, 40000, 65535, 65537, 100000, 131071})
    for (const bool is_linear : {false, true}) {
      Case c{.name = "scaled", .width = size, .is_linear = is_linear, .is_normalized = true, .texels = ramp(size)};
      Random random{uint64_t(size)};
      for (int i = 0; i < 400; ++i)
        c.coordinates.push_back(word(step(float(double(random.below(size)) / size), random.below(9) - 4)));
      for (int i = 0; i < 600; ++i) c.coordinates.push_back(word(float(random.unit() * (i % 2 ? 1 : 4) - (i % 3))));
      record(c);
    }
  for (const int dims : {2, 3})
    for (int d = 0; d < dims; ++d) {
      Case c{.name = "scaled", .dims = dims, .width = 3, .height = 3, .depth = dims > 2 ? 3 : 1, .is_linear = true};
      c.is_normalized = true;
      (d == 0 ? c.width : d == 1 ? c.height : c.depth) = dims == 2 ? 20000 : 3001;
      for (int z = 0; z < c.depth; ++z)
        for (int y = 0; y < c.height; ++y)
          for (int x = 0; x < c.width; ++x) add(c.texels, word(float(d == 0 ? x : d == 1 ? y : z)), 4);
      Random random{uint64_t(dims * 3 + d)};
      for (int i = 0; i < 600; ++i)
        for (int k = 0; k < dims; ++k) c.coordinates.push_back(word(k == d ? float(random.unit()) : 0.5f));
      record(c);
    }
  for (const Type type : {Type::u8, Type::s8, Type::u16, Type::s16, Type::f16, Type::u32, Type::s32}) {
    Random random{uint64_t(type) + 31};
    for (int i = 0; i < 150; ++i) {
      Case c{.name = "border", .type = type, .channels = 4, .width = 4};
      c.reads_normalized = type <= Type::s16 && i % 10 != 0;
      c.modes[0] = 3;
      c.keep = 4;
      for (float& colour : c.border) {
        const uint32_t bits = uint32_t(random.next() >> 32);
        colour = i % 3 == 0   ? float(random.unit() * 2.2 - 1.1)
                 : i % 3 == 1 ? float(random.below(65536)) / (random.below(2) ? 65535.0f : 65536.0f)
                              : std::ldexp(float(bits) * 0x1p-32f, type == Type::f16 ? random.below(50) - 30 : -6);
        if (c.type == Type::f16 && i == 149) std::memcpy(&colour, &bits, 4);
      }
      c.texels = random_bytes(16 * bytes_of(type), 1);
      c.coordinates = {word(-1.5f)};
      record(c);
    }
  }
  for (const int dims : {1, 2})
    for (const bool is_layered : {false, true}) {
      if (dims == 1 && !is_layered) continue;
      Case c{.name = "border", .dims = dims, .is_layered = is_layered, .width = 5, .height = dims > 1 ? 4 : 1};
      c.depth = is_layered ? 3 : 1;
      c.is_linear = true;
      c.modes[0] = c.modes[1] = c.modes[2] = 3;
      c.border[0] = -8.0f;
      c.texels = ramp(c.width * c.height * c.depth);
      Random random{77};
      for (int i = 0; i < 200; ++i) {
        if (is_layered) c.coordinates.push_back(uint32_t(random.below(3)));
        for (int d = 0; d < dims; ++d) c.coordinates.push_back(word(float(random.below(9 * 256)) / 256 - 2));
      }
      record(c);
    }
  for (const Type type : {Type::f16, Type::s16})
    for (const int dims : {1, 2, 3}) {
      const int n = dims == 1 ? 400 : dims == 2 ? 20 : 8;
      Case c{.name = "filter", .dims = dims, .type = type, .width = n, .height = dims > 1 ? n : 1, .is_linear = true};
      c.depth = dims > 2 ? n : 1;
      c.reads_normalized = type == Type::s16;
      const uint32_t special[] = {0x7c00, 0xfc00, 0x7e00, 0xfe01, 0x7c01, 0x0000,
                                  0x8000, 0x3c00, 0x8001, 0x7bff, 0xfbff};
      const uint32_t ends[] = {0x8000, 0x8000, 0x8001, 0x7fff, 0x0000, 0x8002, 0xffff};
      Random random{uint64_t(dims) + 5};
      for (int i = 0; i < c.width * c.height * c.depth; ++i)
        add(c.texels, type == Type::f16 ? special[random.below(11)] : ends[random.below(7)], 2);
      const int extent[] = {n, n, n};
      c.coordinates = places(1500, extent, dims, 88);
      record(c);
    }
}

/// What the second recording left open: bits of a normalized z, and of x and y of these sizes; infinite colours of
/// borders and NaNs.
void last_questions() {
  const auto near_ties = [](Case c, int size) {
    for (const bool is_linear : {false, true}) {
      c.is_linear = is_linear;
      c.coordinates.clear();
      Random random{uint64_t(size)};
      for (int i = 0; i < 600; ++i) {
        const double place = random.below(size) + (is_linear ? (random.below(256) + 0.5) / 256 : 0);
        for (int k = 0; k + 1 < c.dims; ++k) c.coordinates.push_back(word(0.5f));
        c.coordinates.push_back(word(step(float(place / size), random.below(17) - 8)));
      }
      record(c);
    }
  };
  for (const int size : {8192, 65536, 131072})
    near_ties({.name = "scaled", .width = size, .is_normalized = true, .texels = ramp(size)}, size);
  for (const int size : {3,    5,    31,   100,  127,  129,  255,  257,  500,  511,  513,   1000,  1023, 1025,
                         1500, 2047, 2049, 4095, 4097, 5000, 8191, 8192, 8193, 9000, 12345, 16383, 16384})
    near_ties({.name = "scaled", .dims = 3, .depth = size, .is_normalized = true, .texels = ramp(size)}, size);
  for (const Type type : {Type::u8, Type::s8, Type::u16, Type::s16, Type::f16, Type::f32})
    for (const uint32_t colour : {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc12345u, 0x7f812345u, 0x3f000000u}) {
      Case c{.name = "border", .type = type, .width = 4};
      c.reads_normalized = type <= Type::s16;
      c.modes[0] = 3;
      std::memcpy(c.border, &colour, 4);
      c.texels = random_bytes(4 * bytes_of(type), 1);
      c.coordinates = {word(-1.5f)};
      record(c);
    }
}

#ifdef SURFACES
// Queries.
#define QUERY(i, text) asm volatile(text ".b32 %0, [%1];" : "=r"(r[i]) : "l"(object))
// Not the other properties (channels, modes, filters): ptxas makes references to .nv.unified.texrefDescSize and
// .nv.surfrefDescSize of them, and no kernel ran in the one run whose module had these (cause not proven).
__global__ void query_texture(uint64_t object, uint32_t* r) {
  QUERY(0, "txq.width");
  QUERY(1, "txq.height");
  QUERY(2, "txq.depth");
}
__global__ void query_surface(uint64_t object, uint32_t* r) {
  QUERY(0, "suq.width");
  QUERY(1, "suq.height");
  QUERY(2, "suq.depth");
}

void queries() {
  uint32_t* results;
  check(cudaMalloc(&results, 64), "cudaMalloc");
  struct Form {
    int dims;
    bool is_layered;
    Kind kind;
  };
  for (const Form form : {Form{1, false, Kind::array}, Form{2, false, Kind::array}, Form{3, false, Kind::array},
                          Form{1, true, Kind::array}, Form{2, true, Kind::array}, Form{1, false, Kind::linear},
                          Form{2, false, Kind::pitch}})
    for (const Type type : {Type::f32, Type::u8, Type::s16, Type::f16})
      for (const int channels : {1, 2, 4})
        for (const bool is_surface : {false, true}) {
          if (is_surface && form.kind != Kind::array) continue;
          if (type != Type::f32 && channels == 2) continue;
          Case c{
              .name = is_surface ? "query_surface" : "query_texture", .dims = form.dims, .is_layered = form.is_layered};
          c.kind = form.kind, c.type = type, c.channels = channels;
          c.width = 40, c.height = form.dims > 1 ? 30 : 1, c.depth = form.dims > 2 || form.is_layered ? 20 : 1;
          c.modes[0] = channels == 4 ? 3 : 1;
          c.is_linear = type == Type::f32 && form.kind != Kind::linear;
          c.is_normalized = channels == 2 && form.kind != Kind::linear;
          c.texels = random_bytes(size_t(c.width) * c.height * c.depth * channels * bytes_of(type), 1);
          describe(c);
          Resource resource = make_resource(c, is_surface ? cudaArraySurfaceLoadStore : 0);
          uint64_t object = 0;
          const cudaTextureDesc desc = texture_desc(c);
          check(resource.error, "a resource");
          const cudaError_t error =
              is_surface ? cudaCreateSurfaceObject((cudaSurfaceObject_t*)&object, &resource.desc)
                         : cudaCreateTextureObject((cudaTextureObject_t*)&object, &resource.desc, &desc, nullptr);
          if (error != cudaSuccess) {
            cudaGetLastError();
            std::fprintf(text, " error=%d\n", int(error));
            release(resource);
            continue;
          }
          uint32_t words[16] = {};
          check(cudaMemset(results, 0xee, 64), "cudaMemset");
          if (is_surface) query_surface<<<1, 1>>>(object, results);
          else query_texture<<<1, 1>>>(object, results);
          check(cudaGetLastError(), "a launch");
          check(cudaMemcpy(words, results, 64, cudaMemcpyDeviceToHost), "a query");
          std::fprintf(text, " object=%016llx answers=", (unsigned long long)object);
          for (int i = 0; i < 3; ++i) std::fprintf(text, "%s%x", i ? "," : "", words[i]);
          std::fprintf(text, "\n");
          release(resource);
        }
}

// Surfaces. A size is that of PTX: b8 b16 b32 b64 v2.b8 v4.b8 v2.b16 v4.b16 v2.b32 v4.b32 v2.b64.
constexpr int sizes = 11;
const char* const size_names[] = {"b8",     "b16",    "b32",    "b64",    "v2.b8", "v4.b8",
                                  "v2.b16", "v4.b16", "v2.b32", "v4.b32", "v2.b64"};
constexpr int size_bytes[] = {1, 2, 4, 8, 2, 4, 4, 8, 8, 16, 16};
struct Access {
  uint64_t surface;
  int shape, size, mode, is_store;  // mode 0: trap, 1: clamp, 2: zero
  int at[4];
};
#define LOADS(geometry, mode, c1, c2, c4, ...)                                                                       \
  switch (a.size) {                                                                                                  \
    case 0:                                                                                                          \
      asm volatile("suld.b." geometry ".b8." mode " %0, [%1, " c1 "];" : "=h"(h[0]) : "l"(a.surface), __VA_ARGS__);  \
      break;                                                                                                         \
    case 1:                                                                                                          \
      asm volatile("suld.b." geometry ".b16." mode " %0, [%1, " c1 "];" : "=h"(h[0]) : "l"(a.surface), __VA_ARGS__); \
      break;                                                                                                         \
    case 2:                                                                                                          \
      asm volatile("suld.b." geometry ".b32." mode " %0, [%1, " c1 "];" : "=r"(r[0]) : "l"(a.surface), __VA_ARGS__); \
      break;                                                                                                         \
    case 3:                                                                                                          \
      asm volatile("suld.b." geometry ".b64." mode " %0, [%1, " c1 "];" : "=l"(q[0]) : "l"(a.surface), __VA_ARGS__); \
      break;                                                                                                         \
    case 4:                                                                                                          \
      asm volatile("suld.b." geometry ".v2.b8." mode " {%0,%1}, [%2, " c2 "];"                                       \
                   : "=h"(h[0]), "=h"(h[1])                                                                          \
                   : "l"(a.surface), __VA_ARGS__);                                                                   \
      break;                                                                                                         \
    case 5:                                                                                                          \
      asm volatile("suld.b." geometry ".v4.b8." mode " {%0,%1,%2,%3}, [%4, " c4 "];"                                 \
                   : "=h"(h[0]), "=h"(h[1]), "=h"(h[2]), "=h"(h[3])                                                  \
                   : "l"(a.surface), __VA_ARGS__);                                                                   \
      break;                                                                                                         \
    case 6:                                                                                                          \
      asm volatile("suld.b." geometry ".v2.b16." mode " {%0,%1}, [%2, " c2 "];"                                      \
                   : "=h"(h[0]), "=h"(h[1])                                                                          \
                   : "l"(a.surface), __VA_ARGS__);                                                                   \
      break;                                                                                                         \
    case 7:                                                                                                          \
      asm volatile("suld.b." geometry ".v4.b16." mode " {%0,%1,%2,%3}, [%4, " c4 "];"                                \
                   : "=h"(h[0]), "=h"(h[1]), "=h"(h[2]), "=h"(h[3])                                                  \
                   : "l"(a.surface), __VA_ARGS__);                                                                   \
      break;                                                                                                         \
    case 8:                                                                                                          \
      asm volatile("suld.b." geometry ".v2.b32." mode " {%0,%1}, [%2, " c2 "];"                                      \
                   : "=r"(r[0]), "=r"(r[1])                                                                          \
                   : "l"(a.surface), __VA_ARGS__);                                                                   \
      break;                                                                                                         \
    case 9:                                                                                                          \
      asm volatile("suld.b." geometry ".v4.b32." mode " {%0,%1,%2,%3}, [%4, " c4 "];"                                \
                   : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                                  \
                   : "l"(a.surface), __VA_ARGS__);                                                                   \
      break;                                                                                                         \
    case 10:                                                                                                         \
      asm volatile("suld.b." geometry ".v2.b64." mode " {%0,%1}, [%2, " c2 "];"                                      \
                   : "=l"(q[0]), "=l"(q[1])                                                                          \
                   : "l"(a.surface), __VA_ARGS__);                                                                   \
      break;                                                                                                         \
  }
#define STORES(geometry, mode, c, c2, c4, ...)                                                                         \
  switch (a.size) {                                                                                                    \
    case 0:                                                                                                            \
      asm volatile("sust.b." geometry ".b8." mode " [%1, " c "], %0;" ::"h"(h[0]), "l"(a.surface), __VA_ARGS__);       \
      break;                                                                                                           \
    case 1:                                                                                                            \
      asm volatile("sust.b." geometry ".b16." mode " [%1, " c "], %0;" ::"h"(h[0]), "l"(a.surface), __VA_ARGS__);      \
      break;                                                                                                           \
    case 2:                                                                                                            \
      asm volatile("sust.b." geometry ".b32." mode " [%1, " c "], %0;" ::"r"(r[0]), "l"(a.surface), __VA_ARGS__);      \
      break;                                                                                                           \
    case 3:                                                                                                            \
      asm volatile("sust.b." geometry ".b64." mode " [%1, " c "], %0;" ::"l"(q[0]), "l"(a.surface), __VA_ARGS__);      \
      break;                                                                                                           \
    case 4:                                                                                                            \
      asm volatile("sust.b." geometry ".v2.b8." mode " [%2, " c2 "], {%0,%1};" ::"h"(h[0]), "h"(h[1]), "l"(a.surface), \
                   __VA_ARGS__);                                                                                       \
      break;                                                                                                           \
    case 5:                                                                                                            \
      asm volatile("sust.b." geometry ".v4.b8." mode " [%4, " c4 "], {%0,%1,%2,%3};" ::"h"(h[0]), "h"(h[1]),           \
                   "h"(h[2]), "h"(h[3]), "l"(a.surface), __VA_ARGS__);                                                 \
      break;                                                                                                           \
    case 6:                                                                                                            \
      asm volatile("sust.b." geometry ".v2.b16." mode " [%2, " c2 "], {%0,%1};" ::"h"(h[0]), "h"(h[1]),                \
                   "l"(a.surface), __VA_ARGS__);                                                                       \
      break;                                                                                                           \
    case 7:                                                                                                            \
      asm volatile("sust.b." geometry ".v4.b16." mode " [%4, " c4 "], {%0,%1,%2,%3};" ::"h"(h[0]), "h"(h[1]),          \
                   "h"(h[2]), "h"(h[3]), "l"(a.surface), __VA_ARGS__);                                                 \
      break;                                                                                                           \
    case 8:                                                                                                            \
      asm volatile("sust.b." geometry ".v2.b32." mode " [%2, " c2 "], {%0,%1};" ::"r"(r[0]), "r"(r[1]),                \
                   "l"(a.surface), __VA_ARGS__);                                                                       \
      break;                                                                                                           \
    case 9:                                                                                                            \
      asm volatile("sust.b." geometry ".v4.b32." mode " [%4, " c4 "], {%0,%1,%2,%3};" ::"r"(r[0]), "r"(r[1]),          \
                   "r"(r[2]), "r"(r[3]), "l"(a.surface), __VA_ARGS__);                                                 \
      break;                                                                                                           \
    case 10:                                                                                                           \
      asm volatile("sust.b." geometry ".v2.b64." mode " [%2, " c2 "], {%0,%1};" ::"l"(q[0]), "l"(q[1]),                \
                   "l"(a.surface), __VA_ARGS__);                                                                       \
      break;                                                                                                           \
  }
#define ACCESS(mode)                                                                                                   \
  if (a.is_store) {                                                                                                    \
    switch (a.shape) {                                                                                                 \
      case 1: STORES("1d", mode, "{%2}", "{%3}", "{%5}", "r"(a.at[0])) break;                                          \
      case 2: STORES("2d", mode, "{%2,%3}", "{%3,%4}", "{%5,%6}", "r"(a.at[0]), "r"(a.at[1])) break;                   \
      case 3:                                                                                                          \
        STORES("3d", mode, "{%2,%3,%4,%5}", "{%3,%4,%5,%6}", "{%5,%6,%7,%8}", "r"(a.at[0]), "r"(a.at[1]),              \
               "r"(a.at[2]), "r"(0))                                                                                   \
        break;                                                                                                         \
      case 4: STORES("a1d", mode, "{%2,%3}", "{%3,%4}", "{%5,%6}", "r"(a.at[0]), "r"(a.at[1])) break;                  \
      case 5:                                                                                                          \
        STORES("a2d", mode, "{%2,%3,%4,%5}", "{%3,%4,%5,%6}", "{%5,%6,%7,%8}", "r"(a.at[0]), "r"(a.at[1]),             \
               "r"(a.at[2]), "r"(0))                                                                                   \
        break;                                                                                                         \
    }                                                                                                                  \
  } else {                                                                                                             \
    switch (a.shape) {                                                                                                 \
      case 1: LOADS("1d", mode, "{%2}", "{%3}", "{%5}", "r"(a.at[0])) break;                                           \
      case 2: LOADS("2d", mode, "{%2,%3}", "{%3,%4}", "{%5,%6}", "r"(a.at[0]), "r"(a.at[1])) break;                    \
      case 3:                                                                                                          \
        LOADS("3d", mode, "{%2,%3,%4,%5}", "{%3,%4,%5,%6}", "{%5,%6,%7,%8}", "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), \
              "r"(0))                                                                                                  \
        break;                                                                                                         \
      case 4: LOADS("a1d", mode, "{%2,%3}", "{%3,%4}", "{%5,%6}", "r"(a.at[0]), "r"(a.at[1])) break;                   \
      case 5:                                                                                                          \
        LOADS("a2d", mode, "{%2,%3,%4,%5}", "{%3,%4,%5,%6}", "{%5,%6,%7,%8}", "r"(a.at[0]), "r"(a.at[1]),              \
              "r"(a.at[2]), "r"(0))                                                                                    \
        break;                                                                                                         \
    }                                                                                                                  \
  }

__device__ void access(const Access& a, uint32_t* results) {
  uint16_t h[4] = {0xa1a0, 0xa3a2, 0xa5a4, 0xa7a6};
  uint32_t r[4] = {0xa3a2a1a0, 0xa7a6a5a4, 0xabaaa9a8, 0xafaeadac};
  uint64_t q[2] = {0xa7a6a5a4a3a2a1a0, 0xafaeadacabaaa9a8};
  if (a.mode == 0) {
    ACCESS("trap")
  } else if (a.mode == 1) {
    ACCESS("clamp")
  } else {
    ACCESS("zero")
  }
  if (a.is_store) return;
  const bool is_half = a.size < 2 || (a.size >= 4 && a.size <= 7);
  const bool is_quad = a.size == 3 || a.size == 10;
  for (int i = 0; i < 4; ++i) results[i] = is_half ? h[i] : is_quad ? uint32_t(q[i / 2] >> (32 * (i % 2))) : r[i];
}
__global__ void one_access(Access a, uint32_t* results) { access(a, results); }
__global__ void many_accesses(Access a, const int* at, int count, uint32_t* results) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  for (int c = 0; c < 3; ++c) a.at[c] = at[3 * i + c];
  access(a, results + 4 * i);
}

Case surface_case(int shape, Type type, int channels) {
  Case c{.name = "surface",
         .dims = shape > 3 ? shape - 3 : shape,
         .is_layered = shape > 3,
         .type = type,
         .channels = channels};
  c.width = 5, c.height = c.dims > 1 ? 3 : 1, c.depth = c.dims > 2 || c.is_layered ? 2 : 1;
  c.texels.resize(size_t(c.width) * c.height * c.depth * channels * bytes_of(type));
  for (size_t i = 0; i < c.texels.size(); ++i) c.texels[i] = uint8_t(i + 1);
  return c;
}

/// Accesses at multiples of their size, or at each byte, which may end the context.
void surfaces(bool is_aligned) {
  struct Texel {
    Type type;
    int channels;
  };
  for (const Texel texel : {Texel{Type::u8, 1}, Texel{Type::u16, 1}, Texel{Type::f32, 1}, Texel{Type::u8, 4},
                            Texel{Type::f32, 2}, Texel{Type::u32, 4}})
    for (int shape = 1; shape <= 5; ++shape) {
      if (!is_aligned && (shape > 1 || texel.channels > 1 || texel.type == Type::u16)) continue;
      const Case c = surface_case(shape, texel.type, texel.channels);
      Resource resource = make_resource(c, cudaArraySurfaceLoadStore);
      check(resource.error, "an array for a surface");
      uint64_t surface = 0;
      check(cudaCreateSurfaceObject((cudaSurfaceObject_t*)&surface, &resource.desc), "cudaCreateSurfaceObject");
      const int row = 5 * texel.channels * bytes_of(texel.type), texel_bytes = texel.channels * bytes_of(texel.type);
      for (int size = 0; size < sizes; ++size)
        for (int mode = 1; mode <= 2; ++mode) {
          std::vector<int> at;
          if (shape == 1) {
            for (int x = -32; x < row + 32; x += is_aligned ? size_bytes[size] : 1) at.insert(at.end(), {x, 0, 0});
            for (const int x : {INT32_MIN, INT32_MAX - 15, 1 << 20, 1 << 30, -(1 << 20)})
              at.insert(at.end(), {x, 0, 0});
          } else {
            const int step = std::max(size_bytes[size], texel_bytes);
            for (int z = -1; z < 4; ++z)
              for (int y = -1; y < 4; ++y)
                for (int x = -step; x < row + step; x += step) {
                  if ((shape == 2 || shape == 4) && y != 0) continue;
                  // Coordinates in the order of PTX: of an array of layers the layer first.
                  const int first = shape > 3 ? z : x,
                            second = shape > 3    ? x
                                     : shape == 2 ? z
                                                  : y,
                            third = shape > 3 ? y : z;
                  at.insert(at.end(), {first, second, third});
                }
          }
          const int count = int(at.size()) / 3;
          int* device_at;
          uint32_t* device_results;
          check(cudaMalloc(&device_at, at.size() * 4), "cudaMalloc");
          check(cudaMalloc(&device_results, size_t(count) * 16), "cudaMalloc");
          check(cudaMemcpy(device_at, at.data(), at.size() * 4, cudaMemcpyHostToDevice), "copy");
          Access a{surface, shape, size, mode, 0, {0, 0, 0, 0}};
          many_accesses<<<(count + 31) / 32, 32>>>(a, device_at, count, device_results);
          check(cudaGetLastError(), "a launch");
          std::vector<uint32_t> results(size_t(count) * 4);
          check(cudaMemcpy(results.data(), device_results, results.size() * 4, cudaMemcpyDeviceToHost),
                "surface loads");
          std::fprintf(
              text, "load size=%s mode=%s shape=%d type=%s channels=%d at=%ld texels=%zu coordinates=%zu results=%zu\n",
              size_names[size], mode == 1 ? "clamp" : "zero", shape, type_names[int(texel.type)], texel.channels,
              offset, c.texels.size(), at.size(), results.size());
          put(c.texels.data(), c.texels.size());
          put(at.data(), at.size() * 4);
          put(results.data(), results.size() * 4);
          // Stores, each into a fresh array: the bytes afterwards.
          const bool is_dense = shape == 1 && (size <= 5 || size == 9);
          std::vector<uint8_t> after;
          std::vector<int> stored;
          for (int i = 0; i < count; i += is_dense ? 1 : shape == 1 ? 3 : count / 12 + 1) {
            cudaMemcpy3DParms copy = {};
            copy.srcPtr = make_cudaPitchedPtr(const_cast<uint8_t*>(c.texels.data()), row, c.width, c.height);
            copy.dstArray = resource.array;
            copy.extent = make_cudaExtent(c.width, c.height, c.depth);
            copy.kind = cudaMemcpyHostToDevice;
            check(cudaMemcpy3D(&copy), "cudaMemcpy3D");
            a.is_store = 1;
            for (int k = 0; k < 3; ++k) a.at[k] = at[3 * i + k];
            one_access<<<1, 1>>>(a, device_results);
            check(cudaGetLastError(), "a launch");
            std::vector<uint8_t> bytes(c.texels.size());
            cudaMemcpy3DParms back = {};
            back.srcArray = resource.array;
            back.dstPtr = make_cudaPitchedPtr(bytes.data(), row, c.width, c.height);
            back.extent = copy.extent;
            back.kind = cudaMemcpyDeviceToHost;
            check(cudaMemcpy3D(&back), "a surface store");
            after.insert(after.end(), bytes.begin(), bytes.end());
            stored.insert(stored.end(), {a.at[0], a.at[1], a.at[2]});
          }
          while (after.size() % 4) after.push_back(0);
          std::fprintf(
              text,
              "store size=%s mode=%s shape=%d type=%s channels=%d at=%ld texels=%zu coordinates=%zu results=%zu\n",
              size_names[size], mode == 1 ? "clamp" : "zero", shape, type_names[int(texel.type)], texel.channels,
              offset, c.texels.size(), stored.size(), after.size() / 4);
          put(c.texels.data(), c.texels.size());
          put(stored.data(), stored.size() * 4);
          put(after.data(), after.size());
          check(cudaMemcpy3D([&] {
                  static cudaMemcpy3DParms copy;
                  copy = {};
                  copy.srcPtr = make_cudaPitchedPtr(const_cast<uint8_t*>(c.texels.data()), row, c.width, c.height);
                  copy.dstArray = resource.array;
                  copy.extent = make_cudaExtent(c.width, c.height, c.depth);
                  copy.kind = cudaMemcpyHostToDevice;
                  return &copy;
                }()),
                "cudaMemcpy3D");
          cudaFree(device_at);
          cudaFree(device_results);
        }
      cudaDestroySurfaceObject(surface);
      release(resource);
    }
}

/// An access that may end the context: in a process of its own. Prints CUDA's error and the words.
int trap_in_this_process(char** arguments) {
  const int shape = std::atoi(arguments[0]), size = std::atoi(arguments[1]), mode = std::atoi(arguments[2]);
  const Case c = surface_case(shape, Type::f32, 1);
  Resource resource = make_resource(c, cudaArraySurfaceLoadStore);
  uint64_t surface = 0;
  check(cudaCreateSurfaceObject((cudaSurfaceObject_t*)&surface, &resource.desc), "cudaCreateSurfaceObject");
  uint32_t* results;
  check(cudaMalloc(&results, 16), "cudaMalloc");
  Access a{surface, shape, size, mode, std::atoi(arguments[3]), {0, 0, 0, 0}};
  for (int i = 0; i < 3; ++i) a.at[i] = std::atoi(arguments[4 + i]);
  one_access<<<1, 1>>>(a, results);
  check(cudaGetLastError(), "a launch");
  const cudaError_t error = cudaDeviceSynchronize();
  uint32_t words[4] = {};
  if (error == cudaSuccess) cudaMemcpy(words, results, 16, cudaMemcpyDeviceToHost);
  std::printf("trap size=%s mode=%d shape=%d is_store=%d at=%d,%d,%d error=%d words=%x,%x,%x,%x\n", size_names[size],
              mode, shape, a.is_store, a.at[0], a.at[1], a.at[2], int(error), words[0], words[1], words[2], words[3]);
  return 0;
}

void traps(const std::string& program, const std::string& file) {
  for (const char* const line : {"1 2 0 0 0 0 0", "1 2 0 0 16 0 0", "1 2 0 0 20 0 0", "1 2 0 0 -4 0 0", "1 2 0 0 1 0 0",
                                 "1 2 0 0 18 0 0", "1 9 0 0 16 0 0", "2 2 0 0 0 3 0", "2 2 0 1 0 3 0", "1 2 0 1 20 0 0",
                                 "4 2 0 0 2 0 0", "5 2 0 0 2 0 0", "3 2 0 0 0 0 2"}) {
    if (std::system((program + " --trap " + line + " >> " + file).c_str()) != 0)
      std::system(("echo 'trap failed " + std::string(line) + "' >> " + file).c_str());
  }
}

#endif
}  // namespace

int main(int count, char** arguments) {
#ifdef SURFACES
  if (count == 9 && std::strcmp(arguments[1], "--trap") == 0) return trap_in_this_process(arguments + 2);
  const int first_group = 6, end_group = 9;
#else
  const int first_group = 0, end_group = 6;
#endif
  if (count != 2 && count != 3) {
    std::fprintf(stderr, "usage: record_textures FOLDER\n");
    return 2;
  }
  const std::string folder = arguments[1];
  if (count == 2) {  // each group in a process of its own: a fault ends no more than its group
    for (const char* const name : {"/textures.txt", "/textures.bin"})
      if (std::FILE* const file = std::fopen((folder + name).c_str(), "wb")) std::fclose(file);
    for (int group = first_group; group < end_group; ++group) {
      const int status = std::system((std::string(arguments[0]) + " " + folder + " " + std::to_string(group)).c_str());
      if (status != 0) std::fprintf(stderr, "group %d ended with status %d\n", group, status);
    }
#ifdef SURFACES
    traps(arguments[0], folder + "/textures.txt");
#endif
    return 0;
  }
  text = std::fopen((folder + "/textures.txt").c_str(), "a");
  binary = std::fopen((folder + "/textures.bin").c_str(), "ab");
  if (!text || !binary) {
    std::perror(folder.c_str());
    return 2;
  }
  std::fseek(binary, 0, SEEK_END);
  offset = std::ftell(binary);
  cudaDeviceProp device;
  int driver = 0, runtime = 0;
  check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  const int group = std::atoi(arguments[2]);
  std::fprintf(text, "device %s sm_%d%d driver=%d runtime=%d group=%d\n", device.name, device.major, device.minor,
               driver, runtime, group);
  switch (group) {
#ifdef SURFACES
    case 6: queries(); break;
    case 7: surfaces(true); break;
    case 8: surfaces(false); break;
#else
    case 0: filtered_coordinates(); break;
    case 1: address_modes(); break;
    case 2: filtered_floats(); break;
    case 3: filtered_small_types(); break;
    case 4: points_of_types(); break;
    case 5: other_fetches(); break;
    case 9: open_questions(); break;
    case 10: last_questions(); break;
#endif
  }
  std::fclose(text);
  std::fclose(binary);
  return 0;
}
