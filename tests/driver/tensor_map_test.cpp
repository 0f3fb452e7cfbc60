// Tensor maps: their bytes are those of encode_tensor_map, which a GPU's driver gave.
#include "bitmma/kernel/tensor_map.hpp"

#include <array>

#include "driver/api.hpp"

using namespace bitmma;
using driver::CUDA_ERROR_INVALID_VALUE, driver::CUDA_ERROR_NOT_SUPPORTED, driver::CUDA_SUCCESS, driver::test::call;

namespace {

using Bytes = std::array<uint8_t, tensor_map_bytes>;
void* const address = reinterpret_cast<void*>(0x7f0000001000);

driver::CUresult encode_tiled(Bytes& map, unsigned type, int interleave, unsigned swizzle, int fill) {
  const uint64_t sizes[]{256, 128}, strides[]{512};
  const unsigned box[]{64, 32}, element_strides[]{2, 1};  // CUDA ignores the first one
  return call("cuTensorMapEncodeTiled", static_cast<void*>(map.data()), type, 2U, address, +sizes, +strides, +box,
              +element_strides, interleave, swizzle, 2, fill);
}

}  // namespace

TEST_CASE("cuTensorMapEncodeTiled takes the driver's numbers of types and swizzles") {
  REQUIRE(call("cuInit", 0U) == CUDA_SUCCESS);
  Bytes map{};
  const TensorMap same{.sizes = {256, 128},
                       .strides_bytes = {512},
                       .box = {64, 32},
                       .element_strides = {1, 1},
                       .swizzle = Swizzle::b128,
                       .fills_with_nan = true,
                       .type = TensorMapType::bf16};
  CHECK(encode_tiled(map, 9, 0, 3, 1) == CUDA_SUCCESS);
  CHECK(map == encode_tensor_map(same, reinterpret_cast<uint64_t>(address)));
  CHECK(call("cuTensorMapReplaceAddress", static_cast<void*>(map.data()), reinterpret_cast<void*>(0x7f0000002000)) ==
        CUDA_SUCCESS);
  CHECK(map == encode_tensor_map(same, 0x7f0000002000));
  CHECK(encode_tiled(map, 9, 1, 3, 0) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(encode_tiled(map, 99, 0, 3, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(encode_tiled(map, 8, 0, 3, 0) ==
        CUDA_ERROR_INVALID_VALUE);  // a row of the box has 512 bytes, and the swizzle 128
}

TEST_CASE("cuTensorMapEncodeIm2col") {
  REQUIRE(call("cuInit", 0U) == CUDA_SUCCESS);
  Bytes map{};
  const uint64_t sizes[]{64, 16, 16, 4}, strides[]{128, 2048, 32768};
  const int lower[]{-1, -1}, upper[]{-1, -1};
  const unsigned element_strides[]{1, 1, 1, 1};
  CHECK(call("cuTensorMapEncodeIm2col", static_cast<void*>(map.data()), 6U, 4U, address, +sizes, +strides, +lower,
             +upper, 64U, 32U, +element_strides, 0, 3U, 0, 0) == CUDA_SUCCESS);
  const TensorMap same{.sizes = {64, 16, 16, 4},
                       .strides_bytes = {128, 2048, 32768},
                       .box = {64},
                       .element_strides = {1, 1, 1, 1},
                       .swizzle = Swizzle::b128,
                       .im2col = Im2colBox{.lower = {-1, -1}, .upper = {-1, -1}, .pixels = 32},
                       .type = TensorMapType::f16};
  CHECK(map == encode_tensor_map(same, reinterpret_cast<uint64_t>(address)));
}
