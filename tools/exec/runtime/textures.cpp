// SPDX-License-Identifier: MIT
// Arrays, copies of them, and objects of textures and surfaces.
#include <array>

#include "runtime.hpp"

namespace bitmma::runtime {
namespace {

/// cudaChannelFormatDesc: bits of each channel, and cudaChannelFormatKindSigned, Unsigned, Float.
struct ChannelDesc {
  int x, y, z, w;
  int kind;
};

/// cudaResourceDesc.
struct ResourceDesc {
  CUresourcetype type;
  union {
    struct {
      CUarray array;
    } array;
    struct {
      void* pointer;
      ChannelDesc desc;
      std::size_t bytes;
    } linear;
    struct {
      void* pointer;
      ChannelDesc desc;
      std::size_t width, height, pitch;
    } flat;
    int reserved[32];
  } res;
  unsigned flags;
};
static_assert(sizeof(ResourceDesc) == 144);

/// cudaTextureDesc.
struct TextureDesc {
  unsigned address_mode[3];
  unsigned filter_mode;
  int reads_normalized;  // cudaReadModeNormalizedFloat
  int srgb;
  uint32_t border[4];  // in CUDA float, as the levels
  int has_normalized_coordinates;
  unsigned max_anisotropy;
  unsigned mipmap_filter_mode;
  uint32_t mipmap_level_bias, min_mipmap_level, max_mipmap_level;
  int disable_trilinear_optimization, seamless_cubemap;
};
static_assert(sizeof(TextureDesc) == 72);

struct FormatRow {
  CUarray_format format;
  int bits, kind;
};
constexpr std::array formats{
    FormatRow{CU_AD_FORMAT_SIGNED_INT8, 8, 0},     FormatRow{CU_AD_FORMAT_SIGNED_INT16, 16, 0},
    FormatRow{CU_AD_FORMAT_SIGNED_INT32, 32, 0},   FormatRow{CU_AD_FORMAT_UNSIGNED_INT8, 8, 1},
    FormatRow{CU_AD_FORMAT_UNSIGNED_INT16, 16, 1}, FormatRow{CU_AD_FORMAT_UNSIGNED_INT32, 32, 1},
    FormatRow{CU_AD_FORMAT_HALF, 16, 2},           FormatRow{CU_AD_FORMAT_FLOAT, 32, 2},
};

/// False for a channel description that no array has.
bool to_driver(const ChannelDesc& desc, CUarray_format& format, unsigned& channels) {
  channels = 0;
  for (const int bits : {desc.x, desc.y, desc.z, desc.w}) {
    if (bits != 0 && bits != desc.x) return false;
    channels += bits != 0;
  }
  for (const FormatRow& row : formats) {
    if (row.bits != desc.x || row.kind != desc.kind) continue;
    format = row.format;
    return channels == 1 || channels == 2 || channels == 4;
  }
  return false;
}

ChannelDesc from_driver(CUarray_format format, unsigned channels) {
  for (const FormatRow& row : formats) {
    if (row.format != format) continue;
    const int more = channels > 2 ? row.bits : 0;
    return {row.bits, channels > 1 ? row.bits : 0, more, more, row.kind};
  }
  return {0, 0, 0, 0, 3};
}

int resource_to_driver(const ResourceDesc& desc, CUDA_RESOURCE_DESC& driver) {
  driver = {};
  driver.resType = desc.type;
  driver.flags = desc.flags;
  switch (desc.type) {
    case CU_RESOURCE_TYPE_ARRAY: driver.res.array.hArray = desc.res.array.array; return error::success;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: return error::success;  // the driver refuses it
    case CU_RESOURCE_TYPE_LINEAR: {
      auto& linear = driver.res.linear;
      linear.devPtr = address(desc.res.linear.pointer);
      linear.sizeInBytes = desc.res.linear.bytes;
      return to_driver(desc.res.linear.desc, linear.format, linear.numChannels) ? error::success
                                                                                : error::invalid_channel_descriptor;
    }
    case CU_RESOURCE_TYPE_PITCH2D: {
      auto& flat = driver.res.pitch2D;
      flat.devPtr = address(desc.res.flat.pointer);
      flat.width = desc.res.flat.width, flat.height = desc.res.flat.height, flat.pitchInBytes = desc.res.flat.pitch;
      return to_driver(desc.res.flat.desc, flat.format, flat.numChannels) ? error::success
                                                                          : error::invalid_channel_descriptor;
    }
  }
  return error::invalid_value;
}

/// What CUDA refuses of the texels' format: integers that are filtered as they are, floats that are read as normalized.
int check_reads(const CUDA_RESOURCE_DESC& resource, const TextureDesc& texture) {
  CUarray_format format = CU_AD_FORMAT_FLOAT;
  if (resource.resType == CU_RESOURCE_TYPE_ARRAY) {
    CUDA_ARRAY3D_DESCRIPTOR array;
    if (const int code = cuArray3DGetDescriptor_v2(&array, resource.res.array.hArray); code != error::success)
      return code;
    format = array.Format;
  } else if (resource.resType == CU_RESOURCE_TYPE_LINEAR) {
    format = resource.res.linear.format;
  } else if (resource.resType == CU_RESOURCE_TYPE_PITCH2D) {
    format = resource.res.pitch2D.format;
  } else {
    return error::success;  // the driver refuses it
  }
  const ChannelDesc desc = from_driver(format, 1);
  const bool is_float = desc.kind == 2;
  if (texture.reads_normalized) return is_float || desc.x == 32 ? error::invalid_norm_setting : error::success;
  return texture.filter_mode == 1 && !is_float ? error::invalid_filter_setting : error::success;
}

ResourceDesc resource_from_driver(const CUDA_RESOURCE_DESC& driver) {
  ResourceDesc desc{};
  desc.type = driver.resType;
  desc.flags = driver.flags;
  if (driver.resType == CU_RESOURCE_TYPE_ARRAY) desc.res.array.array = driver.res.array.hArray;
  if (driver.resType == CU_RESOURCE_TYPE_LINEAR) {
    const auto& linear = driver.res.linear;
    desc.res.linear = {reinterpret_cast<void*>(linear.devPtr), from_driver(linear.format, linear.numChannels),
                       linear.sizeInBytes};
  }
  if (driver.resType == CU_RESOURCE_TYPE_PITCH2D) {
    const auto& flat = driver.res.pitch2D;
    desc.res.flat = {reinterpret_cast<void*>(flat.devPtr), from_driver(flat.format, flat.numChannels), flat.width,
                     flat.height, flat.pitchInBytes};
  }
  return desc;
}

/// Rows between an array and memory, in bytes; y counts rows of the array.
struct Place {
  CUarray array;
  std::size_t x, y;
};
int copy_to_array(Place to, const void* from, std::size_t pitch, std::size_t width, std::size_t height, MemcpyKind kind,
                  CUstream stream) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = memory_types(kind).source;
  copy.srcHost = from, copy.srcDevice = address(from), copy.srcPitch = pitch;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = to.array, copy.dstXInBytes = to.x, copy.dstY = to.y;
  copy.WidthInBytes = width, copy.Height = height;
  return call([&] { return cuMemcpy2DAsync_v2(&copy, stream); });
}
int copy_from_array(void* to, std::size_t pitch, Place from, std::size_t width, std::size_t height, MemcpyKind kind,
                    CUstream stream) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = from.array, copy.srcXInBytes = from.x, copy.srcY = from.y;
  copy.dstMemoryType = memory_types(kind).destination;
  copy.dstHost = to, copy.dstDevice = address(to), copy.dstPitch = pitch;
  copy.WidthInBytes = width, copy.Height = height;
  return call([&] { return cuMemcpy2DAsync_v2(&copy, stream); });
}

}  // namespace

std::size_t texel_bytes(CUarray array) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  if (cuArray3DGetDescriptor_v2(&descriptor, array) != error::success) return 0;
  return static_cast<std::size_t>(from_driver(descriptor.Format, descriptor.NumChannels).x) / 8 *
         descriptor.NumChannels;
}

extern "C" {

ChannelDesc cudaCreateChannelDesc(int x, int y, int z, int w, int kind) { return {x, y, z, w, kind}; }

int cudaMalloc3DArray(CUarray* array, const ChannelDesc* desc, Extent extent, unsigned flags) {
  return call([&] {
    CUDA_ARRAY3D_DESCRIPTOR descriptor{.Width = extent.width,
                                       .Height = extent.height,
                                       .Depth = extent.depth,
                                       .Format = {},
                                       .NumChannels = 0,
                                       .Flags = flags};
    if (!to_driver(*desc, descriptor.Format, descriptor.NumChannels)) return error::invalid_channel_descriptor;
    return cuArray3DCreate_v2(array, &descriptor);
  });
}
int cudaMallocArray(CUarray* array, const ChannelDesc* desc, std::size_t width, std::size_t height, unsigned flags) {
  return cudaMalloc3DArray(array, desc, {width, height, 0}, flags);
}
int cudaFreeArray(CUarray array) {
  return call([&] { return array ? cuArrayDestroy(array) : error::success; });
}
int cudaArrayGetInfo(ChannelDesc* desc, Extent* extent, unsigned* flags, CUarray array) {
  return call([&] {
    CUDA_ARRAY3D_DESCRIPTOR descriptor{};
    const int code = cuArray3DGetDescriptor_v2(&descriptor, array);
    if (code != error::success) return code;
    if (desc) *desc = from_driver(descriptor.Format, descriptor.NumChannels);
    if (extent) *extent = {descriptor.Width, descriptor.Height, descriptor.Depth};
    if (flags) *flags = descriptor.Flags;
    return error::success;
  });
}
int cudaGetChannelDesc(ChannelDesc* desc, CUarray array) { return cudaArrayGetInfo(desc, nullptr, nullptr, array); }

int cudaMemcpy2DToArrayAsync(CUarray to, std::size_t x, std::size_t y, const void* from, std::size_t pitch,
                             std::size_t width, std::size_t height, MemcpyKind kind, CUstream stream) {
  return copy_to_array({to, x, y}, from, pitch, width, height, kind, stream);
}
int cudaMemcpy2DToArray(CUarray to, std::size_t x, std::size_t y, const void* from, std::size_t pitch,
                        std::size_t width, std::size_t height, MemcpyKind kind) {
  return copy_to_array({to, x, y}, from, pitch, width, height, kind, nullptr);
}
int cudaMemcpy2DFromArrayAsync(void* to, std::size_t pitch, CUarray from, std::size_t x, std::size_t y,
                               std::size_t width, std::size_t height, MemcpyKind kind, CUstream stream) {
  return copy_from_array(to, pitch, {from, x, y}, width, height, kind, stream);
}
int cudaMemcpy2DFromArray(void* to, std::size_t pitch, CUarray from, std::size_t x, std::size_t y, std::size_t width,
                          std::size_t height, MemcpyKind kind) {
  return copy_from_array(to, pitch, {from, x, y}, width, height, kind, nullptr);
}
int cudaMemcpy2DArrayToArray(CUarray to, std::size_t to_x, std::size_t to_y, CUarray from, std::size_t from_x,
                             std::size_t from_y, std::size_t width, std::size_t height, MemcpyKind) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = from, copy.srcXInBytes = from_x, copy.srcY = from_y;
  copy.dstArray = to, copy.dstXInBytes = to_x, copy.dstY = to_y;
  copy.WidthInBytes = width, copy.Height = height;
  return call([&] { return cuMemcpy2DAsync_v2(&copy, nullptr); });
}
// Deprecated copies of bytes, here of those in one row.
int cudaMemcpyToArrayAsync(CUarray to, std::size_t x, std::size_t y, const void* from, std::size_t bytes,
                           MemcpyKind kind, CUstream stream) {
  return copy_to_array({to, x, y}, from, bytes, bytes, 1, kind, stream);
}
int cudaMemcpyToArray(CUarray to, std::size_t x, std::size_t y, const void* from, std::size_t bytes, MemcpyKind kind) {
  return copy_to_array({to, x, y}, from, bytes, bytes, 1, kind, nullptr);
}
int cudaMemcpyFromArrayAsync(void* to, CUarray from, std::size_t x, std::size_t y, std::size_t bytes, MemcpyKind kind,
                             CUstream stream) {
  return copy_from_array(to, bytes, {from, x, y}, bytes, 1, kind, stream);
}
int cudaMemcpyFromArray(void* to, CUarray from, std::size_t x, std::size_t y, std::size_t bytes, MemcpyKind kind) {
  return copy_from_array(to, bytes, {from, x, y}, bytes, 1, kind, nullptr);
}

int cudaCreateTextureObject(CUtexObject* object, const ResourceDesc* resource, const TextureDesc* texture,
                            const void* view) {
  return call([&] {
    CUDA_RESOURCE_DESC driver_resource;
    if (const int code = resource_to_driver(*resource, driver_resource); code != error::success) return code;
    if (const int code = check_reads(driver_resource, *texture); code != error::success) return code;
    CUDA_TEXTURE_DESC driver{};
    for (std::size_t i = 0; i < 3; ++i) driver.addressMode[i] = texture->address_mode[i];
    for (std::size_t i = 0; i < 4; ++i) driver.borderColor[i] = texture->border[i];
    driver.filterMode = texture->filter_mode;
    driver.flags = (texture->reads_normalized ? 0 : CU_TRSF_READ_AS_INTEGER) |
                   (texture->has_normalized_coordinates ? CU_TRSF_NORMALIZED_COORDINATES : 0) |
                   (texture->srgb ? CU_TRSF_SRGB : 0) |
                   (texture->disable_trilinear_optimization ? CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION : 0) |
                   (texture->seamless_cubemap ? CU_TRSF_SEAMLESS_CUBEMAP : 0);
    driver.maxAnisotropy = texture->max_anisotropy;
    driver.mipmapFilterMode = texture->mipmap_filter_mode;
    driver.mipmapLevelBias = texture->mipmap_level_bias;
    driver.minMipmapLevelClamp = texture->min_mipmap_level;
    driver.maxMipmapLevelClamp = texture->max_mipmap_level;
    return cuTexObjectCreate(object, &driver_resource, &driver, view);
  });
}
int cudaDestroyTextureObject(CUtexObject object) {
  return call([&] { return object == 0 ? error::success : cuTexObjectDestroy(object); });
}
int cudaGetTextureObjectResourceDesc(ResourceDesc* resource, CUtexObject object) {
  return call([&] {
    CUDA_RESOURCE_DESC driver;
    const int code = cuTexObjectGetResourceDesc(&driver, object);
    if (code == error::success) *resource = resource_from_driver(driver);
    return code;
  });
}
int cudaGetTextureObjectTextureDesc(TextureDesc* texture, CUtexObject object) {
  return call([&] {
    CUDA_TEXTURE_DESC driver;
    const int code = cuTexObjectGetTextureDesc(&driver, object);
    if (code != error::success) return code;
    *texture = {};
    for (std::size_t i = 0; i < 3; ++i) texture->address_mode[i] = driver.addressMode[i];
    for (std::size_t i = 0; i < 4; ++i) texture->border[i] = driver.borderColor[i];
    texture->filter_mode = driver.filterMode;
    texture->reads_normalized = (driver.flags & CU_TRSF_READ_AS_INTEGER) == 0;
    texture->srgb = (driver.flags & CU_TRSF_SRGB) != 0;
    texture->has_normalized_coordinates = (driver.flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
    texture->max_anisotropy = driver.maxAnisotropy;
    texture->mipmap_filter_mode = driver.mipmapFilterMode;
    texture->mipmap_level_bias = driver.mipmapLevelBias;
    texture->min_mipmap_level = driver.minMipmapLevelClamp;
    texture->max_mipmap_level = driver.maxMipmapLevelClamp;
    texture->disable_trilinear_optimization = (driver.flags & CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION) != 0;
    texture->seamless_cubemap = (driver.flags & CU_TRSF_SEAMLESS_CUBEMAP) != 0;
    return error::success;
  });
}
int cudaCreateSurfaceObject(CUsurfObject* object, const ResourceDesc* resource) {
  return call([&] {
    CUDA_RESOURCE_DESC driver;
    const int code = resource_to_driver(*resource, driver);
    return code == error::success ? cuSurfObjectCreate(object, &driver) : code;
  });
}
int cudaDestroySurfaceObject(CUsurfObject object) {
  return call([&] { return object == 0 ? error::success : cuSurfObjectDestroy(object); });
}
int cudaGetSurfaceObjectResourceDesc(ResourceDesc* resource, CUsurfObject object) {
  return call([&] {
    CUDA_RESOURCE_DESC driver;
    const int code = cuSurfObjectGetResourceDesc(&driver, object);
    if (code == error::success) *resource = resource_from_driver(driver);
    return code;
  });
}
}

}  // namespace bitmma::runtime
