// SPDX-License-Identifier: MIT
// Arrays, their copies, and objects of textures and surfaces.
#include <cstring>
#include <numeric>

#include "driver/api.hpp"

using namespace bitmma::driver;
using test::allocate, test::call, test::download, test::TestContext, test::upload;

namespace {

CUarray make_array(CUDA_ARRAY3D_DESCRIPTOR descriptor) {
  CUarray array = nullptr;
  REQUIRE(call("cuArray3DCreate_v2", &array, static_cast<const CUDA_ARRAY3D_DESCRIPTOR*>(&descriptor)) == CUDA_SUCCESS);
  return array;
}

CUDA_RESOURCE_DESC resource_of(CUarray array) {
  CUDA_RESOURCE_DESC resource{};
  resource.res.array.hArray = array;
  return resource;
}

CUresult make_texture(CUtexObject* object, const CUDA_RESOURCE_DESC& resource, const CUDA_TEXTURE_DESC& texture) {
  return call("cuTexObjectCreate", object, &resource, &texture, static_cast<const void*>(nullptr));
}

/// y[i] = texel i of the row, which is also stored into the other end of the surface.
const char* const reverse_ptx = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry reverse(.param .u64 texture, .param .u64 surface, .param .u64 y)
{
  .reg .b32 %r<9>;
  .reg .b64 %rd<9>;
  ld.param.u64 %rd1, [texture];
  ld.param.u64 %rd2, [surface];
  ld.param.u64 %rd3, [y];
  mov.u32 %r1, %tid.x;
  .reg .f32 %f<9>;
  cvt.rn.f32.u32 %f1, %r1;
  tex.2d.v4.s32.f32 {%r2, %r3, %r4, %r5}, [%rd1, {%f1, 0f3F800000}];
  mul.wide.u32 %rd4, %r1, 4;
  add.s64 %rd3, %rd3, %rd4;
  st.global.u32 [%rd3], %r2;
  sub.u32 %r6, 7, %r1;
  shl.b32 %r6, %r6, 2;
  mov.u32 %r7, 0;
  sust.b.2d.b32.trap [%rd2, {%r6, %r7}], {%r2};
  ret;
}
)";

}  // namespace

TEST_CASE("an array keeps what is copied to it, and a kernel reads and writes it by its objects") {
  const TestContext context;
  const CUarray array = make_array(
      {.Width = 8, .Height = 2, .Depth = 0, .Format = CU_AD_FORMAT_SIGNED_INT32, .NumChannels = 1, .Flags = 2});
  std::vector<int> values(16);
  std::iota(values.begin(), values.end(), -3);
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = values.data(), copy.srcPitch = 32;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY, copy.dstArray = array;
  copy.WidthInBytes = 32, copy.Height = 2;
  const CUDA_MEMCPY2D* const to_array = &copy;
  REQUIRE(call("cuMemcpy2D_v2", to_array) == CUDA_SUCCESS);
  CUDA_MEMCPY2D beyond = copy;
  beyond.dstY = 1;
  CHECK(call("cuMemcpy2D_v2", static_cast<const CUDA_MEMCPY2D*>(&beyond)) == CUDA_ERROR_INVALID_VALUE);

  const CUDA_RESOURCE_DESC resource = resource_of(array);
  CUtexObject texture = 0;
  CUsurfObject surface = 0;
  REQUIRE(make_texture(&texture, resource, {.addressMode = {1, 1, 1}, .flags = CU_TRSF_READ_AS_INTEGER}) ==
          CUDA_SUCCESS);
  REQUIRE(call("cuSurfObjectCreate", &surface, &resource) == CUDA_SUCCESS);
  CUdeviceptr y = allocate(32);
  REQUIRE(test::launch(test::function_of(test::load(reverse_ptx), "reverse"), 1, 8, {&texture, &surface, &y}) ==
          CUDA_SUCCESS);
  CHECK(download<int>(y, 8) == std::vector<int>(values.begin() + 8, values.end()));
  std::vector<int> back(16);
  CUDA_MEMCPY2D from{};
  from.srcMemoryType = CU_MEMORYTYPE_ARRAY, from.srcArray = array;
  from.dstMemoryType = CU_MEMORYTYPE_HOST, from.dstHost = back.data(), from.dstPitch = 32;
  from.WidthInBytes = 32, from.Height = 2;
  REQUIRE(call("cuMemcpy2D_v2", static_cast<const CUDA_MEMCPY2D*>(&from)) == CUDA_SUCCESS);
  CHECK(back == std::vector<int>{12, 11, 10, 9, 8, 7, 6, 5, 5, 6, 7, 8, 9, 10, 11, 12});

  CUDA_RESOURCE_DESC described{};
  CHECK(call("cuTexObjectGetResourceDesc", &described, texture) == CUDA_SUCCESS);
  CHECK(described.res.array.hArray == array);
  CHECK(call("cuTexObjectDestroy", texture) == CUDA_SUCCESS);
  CHECK(call("cuTexObjectDestroy", texture) == CUDA_ERROR_INVALID_VALUE);
  CHECK(call("cuSurfObjectDestroy", surface) == CUDA_SUCCESS);
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  CHECK(call("cuArray3DGetDescriptor_v2", &descriptor, array) == CUDA_SUCCESS);
  CHECK((descriptor.Width == 8 && descriptor.Height == 2 && descriptor.Flags == 2));
  CHECK(call("cuArrayDestroy", array) == CUDA_SUCCESS);
  CHECK(call("cuArrayDestroy", array) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("bytes are copied to and from arrays of one dimension, and planes to and from those of three") {
  const TestContext context;
  const CUarray line = make_array({.Width = 8, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1});
  const std::vector<uint8_t> values{1, 2, 3, 4, 5, 6, 7, 8};
  CHECK(call("cuMemcpyHtoA_v2", line, size_t{0}, static_cast<const void*>(values.data()), size_t{8}) == CUDA_SUCCESS);
  CHECK(call("cuMemcpyAtoA_v2", line, size_t{0}, line, size_t{4}, size_t{2}) == CUDA_SUCCESS);
  std::vector<uint8_t> host(4);
  CHECK(call("cuMemcpyAtoH_v2", static_cast<void*>(host.data()), line, size_t{0}, size_t{4}) == CUDA_SUCCESS);
  CHECK(host == std::vector<uint8_t>{5, 6, 3, 4});
  CHECK(call("cuMemcpyHtoA_v2", line, size_t{1}, static_cast<const void*>(values.data()), size_t{8}) ==
        CUDA_ERROR_INVALID_VALUE);

  const CUarray cube =
      make_array({.Width = 2, .Height = 2, .Depth = 2, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1});
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = values.data(), copy.srcPitch = 2, copy.srcHeight = 2;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY, copy.dstArray = cube;
  copy.WidthInBytes = 2, copy.Height = 2, copy.Depth = 2;
  CHECK(call("cuMemcpy3D_v2", static_cast<const CUDA_MEMCPY3D*>(&copy)) == CUDA_SUCCESS);
  CUDA_MEMCPY3D back{};
  back.srcMemoryType = CU_MEMORYTYPE_ARRAY, back.srcArray = cube, back.srcXInBytes = 1, back.srcZ = 1;
  back.dstMemoryType = CU_MEMORYTYPE_HOST, back.dstHost = host.data(), back.dstPitch = 1;
  back.WidthInBytes = 1, back.Height = 2, back.Depth = 1;
  CHECK(call("cuMemcpy3D_v2", static_cast<const CUDA_MEMCPY3D*>(&back)) == CUDA_SUCCESS);
  CHECK((host[0] == 6 && host[1] == 8));
}

TEST_CASE("textures that no GPU was measured with are not supported, and wrong ones are refused") {
  const TestContext context;
  CUtexObject object = 0;
  const CUarray array = make_array({.Width = 4, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1});
  const CUDA_RESOURCE_DESC resource = resource_of(array);
  CHECK(make_texture(&object, resource, {.filterMode = 1}) == CUDA_SUCCESS);
  const CUarray deep =
      make_array({.Width = 1, .Height = 1, .Depth = 2500, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1});
  CHECK(make_texture(&object, resource_of(deep), {.filterMode = 1, .flags = CU_TRSF_NORMALIZED_COORDINATES}) ==
        CUDA_ERROR_NOT_SUPPORTED);
  CHECK(make_texture(&object, resource, {.flags = CU_TRSF_SRGB}) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(make_texture(&object, resource, {.addressMode = {4, 0, 0}}) == CUDA_ERROR_INVALID_VALUE);
  CUDA_RESOURCE_DESC with_levels{};
  with_levels.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  CHECK(make_texture(&object, with_levels, {}) == CUDA_ERROR_NOT_SUPPORTED);
  CUDA_RESOURCE_DESC linear{};
  linear.resType = CU_RESOURCE_TYPE_LINEAR;
  linear.res.linear.devPtr = allocate(64);
  linear.res.linear.format = CU_AD_FORMAT_FLOAT, linear.res.linear.numChannels = 1, linear.res.linear.sizeInBytes = 64;
  CHECK(make_texture(&object, linear, {}) == CUDA_SUCCESS);
  linear.res.linear.sizeInBytes = 68;
  CHECK(make_texture(&object, linear, {}) == CUDA_ERROR_INVALID_VALUE);
  CHECK(call("cuSurfObjectCreate", &object, &resource) == CUDA_ERROR_INVALID_VALUE);  // without its flag
  CUarray cube_map = nullptr;
  const CUDA_ARRAY3D_DESCRIPTOR cube{
      .Width = 4, .Height = 4, .Depth = 6, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1, .Flags = 4};
  CHECK(call("cuArray3DCreate_v2", &cube_map, &cube) == CUDA_ERROR_NOT_SUPPORTED);
}
