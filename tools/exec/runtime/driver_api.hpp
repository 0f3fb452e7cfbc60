// SPDX-License-Identifier: MIT
// The functions of the driver that the runtime library calls, in the words of the CUDA Driver API's documentation.
// Each returns a CUresult.
#pragma once

#include <cstddef>
#include <cstdint>

#include "driver/cuda.hpp"

namespace bitmma::runtime {

using namespace bitmma::driver;

extern "C" {
int cuInit(unsigned flags);
int cuDriverGetVersion(int* version);
/// Exported by our libcuda alone: counts the call of a function that bitmma does not have.
int bitmma_refuse_call(const char* name);
int cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t flags, int* status);

int cuDeviceGetCount(int* count);
int cuDeviceGetName(char* name, int bytes, CUdevice device);
int cuDeviceGetUuid_v2(char* uuid, CUdevice device);
int cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice device);
int cuDeviceGetAttribute(int* value, int attribute, CUdevice device);
int cuDeviceGetPCIBusId(char* id, int bytes, CUdevice device);
int cuDeviceGetByPCIBusId(CUdevice* device, const char* id);
int cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer);
int cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device);
int cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device);
int cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool);
int cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device);
int cuDevicePrimaryCtxReset_v2(CUdevice device);

int cuCtxGetCurrent(CUcontext* context);
int cuCtxSetCurrent(CUcontext context);
int cuCtxGetDevice(CUdevice* device);
int cuCtxGetCacheConfig(int* config);
int cuCtxSetCacheConfig(int config);
int cuCtxSynchronize();
int cuCtxGetLimit(std::size_t* value, int limit);
int cuCtxSetLimit(int limit, std::size_t value);
int cuCtxGetStreamPriorityRange(int* least, int* greatest);

int cuLibraryLoadData(CUlibrary* library, const void* code, int* jit_options, void** jit_values, unsigned jit_count,
                      int* options, void** values, unsigned count);
int cuLibraryLoadFromFile(CUlibrary* library, const char* path, int* jit_options, void** jit_values, unsigned jit_count,
                          int* options, void** values, unsigned count);
int cuLibraryUnload(CUlibrary library);
int cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name);
int cuLibraryGetKernelCount(unsigned* count, CUlibrary library);
int cuLibraryEnumerateKernels(CUkernel* kernels, unsigned count, CUlibrary library);
int cuLibraryGetGlobal(CUdeviceptr* address, std::size_t* bytes, CUlibrary library, const char* name);
int cuLibraryGetManaged(CUdeviceptr* address, std::size_t* bytes, CUlibrary library, const char* name);
int cuKernelGetFunction(CUfunction* function, CUkernel kernel);
int cuKernelGetName(const char** name, CUkernel kernel);
int cuKernelGetParamInfo(CUkernel kernel, std::size_t index, std::size_t* offset, std::size_t* bytes);
int cuKernelGetAttribute(int* value, int attribute, CUkernel kernel, CUdevice device);
int cuKernelSetAttribute(int attribute, int value, CUkernel kernel, CUdevice device);
int cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** arguments, void** extra);
int cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data);
int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function, int threads,
                                                         std::size_t shared_bytes, unsigned flags);
int cuOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, CUfunction function, int blocks, int threads);
int cuOccupancyMaxPotentialClusterSize(int* blocks, CUfunction function, const CUlaunchConfig* config);
int cuOccupancyMaxActiveClusters(int* clusters, CUfunction function, const CUlaunchConfig* config);

int cuMemAlloc_v2(CUdeviceptr* address, std::size_t bytes);
int cuMemAllocManaged(CUdeviceptr* address, std::size_t bytes, unsigned flags);
int cuMemAllocPitch_v2(CUdeviceptr* address, std::size_t* pitch, std::size_t width_bytes, std::size_t height,
                       unsigned element_bytes);
int cuMemAllocAsync(CUdeviceptr* address, std::size_t bytes, CUstream stream);
int cuMemAllocFromPoolAsync(CUdeviceptr* address, std::size_t bytes, CUmemoryPool pool, CUstream stream);
int cuMemFree_v2(CUdeviceptr address);
int cuMemFreeAsync(CUdeviceptr address, CUstream stream);
int cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned flags);
int cuMemFreeHost(void* pointer);
int cuMemHostRegister_v2(void* pointer, std::size_t bytes, unsigned flags);
int cuMemHostUnregister(void* pointer);
int cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* pointer, unsigned flags);
int cuMemHostGetFlags(unsigned* flags, void* pointer);
int cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes);
int cuPointerGetAttribute(void* value, int attribute, CUdeviceptr address);
int cuMemPoolCreate(CUmemoryPool* pool, const void* properties);
int cuMemPoolDestroy(CUmemoryPool pool);
int cuMemPoolTrimTo(CUmemoryPool pool, std::size_t bytes);
int cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void* value);
int cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void* value);

int cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream);
int cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream);
int cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream);
int cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream);
int cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* copy, CUstream stream);
int cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* copy, CUstream stream);
int cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream stream);
int cuMemsetD2D8Async(CUdeviceptr to, std::size_t pitch, unsigned char value, std::size_t width, std::size_t height,
                      CUstream stream);

int cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* descriptor);
int cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* descriptor, CUarray array);
int cuArrayDestroy(CUarray array);
int cuTexObjectCreate(CUtexObject* object, const CUDA_RESOURCE_DESC* resource, const CUDA_TEXTURE_DESC* texture,
                      const void* view);
int cuTexObjectDestroy(CUtexObject object);
int cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* resource, CUtexObject object);
int cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* texture, CUtexObject object);
int cuSurfObjectCreate(CUsurfObject* object, const CUDA_RESOURCE_DESC* resource);
int cuSurfObjectDestroy(CUsurfObject object);
int cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* resource, CUsurfObject object);

int cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority);
int cuStreamDestroy_v2(CUstream stream);
int cuStreamSynchronize(CUstream stream);
int cuStreamQuery(CUstream stream);
int cuStreamBeginCapture_v2(CUstream stream, int mode);
int cuStreamEndCapture(CUstream stream, CUgraph* graph);
int cuStreamIsCapturing(CUstream stream, int* status);
int cuStreamGetCaptureInfo_v2(CUstream stream, int* status, uint64_t* id, CUgraph* graph, const CUgraphNode** nodes,
                              std::size_t* count);
int cuThreadExchangeStreamCaptureMode(int* mode);
int cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags);
int cuGraphLaunch(CUgraphExec exec, CUstream stream);
int cuGraphUpload(CUgraphExec exec, CUstream stream);
int cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count);
int cuGraphExecDestroy(CUgraphExec exec);
int cuGraphDestroy(CUgraph graph);
int cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
int cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* data, unsigned flags);
int cuStreamGetFlags(CUstream stream, unsigned* flags);
int cuStreamGetPriority(CUstream stream, int* priority);
int cuStreamGetId(CUstream stream, uint64_t* id);

int cuEventCreate(CUevent* event, unsigned flags);
int cuEventDestroy_v2(CUevent event);
int cuEventRecord(CUevent event, CUstream stream);
int cuEventSynchronize(CUevent event);
int cuEventQuery(CUevent event);
int cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end);
}

}  // namespace bitmma::runtime
