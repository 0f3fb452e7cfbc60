// SPDX-License-Identifier: MIT
// Devices, their properties, limits and attributes.
#include <array>
#include <cstring>

#include "runtime.hpp"

namespace bitmma::runtime {
namespace {

/// A field of cudaDeviceProp that is an attribute of the device.
struct PropertyField {
  int attribute;             // CUdevice_attribute
  int offset_12, offset_13;  // in cudaDeviceProp of either version; -1: it has no such field
  int bytes;                 // 4: int, 8: size_t
};
// Source: offsetof in g++ with driver_types.h of CUDA 12.9 and 13.0.
constexpr auto property_fields = std::to_array<PropertyField>({
    // one row a field
    // clang-format off
    {.attribute = 8, .offset_12 = 296, .offset_13 = 296, .bytes = 8},  // sharedMemPerBlock
    {.attribute = 12, .offset_12 = 304, .offset_13 = 304, .bytes = 4},  // regsPerBlock
    {.attribute = 10, .offset_12 = 308, .offset_13 = 308, .bytes = 4},  // warpSize
    {.attribute = 11, .offset_12 = 312, .offset_13 = 312, .bytes = 8},  // memPitch
    {.attribute = 1, .offset_12 = 320, .offset_13 = 320, .bytes = 4},  // maxThreadsPerBlock
    {.attribute = 2, .offset_12 = 324, .offset_13 = 324, .bytes = 4},  // maxThreadsDim[0]
    {.attribute = 3, .offset_12 = 328, .offset_13 = 328, .bytes = 4},  // maxThreadsDim[1]
    {.attribute = 4, .offset_12 = 332, .offset_13 = 332, .bytes = 4},  // maxThreadsDim[2]
    {.attribute = 5, .offset_12 = 336, .offset_13 = 336, .bytes = 4},  // maxGridSize[0]
    {.attribute = 6, .offset_12 = 340, .offset_13 = 340, .bytes = 4},  // maxGridSize[1]
    {.attribute = 7, .offset_12 = 344, .offset_13 = 344, .bytes = 4},  // maxGridSize[2]
    {.attribute = 9, .offset_12 = 352, .offset_13 = 352, .bytes = 8},  // totalConstMem
    {.attribute = 75, .offset_12 = 360, .offset_13 = 360, .bytes = 4},  // major
    {.attribute = 76, .offset_12 = 364, .offset_13 = 364, .bytes = 4},  // minor
    {.attribute = 14, .offset_12 = 368, .offset_13 = 368, .bytes = 8},  // textureAlignment
    {.attribute = 51, .offset_12 = 376, .offset_13 = 376, .bytes = 8},  // texturePitchAlignment
    {.attribute = 16, .offset_12 = 388, .offset_13 = 384, .bytes = 4},  // multiProcessorCount
    {.attribute = 18, .offset_12 = 396, .offset_13 = 388, .bytes = 4},  // integrated
    {.attribute = 19, .offset_12 = 400, .offset_13 = 392, .bytes = 4},  // canMapHostMemory
    {.attribute = 30, .offset_12 = 568, .offset_13 = 552, .bytes = 8},  // surfaceAlignment
    {.attribute = 31, .offset_12 = 576, .offset_13 = 560, .bytes = 4},  // concurrentKernels
    {.attribute = 32, .offset_12 = 580, .offset_13 = 564, .bytes = 4},  // ECCEnabled
    {.attribute = 33, .offset_12 = 584, .offset_13 = 568, .bytes = 4},  // pciBusID
    {.attribute = 34, .offset_12 = 588, .offset_13 = 572, .bytes = 4},  // pciDeviceID
    {.attribute = 50, .offset_12 = 592, .offset_13 = 576, .bytes = 4},  // pciDomainID
    {.attribute = 35, .offset_12 = 596, .offset_13 = 580, .bytes = 4},  // tccDriver
    {.attribute = 40, .offset_12 = 600, .offset_13 = 584, .bytes = 4},  // asyncEngineCount
    {.attribute = 41, .offset_12 = 604, .offset_13 = 588, .bytes = 4},  // unifiedAddressing
    {.attribute = 37, .offset_12 = 612, .offset_13 = 592, .bytes = 4},  // memoryBusWidth
    {.attribute = 38, .offset_12 = 616, .offset_13 = 596, .bytes = 4},  // l2CacheSize
    {.attribute = 108, .offset_12 = 620, .offset_13 = 600, .bytes = 4},  // persistingL2CacheMaxSize
    {.attribute = 39, .offset_12 = 624, .offset_13 = 604, .bytes = 4},  // maxThreadsPerMultiProcessor
    {.attribute = 78, .offset_12 = 628, .offset_13 = 608, .bytes = 4},  // streamPrioritiesSupported
    {.attribute = 79, .offset_12 = 632, .offset_13 = 612, .bytes = 4},  // globalL1CacheSupported
    {.attribute = 80, .offset_12 = 636, .offset_13 = 616, .bytes = 4},  // localL1CacheSupported
    {.attribute = 81, .offset_12 = 640, .offset_13 = 624, .bytes = 8},  // sharedMemPerMultiprocessor
    {.attribute = 82, .offset_12 = 648, .offset_13 = 632, .bytes = 4},  // regsPerMultiprocessor
    {.attribute = 83, .offset_12 = 652, .offset_13 = 636, .bytes = 4},  // managedMemory
    {.attribute = 84, .offset_12 = 656, .offset_13 = 640, .bytes = 4},  // isMultiGpuBoard
    {.attribute = 85, .offset_12 = 660, .offset_13 = 644, .bytes = 4},  // multiGpuBoardGroupID
    {.attribute = 86, .offset_12 = 664, .offset_13 = 648, .bytes = 4},  // hostNativeAtomicSupported
    {.attribute = 88, .offset_12 = 672, .offset_13 = 652, .bytes = 4},  // pageableMemoryAccess
    {.attribute = 89, .offset_12 = 676, .offset_13 = 656, .bytes = 4},  // concurrentManagedAccess
    {.attribute = 90, .offset_12 = 680, .offset_13 = 660, .bytes = 4},  // computePreemptionSupported
    {.attribute = 91, .offset_12 = 684, .offset_13 = 664, .bytes = 4},  // canUseHostPointerForRegisteredMem
    {.attribute = 95, .offset_12 = 688, .offset_13 = 668, .bytes = 4},  // cooperativeLaunch
    {.attribute = 97, .offset_12 = 696, .offset_13 = 672, .bytes = 8},  // sharedMemPerBlockOptin
    {.attribute = 100, .offset_12 = 704, .offset_13 = 680, .bytes = 4},  // pageableMemoryAccessUsesHostPageTables
    {.attribute = 101, .offset_12 = 708, .offset_13 = 684, .bytes = 4},  // directManagedMemAccessFromHost
    {.attribute = 106, .offset_12 = 712, .offset_13 = 688, .bytes = 4},  // maxBlocksPerMultiProcessor
    {.attribute = 109, .offset_12 = 716, .offset_13 = 692, .bytes = 4},  // accessPolicyMaxWindowSize
    {.attribute = 111, .offset_12 = 720, .offset_13 = 696, .bytes = 8},  // reservedSharedMemPerBlock
    {.attribute = 99, .offset_12 = 728, .offset_13 = 704, .bytes = 4},  // hostRegisterSupported
    {.attribute = 112, .offset_12 = 732, .offset_13 = 708, .bytes = 4},  // sparseCudaArraySupported
    {.attribute = 113, .offset_12 = 736, .offset_13 = 712, .bytes = 4},  // hostRegisterReadOnlySupported
    {.attribute = 114, .offset_12 = 740, .offset_13 = 716, .bytes = 4},  // timelineSemaphoreInteropSupported
    {.attribute = 115, .offset_12 = 744, .offset_13 = 720, .bytes = 4},  // memoryPoolsSupported
    {.attribute = 116, .offset_12 = 748, .offset_13 = 724, .bytes = 4},  // gpuDirectRDMASupported
    {.attribute = 120, .offset_12 = 772, .offset_13 = 748, .bytes = 4},  // clusterLaunch
    {.attribute = 125, .offset_12 = 768, .offset_13 = 744, .bytes = 4},  // ipcEventSupported
    {.attribute = 129, .offset_12 = 776, .offset_13 = 752, .bytes = 4},  // unifiedFunctionPointers
    {.attribute = 13, .offset_12 = 348, .offset_13 = -1, .bytes = 4},  // clockRate
    {.attribute = 15, .offset_12 = 384, .offset_13 = -1, .bytes = 4},  // deviceOverlap
    {.attribute = 17, .offset_12 = 392, .offset_13 = -1, .bytes = 4},  // kernelExecTimeoutEnabled
    {.attribute = 20, .offset_12 = 404, .offset_13 = -1, .bytes = 4},  // computeMode
    {.attribute = 36, .offset_12 = 608, .offset_13 = -1, .bytes = 4},  // memoryClockRate
    {.attribute = 87, .offset_12 = 668, .offset_13 = -1, .bytes = 4},  // singleToDoublePrecisionPerfRatio
    {.attribute = 96, .offset_12 = 692, .offset_13 = -1, .bytes = 4},  // cooperativeMultiDeviceLaunch
    // clang-format on
});
constexpr std::size_t properties_bytes = major_version == 12 ? 1032 : 1008;
// The fields at the beginning are the same in both versions.
constexpr std::size_t name_bytes = 256, uuid_offset = 256, total_memory_offset = 288;

int properties_of(char* properties, int device) {
  std::memset(properties, 0, properties_bytes);
  std::size_t total = 0;
  if (const int code = cuDeviceGetName(properties, name_bytes, device); code != error::success) return code;
  if (const int code = cuDeviceGetUuid_v2(properties + uuid_offset, device); code != error::success) return code;
  if (const int code = cuDeviceTotalMem_v2(&total, device); code != error::success) return code;
  std::memcpy(properties + total_memory_offset, &total, sizeof total);
  for (const PropertyField& field : property_fields) {
    const int offset = major_version == 12 ? field.offset_12 : field.offset_13;
    int value = 0;
    if (offset < 0 || cuDeviceGetAttribute(&value, field.attribute, device) != error::success) continue;
    const std::size_t wide = static_cast<std::size_t>(value);
    std::memcpy(properties + offset, &wide, static_cast<std::size_t>(field.bytes));
  }
  return error::success;
}

}  // namespace

extern "C" {

int cudaGetDeviceCount(int* count) {
  return call([&] { return cuDeviceGetCount(count); });
}
int cudaGetDevice(int* device) {
  return call([&] { return cuCtxGetDevice(device); });
}
int cudaSetDevice(int device) {
  return call([&] {
    CUcontext context = nullptr;
    const int code = cuDevicePrimaryCtxRetain(&context, device);
    return code == error::success ? cuCtxSetCurrent(context) : code;
  });
}
int cudaInitDevice(int device, unsigned, unsigned) { return cudaSetDevice(device); }
int cudaSetDeviceFlags(unsigned) { return error::success; }            // how a thread waits
int cudaGetDeviceFlags(unsigned* flags) { return answer(flags, 8U); }  // cudaDeviceMapHost
int cudaSetValidDevices(int*, int) { return error::success; }
int cudaChooseDevice(int* device, const void*) { return answer(device, 0); }
int cudaGetDeviceProperties_v2(char* properties, int device) {
  return call([&] { return properties_of(properties, device); });
}
// cudaDeviceAttr has the numbers of CUdevice_attribute.
int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  return call([&] { return cuDeviceGetAttribute(value, attribute, device); });
}
int cudaDeviceGetPCIBusId(char* id, int bytes, int device) {
  return call([&] { return cuDeviceGetPCIBusId(id, bytes, device); });
}
int cudaDeviceGetByPCIBusId(int* device, const char* id) {
  return call([&] { return cuDeviceGetByPCIBusId(device, id); });
}
int cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return call([&] { return cuDeviceCanAccessPeer(can, device, peer); });
}
// There is one device, and it is no peer of its own.
int cudaDeviceEnablePeerAccess(int peer, unsigned) {
  return call([&] { return peer == 0 ? error::peer_access_unsupported : error::invalid_device; });
}
int cudaDeviceGetP2PAttribute(int* value, int, int, int) { return answer(value, 0); }  // one device
int cudaDeviceSynchronize() {
  return call([] { return cuCtxSynchronize(); });
}
int cudaDeviceReset() {
  return call([] {
    CUdevice device = 0;
    cuCtxGetDevice(&device);
    forget_libraries();
    cuCtxSetCurrent(nullptr);
    return cuDevicePrimaryCtxReset_v2(device);
  });
}
int cudaDeviceGetLimit(std::size_t* value, int limit) {
  return call([&] {
    const int code = cuCtxGetLimit(value, limit);
    return code == CUDA_ERROR_UNSUPPORTED_LIMIT ? error::invalid_value : code;
  });
}
int cudaDeviceSetLimit(int limit, std::size_t value) {
  return call([&] { return cuCtxSetLimit(limit, value); });
}
// No cache changes bits.
int cudaDeviceGetCacheConfig(int* config) {
  return call([&] { return cuCtxGetCacheConfig(config); });
}
int cudaDeviceSetCacheConfig(int config) {
  return call([&] { return cuCtxSetCacheConfig(config); });
}
int cudaDeviceGetSharedMemConfig(int* config) { return answer(config, 1); }  // banks of four bytes
int cudaDeviceSetSharedMemConfig(int) { return error::success; }
int cudaCtxResetPersistingL2Cache() { return error::success; }
int cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call([&] { return cuCtxGetStreamPriorityRange(least, greatest); });
}

int cudaRuntimeGetVersion(int* version) { return answer(version, runtime_version); }
int cudaDriverGetVersion(int* version) { return record(cuDriverGetVersion(version)); }
int cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version, unsigned long long flags,
                                     int* status) {
  return call([&] {
    const int code = cuGetProcAddress_v2(name, function, static_cast<int>(version), flags, status);
    // A name that the driver does not have is no error: the status says so.
    return code == CUDA_ERROR_NOT_FOUND ? error::success : code;
  });
}
int cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags, int* status) {
  return cudaGetDriverEntryPointByVersion(name, function, runtime_version, flags, status);
}
int cudaProfilerStart() { return error::success; }
int cudaProfilerStop() { return error::success; }
}

}  // namespace bitmma::runtime
