// SPDX-License-Identifier: MIT
// Arrays, and the objects by which kernels use them: textures and surfaces.
#include "bitmma/kernel/texture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "driver.hpp"

using namespace bitmma::driver;

namespace {

using bitmma::Texels;

std::optional<bitmma::TexelFormat> format_of(CUarray_format format) {
  using enum bitmma::TexelFormat;
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8: return u8;
    case CU_AD_FORMAT_UNSIGNED_INT16: return u16;
    case CU_AD_FORMAT_UNSIGNED_INT32: return u32;
    case CU_AD_FORMAT_SIGNED_INT8: return s8;
    case CU_AD_FORMAT_SIGNED_INT16: return s16;
    case CU_AD_FORMAT_SIGNED_INT32: return s32;
    case CU_AD_FORMAT_HALF: return f16;
    case CU_AD_FORMAT_FLOAT: return f32;
  }
  return std::nullopt;
}

/// Ends the call for something that CUDA has and bitmma does not, and says what.
[[noreturn]] void refuse(Driver& driver, std::string what) {
  driver.report.print_once(std::move(what));
  throw Failure{CUDA_ERROR_NOT_SUPPORTED};
}

/// Texels of this format. Throws Failure for another one than the eight that textures of CUDA C++ have.
Texels texels_of(Driver& driver, CUarray_format format, unsigned channels) {
  const auto texel_format = format_of(format);
  if (!texel_format) refuse(driver, fmt::format("arrays of format {:#x} are not supported", unsigned{format}));
  require(channels == 1 || channels == 2 || channels == 4, CUDA_ERROR_INVALID_VALUE);
  return {.format = *texel_format, .channels = static_cast<int>(channels)};
}

void lay_out(Texels& texels) {
  texels.row_bytes = texels.extent[0] * texels.texel_bytes();
  texels.slice_bytes = texels.row_bytes * texels.extent[1];
}

Array& make_array(Driver& driver, Context& context, const CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
  const bool is_layered = (descriptor.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  constexpr unsigned known = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_TEXTURE_GATHER;
  if ((descriptor.Flags & ~known) != 0)
    refuse(driver, fmt::format("arrays with the flags {:#x} (cube maps, sparse and deferred ones) are not supported",
                               descriptor.Flags & ~known));
  require(descriptor.Width > 0 && (!is_layered || descriptor.Depth > 0) &&
              (is_layered || descriptor.Depth == 0 || descriptor.Height > 0),
          CUDA_ERROR_INVALID_VALUE);
  // CUDA C++ Programming Guide, compute capabilities: the greatest extents.
  require(std::max({descriptor.Width, descriptor.Height, descriptor.Depth}) <= 131072, CUDA_ERROR_INVALID_VALUE);
  Texels texels = texels_of(driver, descriptor.Format, descriptor.NumChannels);
  texels.dimensions = !is_layered && descriptor.Depth > 0 ? 3 : descriptor.Height > 0 ? 2 : 1;
  texels.extent = {static_cast<int64_t>(descriptor.Width), static_cast<int64_t>(std::max(descriptor.Height, size_t{1})),
                   texels.dimensions == 3 ? static_cast<int64_t>(descriptor.Depth) : 1};
  texels.layers = is_layered ? static_cast<int64_t>(descriptor.Depth) : 0;
  lay_out(texels);
  const int64_t slices = std::max({texels.extent[2], texels.layers, int64_t{1}});
  texels.address =
      driver.allocate(static_cast<size_t>(texels.slice_bytes * slices), Block::Kind::device, &context).address;
  Array& array = driver.arrays.add();
  array = {.descriptor = descriptor, .texels = texels, .context = &context};
  return array;
}

/// The texels of a resource, and whether they are memory of one dimension.
Texels texels_of(Driver& driver, const CUDA_RESOURCE_DESC& resource) {
  require(resource.flags == 0, CUDA_ERROR_INVALID_VALUE);
  switch (resource.resType) {
    case CU_RESOURCE_TYPE_ARRAY: return driver.arrays.at(resource.res.array.hArray).texels;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: refuse(driver, "textures with mip maps are not supported");
    case CU_RESOURCE_TYPE_LINEAR: {
      const auto& linear = resource.res.linear;
      Texels texels = texels_of(driver, linear.format, linear.numChannels);
      texels.address = linear.devPtr;
      texels.extent[0] = static_cast<int64_t>(linear.sizeInBytes) / texels.texel_bytes();
      require(texels.extent[0] > 0 && driver.memory.find(linear.devPtr).has_value(), CUDA_ERROR_INVALID_VALUE);
      lay_out(texels);
      return texels;
    }
    case CU_RESOURCE_TYPE_PITCH2D: {
      const auto& flat = resource.res.pitch2D;
      Texels texels = texels_of(driver, flat.format, flat.numChannels);
      texels.address = flat.devPtr;
      texels.dimensions = 2;
      texels.extent = {static_cast<int64_t>(flat.width), static_cast<int64_t>(flat.height), 1};
      lay_out(texels);
      require(flat.width > 0 && flat.height > 0 && driver.memory.find(flat.devPtr).has_value() &&
                  static_cast<int64_t>(flat.pitchInBytes) >= texels.row_bytes,
              CUDA_ERROR_INVALID_VALUE);
      texels.row_bytes = static_cast<int64_t>(flat.pitchInBytes);
      texels.slice_bytes = texels.row_bytes * texels.extent[1];
      return texels;
    }
  }
  throw Failure{CUDA_ERROR_INVALID_VALUE};
}

bitmma::Texture texture_of(Driver& driver, const CUDA_RESOURCE_DESC& resource, const CUDA_TEXTURE_DESC& desc) {
  bitmma::Texture texture;
  texture.texels = texels_of(driver, resource);
  texture.is_buffer = resource.resType == CU_RESOURCE_TYPE_LINEAR;
  for (size_t i = 0; i < 3; ++i) {
    require(desc.addressMode[i] < 4, CUDA_ERROR_INVALID_VALUE);
    texture.modes[i] = static_cast<bitmma::AddressMode>(desc.addressMode[i]);
    texture.border[i] = desc.borderColor[i];
  }
  texture.border[3] = desc.borderColor[3];
  require(desc.filterMode < 2, CUDA_ERROR_INVALID_VALUE);
  texture.is_linear = desc.filterMode == 1;
  texture.has_normalized_coordinates = (desc.flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
  texture.reads_normalized = texture.texels.can_be_normalized() && (desc.flags & CU_TRSF_READ_AS_INTEGER) == 0;
  if ((desc.flags & CU_TRSF_SRGB) != 0) refuse(driver, "textures that convert from sRGB are not supported");
  if (desc.maxAnisotropy > 1 && texture.is_linear)
    refuse(driver, "anisotropic filters of textures are not supported; set maxAnisotropy to 0");
  return texture;
}

}  // namespace

extern "C" {

CUresult cuArray3DCreate_v2(CUarray* handle, const CUDA_ARRAY3D_DESCRIPTOR* descriptor) {
  return in_context([&](Driver& driver, Context& context) {
    require_pointer(handle), require_pointer(descriptor);
    *handle = &make_array(driver, context, *descriptor);
  });
}

CUresult cuArrayCreate_v2(CUarray* handle, const CUDA_ARRAY_DESCRIPTOR* flat) {
  if (!flat) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_ARRAY3D_DESCRIPTOR descriptor{flat->Width, flat->Height, 0, flat->Format, flat->NumChannels, 0};
  return cuArray3DCreate_v2(handle, &descriptor);
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* descriptor, CUarray handle) {
  return in_context([&](Driver& driver, Context&) {
    require_pointer(descriptor);
    *descriptor = driver.arrays.at(handle).descriptor;
  });
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* flat, CUarray handle) {
  return in_context([&](Driver& driver, Context&) {
    require_pointer(flat);
    const CUDA_ARRAY3D_DESCRIPTOR& descriptor = driver.arrays.at(handle).descriptor;
    *flat = {descriptor.Width, descriptor.Height, descriptor.Format, descriptor.NumChannels};
  });
}

CUresult cuArrayDestroy(CUarray handle) {
  return in_context([&](Driver& driver, Context&) {
    Array& array = driver.arrays.at(handle);
    driver.free(driver.blocks.at(array.texels.address));
    driver.arrays.remove(array);
  });
}

CUresult cuTexObjectCreate(CUtexObject* object, const CUDA_RESOURCE_DESC* resource, const CUDA_TEXTURE_DESC* texture,
                           const void* view) {
  return in_context([&](Driver& driver, Context&) {
    require_pointer(object), require_pointer(resource), require_pointer(texture);
    if (view) refuse(driver, "views of the resources of textures are not supported");
    const bitmma::Texture described = texture_of(driver, *resource, *texture);
    try {
      *object = driver.memory.add_texture(described);
    } catch (const bitmma::Error& error) {
      driver.report.print_once(fmt::format("a texture object is refused: {}", error.what()));
      throw Failure{error.violations().front().code == bitmma::ViolationCode::unsupported_ptx
                        ? CUDA_ERROR_NOT_SUPPORTED
                        : CUDA_ERROR_INVALID_VALUE};
    }
    driver.textures[*object] = {*resource, *texture};
  });
}

CUresult cuTexObjectDestroy(CUtexObject object) {
  return in_context([&](Driver& driver, Context&) {
    require(driver.textures.erase(object) == 1, CUDA_ERROR_INVALID_VALUE);
    driver.memory.remove_texture(object);
  });
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* resource, CUtexObject object) {
  return in_context([&](Driver& driver, Context&) {
    require(resource && driver.textures.contains(object), CUDA_ERROR_INVALID_VALUE);
    *resource = driver.textures.at(object).resource;
  });
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* texture, CUtexObject object) {
  return in_context([&](Driver& driver, Context&) {
    require(texture && driver.textures.contains(object), CUDA_ERROR_INVALID_VALUE);
    *texture = driver.textures.at(object).texture;
  });
}

CUresult cuSurfObjectCreate(CUsurfObject* object, const CUDA_RESOURCE_DESC* resource) {
  return in_context([&](Driver& driver, Context&) {
    require_pointer(object), require_pointer(resource);
    require(resource->resType == CU_RESOURCE_TYPE_ARRAY, CUDA_ERROR_INVALID_VALUE);
    const Array& array = driver.arrays.at(resource->res.array.hArray);
    require((array.descriptor.Flags & CUDA_ARRAY3D_SURFACE_LDST) != 0, CUDA_ERROR_INVALID_VALUE);
    *object = driver.memory.add_surface(array.texels);
    driver.surfaces[*object] = *resource;
  });
}

CUresult cuSurfObjectDestroy(CUsurfObject object) {
  return in_context([&](Driver& driver, Context&) {
    require(driver.surfaces.erase(object) == 1, CUDA_ERROR_INVALID_VALUE);
    driver.memory.remove_surface(object);
  });
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* resource, CUsurfObject object) {
  return in_context([&](Driver& driver, Context&) {
    require(resource && driver.surfaces.contains(object), CUDA_ERROR_INVALID_VALUE);
    *resource = driver.surfaces.at(object);
  });
}

}  // extern "C"
