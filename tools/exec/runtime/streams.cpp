// SPDX-License-Identifier: MIT
// Streams and events.
#include <cstring>

#include "runtime.hpp"

namespace bitmma::runtime {

extern "C" {

int cudaStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return call([&] { return cuStreamCreateWithPriority(stream, flags, priority); });
}
int cudaStreamCreateWithFlags(CUstream* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
int cudaStreamCreate(CUstream* stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }
int cudaStreamDestroy(CUstream stream) {
  return call([&] { return cuStreamDestroy_v2(stream); });
}
int cudaStreamSynchronize(CUstream stream) {
  return call([&] { return cuStreamSynchronize(stream); });
}
int cudaStreamQuery(CUstream stream) {
  return call([&] { return cuStreamQuery(stream); });
}
int cudaStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  constexpr unsigned known = 1;  // cudaEventWaitExternal
  if ((flags & ~known) != 0) return record(error::invalid_value);
  return call([&] { return cuStreamWaitEvent(stream, event, flags); });
}
int cudaStreamAddCallback(CUstream stream, CUstreamCallback callback, void* data, unsigned flags) {
  return call([&] { return cuStreamAddCallback(stream, callback, data, flags); });
}
int cudaLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  return call([&] { return cuLaunchHostFunc(stream, function, data); });
}
int cudaStreamGetFlags(CUstream stream, unsigned* flags) {
  return call([&] { return cuStreamGetFlags(stream, flags); });
}
int cudaStreamGetPriority(CUstream stream, int* priority) {
  return call([&] { return cuStreamGetPriority(stream, priority); });
}
int cudaStreamGetId(CUstream stream, unsigned long long* id) {
  return call([&] {
    uint64_t number = 0;
    const int code = cuStreamGetId(stream, &number);
    return code == error::success ? answer<unsigned long long>(id, number) : code;
  });
}
int cudaStreamGetDevice(CUstream, int* device) {
  return call([&] { return cuCtxGetDevice(device); });
}
// The attributes of a stream say how caches and other processes are used; they change no bits.
int cudaStreamSetAttribute(CUstream, int, const void*) { return error::success; }
int cudaStreamGetAttribute(CUstream, int, void* value) {
  constexpr std::size_t value_bytes = 64;
  if (!value) return record(error::invalid_value);
  std::memset(value, 0, value_bytes);
  return error::success;
}
int cudaStreamCopyAttributes(CUstream, CUstream) { return error::success; }

// Graphs by capture. All versions of cudaStreamGetCaptureInfo have the status and the number as their second and third
// argument; what else they give is left alone.
int cudaStreamBeginCapture(CUstream stream, int mode) {
  return call([&] { return cuStreamBeginCapture_v2(stream, mode); });
}
int cudaStreamEndCapture(CUstream stream, CUgraph* graph) {
  return call([&] { return cuStreamEndCapture(stream, graph); });
}
int cudaStreamIsCapturing(CUstream stream, int* status) {
  return call([&] { return cuStreamIsCapturing(stream, status); });
}
int cudaStreamGetCaptureInfo(CUstream stream, int* status, uint64_t* id) {
  return call([&] { return cuStreamGetCaptureInfo_v2(stream, status, id, nullptr, nullptr, nullptr); });
}
int cudaThreadExchangeStreamCaptureMode(int* mode) { return record(cuThreadExchangeStreamCaptureMode(mode)); }
int cudaGraphInstantiate(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return call([&] { return cuGraphInstantiateWithFlags(exec, graph, flags); });
}
int cudaGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return cudaGraphInstantiate(exec, graph, flags);
}
int cudaGraphLaunch(CUgraphExec exec, CUstream stream) {
  return call([&] { return cuGraphLaunch(exec, stream); });
}
int cudaGraphUpload(CUgraphExec exec, CUstream stream) {
  return call([&] { return cuGraphUpload(exec, stream); });
}
int cudaGraphGetNodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count) {
  return call([&] { return cuGraphGetNodes(graph, nodes, count); });
}
int cudaGraphExecDestroy(CUgraphExec exec) {
  return call([&] { return cuGraphExecDestroy(exec); });
}
int cudaGraphDestroy(CUgraph graph) {
  return call([&] { return cuGraphDestroy(graph); });
}

int cudaEventCreateWithFlags(CUevent* event, unsigned flags) {
  return call([&] { return cuEventCreate(event, flags); });
}
int cudaEventCreate(CUevent* event) { return cudaEventCreateWithFlags(event, 0); }
int cudaEventDestroy(CUevent event) {
  return call([&] { return cuEventDestroy_v2(event); });
}
int cudaEventRecord(CUevent event, CUstream stream) {
  return call([&] { return cuEventRecord(event, stream); });
}
int cudaEventRecordWithFlags(CUevent event, CUstream stream, unsigned) { return cudaEventRecord(event, stream); }
int cudaEventSynchronize(CUevent event) {
  return call([&] { return cuEventSynchronize(event); });
}
int cudaEventQuery(CUevent event) {
  return call([&] { return cuEventQuery(event); });
}
int cudaEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return call([&] { return cuEventElapsedTime(milliseconds, start, end); });
}
}

}  // namespace bitmma::runtime
