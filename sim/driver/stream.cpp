// SPDX-License-Identifier: MIT
// Streams and events. Work is done when its call returns, so a stream is a name and an event a time.
#include <chrono>

#include "../core/ieee_environment.hpp"
#include "driver.hpp"

using namespace bitmma::driver;

namespace {

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

constexpr unsigned disable_timing = 2;  // CU_EVENT_DISABLE_TIMING

CUresult create_stream(CUstream* stream, unsigned flags, int priority) {
  return in_context([&](Driver& driver, Context& context) {
    require_pointer(stream);
    require(flags <= 1, CUDA_ERROR_INVALID_VALUE);
    Stream& created = driver.streams.add();
    created = {.context = &context, .flags = flags, .priority = priority, .id = driver.next_id++};
    *stream = &created;
  });
}

/// Runs body(driver, context) for a stream of the program.
template <typename Body>
CUresult with_stream(CUstream stream, const Body& body) {
  return in_context([&](Driver& driver, Context& context) {
    driver.require_stream(stream);
    return body(driver, context);
  });
}

template <typename T, typename Value>
CUresult get(CUstream stream, T* to, const Value& value) {
  return with_stream(stream, [&](Driver&, Context&) {
    require_pointer(to);
    *to = value(own_stream(stream));
  });
}

}  // namespace

extern "C" {

CUresult cuStreamCreate(CUstream* stream, unsigned flags) { return create_stream(stream, flags, 0); }
CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return create_stream(stream, flags, priority < -5 ? -5 : priority > 0 ? 0 : priority);
}
CUresult cuStreamDestroy_v2(CUstream stream) {
  return in_driver([&](Driver& driver) { driver.streams.remove(driver.streams.at(stream)); });
}

CUresult cuStreamSynchronize(CUstream stream) {
  return with_stream(stream, [&](Driver& driver, Context&) { forbid_capture(driver, stream); });
}
CUresult cuStreamQuery(CUstream stream) { return cuStreamSynchronize(stream); }
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  constexpr unsigned external = 1;  // CU_EVENT_WAIT_EXTERNAL
  return with_stream(stream, [&](Driver& driver, Context&) {
    capture_wait(driver, driver.events.at(event), stream, (flags & external) != 0);
  });
}

CUresult cuStreamGetPriority(CUstream stream, int* priority) {
  return get(stream, priority, [](const Stream* own) { return own ? own->priority : 0; });
}
CUresult cuStreamGetFlags(CUstream stream, unsigned* flags) {
  return get(stream, flags, [](const Stream* own) { return own ? own->flags : 0; });
}
CUresult cuStreamGetId(CUstream stream, unsigned long long* id) {
  return get(stream, id, [&](const Stream* own) { return own ? own->id : reinterpret_cast<uintptr_t>(stream); });
}
CUresult cuStreamGetDevice(CUstream stream, CUdevice* device) {
  return get(stream, device, [](const Stream*) { return 0; });
}
CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  return with_stream(stream, [&](Driver&, Context& current) {
    require_pointer(context);
    const Stream* const own = own_stream(stream);
    *context = own ? own->context : &current;
  });
}
CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext* context, void** green) {
  if (green) *green = nullptr;
  return cuStreamGetCtx(stream, context);
}
CUresult cuStreamCopyAttributes(CUstream, CUstream from) {
  return with_stream(from, [](Driver&, Context&) {});
}
CUresult cuStreamSetAttribute(CUstream stream, int, const void*) { return cuStreamCopyAttributes(nullptr, stream); }
CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr, size_t, unsigned) {
  return cuStreamCopyAttributes(nullptr, stream);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  bool is_captured = false;
  const CUresult result = with_stream(stream, [&](Driver& driver, Context&) {
    require(function != nullptr, CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_HOST;
    params.host = {.fn = function, .userData = data};
    is_captured = capture_node(driver, stream, params);
  });
  if (result == CUDA_SUCCESS && !is_captured) function(data);  // without the lock: it may wait for another thread
  return result;
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* data, unsigned) {
  if (!callback) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = cuStreamSynchronize(stream);
  if (result == CUDA_SUCCESS) callback(stream, result, data);
  return result;
}

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  return in_context([&](Driver& driver, Context&) {
    require_pointer(event);
    *event = &driver.events.add();
    (*event)->flags = flags;
  });
}

CUresult cuEventDestroy_v2(CUevent event) {
  return in_driver([&](Driver& driver) { driver.events.remove(driver.events.at(event)); });
}

CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream, unsigned flags) {
  constexpr unsigned external = 1;  // CU_EVENT_RECORD_EXTERNAL
  return with_stream(stream, [&](Driver& driver, Context&) {
    Event& event = driver.events.at(handle);
    if ((flags & external) != 0 &&
        capture_node(driver, stream, event_node_params(CU_GRAPH_NODE_TYPE_EVENT_RECORD, handle)))
      return;
    capture_event(driver, event, stream);
    if (event.capture) return;
    event.is_recorded = true;
    event.nanoseconds = now();
  });
}
CUresult cuEventRecord(CUevent event, CUstream stream) { return cuEventRecordWithFlags(event, stream, 0); }

CUresult cuEventQuery(CUevent event) {
  return in_context(
      [&](Driver& driver, Context&) { require(!driver.events.at(event).capture, CUDA_ERROR_CAPTURED_EVENT); });
}
CUresult cuEventSynchronize(CUevent event) { return cuEventQuery(event); }

CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent from, CUevent to) {
  return in_context([&](Driver& driver, Context&) {
    require_pointer(milliseconds);
    const Event &first = driver.events.at(from), &last = driver.events.at(to);
    require(first.is_recorded && last.is_recorded && (first.flags & disable_timing) == 0 &&
                (last.flags & disable_timing) == 0,
            CUDA_ERROR_INVALID_HANDLE);
    // A time that grows with each question, in whole seconds: what is measured first is the fastest, and autotuners,
    // which measure for some milliseconds, launch each configuration as seldom as they can.
    const bool is_measured = !driver.settings.measures_first;
    *milliseconds = bitmma::in_ieee_environment([&] {
      return is_measured ? static_cast<float>(last.nanoseconds - first.nanoseconds) / 1e6F
                         : 1000.0F * static_cast<float>(++driver.elapsed_queries);
    });
  });
}

CUresult cuProfilerInitialize(const char*, const char*, int) { return CUDA_SUCCESS; }
CUresult cuProfilerStart() { return CUDA_SUCCESS; }
CUresult cuProfilerStop() { return CUDA_SUCCESS; }

}  // extern "C"
