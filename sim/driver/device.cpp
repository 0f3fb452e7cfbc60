// SPDX-License-Identifier: MIT
// Initialisation, versions, the device, error texts.
#include <algorithm>
#include <array>
#include <cstring>

#include "driver.hpp"
#include "error_names.hpp"

using namespace bitmma::driver;

extern "C" {

CUresult cuInit(unsigned flags) { return flags == 0 ? initialise() : CUDA_ERROR_INVALID_VALUE; }

CUresult cuDriverGetVersion(int* version) {
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  return *version = cuda_version, CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** text) {
  const ErrorName* const row = error_named(error);
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  *text = row ? row->name : nullptr;
  return row ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  const ErrorName* const row = error_named(error);
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  *text = row ? row->text : nullptr;
  return row ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int* count) {
  return in_driver([&](Driver&) {
    require_pointer(count);
    *count = 1;
  });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return in_driver([&](Driver&) {
    require_pointer(device);
    require_device(ordinal);
    *device = ordinal;
  });
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  return in_driver([&](Driver& driver) {
    require_pointer(name);
    require_device(device);
    require(length > 0, CUDA_ERROR_INVALID_VALUE);
    name[driver.gpu.device_name.copy(name, static_cast<size_t>(length) - 1)] = '\0';
  });
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  return in_driver([&](Driver&) {
    require_pointer(uuid);
    require_device(device);
    std::memcpy(uuid->bytes, "bitmma simulated", sizeof uuid->bytes);
  });
}

CUresult cuDeviceGetLuid(char*, unsigned*, CUdevice) { return CUDA_ERROR_NOT_SUPPORTED; }  // of Windows alone

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  return in_driver([&](Driver& driver) {
    require_pointer(bytes);
    require_device(device);
    *bytes = driver.limit_bytes;
  });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute id, CUdevice device) {
  return in_driver([&](Driver& driver) {
    require_pointer(value);
    require_device(device);
    const std::optional<int> recorded = attribute(driver.gpu, id);
    require(recorded.has_value(), CUDA_ERROR_INVALID_VALUE);
    *value = *recorded;
  });
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  return in_driver([&](Driver& driver) {
    require_pointer(major), require_pointer(minor);
    require_device(device);
    *major = *attribute(driver.gpu, major_capability);
    *minor = *attribute(driver.gpu, minor_capability);
  });
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  return in_driver([&](Driver&) {
    require_pointer(text);
    require_device(device);
    constexpr std::string_view id = "0000:00:06.0";
    require(length > static_cast<int>(id.size()), CUDA_ERROR_INVALID_VALUE);
    text[id.copy(text, id.size())] = '\0';
  });
}

CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
  return in_driver([&](Driver&) {
    require_pointer(device), require_pointer(text);
    *device = 0;
  });
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice, CUdevice) {
  return in_driver([&](Driver&) {
    require_pointer(can);
    *can = 0;
  });
}

CUresult cuDeviceGetExecAffinitySupport(int* is_supported, int, CUdevice device) {
  return in_driver([&](Driver&) {
    require_pointer(is_supported);
    require_device(device);
    *is_supported = 0;
  });
}

}  // extern "C"
