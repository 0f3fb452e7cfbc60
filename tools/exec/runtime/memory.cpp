// SPDX-License-Identifier: MIT
// Allocations, copies and memsets.
#include <type_traits>

#include "runtime.hpp"

namespace bitmma::runtime {
namespace {

/// cudaPitchedPtr, cudaPos.
struct PitchedPointer {
  void* pointer;
  std::size_t pitch, width, height;
};
struct Position {
  std::size_t x, y, z;
};
/// cudaMemcpy3DParms and, with devices, cudaMemcpy3DPeerParms.
struct Copy3D {
  CUarray source_array;
  Position source_position;
  PitchedPointer source;
  CUarray destination_array;
  Position destination_position;
  PitchedPointer destination;
  Extent extent;
  MemcpyKind kind;
};
static_assert(sizeof(Copy3D) == 160);

/// cudaPointerAttributes.
struct PointerAttributes12 {
  int type, device;
  void *device_pointer, *host_pointer;
};
struct PointerAttributes13 : PointerAttributes12 {
  long reserved[8];
};
using PointerAttributes = std::conditional_t<major_version == 12, PointerAttributes12, PointerAttributes13>;

int copy(void* to, const void* from, std::size_t bytes, MemcpyKind kind, CUstream stream) {
  return call([&] {
    if (bytes == 0) return error::success;
    if (!to || !from) return error::invalid_value;
    switch (kind) {
      case MemcpyKind::host_to_device: return cuMemcpyHtoDAsync_v2(address(to), from, bytes, stream);
      case MemcpyKind::device_to_host: return cuMemcpyDtoHAsync_v2(to, address(from), bytes, stream);
      case MemcpyKind::device_to_device:
      case MemcpyKind::host_to_host:
      case MemcpyKind::by_address: return cuMemcpyAsync(address(to), address(from), bytes, stream);
    }
    return error::invalid_memcpy_direction;
  });
}

/// The address of `bytes` bytes of a variable from `offset` on.
int find_part(const void* symbol, std::size_t offset, std::size_t bytes, CUdeviceptr& part) {
  std::size_t size = 0;
  if (const int code = call([&] { return find_variable(symbol, part, size); }); code != error::success) return code;
  if (offset > size || bytes > size - offset) return record(error::invalid_value);
  part += offset;
  return error::success;
}

int copy_3d(const Copy3D& copy, CUstream stream) {
  MemoryTypes types = memory_types(copy.kind);
  if (copy.source_array) types.source = CU_MEMORYTYPE_ARRAY;
  if (copy.destination_array) types.destination = CU_MEMORYTYPE_ARRAY;
  // CUDA Runtime API, cudaMemcpy3D: widths count elements of the array, if one takes part, and x those of its own side.
  const std::size_t source_bytes = copy.source_array ? texel_bytes(copy.source_array) : 1,
                    destination_bytes = copy.destination_array ? texel_bytes(copy.destination_array) : 1;
  const CUDA_MEMCPY3D driver{.srcXInBytes = copy.source_position.x * source_bytes,
                             .srcY = copy.source_position.y,
                             .srcZ = copy.source_position.z,
                             .srcLOD = 0,
                             .srcMemoryType = types.source,
                             .srcHost = copy.source.pointer,
                             .srcDevice = address(copy.source.pointer),
                             .srcArray = copy.source_array,
                             .reserved0 = nullptr,
                             .srcPitch = copy.source.pitch,
                             .srcHeight = copy.source.height,
                             .dstXInBytes = copy.destination_position.x * destination_bytes,
                             .dstY = copy.destination_position.y,
                             .dstZ = copy.destination_position.z,
                             .dstLOD = 0,
                             .dstMemoryType = types.destination,
                             .dstHost = copy.destination.pointer,
                             .dstDevice = address(copy.destination.pointer),
                             .dstArray = copy.destination_array,
                             .reserved1 = nullptr,
                             .dstPitch = copy.destination.pitch,
                             .dstHeight = copy.destination.height,
                             .WidthInBytes = copy.extent.width * (copy.source_array ? source_bytes : destination_bytes),
                             .Height = copy.extent.height,
                             .Depth = copy.extent.depth};
  return call([&] { return cuMemcpy3DAsync_v2(&driver, stream); });
}

}  // namespace

MemoryTypes memory_types(MemcpyKind kind) {
  switch (kind) {
    case MemcpyKind::host_to_host: return {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST};
    case MemcpyKind::host_to_device: return {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE};
    case MemcpyKind::device_to_host: return {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST};
    case MemcpyKind::device_to_device: return {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE};
    case MemcpyKind::by_address: break;
  }
  return {CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED};
}

extern "C" {

int cudaMalloc(void** pointer, std::size_t bytes) {
  if (!pointer) return record(error::invalid_value);
  *pointer = nullptr;
  return call([&] { return bytes == 0 ? error::success : cuMemAlloc_v2(address_of(pointer), bytes); });
}
int cudaMallocManaged(void** pointer, std::size_t bytes, unsigned flags) {
  return call([&] { return cuMemAllocManaged(address_of(pointer), bytes, flags); });
}
int cudaMallocPitch(void** pointer, std::size_t* pitch, std::size_t width, std::size_t height) {
  return call([&] { return cuMemAllocPitch_v2(address_of(pointer), pitch, width, height, 16); });
}
int cudaMalloc3D(PitchedPointer* memory, Extent extent) {
  if (!memory) return record(error::invalid_value);
  memory->width = extent.width, memory->height = extent.height;
  return cudaMallocPitch(&memory->pointer, &memory->pitch, extent.width, extent.height * extent.depth);
}
int cudaMallocAsync(void** pointer, std::size_t bytes, CUstream stream) {
  if (!pointer) return record(error::invalid_value);
  *pointer = nullptr;
  return call([&] { return bytes == 0 ? error::success : cuMemAllocAsync(address_of(pointer), bytes, stream); });
}
int cudaMallocFromPoolAsync(void** pointer, std::size_t bytes, CUmemoryPool pool, CUstream stream) {
  return call([&] { return cuMemAllocFromPoolAsync(address_of(pointer), bytes, pool, stream); });
}
int cudaFree(void* pointer) {
  return call([&] { return pointer ? cuMemFree_v2(address(pointer)) : cuCtxSynchronize(); });
}
int cudaFreeAsync(void* pointer, CUstream stream) {
  return call([&] { return cuMemFreeAsync(address(pointer), stream); });
}
int cudaHostAlloc(void** pointer, std::size_t bytes, unsigned flags) {
  return call([&] { return cuMemHostAlloc(pointer, bytes, flags); });
}
int cudaMallocHost(void** pointer, std::size_t bytes) { return cudaHostAlloc(pointer, bytes, 0); }
int cudaFreeHost(void* pointer) {
  return call([&] { return pointer ? cuMemFreeHost(pointer) : error::success; });
}
int cudaHostRegister(void* pointer, std::size_t bytes, unsigned flags) {
  return call([&] { return cuMemHostRegister_v2(pointer, bytes, flags); });
}
int cudaHostUnregister(void* pointer) {
  return call([&] { return cuMemHostUnregister(pointer); });
}
int cudaHostGetDevicePointer(void** device, void* host, unsigned flags) {
  return call([&] { return cuMemHostGetDevicePointer_v2(address_of(device), host, flags); });
}
int cudaHostGetFlags(unsigned* flags, void* pointer) {
  return call([&] { return cuMemHostGetFlags(flags, pointer); });
}
int cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  return call([&] { return cuMemGetInfo_v2(free_bytes, total_bytes); });
}

int cudaPointerGetAttributes(PointerAttributes* attributes, const void* pointer) {
  if (!attributes) return record(error::invalid_value);
  return call([&] {
    *attributes = {};
    attributes->device = -2;  // cudaInvalidDeviceId
    const auto get = [&](void* value, CUpointer_attribute attribute) {
      return cuPointerGetAttribute(value, attribute, address(pointer));
    };
    unsigned type = 0;
    if (get(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE) != error::success || type == 0) {
      // Memory that CUDA does not know is no error: cudaMemoryTypeUnregistered.
      attributes->host_pointer = const_cast<void*>(pointer);
      return error::success;
    }
    unsigned is_managed = 0;
    get(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED);
    attributes->type = is_managed ? 3 : static_cast<int>(type);
    attributes->device = 0;
    get(&attributes->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
    get(&attributes->device_pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
    if (type == CU_MEMORYTYPE_HOST || is_managed) get(&attributes->host_pointer, CU_POINTER_ATTRIBUTE_HOST_POINTER);
    return error::success;
  });
}

int cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, MemcpyKind kind, CUstream stream) {
  return copy(to, from, bytes, kind, stream);
}
int cudaMemcpy(void* to, const void* from, std::size_t bytes, MemcpyKind kind) {
  return copy(to, from, bytes, kind, nullptr);
}
int cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes, CUstream stream) {
  return copy(to, from, bytes, MemcpyKind::device_to_device, stream);
}
int cudaMemcpyPeer(void* to, int, const void* from, int, std::size_t bytes) {
  return copy(to, from, bytes, MemcpyKind::device_to_device, nullptr);
}
int cudaMemcpyToSymbolAsync(const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
                            MemcpyKind kind, CUstream stream) {
  CUdeviceptr part = 0;
  if (const int code = find_part(symbol, offset, bytes, part); code != error::success) return code;
  return copy(reinterpret_cast<void*>(part), from, bytes, kind, stream);
}
int cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t bytes, std::size_t offset, MemcpyKind kind) {
  return cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, kind, nullptr);
}
int cudaMemcpyFromSymbolAsync(void* to, const void* symbol, std::size_t bytes, std::size_t offset, MemcpyKind kind,
                              CUstream stream) {
  CUdeviceptr part = 0;
  if (const int code = find_part(symbol, offset, bytes, part); code != error::success) return code;
  return copy(to, reinterpret_cast<const void*>(part), bytes, kind, stream);
}
int cudaMemcpyFromSymbol(void* to, const void* symbol, std::size_t bytes, std::size_t offset, MemcpyKind kind) {
  return cudaMemcpyFromSymbolAsync(to, symbol, bytes, offset, kind, nullptr);
}

int cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                      std::size_t height, MemcpyKind kind, CUstream stream) {
  if (width > to_pitch || width > from_pitch) return record(error::invalid_pitch_value);
  const MemoryTypes types = memory_types(kind);
  const CUDA_MEMCPY2D driver{.srcXInBytes = 0,
                             .srcY = 0,
                             .srcMemoryType = types.source,
                             .srcHost = from,
                             .srcDevice = address(from),
                             .srcArray = nullptr,
                             .srcPitch = from_pitch,
                             .dstXInBytes = 0,
                             .dstY = 0,
                             .dstMemoryType = types.destination,
                             .dstHost = to,
                             .dstDevice = address(to),
                             .dstArray = nullptr,
                             .dstPitch = to_pitch,
                             .WidthInBytes = width,
                             .Height = height};
  return call([&] { return cuMemcpy2DAsync_v2(&driver, stream); });
}
int cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                 std::size_t height, MemcpyKind kind) {
  return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, nullptr);
}
int cudaMemcpy3DAsync(const Copy3D* copy, CUstream stream) { return copy_3d(*copy, stream); }
int cudaMemcpy3D(const Copy3D* copy) { return copy_3d(*copy, nullptr); }

int cudaMemsetAsync(void* to, int value, std::size_t bytes, CUstream stream) {
  return call([&] {
    return bytes == 0 ? error::success : cuMemsetD8Async(address(to), static_cast<unsigned char>(value), bytes, stream);
  });
}
int cudaMemset(void* to, int value, std::size_t bytes) { return cudaMemsetAsync(to, value, bytes, nullptr); }
int cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height, CUstream stream) {
  return call(
      [&] { return cuMemsetD2D8Async(address(to), pitch, static_cast<unsigned char>(value), width, height, stream); });
}
int cudaMemset2D(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height) {
  return cudaMemset2DAsync(to, pitch, value, width, height, nullptr);
}
int cudaMemset3DAsync(PitchedPointer to, int value, Extent extent, CUstream stream) {
  for (std::size_t z = 0; z < extent.depth; ++z) {
    char* const slice = static_cast<char*>(to.pointer) + z * to.pitch * to.height;
    const int code = cudaMemset2DAsync(slice, to.pitch, value, extent.width, extent.height, stream);
    if (code != error::success) return code;
  }
  return error::success;
}
int cudaMemset3D(PitchedPointer to, int value, Extent extent) { return cudaMemset3DAsync(to, value, extent, nullptr); }

// Advice changes no bits, and all memory is where each side finds it.
int cudaMemAdvise() { return error::success; }
int cudaMemPrefetchAsync() { return error::success; }
int cudaStreamAttachMemAsync() { return error::success; }

int cudaDeviceGetDefaultMemPool(CUmemoryPool* pool, int device) {
  return call([&] { return cuDeviceGetDefaultMemPool(pool, device); });
}
int cudaDeviceGetMemPool(CUmemoryPool* pool, int device) {
  return call([&] { return cuDeviceGetMemPool(pool, device); });
}
int cudaDeviceSetMemPool(int device, CUmemoryPool pool) {
  return call([&] { return cuDeviceSetMemPool(device, pool); });
}
int cudaMemPoolSetAccess(CUmemoryPool, const void*, std::size_t) { return error::success; }  // one device
int cudaMemPoolGetAccess(int* flags, CUmemoryPool, const void*) {
  *flags = 3;  // read and write
  return error::success;
}
int cudaMemPoolCreate(CUmemoryPool* pool, const void* properties) {
  return call([&] { return cuMemPoolCreate(pool, properties); });
}
int cudaMemPoolDestroy(CUmemoryPool pool) {
  return call([&] { return cuMemPoolDestroy(pool); });
}
int cudaMemPoolTrimTo(CUmemoryPool pool, std::size_t bytes) {
  return call([&] { return cuMemPoolTrimTo(pool, bytes); });
}
int cudaMemPoolSetAttribute(CUmemoryPool pool, int attribute, void* value) {
  return call([&] { return cuMemPoolSetAttribute(pool, attribute, value); });
}
int cudaMemPoolGetAttribute(CUmemoryPool pool, int attribute, void* value) {
  return call([&] { return cuMemPoolGetAttribute(pool, attribute, value); });
}
}

}  // namespace bitmma::runtime
