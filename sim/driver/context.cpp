// SPDX-License-Identifier: MIT
// Primary contexts, contexts, their limits.
#include "driver.hpp"

using namespace bitmma::driver;

namespace {

void push(Context& context) { context_stack().push(context); }

/// What CUDA gives a new context; 1 and 6 as measured on an H200. Source: CUDA Driver API, CUlimit.
const std::map<int, size_t> default_limits{
    {0, 1024},             // CU_LIMIT_STACK_SIZE
    {1, 8650752},          // CU_LIMIT_PRINTF_FIFO_SIZE
    {2, size_t{8} << 20},  // CU_LIMIT_MALLOC_HEAP_SIZE
    {3, 2},                // CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH
    {4, 2048},             // CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT
    {5, 64},               // CU_LIMIT_MAX_L2_FETCH_GRANULARITY
    {6, 11796480},         // CU_LIMIT_PERSISTING_L2_CACHE_SIZE
};

CUresult create(CUcontext* context, unsigned flags, CUdevice device) {
  return in_driver([&](Driver& driver) {
    require_pointer(context);
    require_device(device);
    *context = &driver.make_context(flags, false);
    push(**context);
  });
}

}  // namespace

extern "C" {

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return in_driver([&](Driver& driver) {
    require_pointer(context);
    require_device(device);
    if (!driver.primary) driver.primary = &driver.make_context(driver.primary_flags, true);
    ++driver.primary_uses;
    *context = driver.primary;
  });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return in_driver([&](Driver& driver) {
    require_device(device);
    require(driver.primary_uses > 0, CUDA_ERROR_INVALID_CONTEXT);
    if (--driver.primary_uses == 0) driver.destroy(*std::exchange(driver.primary, nullptr));
  });
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  return in_driver([&](Driver& driver) {
    require_device(device);
    if (!driver.primary) return;
    driver.primary_uses = 0;
    driver.destroy(*std::exchange(driver.primary, nullptr));
  });
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  return in_driver([&](Driver& driver) {
    require_device(device);
    driver.primary_flags = flags;
    if (driver.primary) driver.primary->flags = flags;
  });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* is_active) {
  return in_driver([&](Driver& driver) {
    require_pointer(flags), require_pointer(is_active);
    require_device(device);
    *flags = driver.primary_flags;
    *is_active = driver.primary != nullptr;
  });
}

CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) { return create(context, flags, device); }
CUresult cuCtxCreate_v3(CUcontext* context, void*, int, unsigned flags, CUdevice device) {
  return create(context, flags, device);
}
CUresult cuCtxCreate_v4(CUcontext* context, void*, unsigned flags, CUdevice device) {
  return create(context, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext context) {
  return in_driver([&](Driver& driver) {
    Context& own = driver.contexts.at(context, CUDA_ERROR_INVALID_CONTEXT);
    require(!own.is_primary, CUDA_ERROR_INVALID_CONTEXT);
    driver.destroy(own);
  });
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  return in_driver([&](Driver& driver) { push(driver.contexts.at(context, CUDA_ERROR_INVALID_CONTEXT)); });
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  return in_driver([&](Driver&) {
    require(!context_stack().empty(), CUDA_ERROR_INVALID_CONTEXT);
    if (context) *context = context_stack().top();
    context_stack().pop();
  });
}

CUresult cuCtxSetCurrent(CUcontext context) {
  return in_driver([&](Driver& driver) {
    if (!context_stack().empty()) context_stack().pop();
    if (context) push(driver.contexts.at(context, CUDA_ERROR_INVALID_CONTEXT));
  });
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  return in_driver([&](Driver&) {
    require_pointer(context);
    *context = current_context();
  });
}

CUresult cuCtxGetDevice(CUdevice* device) {
  return in_driver([&](Driver&) {
    require_pointer(device);
    require(current_context() != nullptr, CUDA_ERROR_INVALID_CONTEXT);
    *device = 0;
  });
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext context) {
  return in_driver([&](Driver& driver) {
    require_pointer(device);
    if (context) driver.contexts.at(context, CUDA_ERROR_INVALID_CONTEXT);
    else require(current_context() != nullptr, CUDA_ERROR_INVALID_CONTEXT);
    *device = 0;
  });
}

CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  return in_driver([&](Driver& driver) {
    require_pointer(id);
    *id = driver.contexts.at(context ? context : current_context(), CUDA_ERROR_INVALID_CONTEXT).id;
  });
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned* version) {
  return in_driver([&](Driver& driver) {
    require_pointer(version);
    driver.contexts.at(context ? context : current_context(), CUDA_ERROR_INVALID_CONTEXT);
    *version = 3020;
  });
}

CUresult cuCtxGetFlags(unsigned* flags) {
  return in_context([&](Driver&, Context& context) {
    require_pointer(flags);
    *flags = context.flags;
  });
}

CUresult cuCtxSetFlags(unsigned flags) {
  return in_context([&](Driver&, Context& context) { context.flags = flags; });
}

CUresult cuCtxSynchronize() {
  return in_context([](Driver&, Context&) {});
}

CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  return in_context([&](Driver&, Context& context) {
    require_pointer(value);
    const auto known = default_limits.find(limit);
    const auto set = context.limits.find(limit);
    require(known != default_limits.end(), CUDA_ERROR_UNSUPPORTED_LIMIT);
    *value = set == context.limits.end() ? known->second : set->second;
  });
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  return in_context([&](Driver&, Context& context) {
    require(default_limits.contains(limit), CUDA_ERROR_UNSUPPORTED_LIMIT);
    context.limits[limit] = value;
  });
}

CUresult cuCtxResetPersistingL2Cache() {
  return in_context([](Driver&, Context&) {});
}

CUresult cuCtxGetCacheConfig(int* config) {
  return in_context([&](Driver&, Context& context) {
    require_pointer(config);
    *config = context.cache_config;
  });
}

CUresult cuCtxSetCacheConfig(int config) {
  return in_context([&](Driver&, Context& context) { context.cache_config = config; });
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return in_context([&](Driver&, Context&) {
    if (least) *least = 0;
    if (greatest) *greatest = -5;
  });
}

}  // extern "C"
