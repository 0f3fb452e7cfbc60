// SPDX-License-Identifier: MIT
// Tensor maps, as kernels get them.
#include "bitmma/kernel/tensor_map.hpp"

#include <array>
#include <cstring>

#include "driver.hpp"

using namespace bitmma::driver;

namespace {

using bitmma::Swizzle;
using bitmma::TensorMap;
using bitmma::TensorMapType;

// In the order of CUtensorMapDataType.
constexpr auto types = [] {
  using enum TensorMapType;
  return std::to_array(
      {u8, u16, u32, s32, u64, s64, f16, f32, f64, bf16, f32_ftz, tf32, tf32_ftz, b4x16, b4x16_p64, b6x16_p32});
}();
// In the order of CUtensorMapSwizzle, as far as bitmma has them.
constexpr auto swizzles =
    std::to_array({Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128, Swizzle::b128_atom32});

/// What both modes have in common.
struct MapCall {
  unsigned type = 0, rank = 0;
  const uint64_t* sizes = nullptr;
  const uint64_t* strides_bytes = nullptr;
  const unsigned* element_strides = nullptr;
  int interleave = 0;
  unsigned swizzle = 0;
  int fill = 0;
};

TensorMap map_of(const MapCall& call) {
  require_pointer(call.sizes), require_pointer(call.element_strides);
  require(call.type < types.size() && call.rank >= 1 && call.rank <= 5 && (call.rank == 1 || call.strides_bytes),
          CUDA_ERROR_INVALID_VALUE);
  require(call.interleave == 0 && call.swizzle < swizzles.size(), CUDA_ERROR_NOT_SUPPORTED);
  TensorMap map{.swizzle = swizzles[call.swizzle], .fills_with_nan = call.fill != 0, .type = types[call.type]};
  for (unsigned i = 0; i < call.rank; ++i) {
    map.sizes.push_back(static_cast<int64_t>(call.sizes[i]));
    map.element_strides.push_back(i == 0 ? 1 : call.element_strides[i]);  // CUDA ignores the first one
    if (i > 0) map.strides_bytes.push_back(static_cast<int64_t>(call.strides_bytes[i - 1]));
  }
  return map;
}

void write(void* to, const TensorMap& map, const void* address) {
  const auto bytes = bitmma::encode_tensor_map(map, reinterpret_cast<uint64_t>(address));
  std::memcpy(to, bytes.data(), bytes.size());
}

}  // namespace

extern "C" {

CUresult cuTensorMapEncodeTiled(void* to, unsigned type, unsigned rank, void* address, const uint64_t* sizes,
                                const uint64_t* strides_bytes, const unsigned* box, const unsigned* element_strides,
                                int interleave, unsigned swizzle, int, int fill) {
  return in_driver([&](Driver&) {
    require_pointer(to), require_pointer(box);
    TensorMap map = map_of({type, rank, sizes, strides_bytes, element_strides, interleave, swizzle, fill});
    map.box.assign(box, box + rank);
    write(to, map, address);
  });
}

CUresult cuTensorMapEncodeIm2col(void* to, unsigned type, unsigned rank, void* address, const uint64_t* sizes,
                                 const uint64_t* strides_bytes, const int* lower, const int* upper, unsigned channels,
                                 unsigned pixels, const unsigned* element_strides, int interleave, unsigned swizzle,
                                 int, int fill) {
  return in_driver([&](Driver&) {
    require_pointer(to), require_pointer(lower), require_pointer(upper);
    TensorMap map = map_of({type, rank, sizes, strides_bytes, element_strides, interleave, swizzle, fill});
    require(rank >= 3, CUDA_ERROR_INVALID_VALUE);
    map.box = {channels};
    map.im2col = {.lower = {lower, lower + rank - 2}, .upper = {upper, upper + rank - 2}, .pixels = pixels};
    write(to, map, address);
  });
}

CUresult cuTensorMapReplaceAddress(void* map, void* address) {
  return in_driver([&](Driver&) {
    require_pointer(map);
    require(reinterpret_cast<uint64_t>(address) % 16 == 0, CUDA_ERROR_INVALID_VALUE);
    std::memcpy(map, &address, sizeof address);  // words 0 and 1 of the map
  });
}

}  // extern "C"
